#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/error.hpp>

namespace inferno {

struct ModelParts;

/// A Qwen3 model with its tokenizer, loaded from a GGUF file. Cheap to copy (shared, immutable); safe to use
/// from several threads.
class Model {
 public:
  /// Opens and checks a file. `map` false reads it into memory instead of mapping it. Throws Error with one
  /// line that says what is wrong with the file and where.
  static Model load(const std::filesystem::path& path, bool map = true);
  /// The model that ships with inferno (or $INFERNO_MODEL). Throws Error if it is not found.
  static std::filesystem::path default_path();

  const std::string& name() const;
  std::uint32_t layers() const;
  std::uint32_t hidden_size() const;
  std::uint32_t vocab_size() const;      ///< ids are below this
  std::uint32_t context_length() const;  ///< positions that the model was trained for
  std::uint64_t file_bytes() const;

  /// Token ids of a text. `parse_control`: whether control tokens such as <|im_start|> are recognized in it.
  std::vector<std::int32_t> encode(std::string_view text, bool parse_control = true) const;
  /// The text of ids; ends in half a character if they do. Ids that the tokenizer has no string for are no
  /// text.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// What the model is made of, for code inside inferno.
  const ModelParts& parts() const { return *parts_; }

 private:
  explicit Model(std::shared_ptr<const ModelParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const ModelParts> parts_;
};

}  // namespace inferno
