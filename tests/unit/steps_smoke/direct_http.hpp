// An HttpClient that calls a behaviour without a socket and moves a ManualClock instead of waiting.
#pragma once

#include <vector>

#include "steps/contract/http.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/support/replay_server.hpp"

namespace millwright {

class DirectHttp final : public HttpClient {
 public:
  DirectHttp(ReplayBehaviour behaviour, ManualClock& clock) : behaviour_(std::move(behaviour)), clock_(clock) {}

  Result<HttpResponse> send(const HttpRequest& request) override {
    const Lock lock(mutex_);
    requests.push_back(request);
    ReplayRequest seen;
    seen.method = request.method;
    const std::size_t path = request.url.find('/', request.url.find("://") + 3);
    seen.path = path == std::string::npos ? "/" : request.url.substr(path);
    seen.body = request.body;
    seen.json = Value::parse(request.body, nullptr, false);
    seen.number = static_cast<int>(requests.size());
    const ReplayReply reply = behaviour_(seen);
    if (reply.ending == ReplayEnding::refuse) return fail(ErrorKind::connect, "connection refused");
    if (reply.ending == ReplayEnding::hang && reply.pieces.empty()) {
      clock_.advance(request.total_timeout);
      return fail(ErrorKind::timeout, "no answer in time");
    }
    return deliver(request, reply);
  }

  std::vector<HttpRequest> requests;

 private:
  HttpResponse deliver(const HttpRequest& request, const ReplayReply& reply) {
    HttpResponse response;
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.headers.emplace(name, value);
    for (const ReplayPiece& piece : reply.pieces) {
      clock_.advance(piece.delay);
      response.elapsed += piece.delay;
      response.body += piece.bytes;
      if (response.body.size() > request.max_body) {
        response.body.resize(request.max_body);
        response.complete = false;
        response.transport_error = "the body is too large";
        return response;
      }
      if (request.on_data && !request.on_data(piece.bytes)) {
        response.complete = false;
        return response;
      }
    }
    if (reply.ending != ReplayEnding::whole) {
      response.complete = false;
      response.transport_error = reply.ending == ReplayEnding::hang ? "timeout" : "closed early";
      if (reply.ending == ReplayEnding::hang) response.elapsed = request.total_timeout;
    }
    return response;
  }

  ReplayBehaviour behaviour_;
  ManualClock& clock_;
  Mutex mutex_;
};

}  // namespace millwright
