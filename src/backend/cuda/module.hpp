#pragma once

#include <cstdint>

#include "backend/cuda/persistent.hpp"
#include "backend/gpu/kernels.hpp"

/// The C interface between inferno and its CUDA module, a shared library loaded at run time: one binary runs
/// on machines with and without CUDA. Plain structs and pointers to functions; memory that one side takes it
/// gives back itself; no exception crosses.
///
/// Functions return 0 or a CUDA error code, which `error_text` puts into words.
namespace inferno::cuda {

/// Counts changes of this file: a module of another version is refused.
inline constexpr std::uint32_t kModuleVersion = 2;
/// The module's file, and the one symbol that it exports: `const Module* inferno_cuda_module()`.
inline constexpr const char* kModuleFile = "libinferno_cuda.so";
inline constexpr const char* kModuleSymbol = "inferno_cuda_module";

/// CUDA's code for "a device has no memory left" (cudaErrorMemoryAllocation).
inline constexpr int kOutOfMemory = 2;

struct DeviceInfo {
  char name[256] = {};
  std::uint64_t memory_bytes = 0;
  std::uint32_t multiprocessors = 0;
  std::uint32_t major = 0, minor = 0;  ///< compute capability
  std::uint32_t shared_bytes = 0;      ///< most that a block can have
};

enum class CommandKind : std::uint32_t {
  kernel,
  copy,   ///< any memory to any other
  fill,   ///< of device memory
  fetch,  ///< small pieces of pinned memory to the device, all at once
};

/// A piece of pinned memory and where it goes. Bytes and addresses are multiples of 4.
struct Piece {
  const void* source = nullptr;
  void* target = nullptr;
  std::uint64_t bytes = 0;
};
inline constexpr std::uint32_t kMostPieces = 8;

/// The pieces of a fetch; those of 0 bytes are none.
struct Pieces {
  Piece list[kMostPieces];
};

/// One command of a recording. `buffers` are addresses as the device sees them.
struct Command {
  CommandKind kind = CommandKind::kernel;
  gpu::Kernel kernel = gpu::Kernel::embed_q8;
  gpu::Grid grid = {};                           ///< in the units of kernels.hpp
  const void* indirect_grid = nullptr;           ///< three u32 on the device in place of `grid`, or nullptr
  void* buffers[gpu::kMaxBindings] = {};         ///< copy: source, target; fill: target
  alignas(8) unsigned char constants[192] = {};  ///< the kernel's constants struct; fetch: Pieces
  std::uint64_t bytes = 0;                       ///< copy and fill
  std::uint32_t word = 0;                        ///< fill
};

/// Where memory lies.
enum class MemoryKind : std::uint32_t {
  device,
  pinned  ///< the host's, which the device reaches too
};

struct Device;  ///< a device with its stream
struct Graph;   ///< commands captured as a CUDA graph

/// What the module offers.
struct Module {
  std::uint32_t version = 0;

  const char* (*error_text)(int error) = nullptr;
  /// Whether the device is unusable for this process from this error on.
  bool (*is_loss)(int error) = nullptr;

  int (*count_devices)(int* count) = nullptr;
  int (*describe)(int index, DeviceInfo* info) = nullptr;

  int (*open)(int index, Device** device) = nullptr;
  void (*close)(Device* device) = nullptr;
  int (*memory)(Device* device, std::uint64_t* free, std::uint64_t* total) = nullptr;
  /// Memory set to zero; the same address for host and device if pinned.
  int (*allocate)(Device* device, std::uint64_t bytes, MemoryKind kind, void** address) = nullptr;
  int (*release)(Device* device, void* address, MemoryKind kind) = nullptr;
  /// Copies in either direction; waits for everything submitted before and for itself.
  int (*copy)(Device* device, void* target, const void* source, std::uint64_t bytes) = nullptr;

  /// Whether a kernel can be launched as the command asks: it exists here, and its grid may be indirect.
  bool (*accepts)(const Command* command) = nullptr;
  /// Hands commands to the device one by one; returns at once.
  int (*launch)(Device* device, const Command* commands, std::uint32_t count) = nullptr;
  /// Makes a graph of commands: later launches cost the host one call.
  int (*capture)(Device* device, const Command* commands, std::uint32_t count, Graph** graph) = nullptr;
  int (*launch_graph)(Device* device, Graph* graph) = nullptr;
  void (*destroy_graph)(Graph* graph) = nullptr;
  /// Waits until everything submitted is done.
  int (*wait)(Device* device) = nullptr;
  /// Says at once whether it is.
  int (*query)(Device* device, bool* done) = nullptr;

  /// How many rows of a model of this shape can run whole steps as one launch on this device, 0 if none can;
  /// pointers do not matter.
  std::uint32_t (*persistent_rows)(const Device* device, const PersistentModel* of) = nullptr;
  /// Launches steps; returns at once. `of` has the words of the kernel for so many rows.
  int (*persistent_launch)(Device* device, const PersistentModel* of, const PersistentStep* step) = nullptr;
};

}  // namespace inferno::cuda
