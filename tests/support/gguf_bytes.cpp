#include "support/gguf_bytes.hpp"

namespace inferno::test {

GgufBytes GgufBytes::header(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version) {
  GgufBytes bytes;
  return bytes.raw("GGUF").number(version).number(tensors).number(entries);
}

GgufBytes& GgufBytes::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

GgufBytes& GgufBytes::text(std::string_view text) {
  return number(std::uint64_t{text.size()}).raw(text);
}

GgufBytes& GgufBytes::key(std::string_view key, gguf::ValueType type) {
  return this->key(key, static_cast<std::uint32_t>(type));
}

GgufBytes& GgufBytes::key(std::string_view key, std::uint32_t type) {
  return text(key).number(type);
}

GgufBytes& GgufBytes::entry(std::string_view name, std::string_view value) {
  return key(name, gguf::ValueType::string).text(value);
}

GgufBytes& GgufBytes::tensor(std::string_view name, std::initializer_list<std::uint64_t> shape,
                             std::uint32_t type, std::uint64_t offset) {
  text(name).number(static_cast<std::uint32_t>(shape.size()));
  for (const std::uint64_t dimension : shape) number(dimension);
  return number(type).number(offset);
}

GgufBytes& GgufBytes::zeros(std::size_t count) {
  bytes_.append(count, '\0');
  return *this;
}

GgufBytes& GgufBytes::pad(std::size_t alignment) {
  return zeros((alignment - bytes_.size() % alignment) % alignment);
}

}  // namespace inferno::test
