#ifndef INFERNO_BACKEND_GPU_KERNEL_CONSTANTS_HPP_  // GLSL knows no #pragma once
#define INFERNO_BACKEND_GPU_KERNEL_CONSTANTS_HPP_

#include "arith/portable.hpp"

// The constants that kernels are dispatched with: one text for C++, CUDA and GLSL. Only 4-byte members, at
// most 128 bytes in all (what every Vulkan device takes as push constants). In GLSL:
//
//   layout(push_constant) uniform Constants { MatrixConstants c; };

#if defined(__cplusplus)
namespace inferno::gpu {
using arith::uint;
}
#endif

INFERNO_PORTABLE_BEGIN(gpu)

/// Columns of a row, of activations and of weights, are padded to a multiple of this with zeros, which change
/// no sum: segments of the contract are whole.
const uint kPadColumns = 256U;
/// Rows of a panel of packed weights (packed layout: kernels.hpp).
const uint kPanel = 8U;
/// Threads of a workgroup of the matrix-vector kernels: kPanel rows times kMatvecWorkers segments.
const uint kMatvecThreads = 128U;
const uint kMatvecWorkers = 16U;
/// Most tokens of a matrix-vector dispatch; more go to the matrix-matrix kernels.
const uint kMatvecTokens = 8U;
/// Threads of a workgroup of the kernels that multiply one vector and quantize it by themselves.
const uint kFusedThreads = 256U;
/// Longest head that attend_one takes.
const uint kFusedHead = 128U;
/// Most query heads of a KV head that attend_one_128 takes. With more its shared memory would be too much for
/// two workgroups on a multiprocessor of NVIDIA's.
const uint kFused128Group = 5U;
/// Rows and tokens of a tile of the matrix-matrix kernels: one workgroup.
const uint kMatmulRows = 64U;
const uint kMatmulTokens = 64U;
/// Most tokens of an attention tile.
const uint kTileTokens = 8U;
/// Logits of a workgroup of the first pass of argmax.
const uint kArgmaxChunk = 2048U;
/// CacheSlot::block of a token whose key and value are not to be stored.
const uint kNoBlock = 0xFFFFFFFFU;
/// What argmax leaves where there is nothing to choose: a NaN among the logits, or nothing above -infinity.
const uint kNothingChosen = 0xFFFFFFFFU;

// Bits of NormConstants::write, SwigluConstants::write and MergeConstants::write.
const uint kWriteQuants = 1U;  // int8 in blocks of 32 and their scales
const uint kWriteFloats = 2U;  // as they are

// Bits of HeadConstants::parts. All but kHeadFloats in one dispatch is the rule; an observer has them one by
// one.
const uint kHeadNorm = 1U;    // RMSNorm of query and key heads
const uint kHeadRotate = 2U;  // rotary embedding of query and key heads
const uint kHeadStore = 4U;   // query heads to quants and scales, key and value heads to the cache
const uint kHeadFloats = 8U;  // writes query and key heads back to `qkv`

/// embed_*: x[t] = row tokens[t] of the table, for tokens whose row is in [first_row, first_row + rows).
struct EmbedConstants {
  uint columns;    // D
  uint segments;   // D padded / 256
  uint first_row;  // of this piece of the table
  uint rows;       // of this piece
  uint stride;     // floats from token to token of x
};

/// norm: weighted[t][i] = x[t][i] * weight[i]; factors[t] = 1 / rms(x[t]) (arith::inverse_rms).
struct NormConstants {
  uint columns;          // D
  uint stride;           // floats from token to token: D padded; of x and of the floats written
  float inverse_length;  // 1 / D
  float epsilon;
  uint write;  // kWriteQuants | kWriteFloats
};

/// quantize: arith::quantize_vector of each token.
struct QuantizeConstants {
  uint columns;
  uint stride;  // floats from token to token of x; the quants' stride in bytes, 32 times the scales'
};

/// matvec_* and matmul_*: y[t][first_out + r] = W[r] x[t], times factors[t] if use_factors, added to what is
/// there if accumulate (arith: add(y, product)).
struct MatrixConstants {
  uint rows;         // of this piece that are written; the piece has this many padded to kPanel
  uint segments;     // columns padded / 256; the stride of x is 256 of them
  uint tokens;       // T
  uint first_out;    // where the piece's first row goes in y
  uint y_stride;     // floats from token to token of y
  uint lanes;        // matvec: workers that share a row's segments, matvec_lanes(segments)
  uint use_factors;  // 0 or 1
  uint accumulate;   // 0 or 1
};

/// matmul_swiglu_q8: matmul_q8 with factors, then swiglu of the two halves of the rows.
struct MatmulSwigluConstants {
  uint rows;      // F, a multiple of 32; the matrix has twice as many, those of up behind those of the gate
  uint segments;  // D padded / 256
  uint tokens;    // T
  uint stride;    // of the output: F padded to 256
  uint write;     // kWriteQuants | kWriteFloats
};

/// norm_matvec_q8: norm, then matvec_q8 with its factor, of one vector.
struct NormMatrixConstants {
  uint rows;
  uint segments;  // D padded / 256
  uint first_out;
  uint lanes;            // threads that share a row, fused_lanes(segments)
  float inverse_length;  // 1 / D
  float epsilon;
};

/// quantize_matvec_q8: quantize and matvec_q8, added to what is there, of one vector.
struct QuantizeMatrixConstants {
  uint rows;
  uint segments;  // columns padded / 256
  uint first_out;
  uint lanes;
};

/// norm_swiglu_q8: norm, gate and up, swiglu, of one vector.
struct NormSwigluConstants {
  uint rows;      // F; the matrix has twice as many, those of up behind those of the gate
  uint segments;  // D padded / 256
  uint lanes;
  float inverse_length;
  float epsilon;
};

