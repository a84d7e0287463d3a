#pragma once

#include <string_view>

#include "backend/cpu/contract/outside_products.hpp"
#include "backend/registry.hpp"

namespace inferno::cpu {

/// The contract backends of the CPU, by what differs: how an operation's parts are spread over threads.
enum class Threading : std::uint8_t { serial, spawning, pool };

/// What `backends` says: kernel set and number of threads.
BackendStatus probe(std::string_view name, Threading threading);

/// An executor with the best kernel set of this processor (or INFERNO_KERNELS'). Logs a warning about an
/// unwise number of threads.
Offer create(std::string_view name, Threading threading, const LoadedModel& model,
             const BackendOptions& options);

/// The pool executor whose larger products are done by `outside`.
Offer create_hybrid(std::string_view name, const LoadedModel& model, const BackendOptions& options,
                    std::unique_ptr<OutsideProducts> outside);

}  // namespace inferno::cpu
