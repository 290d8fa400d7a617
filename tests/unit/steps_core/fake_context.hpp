// A StepContext in memory: time passes only by sleeping, and the node is what a test says it is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "steps/contract/step.hpp"

namespace millwright::testing_tools {

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(elapsed); }
  SteadyPoint steady() const override { return SteadyPoint(elapsed); }
  void sleep(Milliseconds duration, const std::function<bool()>& cancelled) override {
    if (!cancelled || !cancelled()) elapsed += duration;
  }
  Milliseconds elapsed{0};
};

class FakeNode final : public StepNode {
 public:
  std::function<Result<Answer>(const std::string& script)> on_run;
  std::function<Result<void>()> on_reconnect;
  std::vector<std::string> tunnels;  // "host:port" asked for

  std::string name() const override { return "node1"; }
  int batches = 0;  // waits for the node: of one command, or of several sent together

  Result<Answer> run(const NodeCommand& command) override {
    ++batches;
    return on_run(command.script);
  }
  Result<std::vector<Answer>> run_all(const std::vector<NodeCommand>& commands) override {
    ++batches;
    std::vector<Answer> answers;
    for (const NodeCommand& command : commands) {
      auto answer = on_run(command.script);
      if (!answer) return fail(answer.error());
      answers.push_back(*answer);
    }
    return answers;
  }
  Result<void> place(const FilePlacement&, const std::function<void(std::uint64_t, std::uint64_t)>&) override {
    return fail(ErrorKind::internal, "no test places files on this node");
  }
  Result<std::string> read(const std::string&, std::uint64_t) override {
    return fail(ErrorKind::internal, "no test reads files of this node");
  }
  Result<std::unique_ptr<NodeTunnel>> tunnel(const std::string& host, int port) override {
    class Door final : public NodeTunnel {
     public:
      std::string base_url() const override { return "http://127.0.0.1:43121"; }
    };
    tunnels.push_back(host + ":" + std::to_string(port));
    return std::make_unique<Door>();
  }
  Result<void> reconnect(Milliseconds) override { return on_reconnect(); }
};

class FakeHttp final : public HttpClient {
 public:
  std::function<Result<HttpResponse>(const HttpRequest&)> on_send;
  Result<HttpResponse> send(const HttpRequest& request) override { return on_send(request); }
};

class FakeContext final : public StepContext {
 public:
  explicit FakeContext(Inputs inputs) : inputs_(std::move(inputs)) {}

  FakeClock time;
  FakeNode machine;
  FakeHttp web;
  bool stop = false;
  std::vector<std::string> said;
  std::vector<std::string> kept;  // contents
  std::vector<Value> probes;
  std::vector<Action> acted;
  std::function<Result<Answer>(const Action&)> on_act;

  const Inputs& inputs() const override { return inputs_; }
  StepNode& node() override { return machine; }
  HttpClient& http() override { return web; }
  Clock& clock() override { return time; }
  SteadyPoint deadline() const override { return SteadyPoint(std::chrono::hours(1)); }
  bool cancelled() const override { return stop; }
  std::string run_id() const override { return "run"; }
  std::string step_id() const override { return "step"; }
  void progress(std::string text, std::optional<double>) override { said.push_back(std::move(text)); }
  void output(Stream, std::string_view) override {}
  void probe_finished(const Value& data) override { probes.push_back(data); }
  std::string keep(const std::string& name, std::string_view content) override {
    kept.emplace_back(content);
    return name;
  }
  Result<Change> converge(const std::vector<Question>&, const std::function<Result<Change>(const Answers&)>&) override {
    return fail(ErrorKind::internal, "no test converges in this context");
  }
  Result<Answer> act(const Action& action) override {
    acted.push_back(action);
    return on_act(action);
  }

 private:
  Inputs inputs_;
};

}  // namespace millwright::testing_tools
