#include "steps/core/wait.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/steps_core/fake_context.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::FakeContext;
using testing_tools::inputs_of;
using testing_tools::RealShell;

const WaitStep kWait;

// A TCP port of this machine that listens as long as the object lives.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd_, 1) != 0) return;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

class WaitTest : public testing::Test {
 protected:
  // Scripts run on this machine's shell; `at` is called before each look.
  Result<StepOutcome> wait(const Value& given, const std::function<void(Milliseconds)>& at = {}) {
    FakeContext context(inputs_of(kWait, given));
    context.machine.on_run = [&](const std::string& script) -> Result<Answer> {
      if (at) at(context.time.elapsed);
      return shell_.run(script, "-eu");
    };
    auto outcome = kWait.run(context);
    said_ = context.said;
    return outcome;
  }
  RealShell shell_;
  std::vector<std::string> said_;
};

TEST_F(WaitTest, ForAPortToOpenAndToClose) {
  Listener listener;
  const auto open = wait({{"port", listener.port()}});
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_EQ(open->state, StepState::ok);
  const auto closing = wait({{"port", listener.port()}, {"state", "stopped"}}, [&listener](Milliseconds elapsed) {
    if (elapsed >= std::chrono::seconds(3)) listener.close();
  });
  ASSERT_TRUE(closing) << closing.error().message;
  EXPECT_EQ(closing->outputs["elapsed"], 3.0);
}

TEST_F(WaitTest, ForAPortOfAnotherMachine) {
  // This machine's name is no loopback name, so the way for other machines is taken.
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof(name) - 1), 0);
  const auto closed = wait({{"port", 1}, {"host", name}, {"timeout", "0s"}});
  ASSERT_FALSE(closed);
  EXPECT_TRUE(closed.error().kind == ErrorKind::timeout || closed.error().kind == ErrorKind::refused);
}

TEST_F(WaitTest, ForAPathAndACommand) {
  const auto there =
      wait({{"path", shell_.path("x")}, {"interval", "500ms"}, {"delay", "1s"}}, [this](Milliseconds at) {
        if (at >= std::chrono::seconds(2)) shell_.write("x", "");
      });
  ASSERT_TRUE(there);
  EXPECT_EQ(there->summary, shell_.path("x") + ": there after 2.0 s");
  EXPECT_EQ(said_, std::vector<std::string>{shell_.path("x") + ": absent"});
  EXPECT_TRUE(wait({{"command", "test -e " + shell_.path("x")}}));
  EXPECT_TRUE(wait({{"command", "exit 3"}, {"state", "absent"}}));
}

TEST_F(WaitTest, TooLateSaysWhatItSawLast) {
  const auto late = wait({{"command", "echo still loading >&2; exit 4"}, {"timeout", "5s"}});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_EQ(late.error().message,
            "`echo still loading >&2; exit 4` is not present after 5.0 s: exit status 4, still loading");
}

TEST(Wait, ForAnHttpAddressThroughATunnel) {
  FakeContext context(inputs_of(kWait, {{"url", "http://10.0.0.7:8080/health?x=1"}, {"status", {200, 204}}}));
  std::vector<HttpRequest> requests;
  context.web.on_send = [&](const HttpRequest& request) -> Result<HttpResponse> {
    requests.push_back(request);
    if (requests.size() == 1) return fail(ErrorKind::connect, "connection refused");
    HttpResponse response;
    response.status = requests.size() == 2 ? 503 : 204;
    return response;
  };
  const auto outcome = kWait.run(context);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(context.machine.tunnels, std::vector<std::string>{"10.0.0.7:8080"});
  EXPECT_EQ(requests[0].url, "http://127.0.0.1:43121/health?x=1");
  EXPECT_EQ(requests[0].headers["Host"], "10.0.0.7:8080");
  EXPECT_EQ(outcome->summary, "http://10.0.0.7:8080/health?x=1: HTTP 204 after 2.0 s");
  EXPECT_EQ(context.said.size(), 2u);
}

// The door of the tunnel on this machine is nobody's business.
TEST(Wait, NamesTheAddressThatIsMeantAndNotTheTunnel) {
  for (const std::string said :
       {"cannot connect to http://127.0.0.1:43121/x: Failed to connect to 127.0.0.1 port 43121",
        "no HTTP answer from http://127.0.0.1:43121/x: Empty reply from server"}) {
    FakeContext context(inputs_of(kWait, {{"url", "http://10.0.0.7:8080/x"}, {"timeout", "1s"}}));
    context.web.on_send = [&](const HttpRequest&) -> Result<HttpResponse> { return fail(ErrorKind::connect, said); };
    const auto late = kWait.run(context);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().message.find("43121"), std::string::npos) << late.error().message;
    EXPECT_NE(late.error().message.find("10.0.0.7:8080"), std::string::npos) << late.error().message;
    for (const std::string& line : context.said) EXPECT_EQ(line.find("43121"), std::string::npos) << line;
  }
}

TEST(Wait, ForAnHttpsAddressTheNodeItselfAsks) {
  FakeContext context(inputs_of(kWait, {{"url", "https://example.test/"}, {"timeout", "1s"}}));
  context.machine.on_run = [](const std::string&) -> Result<Answer> {
    return Answer{3, "", "neither curl nor wget\n"};
  };
  EXPECT_EQ(kWait.run(context).error().kind, ErrorKind::refused);
  context.machine.on_run = [](const std::string&) -> Result<Answer> { return Answer{0, "200", ""}; };
  EXPECT_TRUE(kWait.run(context));
  context.machine.on_run = [](const std::string&) -> Result<Answer> {
    return Answer{60, "000", "curl: (60) SSL certificate problem\n"};
  };
  const auto untrusted = kWait.run(context);
  ASSERT_FALSE(untrusted);
  EXPECT_NE(untrusted.error().message.find("SSL certificate problem"), std::string::npos);
}

TEST(Wait, StopsWhenToldToAndPassesALostConnectionOn) {
  FakeContext context(inputs_of(kWait, {{"command", "false"}}));
  context.machine.on_run = [&context](const std::string&) -> Result<Answer> {
    context.stop = true;
    return Answer{1, "", ""};
  };
  EXPECT_EQ(kWait.run(context).error().kind, ErrorKind::interrupted);
  context.stop = false;
  context.machine.on_run = [](const std::string&) -> Result<Answer> { return fail(ErrorKind::connect, "lost"); };
  EXPECT_EQ(kWait.run(context).error().kind, ErrorKind::connect);
}

TEST(Wait, MistakesAreFoundBeforeAnythingIsContacted) {
  for (const Value& given :
       {Value{{"port", 0}}, Value{{"port", 70000}}, Value{{"path", "x"}}, Value{{"url", "ftp://x"}},
        Value{{"url", "http://"}}, Value{{"url", "http://x:port/"}}, Value{{"port", 1}, {"path", "/x"}}}) {
    EXPECT_THROW(inputs_of(kWait, given), std::runtime_error) << given;
  }
  FakeContext nothing(inputs_of(kWait, nullptr));
  EXPECT_EQ(kWait.run(nothing).error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace millwright
