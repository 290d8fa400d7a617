#include "orchestrator/engine/ask.hpp"

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/dead_man.hpp"

namespace millwright {

namespace {

std::string facts_script() {
  return "U=${mw_uid:-$(id -u)}\nprintf '%s\\n' \"$U\" \"${HOME:-/}\"\n"
         "if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then echo systemd; else echo none; "
         "fi\n"
         "S=/var/lib/millwright; [ \"$U\" = 0 ] || S=${HOME:-}/.local/state/millwright\n" +
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
    const std::size_t number = add(std::move(command));
    asked_.push_back({number, wanted.key, question.key, gated});
    if (question.shared && !gated) shared_.emplace(number, *question.shared);
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

// Only questions stand between a look and those that it is for: an action would make what it saw old.
std::map<std::size_t, Command> AskBatch::looks() const {
  constexpr std::size_t most = 128;  // each question searches all that was seen
  std::map<std::size_t, Command> out;
  std::map<std::string, std::vector<std::size_t>> open;  // by variable, the numbers of those that wait for one
  const auto close = [&](const std::string& variable) {
    const auto waiting = open.extract(variable);
    if (waiting.empty() || waiting.mapped().size() < 2) return;
    Command look;
    look.keep_as = variable;
    look.script = "set --";
    look.deadline = Milliseconds(0);
    for (const std::size_t number : waiting.mapped()) {
      look.script += " " + shell_quote(shared_.at(number).word);
      look.deadline += commands_[number].deadline;
    }
    const std::size_t first = waiting.mapped().front();
    look.script += "\n" + shared_.at(first).script;
    look.become = commands_[first].become;
    out.emplace(first, std::move(look));
  };
  const auto close_all = [&] {
    while (!open.empty()) close(std::string(open.begin()->first));
  };
  std::vector<bool> question(commands_.size());
  for (const Asked& asked : asked_) question[asked.command] = !asked.gated;
  for (std::size_t number = 0; number < commands_.size(); ++number) {
    if (!question[number]) close_all();
    if (number > 0 && commands_[number].become != commands_[number - 1].become) close_all();
    const auto shared = shared_.find(number);
    if (shared == shared_.end()) continue;
    std::vector<std::size_t>& waiting = open[shared->second.variable];
    waiting.push_back(number);
    if (waiting.size() == most) close(std::string(shared->second.variable));
  }
  close_all();
  return out;
}

Result<void> AskBatch::run() {
  const std::map<std::size_t, Command> looks = this->looks();
  std::vector<Command> sent;
  std::vector<std::size_t> places;
  for (std::size_t number = 0; number < commands_.size(); ++number) {
    if (const auto look = looks.find(number); look != looks.end()) sent.push_back(look->second);
    places.push_back(sent.size());
    sent.push_back(commands_[number]);
  }
  Result<std::vector<CommandResult>> results = node_.connection->run_batch(sent);
  if (!results) return fail(results.error());
  if (results->size() != sent.size()) {
    return fail(ErrorKind::connect, node_.name + " answered only a part of what was asked");
  }
  results_.clear();
  for (const std::size_t place : places) results_.push_back(std::move((*results)[place]));
  return {};
}

Result<void> AskBatch::send(const AnswerCache::Ticket& ticket) {
  if (!commands_.empty()) {
    if (Result<void> done = run(); !done) return done;
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
