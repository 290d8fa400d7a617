// The real HttpClient: libcurl.
#pragma once

#include <memory>

#include "orchestrator/base/http.hpp"

namespace millwright {

// Safe for concurrent use: each request has a handle of its own. Only http and https; proxies from the environment are
// not used for loopback addresses.
std::unique_ptr<HttpClient> make_curl_http_client();

}  // namespace millwright
