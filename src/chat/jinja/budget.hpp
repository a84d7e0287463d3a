#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <inferno/error.hpp>

namespace inferno::jinja {

/// What one rendering may use. A template comes with a model's file and its input from anyone, so neither is
/// trusted to end.
struct Limits {
  std::uint64_t steps =
      4'000'000;  ///< expressions and statements evaluated, and bytes read / 64, copied / 256
  std::size_t memory = std::size_t{16} << 20U;  ///< bytes of values alive at once
  std::size_t output = std::size_t{8} << 20U;   ///< bytes of the prompt
  std::uint32_t depth = 1000;  ///< nested evaluation: macros that call macros, recursive loops
};

/// Values nest at most this deep, in input as in what a template builds.
inline constexpr std::uint32_t kMaxValueDepth = 200;

/// A template that cannot be read or run: syntax, an unknown name, a type that an operation does not take, a
/// limit. One line with the template's line and what to do.
class TemplateError : public Error {
 public:
  TemplateError(const std::string& message, std::uint32_t line) : Error(message), line_(line) {}
  std::uint32_t line() const { return line_; }

 private:
  std::uint32_t line_;
};

/// The template itself refused its input by raise_exception(...): the caller's mistake, in the template's
/// words.
class TemplateRefusal : public UsageError {
 public:
  using UsageError::UsageError;
};

/// Throws TemplateError: "chat template, line N: ...".
[[noreturn]] void template_error(std::uint32_t line, const std::string& message);

/// Counts what one rendering uses, and knows its line for messages.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) out_of_steps();
  }
  /// Work in proportion to bytes that are looked at.
  void step_bytes(std::size_t bytes) { step(bytes / 64); }
  /// The same for bytes that are only copied. Templates that gather a prompt in one string, message by
  /// message, copy all of it each time.
  void step_copied(std::size_t bytes) { step(bytes / 256); }
  /// Throws if so many bytes more cannot be held. Called before memory is asked for.
  void check_memory(std::size_t bytes) const {
    if (bytes > limits_.memory - used_memory_) out_of_memory(bytes);
  }
  void take_memory(std::size_t bytes) {
    check_memory(bytes);
    used_memory_ += bytes;
  }
  void give_memory(std::size_t bytes) { used_memory_ -= bytes; }
  void enter() {
    if (depth_ >= limits_.depth) out_of_depth();
    ++depth_;
  }
  void leave() { --depth_; }

  const Limits& limits() const { return limits_; }
  std::uint32_t line() const { return line_; }
  void set_line(std::uint32_t line) { line_ = line; }
  /// Throws TemplateError with the current line.
  [[noreturn]] void fail(const std::string& message) const { template_error(line_, message); }

 private:
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void out_of_memory(std::size_t bytes) const;
  [[noreturn]] void out_of_depth() const;

  Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t used_memory_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t line_ = 1;
};

/// Memory of one value, given back with it. Values of the input are not charged: the budget is nullptr.
class Charge {
 public:
  Charge() = default;
  Charge(Budget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take_memory(bytes_);
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give_memory(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  Budget* budget_ = nullptr;
  std::size_t bytes_ = 0;
};

/// One level of nested evaluation.
class DepthGuard {
 public:
  explicit DepthGuard(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~DepthGuard() { budget_.leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Budget& budget_;
};

}  // namespace inferno::jinja
