#include "orchestrator/engine/ask.hpp"

#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/dead_man.hpp"

namespace millwright {

namespace {

std::string facts_script() {
  return "id -u\nprintf '%s\\n' \"${HOME:-/}\"\n"
         "if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then echo systemd; else echo none; "
         "fi\n"
         "S=/var/lib/millwright; [ \"$(id -u)\" = 0 ] || S=${HOME:-}/.local/state/millwright\n" +
         told_by_node_script();
}

NodeFacts facts_of(const std::string& out) {
  const std::vector<std::string> lines = split_lines(out);
  NodeFacts facts;
  if (!lines.empty()) facts.user_id = lines[0];
  if (lines.size() > 1) facts.home = lines[1];
  if (lines.size() > 2) facts.systemd = lines[2] == "systemd";
  for (std::size_t i = 3; i < lines.size(); ++i) {
    const std::vector<std::string> words = split(lines[i], ' ');
    if (words.size() < 3 || words[0] != "by-itself") continue;
    facts.did_by_itself.emplace_back(words[1], lines[i].substr(words[0].size() + words[1].size() + 2));
  }
  return facts;
}

}  // namespace

std::size_t AskBatch::add(Command command) {
  commands_.push_back(std::move(command));
  return commands_.size() - 1;
}

void AskBatch::add(const Wanted& wanted) { add(wanted, "", false); }

void AskBatch::add(const Wanted& wanted, const std::string& before, bool gated) {
  (gated ? gated_keys_ : keys_).push_back(wanted.key);
  for (const Question& question : wanted.questions) {
    Command command;
    command.script = before + question.script;
    command.become = wanted.become;
    command.deadline = question.deadline;
    asked_.push_back({add(std::move(command)), wanted.key, question.key, gated});
  }
}

void AskBatch::add_unless_through(const std::vector<Wanted>& wanted, Command gate, const std::string& before) {
  gate_ = add(std::move(gate));
  for (const Wanted& one : wanted) add(one, before, true);
}

void AskBatch::add_facts(Become become) {
  if (const auto known = node_.facts(become); known && !known->user_id.empty()) return;
  Command command;
  command.script = facts_script();
  command.become = become;
  facts_.emplace_back(add(std::move(command)), become);
}

Result<void> AskBatch::send(const AnswerCache::Ticket& ticket) {
  if (!commands_.empty()) {
    Result<std::vector<CommandResult>> results = node_.connection->run_batch(commands_);
    if (!results) return fail(results.error());
    if (results->size() != commands_.size()) {
      return fail(ErrorKind::connect, node_.name + " answered only a part of what was asked");
    }
    results_ = std::move(*results);
  }
  answers_.clear();
  const bool closed = gate_ && results_[*gate_].out == "closed\n";
  for (const std::string& key : keys_) answers_[key] = Answers();
  for (const std::string& key : gated_keys_) {
    if (closed) answers_[key] = Answers();
  }
  for (const Asked& asked : asked_) {
    if (asked.gated && !closed) continue;
    const CommandResult& result = results_[asked.command];
    answers_[asked.key].set(asked.question, Answer{result.exit_code, result.out, result.err});
  }
  node_.cache.keep(ticket, node_.name, answers_);
  for (const auto& [command, become] : facts_) node_.learn(become, facts_of(results_[command].out));
  return {};
}

}  // namespace millwright
