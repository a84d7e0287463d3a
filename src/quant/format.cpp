#include "quant/format.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "quant/all_formats.hpp"

namespace inferno::quant {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::span<const Format> formats() {
  static const std::array all{kF32, kF16, kQ4_0, kQ5_0, kQ8_0, kBF16};
  return all;
}

const Format* find_format(std::uint32_t type_id) {
  for (const Format& format : formats()) {
    if (static_cast<std::uint32_t>(format.type) == type_id) return &format;
  }
  return nullptr;
}

const Format* find_format(std::string_view name) {
  for (const Format& format : formats()) {
    if (std::equal(name.begin(), name.end(), format.name.begin(), format.name.end(),
                   [](char a, char b) { return lower(a) == b; })) {
      return &format;
    }
  }
  return nullptr;
}

const Format& format_of(TensorType type) {
  const Format* format = find_format(static_cast<std::uint32_t>(type));
  if (format == nullptr) {
    throw Error(fmt::format("tensor type {} is not known; accepted are {}", static_cast<std::uint32_t>(type),
                            accepted_formats()));
  }
  return *format;
}

std::string accepted_formats() {
  std::string list;
  for (const Format& format : formats()) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", format.name,
                        static_cast<std::uint32_t>(format.type));
  }
  return list;
}

}  // namespace inferno::quant
