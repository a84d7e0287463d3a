// TLS, spoken with OpenSSL's own client.

#include <arpa/inet.h>
#include <atomic>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <inferno/error.hpp>

#include "server/http/fixture.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* object) const { Free(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL, SSL_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX, SSL_CTX_free>>;

/// A key and a certificate that it signed itself, as PEM files. It is valid from `begins` to `ends` seconds
/// from now.
struct Identity {
  std::string certificate, key;

  Identity(const TemporaryFolder& folder, const std::string& name, const char* passphrase = nullptr,
           const Key& pair = Key(EVP_EC_gen("P-256")), int begins = 0, int ends = 3600)
      : certificate(folder / (name + ".pem")), key(folder / (name + ".key")) {
    const std::unique_ptr<X509, Freed<X509, X509_free>> made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), begins);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), ends);
    X509_set_pubkey(made.get(), pair.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
    X509_sign(made.get(), pair.get(), EVP_sha256());
    write(certificate, [&](FILE* file) { PEM_write_X509(file, made.get()); });
    write(key, [&](FILE* file) {
      PEM_write_PrivateKey(file, pair.get(), passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), nullptr, 0,
                           nullptr, const_cast<char*>(passphrase));
    });
  }

 private:
  template <typename Write>
  static void write(const std::string& path, const Write& write) {
    FILE* const file = std::fopen(path.c_str(), "w");
    write(file);
    (void)std::fclose(file);
  }
};

class Tls : public HttpTest {
 protected:
  http::HttpOptions options(const Identity& identity) {
    http::HttpOptions made;
    made.tls_certificate = identity.certificate;
    made.tls_key = identity.key;
    return made;
  }
  std::string error_of(const std::string& certificate, const std::string& key) {
    http::HttpOptions made;
    made.tls_certificate = certificate;
    made.tls_key = key;
    try {
      start(made);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  TemporaryFolder folder;
};

/// A client that speaks TLS and trusts everybody.
class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port, int newest = 0, const char* ciphers = "DEFAULT")
      : context_(SSL_CTX_new(TLS_client_method())), client_(port) {
    if (newest != 0) {
      SSL_CTX_set_security_level(context_.get(), 0);
      SSL_CTX_set_min_proto_version(context_.get(), 0);
      SSL_CTX_set_max_proto_version(context_.get(), newest);
      SSL_CTX_set_cipher_list(context_.get(), ciphers);
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), client_.socket());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(ssl_.get()); }
  void send(std::string_view bytes) {
    EXPECT_EQ(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }
  /// Reads until `text` has come; gives everything.
  std::string receive_until(std::string_view text) {
    std::string all;
    std::string buffer(65536, '\0');
    while (all.find(text) == std::string::npos) {
      const int count = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
      if (count <= 0) break;
      all.append(buffer, 0, static_cast<std::size_t>(count));
    }
    return all;
  }
  void close() { client_.close(); }
  void half_close() { client_.half_close(); }

 private:
  Context context_;
  Client client_;
  Session ssl_;
  bool connected_ = false;
};

TEST_F(Tls, AnswersRequests) {
  auto& server = start(options(Identity(folder, "a")));
  EXPECT_THAT(server.url(), StartsWith("https://127.0.0.1:"));
  for (const int version : {0, TLS1_2_VERSION}) {
    TlsClient client(port(), version);
    ASSERT_TRUE(client.connected());
    client.send(get("/echo?one"));
    EXPECT_THAT(client.receive_until("one"), StartsWith("HTTP/1.1 200 OK\r\n"));
    client.send(get("/stream"));
    EXPECT_THAT(client.receive_until("0\r\n\r\n"), HasSubstr("0123456789"));
    const std::string body(3'000'000, 'b');
    client.send(post("/echo", body + "end"));
    EXPECT_THAT(client.receive_until("end"), HasSubstr(body));
  }
}

