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

StepOrder::StepOrder(const Playbook& playbook) {
  const std::vector<StepDecl>& steps = playbook.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) positions_[steps[i].id] = i;
  needs_.resize(steps.size());
  needs_all_.resize(steps.size());
  needed_by_.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::set<std::size_t> needed;
    for (const NeedDecl& need : steps[i].needs) {
      const auto at = position(need.step);
      if (!at) continue;
      needed.insert(*at);
      if (need.on_all) needs_all_[i].push_back(*at);
      crosses_hosts_ = crosses_hosts_ || need.on_all;
    }
    if (const auto at = position(steps[i].in); at) needed.insert(*at);
    needs_[i].assign(needed.begin(), needed.end());
    for (std::size_t n : needed) needed_by_[n].push_back(i);
  }
  // Of those whose needs have come, always the one that is written first.
  std::vector<std::size_t> missing(steps.size());
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    missing[i] = needs_[i].size();
    if (missing[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    const std::size_t step = *ready.begin();
    ready.erase(ready.begin());
    order_.push_back(step);
    for (std::size_t later : needed_by_[step]) {
      if (--missing[later] == 0) ready.insert(later);
    }
  }
}

std::optional<std::size_t> StepOrder::position(const std::string& id) const {
  const auto it = positions_.find(id);
  if (it == positions_.end()) return {};
  return it->second;
}

namespace {

std::set<std::size_t> reachable(const std::vector<std::vector<std::size_t>>& edges, std::size_t from) {
  std::set<std::size_t> seen;
  std::vector<std::size_t> open = {from};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (std::size_t next : edges[at]) {
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return seen;
}

}  // namespace

std::vector<std::size_t> StepOrder::in_order(const std::set<std::size_t>& steps) const {
  std::vector<std::size_t> out;
  for (std::size_t step : order_) {
    if (steps.count(step) != 0) out.push_back(step);
  }
  return out;
}

std::vector<std::size_t> StepOrder::ancestors(std::size_t step) const {
  std::vector<std::size_t> out = in_order(reachable(needs_, step));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::size_t> StepOrder::dependents(std::size_t step) const { return in_order(reachable(needed_by_, step)); }

std::vector<std::size_t> StepOrder::between(std::size_t from, std::size_t to) const {
  std::set<std::size_t> after = reachable(needed_by_, from);
  after.insert(from);
  const std::set<std::size_t> before = reachable(needs_, to);
  std::set<std::size_t> both = {to};
  for (std::size_t step : after) {
    if (before.count(step) != 0) both.insert(step);
  }
  return in_order(both);
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
