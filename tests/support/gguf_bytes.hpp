#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "gguf/value.hpp"

namespace inferno::test {

/// Puts GGUF files together byte by byte, also such as the writer would refuse to write.
class GgufBytes {
 public:
  /// Magic, version and the two counts, which need not be true.
  static GgufBytes header(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version = 3);

  GgufBytes& raw(std::string_view bytes);
  template <typename T>
  GgufBytes& number(T value) {
    return raw({reinterpret_cast<const char*>(&value), sizeof value});
  }
  /// A length of 8 bytes and the text.
  GgufBytes& text(std::string_view text);
  /// A key and its value's type; the value follows.
  GgufBytes& key(std::string_view key, gguf::ValueType type);
  GgufBytes& key(std::string_view key, std::uint32_t type);
  template <typename T>
  GgufBytes& entry(std::string_view name, gguf::ValueType type, T value) {
    return key(name, type).number(value);
  }
  GgufBytes& entry(std::string_view name, std::string_view value);
  /// One entry of the tensor table.
  GgufBytes& tensor(std::string_view name, std::initializer_list<std::uint64_t> shape, std::uint32_t type,
                    std::uint64_t offset);
  GgufBytes& zeros(std::size_t count);
  GgufBytes& pad(std::size_t alignment = 32);

  std::size_t size() const { return bytes_.size(); }
  const std::string& get() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace inferno::test
