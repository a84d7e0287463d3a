// The persistent kernel of one row, for small shapes.

#include "backend/cuda/module/kernels/persistent_kernel.cuh"

namespace inferno::cuda {

PersistentChoice choose_small_kernel(const PersistentModel& of) {
  using persistent::Shape;
  return persistent::choose_among<Shape<256, 768, 8, 4, 64>,      // the model that ships with the project
                                  Shape<1024, 3072, 16, 8, 128>,  // 0.6B
                                  Shape<2048, 6144, 16, 8, 128>>(of);  // 1.7B
}

}  // namespace inferno::cuda
