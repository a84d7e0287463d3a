#include "backend/registry.hpp"
#include "conformance/conformance.hpp"

INFERNO_CONFORMANCE(Scalar, inferno::conformance::on_small_models([](const inferno::LoadedModel& model) {
                      return inferno::create_executor("scalar", model);
                    }));
