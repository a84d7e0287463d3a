#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gguf/byte_source.hpp"
#include "gguf/limits.hpp"
#include "gguf/value.hpp"

namespace inferno::gguf {

/// Reads the fields of a header one after the other. Each is checked against the bytes that are left and
/// against the limits before anybody acts on it; what is wrong is told with its place.
class HeaderFields {
 public:
  HeaderFields(const ByteSource& source, std::string_view file_name)
      : source_(source), cursor_(source), file_name_(file_name) {}

  /// What the next fields belong to, for messages: `tensor "a"`. Empty: the header itself.
  void set_place(std::string place) { place_ = std::move(place); }
  /// Throws Error: "<file>: <place>: <field>: expected <expected> at byte <offset>, found <found>".
  [[noreturn]] void fail(std::string_view field, std::uint64_t offset, std::string_view expected,
                         std::string_view found) const;

  const ByteSource& source() const { return source_; }
  std::uint64_t position() const { return cursor_.position(); }
  /// Goes to where metadata starts, which is counted anew.
  void seek_metadata(std::uint64_t position);
  /// Passes over bytes that a check has found to be there.
  void skip(std::uint64_t bytes) { cursor_.skip(bytes); }
  /// Reads bytes that a check has found to be there.
  void read(std::span<std::byte> target) { cursor_.read(target); }

  template <typename T>
  T number(std::string_view field) {
    require(field, sizeof(T));
    return cursor_.number<T>();
  }
  void skip_number(std::string_view field, std::size_t bytes);
  bool boolean(std::string_view field);
  /// Passes over booleans after looking at each.
  void skip_booleans(std::string_view field, std::uint64_t size);
  /// How many entries follow, each of at least `min_bytes`.
  std::uint64_t count(std::string_view field, std::uint64_t limit, std::uint64_t min_bytes);
  /// A text of 1 to `limit` bytes.
  std::string name(std::string_view field, std::uint64_t limit);
  ValueType value_type(std::string_view field);

  // Metadata: these count against its budget.

  std::string key();
  /// The length of a text, which is left to be read or passed over.
  std::uint64_t text_length(std::string_view field);
  struct ArrayStart {
    ValueType element_type;
    std::uint64_t size;
  };
  /// Element type and length of an array that has `depth - 1` others around it.
  ArrayStart array_start(std::uint32_t depth);

 private:
  void require(std::string_view field, std::uint64_t bytes) const;
  std::uint64_t length(std::string_view field, std::uint64_t limit);
  [[noreturn]] void fail_for_memory(std::string_view field, std::uint64_t offset,
                                    std::string_view found) const;

  const ByteSource& source_;
  Cursor cursor_;
  std::string_view file_name_;
  std::string place_;
  MetadataBudget budget_;
};

}  // namespace inferno::gguf