TEST_F(Tls, OldVersionsAndPlainTextAreRefused) {
  start(options(Identity(folder, "a")));
  EXPECT_FALSE(TlsClient(port(), TLS1_1_VERSION).connected());
  Client plain(port());
  plain.send(get("/health"));
  EXPECT_EQ(plain.receive_all().find("HTTP/1.1 200"), std::string::npos);
  EXPECT_TRUE(TlsClient(port()).connected());
}

TEST_F(Tls, OldCiphersAreRefused) {
  start(options(Identity(folder, "a", nullptr, Key(EVP_RSA_gen(2048)))));
  for (const auto* const suite : {"AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA"})
    EXPECT_FALSE(TlsClient(port(), TLS1_2_VERSION, suite).connected()) << suite;
  for (const auto* const suite : {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"})
    EXPECT_TRUE(TlsClient(port(), TLS1_2_VERSION, suite).connected()) << suite;
}

TEST_F(Tls, CertificatesOutsideTheirTimeAreWarnedOf) {
  const auto warnings = [&](int begins, int ends) {
    const Identity identity(folder, "dated", nullptr, Key(EVP_EC_gen("P-256")), begins, ends);
    testing::internal::CaptureStderr();
    start(options(identity));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warnings(-7200, -3600), HasSubstr("has expired"));
  EXPECT_THAT(warnings(3600, 7200), HasSubstr("is not valid yet"));
  EXPECT_EQ(warnings(-3600, 3600), "");
}

TEST_F(Tls, ClientsThatNeverShakeHandsAreClosed) {
  auto hasty = options(Identity(folder, "a"));
  hasty.limits.handshake_time = std::chrono::milliseconds(100);
  start(hasty);
  Client silent(port());
  EXPECT_TRUE(silent.is_closed());
}

TEST_F(Tls, LeavingIsNoticedAndHalfCloseIsNone) {
  start(options(Identity(folder, "a")));
  TlsClient leaving(port());
  leaving.send(get("/later"));
  auto exchange = kept.next();
  std::atomic<bool> gone = false;
  exchange->on_gone([&gone] { gone = true; });
  leaving.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));

  TlsClient reading(port());
  reading.send(get("/later"));
  exchange = kept.next();
  reading.half_close();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  exchange->respond({.body = "whole"});
  EXPECT_THAT(reading.receive_until("whole"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(Tls, BadFilesAreNamed) {
  const Identity a(folder, "a");
  const Identity b(folder, "b");
  const Identity locked(folder, "locked", "passphrase");
  const auto text = folder.write("text.pem", "hello\n").string();
  EXPECT_THAT(error_of((folder / "none.pem").string(), a.key), HasSubstr("none.pem"));
  EXPECT_THAT(error_of(a.certificate, (folder / "none.key").string()), HasSubstr("none.key"));
  EXPECT_THAT(error_of(text, a.key), HasSubstr("is no PEM file with a certificate"));
  const Identity weak(folder, "weak", nullptr, Key(EVP_RSA_gen(512)));
  EXPECT_THAT(error_of(weak.certificate, weak.key), HasSubstr("cannot be used: ee key too small"));
  const auto fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& unreadable : {fifo, std::string("/dev/zero")}) {
    EXPECT_THAT(error_of(unreadable, a.key), HasSubstr("regular file"));
    EXPECT_THAT(error_of(a.certificate, unreadable), HasSubstr("regular file"));
  }
  EXPECT_THAT(error_of(a.certificate, text), HasSubstr("text.pem"));
  EXPECT_THAT(error_of(a.key, a.key), HasSubstr("a.key"));
  EXPECT_THAT(error_of(a.certificate, b.key), HasSubstr("does not belong"));
  EXPECT_THAT(error_of(a.certificate, locked.key), HasSubstr("passphrase"));
  EXPECT_THAT(error_of(a.certificate, ""), HasSubstr("both"));
  EXPECT_THAT(error_of("", a.key), HasSubstr("both"));
}

}  // namespace
}  // namespace inferno::test
