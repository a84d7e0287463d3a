#include "backend/cuda/module/persistent_plan.hpp"

#include "backend/gpu/kernels.hpp"

namespace inferno::cuda {
namespace {

PersistentChoice choose_kernel(const PersistentModel& of, std::uint32_t rows) {
  if (rows > 1) return choose_rows_kernel(of);
  const auto small = choose_small_kernel(of);
  return small.function != nullptr ? small : choose_large_kernel(of);
}

bool can_run(const PersistentChoice& choice, const PersistentModel& of, const DeviceInfo& device) {
  const unsigned blocks = device.multiprocessors;
  if (device.major != 9 || choice.function == nullptr || choice.shared_bytes > device.shared_bytes ||
      blocks > kMostPersistentBlocks || blocks < of.kv_heads) {
    return false;
  }
  return of.max_splits <= kMostJobs * (blocks / of.kv_heads) &&
         gpu::divide_up(of.hidden_size, blocks * gpu::kPanel) * gpu::kPanel <= choice.own_rows;
}

}  // namespace

std::uint32_t persistent_rows(const PersistentModel& of, const DeviceInfo& device) {
  if (!can_run(choose_kernel(of, 1), of, device)) return 0;
  const auto several = choose_rows_kernel(of);
  const bool deals = device.multiprocessors / of.kv_heads * kMostJobs >= kMostTableEntries;
  return deals && can_run(several, of, device) ? several.most_rows : 1;
}

cudaError_t set_persistent_model(const PersistentModel& of, std::uint32_t rows, cudaStream_t stream) {
  const auto choice = choose_kernel(of, rows);
  auto error = cudaMemcpyToSymbolAsync(choice.model, &of, sizeof of, 0, cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(choice.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(choice.shared_bytes));
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

cudaError_t launch_persistent(const PersistentModel& of, const PersistentStep& step, unsigned blocks,
                              cudaStream_t stream) {
  const auto choice = choose_kernel(of, step.rows);
  PersistentStep parameters = step;
  void* arguments[] = {&parameters};
  return cudaLaunchCooperativeKernel(choice.function, dim3(blocks), dim3(choice.threads), arguments,
                                     choice.shared_bytes, stream);
}

}  // namespace inferno::cuda
