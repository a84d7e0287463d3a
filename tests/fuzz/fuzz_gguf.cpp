// Any bytes are either refused with an Error of one line or are a file whose every tensor can be read.

#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <inferno/error.hpp>

#include "gguf/describe.hpp"
#include "gguf/header.hpp"
#include "gguf/reader.hpp"
#include "platform/log.hpp"

namespace {

using namespace inferno;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_message(const std::string& line) {
  constexpr std::size_t kLongest = 2000;
  require(line.size() < kLongest);
  for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

/// Opens the bytes as a file, as users do, and looks at all of it.
void open_file(std::span<const std::byte> bytes, bool map) {
  static const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
  require(::ftruncate(descriptor, 0) == 0);
  require(::pwrite(descriptor, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const auto file = gguf::File::open("/proc/self/fd/" + std::to_string(descriptor), {map});
  require(file.total_bytes() == bytes.size());
  for (const auto& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor);
    const auto data = file.data(tensor);
    require(data.size() == tensor.bytes);
    require(tensor.declared_at < bytes.size());
    if (tensor.format == nullptr) continue;
    std::vector<float> values(tensor.bytes / tensor.format->block_bytes * tensor.format->block_elements);
    tensor.format->decode(data.data(), tensor.bytes / tensor.format->block_bytes, values.data());
  }
  for (const auto& [key, value] : file.metadata()) {
    require(file.find(key) == &value);
    require(value.offset() < bytes.size());
  }
  static_cast<void>(gguf::describe_text(file));
  static_cast<void>(gguf::describe_json(file));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log().set_level(spdlog::level::off);
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto header = gguf::parse_header(gguf::MemorySource(bytes), "memory");
    require(header.data_end <= size || header.tensors.empty());
    open_file(bytes, size % 2 == 0);
  } catch (const Error& error) {
    check_message(error.what());
  }
  return 0;
}
