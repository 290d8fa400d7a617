// Servers that mean no good, or are none: over real sockets, each gets a verdict, in bounded time and memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "orchestrator/transport/curl_http.hpp"
#include "rules_fixture.hpp"
#include "steps/smoke/smoke.hpp"
#include "tests/support/replay_surface.hpp"
#include "tls_server.hpp"

namespace millwright {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;
// A body may have 4 MiB; what the sockets' buffers hold on top went out and was not read.
constexpr std::uint64_t kMostSent = 24 * kMiB;

// The shipped rules with a deadline that a test can wait for.
SmokeReport run_on(const std::string& url, Milliseconds patience = Milliseconds(1500)) {
  SmokeRules rules = *shipped_rules();
  rules.request_timeout = rules.connect_timeout = patience;
  SystemClock clock;
  const auto http = make_curl_http_client();
  SmokeOptions options;
  options.url = url;
  options.first_token_timeout = patience;
  return run_smoke(*http, clock, rules, options);
}

std::uint64_t memory_of(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// How far the process grew at its peak since this was made.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): the peak starts over
    before_ = memory_of("VmRSS:");
  }
  std::uint64_t grown() const {
    const std::uint64_t peak = memory_of("VmHWM:");
    return peak > before_ ? peak - before_ : 0;
  }

 private:
  std::uint64_t before_ = 0;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kMostMemory = 4096 * kMiB;  // freed memory is kept on purpose
#else
constexpr std::uint64_t kMostMemory = 256 * kMiB;
#endif

ReplayReply bare(std::vector<ReplayPiece> pieces, ReplayEnding ending = ReplayEnding::whole) {
  ReplayReply reply;
  reply.pieces = std::move(pieces);
  reply.ending = ending;
  reply.bare = true;
  return reply;
}

ReplayReply flood(std::string piece, std::string content_type = "application/json", std::uint64_t times = kForever) {
  ReplayReply reply = text_reply("", 200, std::move(content_type));
  reply.pieces = {{std::move(piece), Milliseconds(0), times}};
  return reply;
}

std::string repeated(std::string_view piece, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += piece;
  return out;
}

const std::string kBlock(65536, 'x');
const std::string kEndlessHeaders = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
// RFC 9113: an empty SETTINGS frame, then GOAWAY with HTTP_1_1_REQUIRED.
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);
const std::string kGoAway("\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\15", 17);

struct Hostile {
  std::string name;
  std::string path;  // which request gets the reply; "stream": chats that stream
  ReplayReply reply;
  std::string verdict, symptom_class;
  // Floods end by their size, however busy the machine; drips and silence end by the deadline.
  Milliseconds patience = std::chrono::seconds(30);
};

void add_endless(std::vector<Hostile>& all) {
  const std::string delta = sse({{"choices", {{{"delta", {{"content", std::string(4000, 'y')}}}}}}});
  const std::string small = sse({{"choices", {{{"delta", {{"content", std::string(1500, 'y')}}}}}}});
  for (const char* path : {"/v1/models", "/v1/chat/completions"}) {
    all.push_back({"a gigabyte", path, flood(kBlock, "application/json", 16384), "fail", "oversized_response"});
    all.push_back({"blanks without end", path, flood(std::string(65536, ' ')), "fail", "oversized_response"});
    all.push_back({"headers without end", path,
                   bare({{kEndlessHeaders}, {"X-A: " + std::string(1000, 'b') + "\r\n", Milliseconds(0), kForever}}),
                   "fail", "oversized_response"});
  }
  all.push_back({"text without end", "stream", flood(delta, "text/event-stream"), "fail", "oversized_response"});
  all.push_back({"words without end", "stream", flood(small, "text/event-stream"), "fail", "oversized_response"});
  all.push_back(
      {"comments without end", "stream", flood(": ping\n\n", "text/event-stream"), "fail", "oversized_response"});
  all.push_back({"a line without end", "stream", flood(kBlock, "text/event-stream"), "fail", "oversized_response"});
  all.push_back({"a gigabyte of version", "/version", flood(kBlock, "application/json", 16384), "pass", ""});
}

