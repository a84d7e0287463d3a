#include "tokenizer/fixtures.hpp"

#include <chrono>
#include <exception>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <pthread.h>
#include <spdlog/sinks/ostream_sink.h>
#include <stdexcept>
#include <unistd.h>

#include <inferno/error.hpp>

#include "platform/log.hpp"
#include "tokenizer/byte_alphabet.hpp"

namespace inferno::test {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Vocabulary small_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges,
                            const std::vector<std::pair<std::string, TokenType>>& added) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(alphabet_character(static_cast<std::uint8_t>(byte)));
  }
  for (const auto& [left, right] : merges) vocabulary.tokens.push_back(left + right);
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::normal);
  vocabulary.merges = merges;
  vocabulary.eos = static_cast<std::int32_t>(vocabulary.tokens.size());
  for (const auto& [text, type] : added) {
    vocabulary.tokens.push_back(text);
    vocabulary.types.push_back(type);
  }
  return vocabulary;
}

Vocabulary chat_vocabulary() {
  return small_vocabulary({{"l", "l"},
                           {"h", "e"},
                           {"he", "ll"},
                           {"hell", "o"},
                           {"<", "|"},
                           {"|", ">"},
                           {"e", "n"},
                           {"en", "d"},
                           {"<|", "end"}},
                          {{"<|end|>", TokenType::control},
                           {"<|start|>", TokenType::control},
                           {"<think>", TokenType::user_defined},
                           {"</think>", TokenType::user_defined}});
}

CapturedLog::CapturedLog() : saved_(log().sinks()) {
  log().sinks() = {std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_)};
}

CapturedLog::~CapturedLog() {
  log().sinks() = saved_;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << "more than one line: " << message;
    EXPECT_LT(message.size(), 400U) << message;
    return message;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

TemporaryFile::TemporaryFile(std::string_view name)
    : path_(std::filesystem::temp_directory_path() /
            ("inferno-" + std::to_string(::getpid()) + "-" + std::string(name))) {}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void run_on_small_stack(const std::function<void()>& work) {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t kStack = std::size_t{1} << 20U;
#else
  constexpr std::size_t kStack = std::size_t{256} << 10U;
#endif
  struct Job {
    const std::function<void()>* work;
    std::exception_ptr error;
  } job{&work, nullptr};
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
  pthread_t thread{};
  const auto start = [](void* opaque) -> void* {
    auto* started = static_cast<Job*>(opaque);
    try {
      (*started->work)();
    } catch (...) {
      started->error = std::current_exception();
    }
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &job), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (job.error) std::rethrow_exception(job.error);
}

double seconds_of(const std::function<void()>& work) {
  double taken = 0;
  run_on_small_stack([&] {
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double started = now();
    work();
    taken = now() - started;
  });
  return taken;
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string repeated;
  repeated.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

}  // namespace inferno::test
