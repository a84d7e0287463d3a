#include "step/block_transfer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "platform/quote.hpp"

namespace inferno {
namespace {

constexpr std::uint32_t kMagic = 0x42564B49;  // "IKVB"
constexpr std::uint32_t kVersion = 1;

template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw UsageError("import of cache blocks refused: " +
                   fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename Integer>
void append(std::vector<std::byte>& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    bytes.push_back(static_cast<std::byte>(value >> (8 * i) & 0xFF));
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Integer>
  Integer read(std::string_view field) {
    Integer value = 0;
    const auto part = take(sizeof(Integer), field);
    for (std::size_t i = 0; i < sizeof(Integer); ++i) {
      value |= static_cast<Integer>(std::to_integer<Integer>(part[i]) << (8 * i));
    }
    return value;
  }

  std::span<const std::byte> take(std::size_t size, std::string_view field) {
    if (size > bytes_.size() - offset_) {
      refuse("{} at offset {} needs {} bytes, but {} are left", field, offset_, size,
             bytes_.size() - offset_);
    }
    const auto part = bytes_.subspan(offset_, size);
    offset_ += size;
    return part;
  }

  template <typename Integer>
  void expect(Integer expected, std::string_view field) {
    const auto found = read<Integer>(field);
    if (found != expected) refuse("{}: expected {}, found {}", field, expected, found);
  }

  std::span<const std::byte> rest() const { return bytes_.subspan(offset_); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

}  // namespace

BlockExport start_export(const BlockShape& shape, std::uint32_t count) {
  constexpr std::size_t kFixed = 8 * sizeof(std::uint32_t) + sizeof(std::uint64_t);
  BlockExport result;
  result.payload = kFixed + shape.cache_format.size();
  result.bytes.reserve(result.payload + shape.block_bytes * count);
  append(result.bytes, kMagic);
  append(result.bytes, kVersion);
  append(result.bytes, static_cast<std::uint32_t>(shape.cache_format.size()));
  for (const char letter : shape.cache_format) result.bytes.push_back(static_cast<std::byte>(letter));
  append(result.bytes, shape.layers);
  append(result.bytes, shape.kv_heads);
  append(result.bytes, shape.head_dim);
  append(result.bytes, shape.block_size);
  append(result.bytes, count);
  append(result.bytes, shape.block_bytes);
  result.bytes.resize(result.payload + shape.block_bytes * count);
  return result;
}

std::span<const std::byte> check_import(std::span<const std::byte> bytes, const BlockShape& expected,
                                        std::size_t count) {
  Reader reader(bytes);
  if (reader.read<std::uint32_t>("magic") != kMagic) refuse("it does not begin with \"IKVB\"");
  reader.expect(kVersion, "version");
  const auto length = reader.read<std::uint32_t>("length of cache_format");
  const auto name = reader.take(length, "cache_format");
  const std::string found(reinterpret_cast<const char*>(name.data()), name.size());
  if (found != expected.cache_format) {
    refuse("cache_format: expected {}, found {}", quote(expected.cache_format), quote(found));
  }
  reader.expect(expected.layers, "layers");
  reader.expect(expected.kv_heads, "kv_heads");
  reader.expect(expected.head_dim, "head_dim");
  reader.expect(expected.block_size, "block_size");
  const auto blocks = reader.read<std::uint32_t>("count");
  if (blocks != count)
    refuse("count: expected {} blocks (as many as are to be filled), found {}", count, blocks);
  reader.expect(expected.block_bytes, "block_bytes");
  // count and block_bytes are the executor's own numbers by now, so the product is that of memory it holds.
  const std::uint64_t size = expected.block_bytes * count;
  if (reader.rest().size() != size) {
    refuse("length: expected {} bytes for {} blocks, found {}", size, count, reader.rest().size());
  }
  return reader.rest();
}

}  // namespace inferno