void add_slow(std::vector<Hostile>& all) {
  const Milliseconds tick(40);
  all.push_back(
      {"a status line in drips", "/v1/models", bare({{"HTTP/1.1 200 "}, {"O", tick, kForever}}), "fail", "hang"});
  all.push_back(
      {"headers in drips", "/v1/models", bare({{kEndlessHeaders}, {"X-A: b\r\n", tick, kForever}}), "fail", "hang"});
  all.push_back({"a body in drips", "/v1/models", flood(" ", "application/json", 1000), "inconclusive", "too_slow"});
  all.back().reply.pieces.front().delay = tick;
  ReplayReply words = flood(sse({{"choices", {{{"delta", {{"content", "y "}}}}}}}), "text/event-stream");
  words.pieces.front().delay = tick;
  all.push_back({"a stream in drips", "stream", words, "inconclusive", "too_slow"});
  all.push_back({"continue without end", "/v1/models",
                 bare({{"HTTP/1.1 100 Continue\r\n\r\n", Milliseconds(1), kForever}}), "fail", "hang"});
  all.push_back({"silence", "/v1/models", bare({}, ReplayEnding::hang), "fail", "hang"});
}

void add_other_protocols(std::vector<Hostile>& all) {
  const auto other = [&](const char* name, std::string bytes) {
    all.push_back({name, "/v1/models", bare({{std::move(bytes)}}), "inconclusive", "not_openai"});
  };
  other("HTTP/2 frames", kSettings + kGoAway);
  other("an SSH server", "SSH-2.0-OpenSSH_9.6\r\n");
  other("noise", std::string("\x80\0\xff\xfe\x01", 5));
  other("no HTTP/1.1 status", "HTTP/1.1 abc OK\r\n\r\n{}");
  all.push_back(
      {"a TLS alert", "/v1/models", bare({{std::string("\x15\x03\x01\0\2\2\x46", 7)}}), "inconclusive", "not_openai"});
  all.push_back(
      {"a port for HTTPS", "/v1/models",
       text_reply("<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>", 400, "text/html"),
       "inconclusive", "tls_error"});
}

