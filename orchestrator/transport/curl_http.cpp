#include "orchestrator/transport/curl_http.hpp"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <mutex>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxHeaders = 256u << 10;  // not every libcurl has a limit of its own

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using HeaderList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// One request on its way; libcurl calls back into it on the caller's thread.
class Exchange {
 public:
  explicit Exchange(const HttpRequest& request)
      : request_(request), handle_(curl_easy_init(), curl_easy_cleanup), headers_(nullptr, curl_slist_free_all) {}

  Result<HttpResponse> run() {
    if (auto done = set_up(); !done) return Failure(done.error());
    const CURLcode code = curl_easy_perform(handle_.get());
    long status = 0;
    curl_off_t first = 0, total = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(handle_.get(), CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_easy_getinfo(handle_.get(), CURLINFO_TOTAL_TIME_T, &total);
    response_.status = static_cast<int>(status);
    response_.first_byte = std::chrono::duration_cast<Milliseconds>(std::chrono::microseconds(first));
    response_.elapsed = std::chrono::duration_cast<Milliseconds>(std::chrono::microseconds(total));
    if (code == CURLE_OK) return std::move(response_);
    // Once there is a status line, whatever goes wrong after it is part of the answer.
    if (status == 0) return fail(explain(code));
    response_.complete = false;
    response_.transport_error = stopped_ ? stop_reason_ : text_of(code);
    return std::move(response_);
  }

 private:
  Result<void> set_up() {
    CURL* handle = handle_.get();
    for (const auto& [name, value] : request_.headers) {
      if ((name + value).find_first_of("\r\n") != std::string::npos) {
        return fail(ErrorKind::usage, "a header of the request to " + request_.url + " contains a line break");
      }
      add_header(value.empty() ? name + ";" : name + ": " + value);
    }
    add_header("Expect:");  // no wait for 100 Continue
    curl_easy_setopt(handle, CURLOPT_URL, request_.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    // libcurl itself does not look at it; OpenSSL and the curl program do.
    if (const char* trusted = std::getenv("SSL_CERT_FILE"); trusted != nullptr && *trusted != '\0') {
      curl_easy_setopt(handle, CURLOPT_CAINFO, trusted);
    }
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, error_.data());
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout.count()));
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(request_.total_timeout.count()));
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Exchange::on_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Exchange::on_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(handle, CURLOPT_CLOSESOCKETFUNCTION, &Exchange::on_close);
    curl_easy_setopt(handle, CURLOPT_CLOSESOCKETDATA, this);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Exchange::on_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, request_.cancelled ? 0L : 1L);
    if (request_.method == "HEAD") {
      curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
    } else if (request_.method != "GET" || !request_.body.empty()) {
      curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request_.body.data());
      curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
      curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    }
    return {};
  }

  void add_header(const std::string& line) { headers_.reset(curl_slist_append(headers_.release(), line.c_str())); }

  static std::size_t on_body(char* bytes, std::size_t, std::size_t size, void* self) {
    return static_cast<Exchange*>(self)->body(std::string_view(bytes, size)) ? size : CURL_WRITEFUNC_ERROR;
  }

  bool body(std::string_view piece) {
    const std::uint64_t room = request_.max_body - response_.body.size();
    const std::string_view kept =
        piece.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(room, piece.size())));
    response_.body.append(kept);
    if (request_.on_data && !kept.empty() && !request_.on_data(kept)) return stop("reading was stopped here");
    if (piece.size() > room) return stop("the body is larger than " + std::to_string(request_.max_body) + " bytes");
    return true;
  }

  bool stop(std::string reason) {
    stopped_ = true;
    stop_reason_ = std::move(reason);
    return false;
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Exchange*>(self)->request_.cancelled() ? 1 : 0;
  }

  static std::size_t on_header(char* bytes, std::size_t, std::size_t size, void* self) {
    return static_cast<Exchange*>(self)->header(std::string_view(bytes, size)) ? size : CURL_WRITEFUNC_ERROR;
  }

  bool header(std::string_view line) {
    header_bytes_ += line.size();
    if (header_bytes_ > kMaxHeaders)
      return stop("the headers are larger than " + std::to_string(kMaxHeaders) + " bytes");
    // A new status line (after 100 Continue) starts over.
    if (starts_with(line, "HTTP/")) {
      response_.headers.clear();
      return true;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    response_.headers.emplace(lower(trim(line.substr(0, colon))), std::string(trim(line.substr(colon + 1))));
    return true;
  }

  std::string text_of(CURLcode code) const { return error_[0] != '\0' ? error_.data() : curl_easy_strerror(code); }

  // libcurl counts a connection as made only when TLS is, too.
  static int on_close(void* self, curl_socket_t socket) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
      static_cast<Exchange*>(self)->connected_ = true;
    }
    return ::close(socket);
  }

  bool stuck_in_handshake() const {
    curl_off_t encrypted = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_APPCONNECT_TIME_T, &encrypted);
    return connected_ && encrypted == 0 && starts_with(lower(request_.url), "https:");
  }

  Error explain(CURLcode code) const {
    const std::string what = request_.url + ": " + text_of(code);
    const bool other_protocol = what.find("HTTP/0.9") != std::string::npos ||
                                what.find("HTTP version") != std::string::npos || code == CURLE_WEIRD_SERVER_REPLY;
    if (other_protocol) {
      return make_error(ErrorKind::connect, request_.url + " answers, but not in HTTP")
          .with_hint("does another service listen on this port?");
    }
    switch (code) {
      case CURLE_ABORTED_BY_CALLBACK:
        return make_error(ErrorKind::interrupted, "interrupted while waiting for " + request_.url);
      case CURLE_OPERATION_TIMEDOUT:
        if (stuck_in_handshake()) {
          return make_error(ErrorKind::timeout, request_.url + " takes connections, but begins no TLS")
              .with_hint("does the server speak plain http on this port?");
        }
        return make_error(ErrorKind::timeout, "no answer from " + what)
            .with_hint("is the server still starting, or is it stuck?");
      case CURLE_URL_MALFORMAT:
      case CURLE_UNSUPPORTED_PROTOCOL:
        return make_error(ErrorKind::usage, "not an http address: " + what);
      case CURLE_COULDNT_CONNECT:
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
        return make_error(ErrorKind::connect, "cannot connect to " + what)
            .with_hint("is the server running, and on this port?");
      default:
        return make_error(ErrorKind::connect, "no HTTP answer from " + what);
    }
  }

  const HttpRequest& request_;
  bool connected_ = false;  // outlives the handle, which closes its socket when it goes
  Handle handle_;
  HeaderList headers_;
  HttpResponse response_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::size_t header_bytes_ = 0;
  bool stopped_ = false;
  std::string stop_reason_;
};

class CurlHttpClient final : public HttpClient {
 public:
  Result<HttpResponse> send(const HttpRequest& request) override { return Exchange(request).run(); }
};

}  // namespace

std::unique_ptr<HttpClient> make_curl_http_client() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  return std::make_unique<CurlHttpClient>();
}

}  // namespace millwright
