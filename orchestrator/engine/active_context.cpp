#include "orchestrator/engine/active_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millwright {

namespace {

class OpenTunnel final : public NodeTunnel {
 public:
  explicit OpenTunnel(std::unique_ptr<Tunnel> tunnel) : tunnel_(std::move(tunnel)) {}
  std::string base_url() const override { return fmt::format("http://127.0.0.1:{}", tunnel_->local_port()); }

 private:
  std::unique_ptr<Tunnel> tunnel_;
};

OutputStream stream_of(Stream stream) { return stream == Stream::out ? OutputStream::out : OutputStream::err; }

}  // namespace

Result<Command> ActiveNode::to_command(const NodeCommand& command) const {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline_ - run_.services.clock->steady());
  if (left.count() <= 0) return fail(ErrorKind::timeout, "the step's deadline has passed on " + node_.name);
  Command out;
  out.script = "set -eu\n" + command.script;
  out.input = command.input;
  out.become = become_;
  out.deadline = std::min(command.deadline, left);
  if (command.live) {
    out.live = [live = command.live](OutputStream stream, std::string_view piece) {
      live(stream == OutputStream::out ? Stream::out : Stream::err, piece);
    };
  }
  return out;
}

Result<Answer> ActiveNode::run(const NodeCommand& command) {
  Result<std::vector<Answer>> answers = run_all({command});
  if (!answers) return fail(answers.error());
  return std::move(answers->front());
}

Result<std::vector<Answer>> ActiveNode::run_all(const std::vector<NodeCommand>& commands) {
  std::vector<Command> batch;
  for (const NodeCommand& command : commands) {
    Result<Command> made = to_command(command);
    if (!made) return fail(made.error());
    batch.push_back(std::move(*made));
  }
  // The engine cannot tell a script that reads from one that changes, so what the node has answered is asked anew.
  const Changing changing(host_.cache());
  Result<std::vector<CommandResult>> results = node_.connection->run_batch(batch);
  if (!results) return fail(results.error());
  if (results->size() != commands.size()) return fail(ErrorKind::connect, node_.name + " answered only in part");
  std::vector<Answer> answers;
  for (CommandResult& result : *results) {
    answers.push_back({result.exit_code, std::move(result.out), std::move(result.err)});
  }
  return answers;
}

Result<void> ActiveNode::place(const FilePlacement& file,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const Changing changing(host_.cache());
  Upload upload;
  upload.path = file.path;
  if (file.content) upload.content = *file.content;
  upload.local_path = file.local_path;
  upload.mode = file.mode;
  upload.owner = file.owner;
  upload.group = file.group;
  upload.become = become_;
  upload.progress = progress;
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline_ - run_.services.clock->steady());
  upload.deadline = std::max(std::min(upload.deadline, left), Milliseconds(1));
  return node_.connection->upload(upload);
}

Result<std::string> ActiveNode::read(const std::string& path, std::uint64_t max_bytes) {
  return node_.connection->download(path, max_bytes, become_);
}

Result<std::unique_ptr<NodeTunnel>> ActiveNode::tunnel(const std::string& host, int port) {
  Result<std::unique_ptr<Tunnel>> opened = node_.connection->open_tunnel(host, port);
  if (!opened) return fail(opened.error());
  return std::make_unique<OpenTunnel>(std::move(*opened));
}

Result<void> ActiveNode::reconnect(Milliseconds deadline) { return host_.reconnect(node_, deadline, host_.line()); }

ActiveContext::ActiveContext(RunContext& run, HostSession& host, NodeSession& node, const Unit& unit, Value inputs,
                             SteadyPoint deadline)
    : run_(run),
      host_(host),
      session_(node),
      unit_(unit),
      inputs_(std::move(inputs)),
      deadline_(deadline),
      become_(host.become_of(*unit.decl)),
      node_(run, host, node, become_, deadline),
      converger_(run, host) {}

bool ActiveContext::cancelled() const { return run_.stop_now() || run_.services.clock->steady() >= deadline_; }

void ActiveContext::progress(std::string text, std::optional<double> fraction) {
  Value data = {{"text", std::move(text)}, {"fraction", nullptr}};
  if (fraction) data["fraction"] = *fraction;
  run_.recorder.emit(EventType::step_progress, session_.name, unit_.decl->id, std::move(data));
}

void ActiveContext::output(Stream stream, std::string_view text) {
  run_.recorder.emit(EventType::step_output, session_.name, unit_.decl->id,
                     {{"stream", stream_of(stream) == OutputStream::out ? "out" : "err"}, {"text", text}});
}

void ActiveContext::probe_finished(const Value& data) {
  run_.recorder.emit(EventType::probe_finished, session_.name, unit_.decl->id, data);
}

std::string ActiveContext::keep(const std::string& name, std::string_view bytes) {
  return run_.recorder.keep(session_.name, unit_.decl->id, name, bytes);
}

Result<Change> ActiveContext::converge(const std::vector<Question>& questions,
                                       const std::function<Result<Change>(const Answers&)>& plan) {
  if (run_.changes_nothing()) return fail(ErrorKind::refused, "nothing is changed now, only looked at");
  ConvergeRequest request;
  request.node = &session_;
  request.unit = &unit_;
  request.key = unit_.key() + " (active)";
  request.become = become_;
  request.deadline = deadline_;
  request.questions = questions;
  request.plan = plan;
  request.first = ConvergeRequest::First::ask;  // other questions may have gone by this name
  Result<Converged> done = converger_.run(request);
  if (!done) return fail(done.error());
  acted_ = acted_ || done->changed;
  Change change = std::move(done->change);
  change.outputs = std::move(done->outputs);
  return change;
}

Result<Answer> ActiveContext::act(const Action& action) {
  if (run_.changes_nothing()) return fail(ErrorKind::refused, "nothing is changed now, only looked at");
  ActRequest request;
  request.node = &session_;
  request.unit = &unit_;
  request.action = &action;
  request.become = become_;
  request.deadline = deadline_;
  acted_ = true;
  const Alone alone(run_, host_.turns(), {action});
  if (!alone.granted()) return fail(ErrorKind::interrupted, "interrupted while waiting for the other steps to end");
  Result<ActEnd> end = converger_.actor().act(request);
  if (!end) return fail(end.error());
  if (end->kind == ActEnd::Kind::failed) return fail(action_error(action, end->answer));
  return std::move(end->answer);
}

}  // namespace millwright
