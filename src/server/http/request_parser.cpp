#include "server/http/request_parser.hpp"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <fmt/format.h>
#include <utility>

#include "server/http/chunked_body.hpp"
#include "server/http/text.hpp"

namespace inferno::http {
namespace {

namespace beast = boost::beast;
using Field = beast::http::field;
using Errc = beast::http::error;

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

std::string_view what_is_wrong(const beast::error_code& error) {
  if (error == Errc::bad_method) return "the request does not begin with a method";
  if (error == Errc::bad_target) return "the request target is malformed";
  if (error == Errc::bad_line_ending) return "a line of the header does not end in CR LF";
  if (error == Errc::bad_field) return "a header field's name is malformed";
  if (error == Errc::bad_value) return "a header field's value is malformed";
  if (error == Errc::bad_content_length)
    return "Content-Length is no number, or stands beside Transfer-Encoding";
  if (error == Errc::multiple_content_length) return "Content-Length is given twice with different values";
  if (error == Errc::bad_transfer_encoding) {
    return "Transfer-Encoding is given twice, or stands beside Content-Length";
  }
  if (error == Errc::bad_obs_fold) return "a header field is folded over several lines";
  return "the request is malformed";
}

}  // namespace

class RequestParser::Impl : public beast::http::basic_parser<true> {
 public:
  explicit Impl(const HttpLimits& limits) : limits_(limits) {
    header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(limits.header_bytes, UINT32_MAX)));
    body_limit(boost::none);  // checked here, after the key
  }

  Progress advance(std::string_view bytes, std::size_t& used) {
    beast::error_code error;
    used = 0;
    if (chunks_) return read_chunks(bytes, used);
    for (;;) {
      const bool was_header = !is_header_done();
      eager(!was_header);
      const auto begin = used;
      used += put(boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
      if (refused_with) return Progress::refused;
      if (error == Errc::need_more) return Progress::more;
      if (error == Errc::bad_version) return refuse(bad_version(bytes.substr(used)));
      if (error) return refuse(error);
      if (was_header && is_header_done()) {
        // The library joins folded lines with a blank; others take them for fields or drop them.
        if (is_folded(bytes.substr(begin, used - begin))) return refuse(Errc::bad_obs_fold);
        if (!check_header()) return Progress::refused;
      }
      if (is_done()) return Progress::done;
      if (was_header && is_header_done()) {
        if (chunked()) chunks_.emplace(limits_);
        return Progress::header;
      }
      if (used == bytes.size()) return Progress::more;
    }
  }

  Request request;
  std::optional<Refusal> refused_with;
  bool expects_continue = false;
  bool header_complete = false;
  bool http_1_0 = false;

 private:
  /// The library would wait for a chunk's header or the trailers as a whole, and take trailers for fields of
  /// the header.
  Progress read_chunks(std::string_view bytes, std::size_t& used) {
    while (used < bytes.size() && !chunks_->is_over()) {
      auto piece = chunks_->read(bytes.substr(used));
      used += piece.used;
      if (piece.refusal) return refuse(std::move(*piece.refusal));
      add_to_body(piece.data);
    }
    return chunks_->is_over() ? Progress::done : Progress::more;
  }

  static bool is_folded(std::string_view header) {
    return header.find("\n ") != std::string_view::npos || header.find("\n\t") != std::string_view::npos;
  }

  Progress refuse(Refusal refusal) {
    refused_with = std::move(refusal);
    return Progress::refused;
  }

  Progress refuse(const beast::error_code& error) {
    if (error == Errc::header_limit) return refuse(too_large_header());
    return refuse({.status = 400, .message = std::string(what_is_wrong(error))});
  }

  /// The library says the same of another version and of a line that does not end after its version.
  static Refusal bad_version(std::string_view line) {
    line = line.substr(0, line.find_first_of("\r\n"));
    constexpr std::string_view kBefore = " HTTP/";
    const auto place = line.rfind(kBefore);
    const auto version = place == std::string_view::npos ? "1." : line.substr(place + kBefore.size());
    const bool is_other_minor = version.size() == 3 && version[2] >= '2' && version[2] <= '9';
    const bool is_other = !version.starts_with("1.") || is_other_minor;
    return {.status = is_other ? 505U : 400U,
            .message = "expected HTTP/1.1 or HTTP/1.0 and CR LF at the end of the request line",
            .code = is_other ? "unsupported_version" : "malformed_request"};
  }

  Refusal too_large_header() const {
    return {.status = 431,
            .message = fmt::format("the header is larger than {} bytes or has more than {} fields",
                                   limits_.header_bytes, limits_.header_fields),
            .code = "header_too_large"};
  }

  /// A callback's way to stop the library.
  void stop(Refusal refusal, beast::error_code& error) {
    if (!refused_with) refused_with = std::move(refusal);
    error = Errc::bad_value;
  }

  bool check_header() {
    header_complete = true;
    const auto host = request.header("Host");
    if (http_1_0 ? hosts_ > 1 : hosts_ != 1) {
      refused_with = {.status = 400, .message = fmt::format("expected one Host header, found {}", hosts_)};
    } else if (!host.empty() && !is_authority(host)) {
      refused_with = {.status = 400, .message = "Host is no name or address, with or without a port"};
    } else if (http_1_0 && chunked()) {
      refused_with = {.status = 400, .message = "HTTP/1.0 has no Transfer-Encoding"};
    } else if (!expectation_.empty() && !http_1_0) {
      if (equal_ignoring_case(expectation_, "100-continue")) {
        expects_continue = true;
      } else {
        refused_with = {.status = 417,
                        .message = "the only expectation that can be met is 100-continue",
                        .code = "unsupported_expectation"};
      }
    }
    if (!authority_.empty()) replace_host();
    return !refused_with;
  }

  /// A target in absolute form says whom it is for, whatever Host says (RFC 9112, 3.2.2).
  void replace_host() {
    for (auto& [name, value] : request.headers) {
      if (equal_ignoring_case(name, "Host")) value = authority_;
    }
    if (hosts_ == 0) request.headers.push_back({.name = "Host", .value = authority_});
  }

  /// Returns what is wrong with it; nothing, if it is fine.
  std::string_view set_target(std::string_view target) {
    constexpr std::string_view kNoPath = "the request target is no path that begins with '/'";
    if (target == "*") {
      request.path.assign(1, '*');
      return request.method == "OPTIONS" ? std::string_view() : kNoPath;
    }
    if (!target.starts_with('/')) {  // the absolute form, as proxies are sent it
      constexpr std::string_view kMark = "://";
      const auto scheme = target.substr(0, target.find(kMark));
      if (!equal_ignoring_case(scheme, "http") && !equal_ignoring_case(scheme, "https")) return kNoPath;
      target.remove_prefix(std::min(scheme.size() + kMark.size(), target.size()));
      const auto path = std::min(target.find_first_of("/?#"), target.size());
      authority_ = target.substr(0, path);
      if (!is_authority(authority_)) return "the request target names no host, with or without a port";
      target.remove_prefix(path);
    }
    target = target.substr(0, target.find('#'));
    const auto question = target.find('?');
    if (question != std::string_view::npos) request.query = target.substr(question + 1);
    auto path = percent_decode(target.substr(0, question));
    if (!path) return "a % of the request target is not followed by two hexadecimal digits other than 00";
    if (path->empty()) path->assign(1, '/');
    request.path = std::move(*path);
    return {};
  }

  void on_request_impl(beast::http::verb /*method*/, beast::string_view method, beast::string_view target,
                       int version, beast::error_code& error) override {
    header_bytes_ = method.size() + target.size() + 12;
    http_1_0 = version < 11;
    request.method = view(method);
    if (header_bytes_ > limits_.header_bytes) return stop(too_large_header(), error);
    const auto complaint = set_target(view(target));
    if (!complaint.empty()) stop({.status = 400, .message = std::string(complaint)}, error);
  }

  void on_response_impl(int /*code*/, beast::string_view /*reason*/, int /*version*/,
                        beast::error_code& /*error*/) override {}

  void on_field_impl(Field field, beast::string_view name, beast::string_view value,
                     beast::error_code& error) override {
    header_bytes_ += name.size() + value.size() + 4;
    if (header_bytes_ > limits_.header_bytes || request.headers.size() >= limits_.header_fields) {
      return stop(too_large_header(), error);
    }
    if (field == Field::host) ++hosts_;
    if (field == Field::expect) expectation_ = view(value);
    // Beast takes a body of any other coding for none, and what follows for the next request.
    if (field == Field::transfer_encoding && !equal_ignoring_case(view(value), "chunked")) {
      return stop({.status = 501,
                   .message = "the only transfer coding that is understood is chunked",
                   .code = "unsupported_coding"},
                  error);
    }
    request.headers.push_back({.name = std::string(view(name)), .value = std::string(view(value))});
  }

  void on_header_impl(beast::error_code& /*error*/) override {}

  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         beast::error_code& /*error*/) override {}

  std::size_t on_body_impl(beast::string_view body, beast::error_code& error) override {
    if (request.body.size() + body.size() > limits_.body_bytes) {
      stop({.status = 413,
            .message = fmt::format("the body is larger than the limit of {} bytes", limits_.body_bytes),
            .code = "body_too_large"},
           error);
    } else {
      add_to_body(view(body));
    }
    return body.size();
  }

  void on_chunk_header_impl(std::uint64_t /*size*/, beast::string_view /*extensions*/,
                            beast::error_code& /*error*/) override {}

  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, beast::string_view body,
                                 beast::error_code& /*error*/) override {
    return body.size();
  }

  void on_finish_impl(beast::error_code& /*error*/) override {}

  void add_to_body(std::string_view bytes) {
    auto& body = request.body;
    // Grows with what has come, not with what is announced, and never beyond that or the limit.
    if (body.capacity() < body.size() + bytes.size()) {
      const auto announced = content_length();
      const std::size_t most =
          announced ? static_cast<std::size_t>(std::min<std::uint64_t>(*announced, limits_.body_bytes))
                    : limits_.body_bytes;
      body.reserve(std::clamp(body.size() * 2, body.size() + bytes.size(),
                              std::max(most, body.size() + bytes.size())));
    }
    body.append(bytes);
  }

  const HttpLimits& limits_;
  std::size_t header_bytes_ = 0;
  std::size_t hosts_ = 0;
  std::string expectation_;
  std::string authority_;  // of a target in absolute form
  std::optional<ChunkedBody> chunks_;
};

RequestParser::RequestParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

RequestParser::Progress RequestParser::put(std::string_view bytes, std::size_t& used) {
  return impl_->advance(bytes, used);
}

const Refusal& RequestParser::refusal() const {
  static const Refusal none;
  return impl_->refused_with ? *impl_->refused_with : none;
}

Request& RequestParser::request() {
  return impl_->request;
}

bool RequestParser::header_done() const {
  return impl_->header_complete;
}

bool RequestParser::is_http_1_0() const {
  return impl_->http_1_0;
}

bool RequestParser::keep_alive() const {
  return impl_->header_complete && impl_->keep_alive();
}

bool RequestParser::has_body() const {
  return impl_->header_complete && (impl_->chunked() || content_length().value_or(0) > 0);
}

std::optional<std::uint64_t> RequestParser::content_length() const {
  const auto length = impl_->header_complete ? impl_->content_length() : boost::none;
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

bool RequestParser::expects_continue() const {
  return impl_->expects_continue;
}

}  // namespace inferno::http
