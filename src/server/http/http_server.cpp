#include "server/http/http_server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <thread>
#include <utility>
#include <vector>

#include <inferno/error.hpp>

#include "platform/log.hpp"
#include "server/http/connection.hpp"
#include "server/http/core.hpp"
#include "server/http/listener.hpp"

namespace inferno::http {
namespace {

/// Connections beyond the limit that are told so; more than these are closed without a word.
constexpr std::size_t kToldOff = 64;
constexpr int kAcceptsInARow = 32;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
constexpr std::chrono::minutes kWarningsApart{1};

/// Takes clients of one listening socket.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(std::shared_ptr<Core> core, FileDescriptor listener)
      : core_(std::move(core)),
        strand_(boost::asio::make_strand(core_->io)),
        socket_(strand_),
        pause_(strand_),
        owned_(std::move(listener)) {
    // The descriptor stays ours, so that the port can be closed whether or not a thread runs.
    socket_.assign(owned_.get());
  }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor() { socket_.release(); }

  void wait() {
    socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](const boost::system::error_code& error) {
                         if (!error && !self->closed_) self->accept_some();
                       });
  }

  void close() {
    boost::asio::post(strand_, [self = shared_from_this()] {
      if (std::exchange(self->closed_, true)) return;
      self->pause_.cancel();
      self->socket_.release();
      self->owned_ = FileDescriptor();
    });
  }

 private:
  void accept_some() {
    for (int i = 0; i < kAcceptsInARow; ++i) {
      std::string peer;
      FileDescriptor socket = accept_client(owned_.get(), peer);
      if (!socket) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return pause();
        break;
      }
      take(std::move(socket), std::move(peer));
    }
    wait();
  }

  void take(FileDescriptor socket, std::string peer) {
    const auto limit = core_->options.limits.connections;
    const bool is_full = core_->connections >= limit;
    if (is_full) ++core_->refused;
    if (is_full && core_->connections >= limit + kToldOff) return;
    ++core_->accepted;
    try {
      const auto connection = std::make_shared<Connection>(core_, socket.get(), std::move(peer), is_full);
      (void)socket.release();
      connection->start();
    } catch (const std::exception& error) {
      log().error("a connection was dropped: {}", error.what());
    }
  }

  /// Descriptors are used up: the waiting client would be reported again and again.
  void pause() {
    const auto now = std::chrono::steady_clock::now();
    if (now >= told_again_) {
      log().warn("no more connections can be accepted for now: too many open files");
      told_again_ = now + kWarningsApart;
    }
    pause_.expires_after(kPauseWithoutDescriptors);
    pause_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && !self->closed_) self->wait();
    });
  }

  const std::shared_ptr<Core> core_;
  const Core::Strand strand_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  std::chrono::steady_clock::time_point told_again_;
  FileDescriptor owned_;
  bool closed_ = false;
};

void run(Core& core) {
  for (;;) {
    try {
      core.io.run();
      return;
    } catch (const std::exception& error) {
      // Connections catch what happens in them; this keeps the thread in any case.
      log().error("in the server: {}", error.what());
    }
  }
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, Handler handler)
      : core_(std::make_shared<Core>(std::move(options), std::move(handler))),
        work_(core_->io.get_executor()) {
    const auto& given = core_->options;
    if (given.tls_certificate.empty() != given.tls_key.empty()) {
      throw UsageError("TLS needs both a certificate and a key file");
    }
    if (given.threads == 0) throw UsageError("the server needs at least one thread");
    if (!given.tls_key.empty())
      core_->tls = std::make_unique<TlsContext>(given.tls_certificate, given.tls_key);
    auto listening = listen_on(given.host, given.port);
    port_ = listening.port;
    core_->local = listening.local;
    for (auto& socket : listening.sockets) {
      acceptors_.push_back(std::make_shared<Acceptor>(core_, std::move(socket)));
      acceptors_.back()->wait();
    }
    for (unsigned i = 0; i < given.threads; ++i) threads_.emplace_back([core = core_] { run(*core); });
  }

  std::uint16_t port() const { return port_; }
  Core& core() { return *core_; }

  void adopt(FileDescriptor socket) {
    const int flags = ::fcntl(socket.get(), F_GETFL);
    if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      throw Error("cannot serve a socket that cannot be set not to block");
    }
    ++core_->accepted;
    const auto connection = std::make_shared<Connection>(core_, socket.get(), "local", false);
    (void)socket.release();
    connection->start();
  }

  void stop_accepting() {
    for (const auto& acceptor : acceptors_) acceptor->close();
  }

  bool drain(std::chrono::milliseconds timeout) {
    core_->draining = true;
    for (const auto& connection : core_->all()) connection->close_if_idle();
    return core_->wait_until_quiet(timeout);
  }

  void stop() {
    if (threads_.empty()) return;
    stop_accepting();
    core_->draining = true;
    core_->stopping = true;
    while (core_->connections > 0) {
      for (const auto& connection : core_->all()) connection->close_now();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    core_->close_gate();
    work_.reset();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  const std::shared_ptr<Core> core_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  std::vector<std::thread> threads_;
  std::uint16_t port_ = 0;
};

HttpServer::HttpServer(HttpOptions options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() {
  stop();
}

std::uint16_t HttpServer::port() const {
  return impl_->port();
}

std::string HttpServer::url() const {
  const auto& options = impl_->core().options;
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", options.tls_key.empty() ? "http" : "https", is_v6 ? "[" : "",
                     options.host, is_v6 ? "]" : "", port());
}

HttpCounters HttpServer::counters() const {
  const auto& core = impl_->core();
  return {.connections = core.connections,
          .requests_active = core.active(),
          .accepted = core.accepted,
          .refused = core.refused,
          .timeouts = core.timeouts,
          .requests = core.requests,
          .bytes_sent = core.bytes_sent};
}

void HttpServer::adopt(FileDescriptor socket) {
  impl_->adopt(std::move(socket));
}

void HttpServer::stop_accepting() {
  impl_->stop_accepting();
}

bool HttpServer::drain(std::chrono::milliseconds timeout) {
  return impl_->drain(timeout);
}

void HttpServer::stop() {
  impl_->stop();
}

}  // namespace inferno::http
