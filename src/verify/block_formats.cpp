#include "verify/block_formats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>

#include "verify/independent_decode.hpp"

namespace inferno::verify {
namespace {

/// Enough that every 16-bit scale occurs: the first two bytes of sample i are i.
constexpr std::size_t kSamples = 65536;
constexpr std::size_t kBlocksPerTensor = 256;

/// What was found over all comparisons of one format.
struct Findings {
  double max_abs_diff = 0;
  std::uint64_t compared = 0;
  std::uint64_t different = 0;
  std::string first;  ///< where the first difference is
};

bool same(float decoded, double defined) {
  if (std::isnan(decoded) || std::isnan(defined)) return std::isnan(decoded) && std::isnan(defined);
  return std::bit_cast<std::uint32_t>(decoded) == std::bit_cast<std::uint32_t>(static_cast<float>(defined)) &&
         static_cast<double>(decoded) == defined;
}

/// False if the format has no independent definition.
bool compare(const quant::Format& format, std::span<const std::byte> bytes, std::string_view where,
             Findings& findings) {
  const auto blocks = bytes.size() / format.block_bytes;
  std::vector<float> decoded(blocks * format.block_elements);
  format.decode(bytes.data(), blocks, decoded.data());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const auto defined = decode_element(format.type, bytes.data(), i);
    if (!defined) return false;
    ++findings.compared;
    if (same(decoded[i], *defined)) continue;
    if (findings.different == 0) {
      findings.first = fmt::format("{} element {}: decoded {}, defined {}", where, i, decoded[i], *defined);
    }
    ++findings.different;
    const double diff = std::abs(static_cast<double>(decoded[i]) - *defined);
    // A NaN or infinity on one side only has no distance.
    findings.max_abs_diff =
        std::isfinite(diff) ? std::max(findings.max_abs_diff, diff) : std::numeric_limits<double>::max();
  }
  return true;
}

std::vector<std::byte> sample_bytes(const quant::Format& format) {
  std::vector<std::byte> bytes(kSamples * format.block_bytes);
  std::uint64_t state = 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56U);
  }
  for (std::size_t i = 0; i < kSamples; ++i) {
    bytes[i * format.block_bytes] = static_cast<std::byte>(i & 0xFFU);
    bytes[i * format.block_bytes + 1] = static_cast<std::byte>(i >> 8U);
  }
  return bytes;
}

}  // namespace

Rung check_format(const quant::Format& format, const LoadedModel& model) {
  Rung rung;
  rung.name = fmt::format("block format {}", format.name);
  rung.model = model.config.name;
  Findings findings;
  bool defined = compare(format, sample_bytes(format), "random bytes,", findings);
  std::uint32_t tensors = 0;
  for (const auto& tensor : model.file.tensors()) {
    if (!defined || tensor.format != &format) continue;
    const auto bytes = model.file.data(tensor);
    const auto blocks = std::min(bytes.size() / format.block_bytes, kBlocksPerTensor);
    defined = compare(format, bytes.first(blocks * format.block_bytes), tensor.name, findings);
    ++tensors;
  }
  if (!defined) {
    rung.note = fmt::format("src/verify has no independent definition of {}", format.name);
    return rung;
  }
  rung.max_abs_diff = findings.max_abs_diff;
  rung.passed = findings.different == 0;
  rung.note = rung.passed
                  ? fmt::format("{} values, {} of the model's tensors among them", findings.compared, tensors)
                  : fmt::format("{} of {} values differ, first {}", findings.different, findings.compared,
                                findings.first);
  return rung;
}

}  // namespace inferno::verify
