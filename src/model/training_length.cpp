#include "model/training_length.hpp"

#include "platform/log.hpp"

namespace inferno {

void warn_beyond_training(const ModelConfig& config, std::uint64_t positions) {
  if (positions <= config.context_length) return;
  log().warn("{} positions were asked for, {} was trained on {}: expect the text to fall apart beyond",
             positions, config.name, config.context_length);
}

}  // namespace inferno
