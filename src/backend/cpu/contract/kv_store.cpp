#include "backend/cpu/contract/kv_store.hpp"

#include <cstring>

#include "platform/page_population.hpp"

namespace inferno::cpu {
namespace {

std::size_t padded(std::size_t positions) {
  return (positions + kKeyLanes - 1) / kKeyLanes * kKeyLanes;
}

/// Bytes of one KV head: two int8 planes and two planes of scales.
std::size_t stored_head_bytes(const BlockLayout& layout) {
  return 2 * padded(layout.block_size) * (layout.padded_dim + layout.scale_blocks * sizeof(float));
}

/// Scales among bytes that have any alignment.
class OutsideScales {
 public:
  explicit OutsideScales(std::byte* bytes) : bytes_(bytes) {}
  float get(std::size_t index) const {
    float scale = 0;
    std::memcpy(&scale, bytes_ + index * sizeof scale, sizeof scale);
    return scale;
  }
  void set(std::size_t index, float scale) const {
    std::memcpy(bytes_ + index * sizeof scale, &scale, sizeof scale);
  }

 private:
  std::byte* bytes_;
};

/// One KV head in the outside layout.
struct OutsideHead {
  std::int8_t* keys;
  OutsideScales key_scales;
  std::int8_t* values;
  OutsideScales value_scales;

  OutsideHead(const BlockLayout& layout, std::byte* bytes)
      : keys(reinterpret_cast<std::int8_t*>(bytes)),
        key_scales(bytes + layout.key_scales_offset()),
        values(reinterpret_cast<std::int8_t*>(bytes + layout.values_offset())),
        value_scales(bytes + layout.value_scales_offset()) {}
};

constexpr int kKeyBias = 128;  // keys are stored + 128: the unsigned side of the processor's dot products

}  // namespace

KvStore::KvStore(const ModelConfig& config, std::uint32_t block_size, std::uint32_t blocks, bool populate)
    : layout_(config, block_size),
      padded_positions_(padded(block_size)),
      head_bytes_(stored_head_bytes(layout_)),
      block_bytes_(stored_block_bytes(config, block_size)),
      memory_(block_bytes_ * blocks) {
  if (populate) populate_pages(memory_.span());
}

std::size_t KvStore::stored_block_bytes(const ModelConfig& config, std::uint32_t block_size) {
  const BlockLayout layout(config, block_size);
  return layout.layers * layout.kv_heads * stored_head_bytes(layout);
}

CacheView KvStore::view(std::uint32_t block, std::size_t layer, std::size_t kv_head) const {
  auto* at = memory_.data() + block * block_bytes_ + (layer * layout_.kv_heads + kv_head) * head_bytes_;
  const auto plane = padded_positions_ * layout_.padded_dim;
  const auto scales = padded_positions_ * layout_.scale_blocks * sizeof(float);
  return {.keys = reinterpret_cast<std::uint8_t*>(at),
          .key_scales = reinterpret_cast<float*>(at + plane),
          .values = reinterpret_cast<std::int8_t*>(at + plane + scales),
          .value_scales = reinterpret_cast<float*>(at + 2 * plane + scales),
          .positions = static_cast<std::uint32_t>(padded_positions_)};
}

void KvStore::copy(std::uint32_t source, std::uint32_t target) {
  std::memmove(memory_.data() + target * block_bytes_, memory_.data() + source * block_bytes_, block_bytes_);
}

void KvStore::read(std::uint32_t block, std::span<std::byte> target) const {
  const CacheIndex index{padded_positions_, layout_.scale_blocks};
  for (std::size_t layer = 0; layer < layout_.layers; ++layer) {
    for (std::size_t kv_head = 0; kv_head < layout_.kv_heads; ++kv_head) {
      const auto inside = view(block, layer, kv_head);
      const OutsideHead outside(layout_, target.data() + layout_.head_offset(layer, kv_head));
      for (std::size_t p = 0; p < layout_.block_size; ++p) {
        for (std::size_t b = 0; b < layout_.scale_blocks; ++b) {
          const float key_scale = inside.key_scales[index.key_scale(p, b)];
          outside.key_scales.set(p * layout_.scale_blocks + b, key_scale);
          outside.value_scales.set(p * layout_.scale_blocks + b,
                                   inside.value_scales[index.value_scale(p, b)]);
          for (std::size_t d = b * 32; d < (b + 1) * 32; ++d) {
            const int key = key_scale == 0.0F ? 0 : int{inside.keys[index.key(p, d)]} - kKeyBias;
            outside.keys[p * layout_.padded_dim + d] = static_cast<std::int8_t>(key);
            outside.values[p * layout_.padded_dim + d] = inside.values[index.value(p, d)];
          }
        }
      }
    }
  }
}

void KvStore::write(std::uint32_t block, std::span<const std::byte> source) {
  const CacheIndex index{padded_positions_, layout_.scale_blocks};
  for (std::size_t layer = 0; layer < layout_.layers; ++layer) {
    for (std::size_t kv_head = 0; kv_head < layout_.kv_heads; ++kv_head) {
      const auto inside = view(block, layer, kv_head);
      const OutsideHead outside(layout_,
                                const_cast<std::byte*>(source.data()) + layout_.head_offset(layer, kv_head));
      for (std::size_t p = 0; p < layout_.block_size; ++p) {
        for (std::size_t b = 0; b < layout_.scale_blocks; ++b) {
          inside.key_scales[index.key_scale(p, b)] = outside.key_scales.get(p * layout_.scale_blocks + b);
          inside.value_scales[index.value_scale(p, b)] =
              outside.value_scales.get(p * layout_.scale_blocks + b);
        }
        for (std::size_t d = 0; d < layout_.padded_dim; ++d) {
          inside.keys[index.key(p, d)] =
              static_cast<std::uint8_t>(outside.keys[p * layout_.padded_dim + d] + kKeyBias);
          inside.values[index.value(p, d)] = outside.values[p * layout_.padded_dim + d];
        }
      }
    }
  }
}

}  // namespace inferno::cpu
