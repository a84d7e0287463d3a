#include "verify/kernel_rungs.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <span>
#include <vector>

#include "arith/attention.hpp"
#include "arith/elementary.hpp"
#include "arith/vectors.hpp"
#include "backend/cpu/contract/aligned_buffer.hpp"
#include "backend/cpu/contract/attention.hpp"
#include "backend/cpu/contract/kv_store.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "quant/half.hpp"
#include "verify/compare.hpp"

namespace inferno::verify {
namespace {

using cpu::KernelSet;

/// Rows of a matrix that are multiplied: three panels and a part of one.
constexpr std::uint32_t kMostRows = 50;
/// Positions of attention: a whole split and a part of one.
constexpr std::uint32_t kPositions = 300;

/// Numbers between -largest and largest, the same in every run.
std::vector<float> random_floats(std::size_t count, float largest, std::uint64_t seed) {
  std::vector<float> numbers(count);
  auto state = seed;
  for (auto& number : numbers) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    number = largest * (static_cast<float>(state >> 40U) / static_cast<float>(1U << 23U) - 1.0F);
  }
  return numbers;
}

/// What a kernel said, and what it should have said.
struct Both {
  std::vector<float> kernel;
  std::vector<float> contract;

  void add(std::span<const float> found, std::span<const float> expected) {
    kernel.insert(kernel.end(), found.begin(), found.end());
    contract.insert(contract.end(), expected.begin(), expected.end());
  }
};

/// The product of the first rows of `matrix` with a few tokens.
void multiply(const KernelSet& kernels, const Matrix& matrix, std::uint32_t tokens, Both& both) {
  const auto columns = matrix.columns;
  auto part = matrix;
  part.rows = std::min(matrix.rows, kMostRows);
  const auto x = random_floats(std::size_t{tokens} * columns, 3.0F, columns + tokens);
  const auto token = [&](std::uint32_t t) { return std::span(x).subspan(std::size_t{t} * columns, columns); };
  std::vector<float> y(std::size_t{tokens} * part.rows);
  if (cpu::is_packable(*matrix.format)) {
    cpu::PackedMatrix packed{nullptr, part.rows, columns};
    cpu::AlignedBuffer<std::byte> bytes(packed.total_bytes());
    cpu::pack_panels(part, 0, packed.panels(), bytes.data());
    packed.bytes = bytes.data();
    const auto room = std::size_t{tokens} + cpu::QuantizedBatch::kSpareTokens;
    std::vector<std::int8_t> values(room * columns);
    std::vector<float> scales(room * packed.blocks());
    std::vector<std::int32_t> offsets(room * packed.blocks());
    const cpu::QuantizedBatch batch{values.data(), scales.data(), offsets.data(), columns};
    for (std::uint32_t t = 0; t < tokens; ++t) kernels.quantize(token(t).data(), batch, t);
    kernels.matmul(packed, 0, packed.panels(), batch, tokens, nullptr, y.data(), part.rows);
  } else {
    kernels.matmul_float(part, 0, part.rows, x.data(), tokens, nullptr, y.data(), part.rows);
  }

  std::vector<float> expected;
  const auto blocks = columns / cpu::kBlockColumns;
  std::vector<std::int8_t> integers(columns);
  std::vector<std::uint16_t> halves(blocks);
  std::vector<float> scales(blocks);
  std::vector<float> row(columns);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    const auto quantized = arith::quantize_vector(token(t));
    for (std::uint32_t r = 0; r < part.rows; ++r) {
      if (cpu::is_packable(*matrix.format)) {
        matrix.format->integers(matrix.row(r), blocks, integers.data(), halves.data());
        std::transform(halves.begin(), halves.end(), scales.begin(), quant::half_to_float);
        expected.push_back(arith::quantized_dot(integers, scales, quantized));
      } else {
        matrix.format->decode(matrix.row(r), columns / matrix.format->block_elements, row.data());
        expected.push_back(arith::float_dot(row, token(t)));
      }
    }
  }
  both.add(y, expected);
}

/// A norm over the hidden size, the rotation of a head, SwiGLU.
void transform(const KernelSet& kernels, const ModelConfig& config, Both& both) {
  const auto width = config.hidden_size;
  const auto x = random_floats(width, 2.0F, 1);
  const auto weight = random_floats(width, 1.5F, 2);
  const float inverse_length = 1.0F / static_cast<float>(width);
  std::vector<float> weighted(width + 1);
  weighted[width] =
      kernels.norm_float(x.data(), weight.data(), width, inverse_length, config.rms_epsilon, weighted.data());
  std::vector<float> expected(width);
  for (std::size_t i = 0; i < width; ++i) expected[i] = arith::multiply(x[i], weight[i]);
  expected.push_back(arith::inverse_rms(x, inverse_length, config.rms_epsilon));
  both.add(weighted, expected);

  const auto head_dim = config.head_dim;
  auto head = random_floats(head_dim, 4.0F, 3);
  auto turned = head;
  const auto head_weight = random_floats(head_dim, 1.5F, 4);
  std::vector<float> sine(head_dim / 2);
  std::vector<float> cosine(head_dim / 2);
  for (std::size_t i = 0; i < sine.size(); ++i) {
    sine[i] = std::sin(static_cast<float>(i));
    cosine[i] = std::cos(static_cast<float>(i));
  }
  const float inverse_head = 1.0F / static_cast<float>(head_dim);
  kernels.norm_rotate(head.data(), head_weight.data(), head_dim, inverse_head, config.rms_epsilon,
                      sine.data(), cosine.data());
  const float factor = arith::inverse_rms(turned, inverse_head, config.rms_epsilon);
  for (std::size_t i = 0; i < head_dim; ++i) {
    turned[i] = arith::multiply(arith::multiply(turned[i], factor), head_weight[i]);
  }
  arith::rotate(turned, sine, cosine);
  both.add(head, turned);

  auto gate = random_floats(width, 9.0F, 5);
  const auto up = random_floats(width, 3.0F, 6);
  expected.resize(width);
  for (std::size_t i = 0; i < width; ++i) expected[i] = arith::swiglu(gate[i], up[i]);
  kernels.swiglu(gate.data(), up.data(), width);
  both.add(gate, expected);
}