/// prepare_heads: what happens to query, key and value between product and attention.
struct HeadConstants {
  uint heads;       // H
  uint kv_heads;    // K
  uint head_dim;    // E, even
  uint padded_dim;  // E32: E padded to 32
  uint stride;      // floats from token to token of qkv
  uint key_offset;  // of the first key head in a token's qkv; queries begin at 0
  uint value_offset;
  uint block_size;       // positions of a cache block
  float inverse_length;  // 1 / E
  float epsilon;
  float softmax_scale;  // 1 / sqrt(E) rounded from double; multiplies the queries' scales
  uint parts;           // kHead...
};

/// attend: one split of 256 positions of a tile of tokens for one KV head's group of query heads.
struct AttendConstants {
  uint heads;       // H
  uint kv_heads;    // K
  uint head_dim;    // E
  uint padded_dim;  // E32
  uint block_size;
  uint first_tile;   // the dispatch's z = 0
  uint first_token;  // token whose partials are the first
  uint max_splits;   // partials of a head of a token
  uint tile_tokens;  // most tokens of any of the tiles; 0 if nobody knows
};

/// attend_one: prepare_heads, attend and merge of rows of one token.
struct AttendOneConstants {
  uint heads;       // H
  uint kv_heads;    // K
  uint head_dim;    // E, a multiple of 32, at most kFusedHead
  uint padded_dim;  // E
  uint stride;      // floats from token to token of qkv
  uint key_offset;
  uint value_offset;
  uint block_size;
  uint max_splits;
  uint first_token;  // 0
  uint out_stride;   // H * E padded to 256
  float inverse_length;
  float epsilon;
  float softmax_scale;
  uint write;  // kWriteQuants | kWriteFloats
};

/// merge: arith::merge_splits of each head of each token.
struct MergeConstants {
  uint heads;        // H
  uint head_dim;     // E
  uint padded_dim;   // E32
  uint first_token;  // token whose partials are the first; the grid's y = 0
  uint max_splits;
  uint stride;  // floats from token to token of the output: H * E padded to 256
  uint write;   // kWriteQuants (only if E is a multiple of 32) | kWriteFloats
};

/// swiglu: arith::swiglu(gate, up), quantized and / or as floats.
struct SwigluConstants {
  uint columns;    // F
  uint up_offset;  // of the up values in a token's gate_up; the gate's begin at 0
  uint in_stride;  // floats from token to token of gate_up
  uint stride;     // of the output: F padded to 256
  uint write;
};

/// add: x[t][i] = add(x[t][i], branch[t][i]).
struct AddConstants {
  uint columns;
  uint stride;  // of both
};

/// gather: out[i] = x[map[i]].
struct GatherConstants {
  uint columns;
  uint stride;  // of both
};

/// argmax_chunks, argmax: the lowest index of the largest of each row of logits.
struct ArgmaxConstants {
  uint columns;  // V
  uint stride;   // floats from row to row of the logits
  uint chunks;   // argmax_chunks(V)
};

/// advance: from one chained step to the next, for rows of one token each.
struct AdvanceConstants {
  uint rows;
  uint block_size;
};

// Words of the buffer `chain` of `advance`: the step that has just run; not 0 if the host wants no more
// steps; then one word per row, not 0 while it runs.
const uint kChainStep = 0U;
const uint kChainCancelled = 1U;
const uint kChainRunning = 2U;

// What `advance` writes in place of an id: the row was not running; it ran, but there was nothing to choose.
const int kNotRunning = -1;
const int kRunsDry = -2;

/// sample: how rows with sampling slots choose.
struct SampleConstants {
  uint columns;      // V
  uint stride;       // floats from row to row of the logits
  uint most_biases;  // of a slot
  uint mask_words;   // ceil(V / 32)
};

/// measure_*: what a device can do at best.
struct MeasureConstants {
  uint count;  // measure_read: kMeasureUnits; else rounds of the loop
};

/// Threads of a workgroup of these, and what a thread reads, in units of 16 bytes.
const uint kMeasureThreads = 256U;
const uint kMeasureUnits = 16U;
/// What a thread does in a round: 32 dot products of four, 32 multiply-adds.
const float kMeasureInt8Operations = 256.0F;
const float kMeasureFloatOperations = 64.0F;
/// Instead of measure_int8's, where it multiplies on matrix units (DeviceCapabilities::matrix_int8).
const float kMeasureMatrixOperations = 4096.0F;

// Words of a row's state, as the host makes it from the slot's settings.
const uint kSampleWords = 16U;
const uint kSampleFlags = 0U;
const uint kSampleSlot = 1U;
const uint kSampleTopK = 2U;                // 0: all
const uint kSampleShare = 3U;               // top-p in units of 2^-31
const uint kSampleLeast = 4U;               // min-p in units of 2^-31
const uint kSampleScale = 5U;               // float: 2^27 log2(e) / temperature
const uint kSampleSeed = 6U;                // two words, the lower first
const uint kSampleBiases = 8U;              // how many
const uint kSampleRepetition = 9U;          // float
const uint kSampleInverseRepetition = 10U;  // float
const uint kSamplePresence = 11U;           // float
const uint kSampleFrequency = 12U;          // float

// Bits of the flags.
const uint kSampleHere = 1U;       // the row chooses by its slot; else argmax has chosen
const uint kSampleDraws = 2U;      // not greedy
const uint kSampleTopP = 4U;       // top-p is below 1
const uint kSamplePenalizes = 8U;  // the slot's counts have a say, and are kept
const uint kSampleMasks = 16U;     // only some ids are allowed

INFERNO_PORTABLE_END

#endif  // INFERNO_BACKEND_GPU_KERNEL_CONSTANTS_HPP_
