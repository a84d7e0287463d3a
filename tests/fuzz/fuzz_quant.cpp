// Decoding takes any bytes; what it gives is encoded again, or refused with an Error.

#include <cstdlib>
#include <vector>

#include <inferno/error.hpp>

#include "quant/format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inferno;
  if (size == 0) return 0;
  const auto& format = quant::formats()[data[0] % quant::formats().size()];
  const std::size_t blocks = (size - 1) / format.block_bytes;
  std::vector<float> values(blocks * format.block_elements);
  format.decode(reinterpret_cast<const std::byte*>(data + 1), blocks, values.data());
  std::vector<std::byte> bytes(blocks * format.block_bytes);
  try {
    format.encode(values.data(), blocks, bytes.data());
    format.decode(bytes.data(), blocks, values.data());
  } catch (const Error&) {
    // A block with an infinite or NaN scale has no encoding.
  }
  return 0;
}
