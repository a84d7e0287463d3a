#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <inferno/error.hpp>

#include "platform/log.hpp"
#include "platform/quote.hpp"
#include "server/http/small_file.hpp"
#include "server/http/transport.hpp"

namespace inferno::http {
namespace {

/// The reason of the latest failure, which is forgotten.
std::string openssl_reason() {
  const auto code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL: a client that left would end the program.

int bio_socket(BIO* bio) {
  return *static_cast<const int*>(BIO_get_data(bio));
}

int bio_write(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto count = ::send(bio_socket(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int bio_read(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto count = ::recv(bio_socket(bio), bytes, static_cast<std::size_t>(size), 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_read(bio);
  if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(count);
}

long bio_control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without signals");
    if (made == nullptr) throw Error("OpenSSL is out of memory");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    BIO_meth_set_create(made, bio_create);
    return made;
  }();
  return method;
}

class TlsTransport : public Transport {
 public:
  TlsTransport(SSL_CTX* context, int socket) : ssl_(SSL_new(context), &SSL_free), socket_(socket) {
    BIO* const bio = ssl_ == nullptr ? nullptr : BIO_new(bio_method());
    if (bio == nullptr) throw Error("OpenSSL is out of memory");
    BIO_set_data(bio, &socket_);
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_accept_state(ssl_.get());
  }

  IoResult handshake() override { return result(SSL_do_handshake(ssl_.get())); }

  IoResult read(std::span<char> bytes) override {
    return result(SSL_read(ssl_.get(), bytes.data(), clamp(bytes.size())));
  }

  IoResult write(std::string_view first, std::string_view second) override {
    const auto bytes = first.empty() ? second : first;
    if (bytes.empty()) return {.status = IoStatus::done};
    return result(SSL_write(ssl_.get(), bytes.data(), clamp(bytes.size())));
  }

  void finish() override {
    if (SSL_is_init_finished(ssl_.get()) != 0) (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
    (void)::shutdown(socket_, SHUT_WR);
  }

 private:
  static int clamp(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

  IoResult result(int count) {
    if (count > 0) return {.status = IoStatus::done, .bytes = static_cast<std::size_t>(count)};
    const int error = SSL_get_error(ssl_.get(), count);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ) return {.status = IoStatus::wants_read};
    if (error == SSL_ERROR_WANT_WRITE) return {.status = IoStatus::wants_write};
    if (error == SSL_ERROR_ZERO_RETURN) return {.status = IoStatus::ended};
    return {.status = IoStatus::failed};
  }

  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  int socket_;
};

int choose_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned int offered_size, void* /*unused*/) {
  static constexpr std::array<unsigned char, 9> kOurs = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kOurs.data(), kOurs.size(), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

/// Clients refuse a certificate outside its time, with messages that name anything but that.
void warn_of_dates(const X509* certificate, const std::string& file) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    log().warn("the TLS certificate {} has expired; clients will refuse it", quote(file));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    log().warn("the TLS certificate {} is not valid yet; clients will refuse it", quote(file));
}

}  // namespace

struct TlsContext::State {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_server_method()), &SSL_CTX_free};
};

TlsContext::TlsContext(const std::string& certificate_file, const std::string& key_file)
    : state_(std::make_unique<State>()) {
  SSL_CTX* const context = state_->context.get();
  if (context == nullptr) throw Error(fmt::format("OpenSSL cannot be set up: {}", openssl_reason()));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Of TLS 1.2 only what has forward secrecy and authenticates while it encrypts, as all of TLS 1.3 does.
  SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Idle connections give their buffers back.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  // A key with a passphrase must not stop the program at a prompt.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });

  // OpenSSL would wait at a FIFO and read a device without end.
  (void)read_small_file(certificate_file, "TLS certificate");
  (void)read_small_file(key_file, "TLS key");
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    const bool is_readable =
        ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SSL;  // the first, not what follows from it
    throw Error(fmt::format(
        "{} {}: {}", quote(certificate_file),
        is_readable ? "holds a certificate that cannot be used" : "is no PEM file with a certificate",
        openssl_reason()));
  }
  warn_of_dates(SSL_CTX_get0_certificate(context), certificate_file);
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    const auto code = ERR_peek_last_error();
    if (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
        ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH) {
      ERR_clear_error();
      throw Error(fmt::format("the TLS key {} does not belong to the certificate {}", quote(key_file),
                              quote(certificate_file)));
    }
    throw Error(fmt::format("{} is no PEM file with a private key without passphrase: {}", quote(key_file),
                            openssl_reason()));
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    throw Error(fmt::format("the TLS key {} does not belong to the certificate {}", quote(key_file),
                            quote(certificate_file)));
  }
}

TlsContext::~TlsContext() = default;

std::unique_ptr<Transport> TlsContext::transport(int socket) const {
  return std::make_unique<TlsTransport>(state_->context.get(), socket);
}

}  // namespace inferno::http
