#include "quant/tensor_layout.hpp"

#include <algorithm>
#include <array>

namespace inferno::quant {
namespace {

constexpr std::array<TensorLayout, 41> kLayouts{
    {
        {0, "f32", 1, 4},           {1, "f16", 1, 2},
        {2, "q4_0", 32, 18},        {3, "q4_1", 32, 20},
        {4, "q4_2", 16, 10},  // 4 and 5 were given up before there was GGUF
        {5, "q4_3", 16, 12},        {6, "q5_0", 32, 22},
        {7, "q5_1", 32, 24},        {8, "q8_0", 32, 34},
        {9, "q8_1", 32, 36},        {10, "q2_k", 256, 84},
        {11, "q3_k", 256, 110},     {12, "q4_k", 256, 144},
        {13, "q5_k", 256, 176},     {14, "q6_k", 256, 210},
        {15, "q8_k", 256, 292},     {16, "iq2_xxs", 256, 66},
        {17, "iq2_xs", 256, 74},    {18, "iq3_xxs", 256, 98},
        {19, "iq1_s", 256, 50},     {20, "iq4_nl", 32, 18},
        {21, "iq3_s", 256, 110},    {22, "iq2_s", 256, 82},
        {23, "iq4_xs", 256, 136},   {24, "i8", 1, 1},
        {25, "i16", 1, 2},          {26, "i32", 1, 4},
        {27, "i64", 1, 8},          {28, "f64", 1, 8},
        {29, "iq1_m", 256, 56},     {30, "bf16", 1, 2},
        {31, "q4_0_4_4", 32, 18},  // 31 to 33 and 36: rows interleaved for one processor, given up since
        {32, "q4_0_4_8", 32, 18},   {33, "q4_0_8_8", 32, 18},
        {34, "tq1_0", 256, 54},     {35, "tq2_0", 256, 66},
        {36, "iq4_nl_4_4", 32, 18},  // 37 and 38 were set aside and never used
        {39, "mxfp4", 32, 17},      {40, "nvfp4", 64, 36},
        {41, "q1_0", 128, 18},      {42, "q2_0", 64, 18},
    }};

}  // namespace

std::span<const TensorLayout> tensor_layouts() {
  return kLayouts;
}

const TensorLayout* find_layout(std::uint32_t type_id) {
  const auto* found = std::find_if(kLayouts.begin(), kLayouts.end(),
                                   [&](const TensorLayout& layout) { return layout.type_id == type_id; });
  return found == kLayouts.end() ? nullptr : found;
}

}  // namespace inferno::quant
