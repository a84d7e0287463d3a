#include "synth/random_weights.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "quant/half.hpp"

namespace inferno {
namespace {

static_assert(std::endian::native == std::endian::little, "eight elements are stored as one word");

constexpr std::uint32_t kBlock = 32;
constexpr std::uint32_t kWordsPerBlock = 8;
constexpr std::size_t kQ8BlockBytes = 2 + kBlock;
constexpr std::uint64_t kLowBits = 0x7F7F7F7F7F7F7F7FULL;
constexpr std::uint64_t kOnes = 0x0101010101010101ULL;

// The finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

// FNV-1a, so that a tensor's weights depend on its name and not on its place in the file.
std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mix(hash ^ mix(seed + kGolden));
}

// The random words of one row, by index.
class RowWords {
 public:
  RowWords(std::uint64_t key, std::uint64_t row) : key_(mix(key + row * kGolden)) {}
  std::uint64_t operator[](std::uint64_t index) const { return mix(key_ + (index + 1) * kGolden); }

 private:
  std::uint64_t key_;
};

// Eight elements as bytes of two's complement: the low 7 bits of each byte of `a` and `b`, added, less 127.
std::uint64_t eight_elements(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = (a & kLowBits) + (b & kLowBits);  // 0..254 in each byte: no carry
  const std::uint64_t flipped = sum ^ (kOnes << 7);           // sum - 128
  return ((flipped & kLowBits) + kOnes) ^ (flipped & ~kLowBits);
}

struct Block {
  std::uint32_t m;
  std::array<std::uint64_t, 4> elements;
};

Block make_block(const RowWords& words, std::uint64_t index) {
  Block block{};
  const std::uint64_t first = index * kWordsPerBlock;
  std::uint64_t spare = 0;  // the top bit of a byte is not part of an element
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::uint64_t a = words[first + 2 * i];
    block.elements[i] = eight_elements(a, words[first + 2 * i + 1]);
    spare = spare << 1 | a >> 63;
  }
  block.m = 8 + static_cast<std::uint32_t>(spare & 7);
  return block;
}

// Of n and m together: 2 (128^2 - 1) / 12 times the mean of 8^2 to 15^2.
constexpr double kElementSquared = 2730.5 * 137.5;

float unit_for(double deviation_squared) {
  double squared = kElementSquared;
  float unit = 1.0F;
  while (squared > 2 * deviation_squared) {
    squared /= 4;
    unit /= 2;
  }
  return unit;
}

}  // namespace

RandomMatrix::RandomMatrix(std::uint64_t seed, std::string_view name, std::uint32_t columns,
                           double deviation_squared)
    : key_(tensor_key(seed, name)), columns_(columns), unit_(unit_for(deviation_squared)) {}

void RandomMatrix::fill(const quant::Format& format, std::uint64_t first_row,
                        std::span<std::byte> target) const {
  const std::size_t row_bytes = std::size_t{columns_} / format.block_elements * format.block_bytes;
  std::vector<float> values(format.type == quant::TensorType::q8_0 ? 0 : columns_);
  for (std::uint64_t row = first_row; !target.empty(); ++row, target = target.subspan(row_bytes)) {
    if (format.type == quant::TensorType::q8_0) {
      fill_row_q8_0(row, target.data());
    } else {
      fill_row(row, values);
      format.encode(values.data(), columns_ / format.block_elements, target.data());
    }
  }
}

// What the encoder would make of these floats would differ: it scales to the largest element.
void RandomMatrix::fill_row_q8_0(std::uint64_t row, std::byte* target) const {
  std::array<std::uint16_t, 8> scales{};
  for (std::uint32_t m = 8; m < 16; ++m) scales[m - 8] = quant::float_to_half(static_cast<float>(m) * unit_);
  const RowWords words(key_, row);
  for (std::uint32_t index = 0; index < columns_ / kBlock; ++index, target += kQ8BlockBytes) {
    const Block block = make_block(words, index);
    const std::uint16_t scale = scales[block.m - 8];
    std::memcpy(target, &scale, sizeof scale);
    std::memcpy(target + sizeof scale, block.elements.data(), sizeof block.elements);
  }
}

void RandomMatrix::fill_row(std::uint64_t row, std::span<float> values) const {
  const RowWords words(key_, row);
  for (std::uint32_t index = 0; index < columns_ / kBlock; ++index) {
    const Block block = make_block(words, index);
    const float scale = static_cast<float>(block.m) * unit_;
    std::array<std::int8_t, kBlock> elements{};
    std::memcpy(elements.data(), block.elements.data(), sizeof elements);
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      values[index * kBlock + i] = static_cast<float>(elements[i]) * scale;
    }
  }
}

void fill_norm(std::uint64_t seed, std::string_view name, std::span<float> values) {
  const RowWords words(tensor_key(seed, name), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto step = static_cast<std::int32_t>(words[i] >> 56) - 128;
    values[i] = 1.0F + static_cast<float>(step) * 0x1p-10F;
  }
}

}  // namespace inferno
