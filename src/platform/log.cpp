#include "platform/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "platform/quote.hpp"

namespace inferno {
namespace {

/// What is logged may hold text from a file or a request: none of it may end a line or steer a terminal.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    constexpr std::size_t kLongest = 8000;
    const auto text = printable({message.payload.data(), message.payload.size()}, kLongest);
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<PrintableMessage>();
  }
};

}  // namespace

spdlog::logger& log() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("inferno", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PrintableMessage>('*').set_pattern("%^%l%$: %*");
    made->set_formatter(std::move(formatter));
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace inferno
