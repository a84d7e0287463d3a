#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <spdlog/common.h>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace inferno::test {

/// The bytes of a file; throws if there is none.
std::string read_file(const std::filesystem::path& path);

/// All 256 byte tokens (id = byte), then the results of `merges` from id 256 on, then `added` tokens. The
/// first of these is eos.
Vocabulary small_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges,
                            const std::vector<std::pair<std::string, TokenType>>& added);

/// A small vocabulary with the control tokens <|end|> and <|start|> and the user-defined <think> and
/// </think>.
Vocabulary chat_vocabulary();

/// Collects what is logged while it lives, in place of stderr.
class CapturedLog {
 public:
  CapturedLog();
  ~CapturedLog();
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::vector<spdlog::sink_ptr> saved_;
};

/// The message of the Error that `work` throws. Reports a failure if it throws none.
std::string error_of(const std::function<void()>& work);

/// A path for a file, which is removed with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Runs `work` on a thread with a stack of 256 KiB (1 MiB under AddressSanitizer, whose frames are larger).
void run_on_small_stack(const std::function<void()>& work);

/// Seconds of processor time that `work` takes on a small stack; what else the machine does is not counted.
double seconds_of(const std::function<void()>& work);

std::string repeat(std::string_view text, std::size_t times);

/// Numbers that are the same everywhere.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  /// A number below `bound`.
  std::size_t operator()(std::size_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state_ >> 33U) % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace inferno::test
