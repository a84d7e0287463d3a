#include "model/loaded_model.hpp"

namespace inferno {

LoadedModel::LoadedModel(const std::filesystem::path& path, const gguf::OpenOptions& options)
    : file(gguf::File::open(path, options)), config(read_config(file)), weights(bind_weights(file, config)) {}

}  // namespace inferno