void add_documents(std::vector<Hostile>& all) {
  const auto chat = [&](const char* name, std::string body) {
    all.push_back({name, "/v1/chat/completions", text_reply(std::move(body)), "fail", "malformed_response"});
  };
  const std::string deep = repeated("[", 1000000);
  chat("deep JSON", deep);
  chat("deep content", R"({"choices":[{"message":{"content":)" + deep);
  chat("two million lists", "[" + repeated("[],", 1300000) + "[]]");
  chat("bytes that are no text", std::string("\xff\xfe\x00\x80", 4));
  all.push_back({"deep models", "/v1/models", text_reply(deep), "inconclusive", "not_openai"});
  all.push_back({"NaN for models", "/v1/models", text_reply(R"({"data": NaN})"), "inconclusive", "not_openai"});
  all.push_back({"a name of three million letters", "/v1/models",
                 json_reply({{"data", {{{"id", std::string(3000000, 'm')}}}}}), "fail", "no_model"});
  all.push_back(
      {"a name that is no text", "/v1/models", text_reply("{\"data\":[{\"id\":\"\xff\\u001b[31m\"}]}"), "pass", ""});
  all.push_back({"models with a wrong content type", "/v1/models",
                 text_reply(R"({"data":[{"id":"replayed-model"}]})", 200, "image/png"), "pass", ""});
  all.push_back({"an error of three million letters", "/v1/chat/completions",
                 error_reply(500, "\x1b[31m" + std::string(3000000, 'e'), "x", false), "fail", "first_request_500"});
  all.push_back({"a chunk of negative size", "stream",
                 bare({{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n"}}), "degraded",
                 "stream_cut"});
}

std::vector<Hostile> hostile_servers() {
  std::vector<Hostile> all;
  add_endless(all);
  const std::size_t first_slow = all.size();
  add_slow(all);
  for (std::size_t i = first_slow; i < all.size(); ++i) all[i].patience = Milliseconds(1500);
  add_other_protocols(all);
  add_documents(all);
  return all;
}

bool meant(const Hostile& hostile, const ReplayRequest& request) {
  return hostile.path == "stream" ? request.flag("stream") : request.path == hostile.path;
}

TEST(Hostile, EveryServerGetsAVerdictInBoundedTimeAndMemory) {
  for (const Hostile& hostile : hostile_servers()) {
    SCOPED_TRACE(hostile.name + " at " + hostile.path);
    const ReplayBehaviour healthy = engine_surface("vllm", healthy_answer);
    ReplayServer server(
        [&](const ReplayRequest& request) { return meant(hostile, request) ? hostile.reply : healthy(request); });
    const PeakMemory memory;
    const SmokeReport report = run_on(server.url(), hostile.patience);
    EXPECT_EQ(to_string(report.verdict), hostile.verdict) << to_json(report).dump(1).substr(0, 8000);
    EXPECT_EQ(report.symptom_class, hostile.symptom_class);
    EXPECT_FALSE(report.sentence.empty());
    EXPECT_EQ(report.first_remedy.empty(), report.verdict == VerdictKind::pass);
    EXPECT_LT(report.seconds, 20);
    EXPECT_LT(server.bytes_sent(), kMostSent);
    EXPECT_LT(memory.grown(), kMostMemory);
    const std::string lines = to_json(report).dump() + closing_lines(report, *shipped_rules());
    EXPECT_LT(lines.size(), 64u << 10);
    for (const ProbeReport& probe : report.probes) {
      EXPECT_EQ(probe_line(probe).find('\x1b'), std::string::npos) << "the server draws on the terminal";
    }
  }
}

TEST(Hostile, RedirectsAreNamedAndNeverFollowed) {
  ReplayServer other(engine_surface("vllm", healthy_answer));
  const std::string secret = "file://" + std::string(SOURCE_DIR) + "/README.md";
  for (const std::string& target : {std::string("/v1/models"), other.url() + "/v1/models", secret}) {
    for (const int status : {301, 302, 307, 308}) {
      ReplayReply reply = text_reply("", status, "text/html");
      reply.headers["Location"] = target;
      ReplayServer server([&](const ReplayRequest&) { return reply; });
      const SmokeReport report = run_on(server.url());
      EXPECT_EQ(report.verdict, VerdictKind::inconclusive) << target;
      EXPECT_EQ(report.symptom_class, "not_openai") << target;
      EXPECT_NE(report.probes.front().summary.find(target.substr(0, 40)), std::string::npos);
      EXPECT_EQ(server.requests().size(), 1u);
    }
  }
  EXPECT_TRUE(other.requests().empty()) << "a key would have gone to another host";
}

// In a process of its own under ctest; the variable is put back for when it is not.
class Trust {
 public:
  explicit Trust(const std::string& certificate) { ::setenv("SSL_CERT_FILE", certificate.c_str(), 1); }
  ~Trust() { ::unsetenv("SSL_CERT_FILE"); }
};

void expect_tls_error(const SmokeReport& report, const std::string& word) {
  EXPECT_EQ(report.verdict, VerdictKind::inconclusive);
  EXPECT_EQ(report.symptom_class, "tls_error");
  EXPECT_NE(report.probes.front().summary.find(word), std::string::npos) << report.probes.front().summary;
  EXPECT_LT(report.seconds, 10);
}

TEST(Hostile, CertificatesAreChecked) {
  const TlsServer good("trusted"), other_name("other-name"), expired("expired");
  expect_tls_error(run_on("https://" + good.authority()), "self-signed");
  {
    const Trust trust(good.certificate());
    EXPECT_EQ(run_on("https://" + good.authority()).symptom_class, "no_model") << "a right certificate lets through";
  }
  {
    const Trust trust(other_name.certificate());
    expect_tls_error(run_on("https://" + other_name.authority()), "127.0.0.1");
  }
  const Trust trust(expired.certificate());
  expect_tls_error(run_on("https://" + expired.authority()), "expired");
}

TEST(Hostile, PlainHttpWhereTlsIsAskedForIsNamed) {
  ReplayServer answers([](const ReplayRequest&) { return error_reply(400, "Invalid HTTP request", "x", false); });
  expect_tls_error(run_on("https://127.0.0.1:" + std::to_string(answers.port())), "wrong version");
  ReplayServer waits([](const ReplayRequest&) { return bare({}, ReplayEnding::hang); });
  expect_tls_error(run_on("https://127.0.0.1:" + std::to_string(waits.port())), "begins no TLS");
}

TEST(Hostile, TlsWherePlainHttpIsAskedForIsNamed) {
  const TlsServer tls("trusted");
  const SmokeReport report = run_on("http://" + tls.authority());
  EXPECT_EQ(report.verdict, VerdictKind::inconclusive);
  EXPECT_EQ(report.symptom_class, "not_openai") << report.probes.front().summary;
}

TEST(Hostile, AServerThatTakesHttp2AndDoesNotSpeakItIsNamed) {
  const TlsServer server("h2");
  const Trust trust(server.certificate());
  const SmokeReport report = run_on("https://" + server.authority());
  EXPECT_EQ(report.verdict, VerdictKind::inconclusive);
  EXPECT_EQ(report.symptom_class, "not_openai") << report.probes.front().summary;
}

}  // namespace
}  // namespace millwright
