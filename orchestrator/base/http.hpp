// The seam to HTTP. The real one (transport/curl_http.hpp) is libcurl; tests use a scripted one or a real local server.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"

namespace millwright {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::map<std::string, std::string> headers;
  std::string body;
  Milliseconds connect_timeout = std::chrono::seconds(10);
  Milliseconds total_timeout = std::chrono::seconds(60);
  std::uint64_t max_body = 16u << 20;  // a server that never stops sending is cut here
  // Called with each piece of the body as it arrives; return false to stop reading (not an error).
  std::function<bool(std::string_view)> on_data;
  // Asked about once a second, also while nothing arrives; true ends the request: an error of kind interrupted, or a
  // response that is not complete.
  std::function<bool()> cancelled;
};

struct HttpResponse {
  int status = 0;
  std::multimap<std::string, std::string> headers;  // names in lower case
  std::string body;                                 // all bytes that came, also when a later part failed
  bool complete = true;                             // false: cut off by the server, by max_body or by on_data
  std::string transport_error;                      // when cut off: what libcurl says
  Milliseconds first_byte{0};
  Milliseconds elapsed{0};
};

// Safe for concurrent use. A response with any status is a value; no connection, a timeout before the status line, TLS
// failures are errors (connect, timeout). Never follows redirects, never sends environment proxies' credentials to
// loopback.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual Result<HttpResponse> send(const HttpRequest& request) = 0;
};

}  // namespace millwright
