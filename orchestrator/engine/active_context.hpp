// What an active step sees: the node over its connection, and the engine's rules for changing it.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/engine/converge.hpp"

namespace millwright {

class ActiveNode final : public StepNode {
 public:
  ActiveNode(RunContext& run, HostSession& host, NodeSession& node, Become become, SteadyPoint deadline)
      : run_(run), host_(host), node_(node), become_(become), deadline_(deadline) {}

  std::string name() const override { return node_.name; }
  Result<Answer> run(const NodeCommand& command) override;
  Result<std::vector<Answer>> run_all(const std::vector<NodeCommand>& commands) override;
  Result<void> place(const FilePlacement& file,
                     const std::function<void(std::uint64_t, std::uint64_t)>& progress) override;
  Result<std::string> read(const std::string& path, std::uint64_t max_bytes) override;
  Result<std::unique_ptr<NodeTunnel>> tunnel(const std::string& host, int port) override;
  Result<void> reconnect(Milliseconds deadline) override;

 private:
  Result<Command> to_command(const NodeCommand& command) const;

  RunContext& run_;
  HostSession& host_;
  NodeSession& node_;
  const Become become_;
  const SteadyPoint deadline_;
};

class ActiveContext final : public StepContext {
 public:
  ActiveContext(RunContext& run, HostSession& host, NodeSession& node, const Unit& unit, Value inputs,
                SteadyPoint deadline);

  const Inputs& inputs() const override { return inputs_; }
  StepNode& node() override { return node_; }
  HttpClient& http() override { return *run_.services.http; }
  Clock& clock() override { return *run_.services.clock; }
  SteadyPoint deadline() const override { return deadline_; }
  bool cancelled() const override;
  std::string run_id() const override { return run_.run(); }
  std::string step_id() const override { return unit_.decl->id; }
  void progress(std::string text, std::optional<double> fraction) override;
  void output(Stream stream, std::string_view text) override;
  void probe_finished(const Value& data) override;
  std::string keep(const std::string& name, std::string_view bytes) override;
  void remember(const std::string& output, const Value& value) override { remembered_[output] = value; }
  Result<Change> converge(const std::vector<Question>& questions,
                          const std::function<Result<Change>(const Answers&)>& plan) override;
  Result<Answer> act(const Action& action) override;

  const Value& remembered() const { return remembered_; }
  bool acted() const { return acted_; }

 private:
  RunContext& run_;
  HostSession& host_;
  NodeSession& session_;
  const Unit& unit_;
  const Inputs inputs_;
  const SteadyPoint deadline_;
  const Become become_;
  ActiveNode node_;
  Converger converger_;
  Value remembered_ = Value::object();
  bool acted_ = false;
};

}  // namespace millwright
