#include "orchestrator/engine/schedule.hpp"

#include <algorithm>

namespace millwright {

std::string_view to_string(Progress progress) {
  switch (progress) {
    case Progress::waiting:
      return "waiting";
    case Progress::running:
      return "running";
    case Progress::ok:
      return "ok";
    case Progress::changed:
      return "changed";
    case Progress::failed:
      return "failed";
    case Progress::skipped:
      return "skipped";
    case Progress::unreachable:
      return "unreachable";
    case Progress::cancelled:
      return "cancelled";
    case Progress::unknown:
      return "unknown";
  }
  return "waiting";
}

std::optional<Progress> progress_of(std::string_view name) {
  for (int i = static_cast<int>(Progress::waiting); i <= static_cast<int>(Progress::unknown); ++i) {
    if (to_string(static_cast<Progress>(i)) == name) return static_cast<Progress>(i);
  }
  return {};
}

namespace {

StepGraph graph_of(const Playbook& playbook) {
  std::vector<GraphNode> nodes;
  for (const StepDecl& step : playbook.steps) {
    GraphNode node;
    node.id = step.id;
    for (const NeedDecl& need : step.needs) node.needs.push_back(need.step);
    if (!step.in.empty()) node.needs.push_back(step.in);
    nodes.push_back(std::move(node));
  }
  return StepGraph::build(std::move(nodes)).value();
}

}  // namespace

StepOrder::StepOrder(const Playbook& playbook) : graph_(graph_of(playbook)), needs_all_(playbook.steps.size()) {
  for (std::size_t i = 0; i < playbook.steps.size(); ++i) {
    for (const NeedDecl& need : playbook.steps[i].needs) {
      if (need.on_all) needs_all_[i].push_back(*position(need.step));
      crosses_hosts_ = crosses_hosts_ || need.on_all;
    }
    if (!playbook.steps[i].lock.name.empty()) with_locks_.push_back(i);
    crosses_hosts_ = crosses_hosts_ || playbook.steps[i].lock.on_all;
  }
}

std::vector<std::size_t> StepOrder::between(std::size_t from, std::size_t to) const {
  std::vector<std::size_t> path = graph_.between(from, to);
  return path.empty() ? std::vector<std::size_t>{to} : path;
}

Board::Board(const StepOrder& order, std::size_t steps) : order_(order), steps_(steps) {}

void Board::add_host(const std::string& host) {
  const Lock guard(mutex_);
  rows_[host].results.resize(steps_);
}

StepResult Board::get(const std::string& host, std::size_t step) const {
  const Lock guard(mutex_);
  const auto it = rows_.find(host);
  return it == rows_.end() ? StepResult() : it->second.results.at(step);
}

void Board::put(const std::string& host, std::size_t step, StepResult result) {
  const Lock guard(mutex_);
  Row& own = rows_.at(host);
  own.results.at(step) = std::move(result);
  moved(own);
}

void Board::moved(Row& row) {
  row.changed = ++changes_;
  row.moved.notify_all();
  if (!order_.crosses_hosts()) return;
  for (auto& [name, other] : rows_) {
    other.changed = changes_;
    other.moved.notify_all();
  }
}

bool lets_go_on(const StepResult& result) {
  switch (result.progress) {
    case Progress::ok:
    case Progress::changed:
    case Progress::skipped:
    case Progress::unknown:
      return true;
    case Progress::failed:
      return result.ignored;
    default:
      return false;
  }
}

namespace {

bool unfinished(const StepResult& result) {
  return result.progress == Progress::waiting || result.progress == Progress::running;
}

}  // namespace

Board::Readiness Board::readiness(const std::string& host, std::size_t step) const {
  Readiness readiness = Readiness::ready;
  const std::vector<StepResult>& own = rows_.at(host).results;
  for (std::size_t need : order_.needs(step)) {
    if (lets_go_on(own[need])) continue;
    if (!unfinished(own[need])) return Readiness::never;
    readiness = Readiness::not_yet;
  }
  for (std::size_t need : order_.needs_all(step)) {
    for (const auto& [other, row] : rows_) {
      // A host that cannot be reached is no longer part of the play; it must not hold up the others.
      if (lets_go_on(row.results[need]) || row.results[need].progress == Progress::unreachable) continue;
      if (!unfinished(row.results[need])) return Readiness::never;
      readiness = Readiness::not_yet;
    }
  }
  return readiness;
}

Board::Next Board::next(const std::string& host, const std::set<std::size_t>& held_back) const {
  const Lock guard(mutex_);
  const std::vector<StepResult>& own = rows_.at(host).results;
  bool waiting = false;
  for (std::size_t step : order_.order()) {
    if (own[step].progress != Progress::waiting) continue;
    waiting = true;
    switch (readiness(host, step)) {
      case Readiness::ready:
        if (held_back.count(step) == 0) return {Next::Kind::run, step};
        break;
      case Readiness::never:
        return {Next::Kind::cancel, step};
      case Readiness::not_yet:
        break;
    }
  }
  return {waiting ? Next::Kind::wait : Next::Kind::finished, 0};
}

std::uint64_t Board::changes() const {
  const Lock guard(mutex_);
  return changes_;
}

void Board::touch(const std::string& host) {
  const Lock guard(mutex_);
  moved(rows_.at(host));
}

void Board::wait(const std::string& host, std::uint64_t seen, Milliseconds most) {
  const Lock guard(mutex_);
  Row& own = rows_.at(host);
  if (own.changed <= seen) own.moved.wait_for(mutex_, most);
}

}  // namespace millwright
