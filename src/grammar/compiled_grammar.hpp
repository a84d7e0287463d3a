#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "grammar/grammar.hpp"
#include "grammar/mask_maker.hpp"
#include "grammar/program.hpp"

namespace inferno::grammar {

class Grammar {
 public:
  /// Of a measured program.
  explicit Grammar(Program program) : program_(std::move(program)) {}

  const Program& program() const { return program_; }
  /// Bytes that it may take, with all it remembers.
  std::size_t memory() const;
  /// The masks for a vocabulary, shared by all requests.
  std::shared_ptr<MaskMaker> masks(const std::shared_ptr<const Vocabulary>& vocabulary) const;

 private:
  Program program_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<MaskMaker>> masks_;  ///< of the vocabularies used last
};

}  // namespace inferno::grammar
