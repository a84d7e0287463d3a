#include "gguf/describe.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownElements = 8;
constexpr std::size_t kShownTextBytes = 100;
constexpr std::size_t kShownNameBytes = 255;

/// Of the shortest decimal that reads back as the same float: 1e-06 and not 9.999999974752427e-07.
double shortest(float value) {
  const std::string digits = fmt::format("{}", value);
  double result = 0.0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

template <typename T>
Json number_to_json(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if constexpr (std::is_same_v<T, float>) return shortest(value);
  }
  return value;
}

Json to_json(const Array& array) {
  Json result = Json::array();
  std::visit(
      [&](const auto& list) {
        using T = typename std::decay_t<decltype(list)>::value_type;
        for (const T& element : list) {
          if constexpr (std::is_same_v<T, Array>) {
            result.push_back(to_json(element));
          } else if constexpr (std::is_same_v<T, std::string>) {
            result.push_back(element);
          } else if (array.element_type == ValueType::boolean) {
            result.push_back(element != T{0});
          } else {
            result.push_back(number_to_json(element));
          }
        }
      },
      array.elements);
  return result;
}

Json to_json(const Value& value) {
  return std::visit(
      [](const auto& stored) -> Json {
        using T = std::decay_t<decltype(stored)>;
        if constexpr (std::is_same_v<T, Array>) {
          return to_json(stored);
        } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
          return stored;
        } else {
          return number_to_json(stored);
        }
      },
      value.storage());
}

std::string type_text(const Array& array) {
  return fmt::format("{}[{}]", value_type_name(array.element_type), array.size());
}

template <typename T>
std::string element_text(const T& element, ValueType type);

std::string to_text(const Array& array) {
  std::string result = "[";
  std::visit(
      [&](const auto& list) {
        const std::size_t shown = std::min(list.size(), kShownElements);
        for (std::size_t i = 0; i < shown; ++i) {
          if (i != 0) result += ", ";
          result += element_text(list[i], array.element_type);
        }
      },
      array.elements);
  return result + (array.size() > kShownElements ? ", ...]" : "]");
}

template <typename T>
std::string element_text(const T& element, ValueType type) {
  if constexpr (std::is_same_v<T, Array>) {
    return type_text(element);  // and not its elements: they would multiply with every level
  } else if constexpr (std::is_same_v<T, std::string>) {
    return quote(element, kShownTextBytes);
  } else {
    return type == ValueType::boolean ? fmt::format("{}", element != T{0}) : fmt::format("{}", element);
  }
}

std::string type_text(const Value& value) {
  const Array* array = value.as_array();
  return array == nullptr ? std::string(value_type_name(value.type())) : type_text(*array);
}

std::string value_text(const Value& value) {
  return std::visit(
      [&](const auto& stored) -> std::string {
        using T = std::decay_t<decltype(stored)>;
        if constexpr (std::is_same_v<T, Array>) {
          return to_text(stored);
        } else if constexpr (std::is_same_v<T, bool>) {
          return stored ? "true" : "false";
        } else {
          return element_text(stored, value.type());
        }
      },
      value.storage());
}

/// A key or name as it is, or quoted if that would not be one plain word.
std::string word(std::string_view text) {
  std::string quoted = quote(text, kShownNameBytes);
  const bool plain =
      quoted.size() == text.size() + 2 && text.find(' ') == std::string_view::npos && !text.empty();
  return plain ? std::string(text) : quoted;
}

std::uint64_t elements(const TensorInfo& tensor) {
  return tensor.bytes / tensor.layout->block_bytes * tensor.layout->block_elements;
}

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell; those from `right_from` on are aligned right. Nothing is padded at
/// line ends.
std::string table(const std::vector<Row>& rows, std::size_t right_from) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string result;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t padding = widths[i] - row[i].size();
      line.append(2 + (i >= right_from ? padding : 0), ' ');
      line += row[i];
      if (i < right_from && i + 1 < row.size()) line.append(padding, ' ');
    }
    result += line + '\n';
  }
  return result;
}

}  // namespace

std::string describe_text(const File& file) {
  const auto tensors = file.tensors();
  const bool split =
      std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.shard != 0; });
  std::string result = fmt::format("{}: GGUF version {}, alignment {}\n", word(file.path().native()),
                                   file.version(), file.alignment());

  result += fmt::format("\nmetadata ({})\n", file.metadata().size());
  std::vector<Row> rows;
  for (const auto& [key, value] : file.metadata())
    rows.push_back({word(key), type_text(value), value_text(value)});
  constexpr std::size_t kAllLeft = 99;
  if (!rows.empty()) result += table(rows, kAllLeft);

  result += fmt::format("\ntensors ({})\n", tensors.size());
  rows = {{"name", "type", "shape", "offset", "bytes"}};
  if (split) rows[0].emplace_back("shard");
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  struct Total {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  const auto layouts = quant::tensor_layouts();
  std::vector<Total> totals(layouts.size());
  for (const TensorInfo& tensor : tensors) {
    rows.push_back({word(tensor.name), std::string(tensor.layout->name),
                    fmt::format("[{}]", fmt::join(tensor.shape, ", ")), fmt::format("{}", tensor.offset),
                    fmt::format("{}", tensor.bytes)});
    if (split) rows.back().push_back(fmt::format("{}", tensor.shard + 1));
    parameters += elements(tensor);
    bytes += tensor.bytes;
    Total& total = totals[static_cast<std::size_t>(tensor.layout - layouts.data())];
    ++total.tensors;
    total.bytes += tensor.bytes;
  }
  constexpr std::size_t kNumbersFrom = 3;
  if (!tensors.empty()) result += table(rows, kNumbersFrom);

  result += fmt::format("\ntotals\n  {} tensors, {} parameters, {} bytes of tensor data", tensors.size(),
                        parameters, bytes);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (totals[i].tensors == 0) continue;
    result += fmt::format(
        "\n  {}: {} tensors, {} bytes{}", layouts[i].name, totals[i].tensors, totals[i].bytes,
        quant::find_format(layouts[i].type_id) == nullptr ? "; inferno cannot run this type" : "");
  }
  return result + fmt::format("\n  {} bytes in all\n", file.total_bytes());
}

std::string describe_json(const File& file) {
  const auto tensors = file.tensors();
  const bool split =
      std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.shard != 0; });
  Json result;
  result["version"] = file.version();
  result["alignment"] = file.alignment();
  Json metadata = Json::object();
  // Appended as to a list: operator[] searches an ordered object from its start, and the keys are unique
  // already.
  auto& members = metadata.get_ref<Json::object_t&>();
  for (const auto& [key, value] : file.metadata()) members.emplace_back(key, to_json(value));
  result["metadata"] = std::move(metadata);
  Json list = Json::array();
  for (const TensorInfo& tensor : tensors) {
    Json entry{{"name", tensor.name},
               {"type", tensor.layout->name},
               {"shape", tensor.shape},
               {"offset", tensor.offset},
               {"bytes", tensor.bytes}};
    if (tensor.format == nullptr) entry["supported"] = false;
    if (split) entry["shard"] = tensor.shard + 1;
    list.push_back(std::move(entry));
  }
  result["tensors"] = std::move(list);
  result["total_bytes"] = file.total_bytes();
  constexpr int kOneLine = -1;
  return result.dump(kOneLine, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace inferno::gguf
