// Whole steps on a CUDA device.

#include "backend/registry.hpp"
#include "conformance/conformance.hpp"

INFERNO_CONFORMANCE(Cuda, inferno::conformance::on_small_models([](const inferno::LoadedModel& model) {
                      return inferno::create_executor("cuda", model);
                    }));
