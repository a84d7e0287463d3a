#include "support/scripted_model.hpp"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string>

#include <inferno/error.hpp>

#include "gguf/writer.hpp"

namespace inferno::test {
namespace {

constexpr std::uint32_t kHidden = 64;
constexpr std::uint32_t kHeads = 2;
constexpr std::uint32_t kKvHeads = 1;
constexpr std::uint32_t kHeadDim = 32;
constexpr std::uint32_t kFfn = 32;

/// A matrix of zeros but for some rows.
using Rows = std::map<std::uint64_t, std::vector<float>>;

float& entry(Rows& rows, std::int32_t row, std::uint32_t column) {
  auto& values = rows.try_emplace(static_cast<std::uint64_t>(row), kHidden, 0.0F).first->second;
  return values[column];
}

void add_sparse(gguf::Writer& writer, const std::string& name, quant::TensorType type, std::uint32_t columns,
                std::uint32_t rows, const Rows& content) {
  const quant::Format& format = quant::format_of(type);
  const auto encoded = [&format, columns](const std::vector<float>& values) {
    const std::size_t blocks = columns / format.block_elements;
    std::vector<std::byte> bytes(blocks * format.block_bytes);
    format.encode(values.data(), blocks, bytes.data());
    return bytes;
  };
  const std::vector<std::byte> zero = encoded(std::vector<float>(columns, 0.0F));
  writer.add_tensor(name, type, {columns, rows},
                    [content, encoded, zero](std::uint64_t first_row, std::span<std::byte> target) {
                      for (std::uint64_t row = first_row; !target.empty(); ++row) {
                        const auto found = content.find(row);
                        const auto bytes = found == content.end() ? zero : encoded(found->second);
                        std::memcpy(target.data(), bytes.data(), bytes.size());
                        target = target.subspan(bytes.size());
                      }
                    });
}

void add_ones(gguf::Writer& writer, const std::string& name, std::uint32_t size) {
  writer.add_tensor(name, quant::TensorType::f32, {size}, [](std::uint64_t, std::span<std::byte> target) {
    const std::vector<float> ones(target.size() / sizeof(float), 1.0F);
    std::memcpy(target.data(), ones.data(), target.size());
  });
}

}  // namespace

void ScriptedModel::write(const std::filesystem::path& path) const {
  std::map<std::int32_t, std::int32_t> successors;
  for (const auto& chain : chains) {
    for (const std::int32_t id : chain) {
      if (id < 0 || static_cast<std::uint32_t>(id) >= vocab_size) {
        throw Error(fmt::format("script: token {} is outside the vocabulary of {}", id, vocab_size));
      }
    }
    for (std::size_t i = 1; i < chain.size(); ++i) {
      const auto [at, added] = successors.try_emplace(chain[i - 1], chain[i]);
      if (!added && at->second != chain[i]) {
        throw Error(fmt::format("script: token {} is to be followed by {} and by {}", chain[i - 1],
                                at->second, chain[i]));
      }
    }
  }
  if (successors.size() > kHidden) {
    throw Error(fmt::format("script: {} steps, expected at most {}", successors.size(), kHidden));
  }
  Rows embedding;
  Rows head;
  std::uint32_t step = 0;
  for (const auto& [from, to] : successors) {
    entry(embedding, from, step) = 1.0F;
    entry(head, to, step) = 8.0F;
    ++step;
  }

  gguf::Writer writer;
  writer.add("general.architecture", std::string("qwen3"));
  writer.add("general.name", std::string(chains.empty() ? "flat" : "scripted"));
  writer.add("qwen3.block_count", std::uint32_t{1});
  writer.add("qwen3.context_length", context_length);
  writer.add("qwen3.embedding_length", kHidden);
  writer.add("qwen3.feed_forward_length", kFfn);
  writer.add("qwen3.attention.head_count", kHeads);
  writer.add("qwen3.attention.head_count_kv", kKvHeads);
  writer.add("qwen3.attention.key_length", kHeadDim);
  writer.add("qwen3.attention.value_length", kHeadDim);
  writer.add("qwen3.attention.layer_norm_rms_epsilon", 1e-6F);
  writer.add("qwen3.rope.freq_base", 1e6F);
  if (vocabulary) add_to_gguf(*vocabulary, writer);

  add_sparse(writer, "token_embd.weight", type, kHidden, vocab_size, embedding);
  add_ones(writer, "output_norm.weight", kHidden);
  add_sparse(writer, "output.weight", type, kHidden, vocab_size, head);
  add_ones(writer, "blk.0.attn_norm.weight", kHidden);
  add_sparse(writer, "blk.0.attn_q.weight", type, kHidden, kHeads * kHeadDim, {});
  add_sparse(writer, "blk.0.attn_k.weight", type, kHidden, kKvHeads * kHeadDim, {});
  add_sparse(writer, "blk.0.attn_v.weight", type, kHidden, kKvHeads * kHeadDim, {});
  add_ones(writer, "blk.0.attn_q_norm.weight", kHeadDim);
  add_ones(writer, "blk.0.attn_k_norm.weight", kHeadDim);
  add_sparse(writer, "blk.0.attn_output.weight", type, kHeads * kHeadDim, kHidden, {});
  add_ones(writer, "blk.0.ffn_norm.weight", kHidden);
  add_sparse(writer, "blk.0.ffn_gate.weight", type, kHidden, kFfn, {});
  add_sparse(writer, "blk.0.ffn_up.weight", type, kHidden, kFfn, {});
  add_sparse(writer, "blk.0.ffn_down.weight", type, kFfn, kHidden, {});
  writer.write(path);
}

}  // namespace inferno::test
