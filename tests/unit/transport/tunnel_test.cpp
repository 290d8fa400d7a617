// TCP through connections: direct, over ssh, and into a container's own loopback.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "orchestrator/transport/connector.hpp"
#include "orchestrator/transport/curl_http.hpp"
#include "orchestrator/transport/relay_tunnel.hpp"
#include "tests/unit/transport/test_http_server.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright {
namespace {

class TunnelTest : public testing::Test {
 protected:
  std::string get(const Tunnel& tunnel, const std::string& path = "/") {
    HttpRequest request;
    request.url = "http://127.0.0.1:" + std::to_string(tunnel.local_port()) + path;
    request.total_timeout = std::chrono::seconds(10);
    const auto response = http->send(request);
    return response ? response->body : render(response.error());
  }
  // Two requests must be in flight at the same time before either is answered.
  void expect_carries(Connection& connection) {
    std::mutex mutex;
    std::condition_variable changed;
    int waiting = 0;
    const std::string big(2000000, 'b');
    TestHttpServer server([&](const std::string& request, const TestHttpServer::Say& say) {
      if (request.find("GET /both") == 0) {
        std::unique_lock lock(mutex);
        ++waiting;
        changed.notify_all();
        changed.wait_for(lock, std::chrono::seconds(10), [&] { return waiting >= 2; });
      }
      const std::string body = request.find("GET /big") == 0 ? big : std::to_string(waiting);
      say("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    });
    auto tunnel = connection.open_tunnel("127.0.0.1", server.port());
    ASSERT_TRUE(tunnel) << render(tunnel.error());
    std::string first;
    std::thread other([&] { first = get(**tunnel, "/both"); });
    EXPECT_EQ(get(**tunnel, "/both"), "2");
    other.join();
    EXPECT_EQ(first, "2");
    EXPECT_TRUE(get(**tunnel, "/big") == big);
    Command command;
    command.script = "echo beside it";
    EXPECT_EQ(connection.run(command)->out, "beside it\n");
  }
  void expect_streams(Connection& connection) {
    std::atomic<int> pieces = 0;
    TestHttpServer server([&](const std::string&, const TestHttpServer::Say& say) {
      say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
      for (int i = 0; i < 5; ++i) {
        say("data: x\n\n");
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (pieces <= i && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      }
    });
    auto tunnel = connection.open_tunnel("127.0.0.1", server.port());
    ASSERT_TRUE(tunnel);
    HttpRequest request;
    request.url = "http://127.0.0.1:" + std::to_string((*tunnel)->local_port()) + "/";
    request.on_data = [&](std::string_view) { return ++pieces, true; };
    const auto response = http->send(request);
    ASSERT_TRUE(response) << render(response.error());
    EXPECT_EQ(pieces, 5);
    EXPECT_LT(response->elapsed, std::chrono::seconds(4));
  }

  SystemClock clock;
  std::unique_ptr<Connector> connector = make_connector(clock);
  std::unique_ptr<HttpClient> http = make_curl_http_client();
};

TEST_F(TunnelTest, LocalCarriesAndStreams) {
  Target target;
  target.via = Via::local;
  auto connection = *connector->connect(target);
  expect_carries(*connection);
  expect_streams(*connection);
}

TEST_F(TunnelTest, SshCarriesAndStreams) {
  TestSshd sshd;
  auto connection = connector->connect(sshd.target());
  ASSERT_TRUE(connection) << render(connection.error());
  expect_carries(**connection);
  expect_streams(**connection);
}

TEST_F(TunnelTest, APortNobodyListensOnClosesTheConnection) {
  TestSshd sshd;
  auto connection = connector->connect(sshd.target());
  ASSERT_TRUE(connection);
  auto tunnel = (*connection)->open_tunnel("127.0.0.1", 1);
  ASSERT_TRUE(tunnel);
  EXPECT_NE(get(**tunnel).find("error"), std::string::npos);
}

TEST_F(TunnelTest, EachRelayToolCarriesBytes) {
  TestHttpServer server([](const std::string&, const TestHttpServer::Say& say) {
    say("HTTP/1.1 200 OK\r\n\r\n" + std::string(300000, 'r'));
  });
  const std::string script = relay_script("127.0.0.1", server.port());
  Target target;
  target.via = Via::local;
  auto connection = *connector->connect(target);
  int tried = 0;
  for (const std::string tool : {"socat", "ncat", "python3", "perl", "nc", "bash"}) {
    Command command;
    command.script = "command -v " + tool;
    if (connection->run(command)->exit_code != 0) continue;
    ++tried;
    // Only this one can be found.
    command.script =
        "d=$(mktemp -d); ln -s \"$(command -v " + tool + ")\" $d/; ln -s \"$(command -v cat)\" $d/; PATH=$d\n" + script;
    command.input = "GET / HTTP/1.0\r\n\r\n";
    command.deadline = std::chrono::seconds(10);
    const auto result = connection->run(command);
    ASSERT_TRUE(result) << tool << render(result.error());
    EXPECT_EQ(result->out.size(), 300000u + 19) << tool << result->err;
  }
  EXPECT_GE(tried, 2);
}

}  // namespace
}  // namespace millwright
