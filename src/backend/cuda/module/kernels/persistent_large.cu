// The persistent kernel of one row, for large shapes.

#include "backend/cuda/module/kernels/persistent_kernel.cuh"

namespace inferno::cuda {

PersistentChoice choose_large_kernel(const PersistentModel& of) {
  using persistent::Shape;
  return persistent::choose_among<Shape<2560, 9728, 32, 8, 128, 14>,        // 4B
                                  Shape<4096, 12288, 32, 8, 128, 14>>(of);  // 8B
}

}  // namespace inferno::cuda
