#pragma once

#include <cstdint>
#include <string_view>

#include "backend/gpu/kernel_constants.hpp"

/// The kernels of a whole step, the same list for Vulkan (GLSL) and CUDA: what each reads, writes and is
/// launched with. All of them compute what src/arith says, bit for bit.
///
/// Names of sizes as in docs/architecture.md: T tokens, H query heads, K KV heads, E head size, D hidden, F
/// feed-forward, V vocabulary. C is a matrix's columns. W256 is W padded to 256, E32 is E padded to 32.
///
/// ## Vectors
///
/// The vector of W floats of each token has a stride of W256 floats. Quantized: int8 [T][W256] and scales
/// float [T][W256 / 32]. Buffers are zero when made and nobody writes anything but zeros to what pads them,
/// so kernels work on whole segments. (Zero products change no sum: sums start from +0.)
///
/// ## Packed weights
///
/// All integer formats (Q8_0, Q4_0, Q5_0) are packed to one layout, int8 with a half scale for each 32
/// columns, so there is one kernel for all of them; float formats have a layout of the same kind. Rows are
/// padded to 8, columns to 256, with zeros. Aligned 16-byte loads: 8 threads (rows) next to each other read
/// 128 bytes next to each other.
///
///     panel (8 rows) > segment (256 columns) >
///       q8:   scales [8 rows][8 blocks]  half         128 bytes
///             quants [16 chunks][8 rows][16 columns]  int8, 2048 bytes
///       f32:  [64 chunks][8 rows][4 columns]          8192 bytes
///       f16:  [32 chunks][8 rows][8 columns]          4096 bytes
///       bf16: as f16
///
/// A half of the scales is read by hand (half_to_float in src/quant/half.hpp is the rule, subnormals
/// included), not by the hardware's conversion. A matrix larger than max_range is bound in pieces of whole
/// panels, each a dispatch of its own. Matrices that read the same vector (query, key, value; gate, up) lie
/// one behind the other as one, if their formats are equal and all but the last have rows that are a multiple
/// of 8.
///
/// ## The cache
///
/// A binding is one layer's part: for each block, for each KV head, as cpu::BlockLayout:
///
///     keys [block_size][E32] int8, key scales [block_size][E32 / 32] float, values likewise, value scales
///
/// ## Rules for kernels
///
/// Workgroups of at most 256 threads, at most 32 KiB shared memory, any subgroup size from 4 to 64. Integer
/// dot products of 32 are exact, so any way of computing them will do, float multiply-adds below 2^24
/// included; everything else is add, subtract and multiply of arith/portable.hpp. Where the device has
/// integer_dot, a second SPIR-V of the same kernel (compiled with INFERNO_INTEGER_DOT) may be used.
namespace inferno::gpu {

struct Grid {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

/// In brackets: bindings in order (r read, w written, rw both); the constants; the grid in workgroups.
enum class Kernel : std::uint8_t {
  // Stage embedding. [r tokens i32 [T]; r table piece, packed; w x float [T][D256]] EmbedConstants;
  // (segments, T). Tokens of other pieces are left alone. value = float(int8) * scale, one multiply.
  embed_q8,
  embed_f32,
  embed_f16,
  embed_bf16,
  // Stages attention_norm, ffn_norm, final_norm. [r x float [T][D256]; r weight float [D256]; w weighted
  // float [T][D256]; w quants [T][D256]; w scales [T][D256 / 32]; w factors float [T]] NormConstants; (1, T).
  // What `write` leaves out is bound to anything and not touched. Factors are always written.
  norm,
  // [r x float [T][W256]; w quants; w scales] QuantizeConstants; (W256 / 256, T).
  quantize,
  // Stages query, key, value, attention_output (+ attention_residual), gate, up, down (+ ffn_residual),
  // lm_head.
  // T <= kMatvecTokens. [r weights, packed piece; r quants int8 [T][C256]; r scales float [T][C256 / 32];
  // r factors float [T]; rw y float [T][y_stride]] MatrixConstants; (matvec_groups(rows, segments)).
  // A workgroup has kMatvecWorkers / lanes panels; thread = (worker, row of the panel): worker w has panel
  // w / lanes and segments w % lanes, w % lanes + lanes, ...; segment sums of a row are added in order.
  matvec_q8,
  // The same with any T: (ceil(rows / kMatmulRows), ceil(T / kMatmulTokens)).
  matmul_q8,
  // matmul_q8 with gate and up as one packed piece, and swiglu at once; F is a multiple of 32. [r weights;
  // r quants int8 [T][D256]; r scales; r factors; w floats [T][F256]; w quants; w scales]
  // MatmulSwigluConstants; (F / 32, ceil(T / kMatmulTokens)). For devices that have it (Device::has).
  matmul_swiglu_q8,
  // norm and matvec_q8 at once, for T = 1: every workgroup weighs and quantizes the vector again, which costs
  // less than a dispatch. [r weights, packed piece; r x float [D256]; r norm weight float [D256]; w y]
  // NormMatrixConstants; (fused_grid(rows, segments)).
  norm_matvec_q8,
  // norm, gate and up as one packed piece, and swiglu at once, for T = 1; F is a multiple of 8. [r weights;
  // r x float [D256]; r norm weight float [D256]; w activated float [F256]] NormSwigluConstants;
  // (fused_grid(F, segments)).
  norm_swiglu_q8,
  // quantize and matvec_q8 at once, for T = 1, added to what is there. [r weights, packed piece; r x float
  // [C256]; rw y] QuantizeMatrixConstants; (fused_grid(rows, segments)).
  quantize_matvec_q8,
  // Float weights. [r weights, packed piece; r x float [T][C256]; r factors float [T]; rw y] and so on.
  matvec_f32,
  matvec_f16,
  matvec_bf16,
  matmul_f32,
  matmul_f16,
  matmul_bf16,
  // Stages query_norm, key_norm, rope_query, rope_key, append_kv; quantizes the queries. [rw qkv float
  // [T][stride]; r query norm float [E]; r key norm float [E]; r rope float [positions][E] (E / 2 cosines,
  // then E / 2 sines); r positions u32 [T]; r cache slots uvec2 [T] (block or kNoBlock, offset in the block);
  // w query quants int8 [T][H][E32]; w query scales float [T][H][E32 / 32]; rw cache of the layer]
  // HeadConstants; (H + 2 K, T): x below H is a query head, below H + K a key head, else a value head.
  prepare_heads,
  // Stage attention, part one. [r query quants; r query scales; r cache of the layer; r tables u32 (all rows'
  // block tables); r tiles uvec4 (first token, tokens, position of the first token, offset of the row's table
  // in `tables`); w statistics vec2 [T'][H][max_splits] (maximum, denominator); w outputs float
  // [T'][H][max_splits][E32]] AttendConstants; (splits, K, tiles), often indirect. T' counts from
  // first_token. Tokens of a tile are consecutive positions, at most kTileTokens. Splits behind a token's
  // last position write nothing; the last split of a token ends with its own position.
  attend,
  // Stage attention, part two. [r statistics; r outputs; r positions u32 [T] (a token has position / 256 + 1
  // splits); w mixed float [T][(H E)256]; w quants; w scales] MergeConstants; (H, T').
  merge,
  // prepare_heads, attend and merge at once, where every row has one token (tile t is token t), E is a
  // multiple of 32 and at most kFusedHead, block_size * E / 32 a multiple of 4. [r qkv float [T][stride]; r
  // query norm; r key norm; r rope; r cache slots; rw cache of the layer; r tables; r tiles; rw statistics
  // vec2 [T][H][max_splits]; rw outputs float [T][H][max_splits][E]; rw u32 [T][K], zero before the first
  // dispatch and after each; w quants; w scales] AttendOneConstants; (splits, K, T), often indirect. The last
  // workgroup of a token's head to be done merges: for devices on which workgroups see each other's writes
  // behind a barrier and an atomic (Device::has).
  attend_one,
  // The same for E = 128, H / K of at most kFused128Group and block_size a multiple of 4: less code, less
  // memory.
  attend_one_128,
  // Stage swiglu. [r gate_up float [T][in_stride]; w floats [T][F256]; w quants; w scales] SwigluConstants;
  // (F256 / 256, T).
  swiglu,
  // Stages attention_residual, ffn_residual where the product did not add by itself. [rw x; r branch]
  // AddConstants; (W256 / 256, T).
  add,
  // Rows that need the final norm. [r x float [T][D256]; r map u32 [rows]; w out float [rows][D256]]
  // GatherConstants; (D256 / 256, rows).
  gather,
  // Stage argmax, first pass. [r logits float [rows][V256]; w uvec2 [rows][chunks]: key, index]
  // ArgmaxConstants; (chunks, rows). The key orders like the float (sampling/fixed_exp.hpp order_key; -0 is
  // +0); a chunk with a NaN says key 0xFFFFFFFF (above every float); one with nothing above -infinity says
  // key 0x007FFFFF.
  argmax_chunks,
  // Stage argmax, second pass. [r the first pass's uvec2; w chosen u32 [rows], or kNothingChosen] (1, rows).
  argmax,
  // Sampling slots, before the choice. [rw logits float [rows][V256]; r states u32 [rows][kSampleWords]; r
  // biases uvec2 [slots][most_biases] (id, bits of the float); r counts u32 [slots][V] (times generated;
  // highest bit: in the prompt); r masks u32 [slots][mask_words]] SampleConstants; (ceil(V / 256), rows).
  adjust,
  // Sampling slots, the choice: overwrites what argmax chose for rows with kSampleHere. [r logits; r states;
  // rw counts; r positions u32 [T]; r head map u32 [rows]; w chosen u32 [rows]] SampleConstants; (rows).
  sample,
  // Between two chained steps: what a row chose is its next token. [r chosen u32 [rows]; rw tokens i32
  // [rows]; rw positions u32 [rows]; rw cache slots uvec2 [rows]; r tables u32; rw tiles uvec4 [rows]; rw
  // grid of attention u32 [3]; r stops i32 (offsets [rows + 1], then ids); rw chain u32 [2 + rows]
  // (kChain...); w ids i32 [steps][rows]] AdvanceConstants; (1). A row that chose a stop id, or nothing, or
  // was cancelled, runs no more: its slot becomes kNoBlock, so that nothing of it is stored.
  advance,
  // Not part of a step: what the device can do at best (meter.hpp). [r data uvec4
  // [groups][kMeasureUnits][256]; w sink u32 [groups][256]] MeasureConstants; (groups).
  measure_read,
  // [w sink u32 [groups][256]] MeasureConstants; (groups).
  measure_int8,
  measure_fp32,
};

inline constexpr std::uint32_t kKernelCount = static_cast<std::uint32_t>(Kernel::measure_fp32) + 1;
/// Most bindings of a kernel.
inline constexpr std::uint32_t kMaxBindings = 14;

/// The name: that of the enumerator and of the kernel's SPIR-V.
std::string_view kernel_name(Kernel kernel);
/// How many buffers the kernel binds.
std::uint32_t kernel_bindings(Kernel kernel);
/// Bytes of the kernel's constants.
std::uint32_t kernel_constant_bytes(Kernel kernel);

constexpr std::uint32_t divide_up(std::uint32_t value, std::uint32_t by) {
  return value / by + (value % by == 0 ? 0U : 1U);  // no sum that could wrap: limits may be anything
}
constexpr std::uint32_t pad_up(std::uint32_t value, std::uint32_t to) {
  return divide_up(value, to) * to;
}

/// Workers that share the segments of a row: the power of two that reaches them, at most kMatvecWorkers.
constexpr std::uint32_t matvec_lanes(std::uint32_t segments) {
  std::uint32_t lanes = 1;
  while (lanes < segments && lanes < kMatvecWorkers) lanes *= 2;
  return lanes;
}

constexpr Grid matvec_grid(std::uint32_t rows, std::uint32_t segments) {
  return {divide_up(divide_up(rows, kPanel), kMatvecWorkers / matvec_lanes(segments))};
}

/// Threads that share a row of the kernels that quantize by themselves: four for each segment, at most 32.
constexpr std::uint32_t fused_lanes(std::uint32_t segments) {
  std::uint32_t lanes = 4;
  while (lanes < 4 * segments && lanes < kFusedThreads / kPanel) lanes *= 2;
  return lanes;
}

constexpr Grid fused_grid(std::uint32_t rows, std::uint32_t segments) {
  return {divide_up(rows, kFusedThreads / fused_lanes(segments))};
}

constexpr Grid matmul_grid(std::uint32_t rows, std::uint32_t tokens) {
  return {divide_up(rows, kMatmulRows), divide_up(tokens, kMatmulTokens)};
}

constexpr std::uint32_t argmax_chunks_of(std::uint32_t columns) {
  return divide_up(columns, kArgmaxChunk);
}

}  // namespace inferno::gpu