/// One token's query heads of one KV head over a cache of kPositions, driven as an executor does.
void attend(const KernelSet& kernels, const ModelConfig& config, Both& both) {
  ModelConfig shape = config;  // one layer and one KV head of it
  shape.layers = 1;
  shape.heads = config.heads / config.kv_heads;
  shape.kv_heads = 1;
  const cpu::AttentionShape attention(shape);
  const auto head_dim = config.head_dim;
  const auto blocks = attention.blocks;
  const auto splits = cpu::splits_of(kPositions);
  const cpu::KvStore cache(shape, kSplitPositions, splits);
  std::vector<arith::QuantizedVector> keys;
  std::vector<arith::QuantizedVector> values;
  for (std::uint32_t p = 0; p < kPositions; ++p) {
    const auto key = random_floats(head_dim, 2.0F, 100 + p);
    const auto value = random_floats(head_dim, 1.0F, 1000 + p);
    kernels.append_kv(key.data(), value.data(), head_dim, cache.view(p / kSplitPositions, 0, 0),
                      p % kSplitPositions);
    keys.push_back(arith::quantize_vector(key));
    values.push_back(arith::quantize_vector(value));
  }

  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  const auto query = random_floats(std::size_t{shape.heads} * head_dim, 2.0F, 7);
  const auto query_of = [&](std::uint32_t head) {
    return std::span(query).subspan(std::size_t{head} * head_dim, head_dim);
  };
  std::vector<std::int8_t> query_values(std::size_t{shape.heads} * attention.padded_dim);
  std::vector<float> query_scales(std::size_t{shape.heads} * blocks);
  std::vector<std::int32_t> query_offsets(query_scales.size());
  for (std::uint32_t head = 0; head < shape.heads; ++head) {
    kernels.quantize_query(
        query_of(head).data(), head_dim, scale, &query_values[std::size_t{head} * attention.padded_dim],
        &query_scales[std::size_t{head} * blocks], &query_offsets[std::size_t{head} * blocks]);
  }
  std::vector<std::uint32_t> table(splits);
  std::iota(table.begin(), table.end(), 0U);
  cpu::TokenTile tile;
  tile.query = {query_values.data(), query_scales.data(), query_offsets.data(), shape.heads, blocks};
  tile.table = table;
  tile.first_position = kPositions - 1;
  tile.tokens = 1;
  std::vector<float> output(query.size());
  cpu::AttentionWorker(attention, kPositions).attend(kernels, cache, tile, output.data(), output.size());

  const auto row_of = [](const arith::QuantizedVector& vector) {
    return arith::QuantizedRow{vector.values.data(), vector.scales.data()};
  };
  std::vector<float> expected;
  for (std::uint32_t head = 0; head < shape.heads; ++head) {
    auto quantized = arith::quantize_vector(query_of(head));
    for (float& block_scale : quantized.scales) block_scale = arith::multiply(block_scale, scale);
    std::vector<arith::SplitResult> results;
    for (std::uint32_t begin = 0; begin < kPositions; begin += kSplitPositions) {
      const auto count = std::min(kSplitPositions, kPositions - begin);
      std::vector<arith::QuantizedRow> key_rows;
      std::vector<arith::QuantizedRow> value_rows;
      for (std::uint32_t p = begin; p < begin + count; ++p) {
        key_rows.push_back(row_of(keys[p]));
        value_rows.push_back(row_of(values[p]));
      }
      results.push_back(arith::attend_split(quantized, key_rows, value_rows));
    }
    const auto merged = arith::merge_splits(results);
    expected.insert(expected.end(), merged.begin(), merged.begin() + head_dim);
  }
  both.add(output, expected);
}

/// One matrix of each format that the model has.
std::vector<const Matrix*> matrices_by_format(const LoadedModel& model) {
  std::vector<const Matrix*> matrices;
  const auto consider = [&](const Matrix& matrix) {
    const auto same_format = [&](const Matrix* other) { return other->format == matrix.format; };
    if (std::none_of(matrices.begin(), matrices.end(), same_format)) matrices.push_back(&matrix);
  };
  for (const auto& layer : model.weights.layers) {
    for (const auto* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate,
                               &layer.up, &layer.down}) {
      consider(*matrix);
    }
  }
  consider(model.weights.lm_head);
  return matrices;
}

}  // namespace

void climb_kernels(const LoadedModel& model, RungWriter& rungs) {
  for (const auto* kernels : cpu::kernel_sets()) {
    const auto name = fmt::format("cpu {}", kernels->name);
    if (!kernels->supported()) {
      rungs.skip("kernels", name, fmt::format("this processor lacks {}", kernels->needs));
      continue;
    }
    rungs.climb("kernels", name, [&](Rung& rung) {
      Both both;
      for (const auto* matrix : matrices_by_format(model)) {
        for (const std::uint32_t tokens : {1U, 3U, 13U, 33U}) multiply(*kernels, *matrix, tokens, both);
      }
      transform(*kernels, model.config, both);
      attend(*kernels, model.config, both);
      expect_equal(rung, compare(both.kernel, both.contract), "against the contract's definitions");
    });
  }
}

}  // namespace inferno::verify
