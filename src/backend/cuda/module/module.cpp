// The module's functions: devices, memory, commands. What it offers is in backend/cuda/module.hpp.

#include "backend/cuda/module.hpp"

#include <algorithm>
#include <cstring>
#include <cuda_runtime.h>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "backend/cuda/module/persistent_plan.hpp"
#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

struct Device {
  int index = 0;
  DeviceInfo info;
  cudaStream_t stream = nullptr;
};

struct Graph {
  cudaGraphExec_t executable = nullptr;
};

namespace {

constexpr unsigned kDefaultSharedBytes = 48 * 1024;  // more must be asked for, kernel by kernel

/// A CUDA error as it crosses the interface; also takes it from the thread's last error, where the next
/// question would find it again.
int code_of(cudaError_t error) {
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return static_cast<int>(error);
}

const char* error_text(int error) {
  int driver = 0;  // its version; CUDA calls one that is not there insufficient
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return "there is no NVIDIA driver";
  }
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

bool is_loss(int error) {
  switch (static_cast<cudaError_t>(error)) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

int count_devices(int* count) {
  *count = 0;
  return code_of(cudaGetDeviceCount(count));
}

int describe(int index, DeviceInfo* info) {
  cudaDeviceProp properties{};
  if (const auto error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess) {
    return code_of(error);
  }
  std::memcpy(info->name, properties.name, std::min(sizeof info->name, sizeof properties.name) - 1);
  info->memory_bytes = properties.totalGlobalMem;
  info->multiprocessors = static_cast<std::uint32_t>(properties.multiProcessorCount);
  info->major = static_cast<std::uint32_t>(properties.major);
  info->minor = static_cast<std::uint32_t>(properties.minor);
  info->shared_bytes = static_cast<std::uint32_t>(properties.sharedMemPerBlockOptin);
  return 0;
}

int open_device(int index, Device** device) {
  if (const auto error = cudaSetDevice(index); error != cudaSuccess) return code_of(error);
  auto opened = std::unique_ptr<Device>(new (std::nothrow) Device);
  if (!opened) return kOutOfMemory;
  opened->index = index;
  if (const int error = describe(index, &opened->info); error != 0) return error;
  const auto error = cudaStreamCreateWithFlags(&opened->stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return code_of(error);
  *device = opened.release();
  return 0;
}

/// The model that a device's persistent kernel stands for now, and the stream that it runs in. It is one for
/// the whole process, because the kernel has it in constant memory.
struct Resident {
  PersistentModel model;
  const Device* user = nullptr;
};
/// Of each device: the kernel of one row, that of several.
struct ResidentPair {
  Resident one, several;
};
std::mutex resident_mutex;
std::map<int, ResidentPair> residents;

void close_device(Device* device) {
  {
    const std::lock_guard lock(resident_mutex);
    if (const auto found = residents.find(device->index); found != residents.end()) {
      for (Resident* resident : {&found->second.one, &found->second.several}) {
        if (resident->user == device) resident->user = nullptr;
      }
    }
  }
  // What fails here has failed before, and was reported then.
  static_cast<void>(cudaSetDevice(device->index));
  static_cast<void>(cudaStreamDestroy(device->stream));
  const std::unique_ptr<Device> owned(device);
}

/// Calls reach a device through the thread's current one, and any thread may call.
cudaError_t select(const Device* device) {
  return cudaSetDevice(device->index);
}

int memory_of(Device* device, std::uint64_t* free, std::uint64_t* total) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  const auto error = cudaMemGetInfo(&free_bytes, &total_bytes);
  *free = free_bytes;
  *total = total_bytes;
  return code_of(error);
}

int allocate(Device* device, std::uint64_t bytes, MemoryKind kind, void** address) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  const auto got = kind == MemoryKind::device ? cudaMalloc(address, bytes)
                                              : cudaHostAlloc(address, bytes, cudaHostAllocDefault);
  if (got != cudaSuccess) return code_of(got);
  if (kind == MemoryKind::pinned) {
    std::memset(*address, 0, bytes);
    return 0;
  }
  if (const auto error = cudaMemsetAsync(*address, 0, bytes, device->stream); error != cudaSuccess) {
    return code_of(error);
  }
  return code_of(cudaStreamSynchronize(device->stream));
}

int release(Device* device, void* address, MemoryKind kind) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  return code_of(kind == MemoryKind::device ? cudaFree(address) : cudaFreeHost(address));
}

int copy(Device* device, void* target, const void* source, std::uint64_t bytes) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  const auto error = cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, device->stream);
  if (error != cudaSuccess) return code_of(error);
  return code_of(cudaStreamSynchronize(device->stream));
}

bool accepts(const Command* command) {
  if (command->kind != CommandKind::kernel) return true;
  const auto launch = plan(*command, 0);  // some way there always is
  return launch.function != nullptr && (command->indirect_grid == nullptr || launch.indirect);
}

