#include "orchestrator/transport/curl_http.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/unit/transport/test_http_server.hpp"

namespace millwright {
namespace {

class CurlHttp : public testing::Test {
 protected:
  Result<HttpResponse> get(const TestHttpServer& server, Milliseconds timeout = std::chrono::seconds(5)) {
    HttpRequest request;
    request.url = server.url();
    request.total_timeout = timeout;
    return client->send(request);
  }
  std::unique_ptr<HttpClient> client = make_curl_http_client();
};

TestHttpServer::Answer fixed(const std::string& bytes) {
  return [bytes](const std::string&, const TestHttpServer::Say& say) { say(bytes); };
}

TEST_F(CurlHttp, GivesStatusHeadersAndBody) {
  TestHttpServer server(
      fixed("HTTP/1.1 418 Teapot\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 5\r\n\r\nhello"));
  const auto response = get(server);
  ASSERT_TRUE(response) << render(response.error());
  EXPECT_EQ(response->status, 418);
  EXPECT_EQ(response->headers.count("set-cookie"), 2u);
  EXPECT_EQ(response->body, "hello");
  EXPECT_TRUE(response->complete);
}

TEST_F(CurlHttp, SendsMethodHeadersAndBody) {
  std::string seen;
  TestHttpServer server([&](const std::string& request, const TestHttpServer::Say& say) {
    seen = request;
    say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  HttpRequest request;
  request.method = "POST";
  request.url = server.url("/v1/chat/completions");
  request.headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer x"}};
  request.body = std::string("{\"a\":\0 1}", 9);
  ASSERT_TRUE(client->send(request));
  EXPECT_EQ(seen.find("POST /v1/chat/completions HTTP/1.1\r\n"), 0u);
  EXPECT_NE(seen.find("Content-Type: application/json\r\n"), std::string::npos);
  EXPECT_EQ(seen.substr(seen.size() - 9), request.body);
  EXPECT_EQ(seen.find("Expect"), std::string::npos);
}

TEST_F(CurlHttp, EndsWhenCancelledAlsoWhileNothingArrives) {
  std::atomic<bool> asked{false};
  std::atomic<bool> gone{false};
  TestHttpServer server([&](const std::string&, const TestHttpServer::Say&) {
    asked = true;
    for (int i = 0; i < 200 && !gone; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  HttpRequest request;
  request.url = server.url();
  request.total_timeout = std::chrono::seconds(60);
  request.cancelled = [&] { return asked.load(); };
  const auto response = client->send(request);
  gone = true;
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::interrupted);
}

TEST_F(CurlHttp, StreamsPiecesAsTheyCome) {
  std::mutex mutex;
  std::condition_variable changed;
  int pieces = 0;
  TestHttpServer server([&](const std::string&, const TestHttpServer::Say& say) {
    say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    for (int i = 0; i < 3; ++i) {
      say("data: " + std::to_string(i) + "\n\n");
      // The next one only once this one has been seen at the other end.
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::seconds(5), [&] { return pieces > i; });
    }
  });
  HttpRequest request;
  request.url = server.url();
  request.on_data = [&](std::string_view) {
    const std::lock_guard lock(mutex);
    ++pieces;
    changed.notify_all();
    return true;
  };
  const auto response = client->send(request);
  ASSERT_TRUE(response);
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(response->body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  EXPECT_LT(response->elapsed, std::chrono::seconds(4));
}

TEST_F(CurlHttp, StopsWhenTheReaderHasEnough) {
  TestHttpServer server([](const std::string&, const TestHttpServer::Say& say) {
    say("HTTP/1.1 200 OK\r\n\r\n");
    while (say("again and again\n")) {
    }
  });
  HttpRequest request;
  request.url = server.url();
  request.on_data = [](std::string_view) { return false; };
  const auto response = client->send(request);
  ASSERT_TRUE(response);
  EXPECT_FALSE(response->complete);
  EXPECT_FALSE(response->body.empty());
  HttpRequest limited;
  limited.url = server.url();
  limited.max_body = 1000;
  const auto cut = client->send(limited);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->body.size(), 1000u);
  EXPECT_FALSE(cut->complete);
  EXPECT_NE(cut->transport_error.find("1000 bytes"), std::string::npos);
}

TEST_F(CurlHttp, KeepsWhatCameBeforeACut) {
  TestHttpServer server(fixed("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it"));
  const auto response = get(server);
  ASSERT_TRUE(response);
  EXPECT_FALSE(response->complete);
  EXPECT_EQ(response->body, "half of it");
  EXPECT_FALSE(response->transport_error.empty());
  TestHttpServer chunked(fixed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\nzz\r\n"));
  const auto broken = get(chunked);
  ASSERT_TRUE(broken);
  EXPECT_FALSE(broken->complete);
  EXPECT_EQ(broken->body, "first");
}

TEST_F(CurlHttp, ASlowDripIsCutAtTheDeadlineAndKept) {
  TestHttpServer server([](const std::string&, const TestHttpServer::Say& say) {
    say("HTTP/1.1 200 OK\r\n\r\n");
    while (say("x")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  const auto response = get(server, Milliseconds(300));
  ASSERT_TRUE(response);
  EXPECT_FALSE(response->complete);
  EXPECT_GT(response->body.size(), 2u);
  EXPECT_LT(response->elapsed, std::chrono::seconds(2));
}

TEST_F(CurlHttp, NoAnswerIsAnErrorOfItsKind) {
  TestHttpServer silent([](const std::string&, const TestHttpServer::Say&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
  });
  EXPECT_EQ(get(silent, Milliseconds(200)).error().kind, ErrorKind::timeout);
  TestHttpServer closing(fixed(""));
  EXPECT_EQ(get(closing).error().kind, ErrorKind::connect);
  TestHttpServer nonsense(fixed("SSH-2.0-OpenSSH_9.2\r\n"));
  EXPECT_EQ(get(nonsense).error().kind, ErrorKind::connect);
  HttpRequest request;
  request.url = "http://127.0.0.1:1/";
  EXPECT_EQ(client->send(request).error().kind, ErrorKind::connect);
  request.url = "ftp://127.0.0.1/";
  EXPECT_EQ(client->send(request).error().kind, ErrorKind::usage);
  request.url = "http://127.0.0.1:1/";
  request.headers["X"] = "a\r\nInjected: b";
  EXPECT_EQ(client->send(request).error().kind, ErrorKind::usage);
}

TEST_F(CurlHttp, DoesNotFollowRedirects) {
  TestHttpServer server(fixed("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_EQ(get(server)->status, 302);
}

}  // namespace
}  // namespace millwright
