#include <inferno/model.hpp>

#include "engine/model_parts.hpp"
#include "platform/paths.hpp"

namespace inferno {

Model Model::load(const std::filesystem::path& path, bool map) {
  return Model(std::make_shared<const ModelParts>(path, gguf::OpenOptions{.map = map}));
}

std::filesystem::path Model::default_path() {
  return default_model_path();
}

const std::string& Model::name() const {
  return parts_->loaded.config.name;
}
std::uint32_t Model::layers() const {
  return parts_->loaded.config.layers;
}
std::uint32_t Model::hidden_size() const {
  return parts_->loaded.config.hidden_size;
}
std::uint32_t Model::vocab_size() const {
  return parts_->loaded.config.vocab_size;
}
std::uint32_t Model::context_length() const {
  return parts_->loaded.config.context_length;
}
std::uint64_t Model::file_bytes() const {
  return parts_->loaded.file.total_bytes();
}

std::vector<std::int32_t> Model::encode(std::string_view text, bool parse_control) const {
  return parts_->tokenizer.encode(text, parse_control);
}

std::string Model::decode(std::span<const std::int32_t> ids) const {
  return parts_->tokenizer.decode(ids);
}

}  // namespace inferno