cudaError_t launch_kernel(const Device& device, const Command& command) {
  const auto launch = plan(command, device.info.shared_bytes);
  if (launch.function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return cudaSuccess;
  if (launch.shared_bytes > kDefaultSharedBytes) {
    const auto error = cudaFuncSetAttribute(launch.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(launch.shared_bytes));
    if (error != cudaSuccess) return error;
  }
  // Buffers, constants, and the grid if it can be indirect; the runtime copies what these point to.
  void* parameters[gpu::kMaxBindings + 3] = {};
  unsigned count = 0;
  for (; count < launch.buffers; ++count) parameters[count] = const_cast<void**>(&command.buffers[count]);
  parameters[count++] = const_cast<unsigned char*>(command.constants);
  const void* indirect_grid = command.indirect_grid;
  gpu::Grid given_grid = command.grid;
  if (launch.indirect) {
    parameters[count++] = &indirect_grid;
    parameters[count++] = &given_grid;
  }
  // The kernel may begin before the one before it ends; it waits for that itself (after_previous).
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = launch.grid;
  config.blockDim = launch.block;
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = device.stream;
  config.attrs = &early;
  config.numAttrs = device.info.major >= 9 ? 1 : 0;
  return cudaLaunchKernelExC(&config, launch.function, parameters);
}

cudaError_t enqueue(const Device& device, const Command& command) {
  cudaStream_t stream = device.stream;
  switch (command.kind) {
    case CommandKind::kernel:
      return launch_kernel(device, command);
    case CommandKind::copy:
      return cudaMemcpyAsync(command.buffers[1], command.buffers[0], command.bytes, cudaMemcpyDefault,
                             stream);
    case CommandKind::fetch:
      return fetch_pieces(constants_of<Pieces>(command), stream);
    case CommandKind::fill:
      break;
  }
  if (command.word == 0) return cudaMemsetAsync(command.buffers[0], 0, command.bytes, stream);
  return fill_words(command.buffers[0], command.word, command.bytes / sizeof command.word, stream);
}

cudaError_t enqueue_all(const Device& device, const Command* commands, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (const auto error = enqueue(device, commands[i]); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

int launch(Device* device, const Command* commands, std::uint32_t count) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  return code_of(enqueue_all(*device, commands, count));
}

int capture(Device* device, const Command* commands, std::uint32_t count, Graph** graph) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  auto made = std::unique_ptr<Graph>(new (std::nothrow) Graph);
  if (!made) return kOutOfMemory;
  auto error = cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return code_of(error);
  error = enqueue_all(*device, commands, count);
  cudaGraph_t captured = nullptr;
  const auto ended = cudaStreamEndCapture(device->stream, &captured);
  if (error == cudaSuccess) error = ended;
  if (error == cudaSuccess) error = cudaGraphInstantiate(&made->executable, captured, 0);
  if (captured != nullptr) static_cast<void>(cudaGraphDestroy(captured));
  if (error != cudaSuccess) return code_of(error);
  *graph = made.release();
  return 0;
}

int launch_graph(Device* device, Graph* graph) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  return code_of(cudaGraphLaunch(graph->executable, device->stream));
}

void destroy_graph(Graph* graph) {
  static_cast<void>(cudaGraphExecDestroy(graph->executable));
  const std::unique_ptr<Graph> owned(graph);
}

int wait(Device* device) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  return code_of(cudaStreamSynchronize(device->stream));
}

int query(Device* device, bool* done) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  const auto state = cudaStreamQuery(device->stream);
  *done = state != cudaErrorNotReady;
  return state == cudaErrorNotReady ? 0 : code_of(state);
}

std::uint32_t rows_of(const Device* device, const PersistentModel* of) {
  return persistent_rows(*of, device->info);
}

int launch_steps(Device* device, const PersistentModel* of, const PersistentStep* step) {
  if (const auto error = select(device); error != cudaSuccess) return code_of(error);
  const std::lock_guard lock(resident_mutex);
  ResidentPair& pair = residents[device->index];
  Resident& now = step->rows == 1 ? pair.one : pair.several;
  // Padding may tell equal models apart; that costs one more upload.
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
  if (now.user != device || std::memcmp(&now.model, of, sizeof *of) != 0) {
    // Nobody's kernel may run while its model is replaced.
    if (now.user != nullptr && now.user != device) {
      if (const auto error = cudaStreamSynchronize(now.user->stream); error != cudaSuccess)
        return code_of(error);
    }
    now.user = nullptr;
    if (const auto error = set_persistent_model(*of, step->rows, device->stream); error != cudaSuccess)
      return code_of(error);
    now.user = device;
    now.model = *of;
  }
  return code_of(launch_persistent(*of, *step, device->info.multiprocessors, device->stream));
}

constexpr Module kModule{.version = kModuleVersion,
                         .error_text = error_text,
                         .is_loss = is_loss,
                         .count_devices = count_devices,
                         .describe = describe,
                         .open = open_device,
                         .close = close_device,
                         .memory = memory_of,
                         .allocate = allocate,
                         .release = release,
                         .copy = copy,
                         .accepts = accepts,
                         .launch = launch,
                         .capture = capture,
                         .launch_graph = launch_graph,
                         .destroy_graph = destroy_graph,
                         .wait = wait,
                         .query = query,
                         .persistent_rows = rows_of,
                         .persistent_launch = launch_steps};

}  // namespace
}  // namespace inferno::cuda

extern "C" __attribute__((visibility("default"))) const inferno::cuda::Module* inferno_cuda_module() {
  return &inferno::cuda::kModule;
}
