#include "orchestrator/engine/play.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

// Signal handlers can only set a number, so somebody has to look at it.
class InterruptWatch {
 public:
  explicit InterruptWatch(RunContext& run) : run_(run), thread_([this] { watch(); }) {}
  ~InterruptWatch() {
    {
      const Lock guard(mutex_);
      done_ = true;
      ended_.notify_all();
    }
    thread_.join();
  }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  void watch() {
    constexpr Milliseconds interval = std::chrono::milliseconds(50);
    int said = 0;
    while (true) {
      {
        const Lock guard(mutex_);
        if (!done_) ended_.wait_for(mutex_, interval);
        if (done_) return;
      }
      const int level = run_.interrupt.load();
      if (level > said) {
        said = level;
        run_.recorder.emit(EventType::interrupted, "", "", {{"how", level == 1 ? "once" : "twice"}});
      }
      // Again and again: a call may have begun after the last time.
      if (level >= 2) run_.live.interrupt_all();
    }
  }

  RunContext& run_;
  Mutex mutex_;
  Condition ended_;
  bool done_ MW_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

HostEnd never_started(const PlayHost& host) {
  HostEnd end;
  end.summary.host = host.target.name;
  end.summary.state = "cancelled";
  return end;
}

int failures(const std::vector<HostEnd>& ends) {
  return static_cast<int>(std::count_if(ends.begin(), ends.end(), [](const HostEnd& end) {
    const std::string& state = end.summary.state;
    return state == "failed" || state == "rolled_back" || state == "rollback_incomplete";
  }));
}

}  // namespace

namespace {

std::vector<const PlayHost*> in_order(const std::vector<PlayHost>& hosts, HostOrder order, const std::string& run) {
  std::vector<const PlayHost*> out;
  for (const PlayHost& host : hosts) out.push_back(&host);
  const auto by_name = [](const PlayHost* a, const PlayHost* b) { return a->target.name < b->target.name; };
  if (order == HostOrder::sorted || order == HostOrder::reverse_sorted) std::sort(out.begin(), out.end(), by_name);
  if (order == HostOrder::reverse_inventory || order == HostOrder::reverse_sorted) std::reverse(out.begin(), out.end());
  if (order == HostOrder::shuffle) {
    // By the hash of run and name: as good as chance, and the same again.
    std::map<const PlayHost*, std::string> drawn;
    for (const PlayHost* host : out) drawn[host] = sha256_hex(run + "\n" + host->target.name);
    std::sort(out.begin(), out.end(), [&](const PlayHost* a, const PlayHost* b) { return drawn.at(a) < drawn.at(b); });
  }
  return out;
}

}  // namespace

std::vector<std::vector<const PlayHost*>> batches_of(const std::vector<PlayHost>& hosts, const StrategyDecl& strategy,
                                                     const std::string& run) {
  const std::vector<const PlayHost*> ordered = in_order(hosts, strategy.order, run);
  std::vector<std::vector<const PlayHost*>> batches;
  const auto total = static_cast<int>(ordered.size());
  int at = 0;
  const auto take = [&](int count) {
    std::vector<const PlayHost*> batch;
    for (; at < total && count > 0; --count) batch.push_back(ordered[static_cast<std::size_t>(at++)]);
    if (!batch.empty()) batches.push_back(std::move(batch));
  };
  if (strategy.canary > 0) take(strategy.canary);
  for (std::size_t next = 0; at < total; ++next) {
    if (strategy.batch.empty()) {
      take(total);
    } else {
      take(std::max(1, strategy.batch[std::min(next, strategy.batch.size() - 1)].of(total)));
    }
  }
  return batches;
}

std::vector<HostEnd> for_each_host(RunContext& run, const std::vector<const PlayHost*>& hosts,
                                   const std::function<HostEnd(const PlayHost&)>& work) {
  std::vector<HostEnd> ends(hosts.size());
  const InterruptWatch watch(run);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    threads.emplace_back([&, i] { ends[i] = work(*hosts[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

namespace {

// Why no further batch begins after these; empty: one may.
std::string stopped_by(const RunContext& run, const std::vector<HostEnd>& batch, const std::vector<HostEnd>& all,
                       std::size_t hosts, bool canary) {
  const auto unseen = [](const HostEnd& end) { return end.summary.state == "unreachable"; };
  const bool all_unseen = std::all_of(batch.begin(), batch.end(), unseen);
  if (canary && all_unseen) return "no canary could be reached: the other hosts are left alone";
  const int failed = failures(all);
  const std::optional<Amount>& most = run.playbook.strategy.max_failures;
  const int allowed = most ? most->of(static_cast<int>(hosts)) : canary ? 0 : static_cast<int>(hosts);
  if (failed > allowed) {
    return fmt::format("{} host{} failed ({} allowed): the other hosts are left alone", failed, failed == 1 ? "" : "s",
                       allowed);
  }
  const auto unreachable = std::count_if(batch.begin(), batch.end(), unseen);
  if (!all_unseen && failures(batch) + static_cast<int>(unreachable) == static_cast<int>(batch.size())) {
    return "no host of the batch came through: the other hosts are left alone";
  }
  return {};
}

// In the order of the inventory, whatever the order of the play was.
std::vector<HostEnd> as_given(std::vector<HostEnd> ends, const std::vector<PlayHost>& hosts) {
  std::map<std::string, std::size_t> positions;
  for (std::size_t i = 0; i < hosts.size(); ++i) positions[hosts[i].target.name] = i;
  std::stable_sort(ends.begin(), ends.end(), [&](const HostEnd& a, const HostEnd& b) {
    return positions[a.summary.host] < positions[b.summary.host];
  });
  return ends;
}

}  // namespace

std::vector<HostEnd> play(RunContext& run, const std::vector<PlayHost>& hosts) {
  std::vector<HostEnd> all;
  ForkLimit forks(run.options.forks);
  const StrategyDecl& strategy = run.playbook.strategy;
  // What changes nothing needs no caution.
  const auto batches = batches_of(hosts, run.changes_nothing() ? StrategyDecl() : strategy, run.run());
  bool stopped = false;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    if (stopped || run.stop_starting()) {
      for (const PlayHost* host : batches[b]) all.push_back(never_started(*host));
      continue;
    }
    for (const PlayHost* host : batches[b]) run.board.add_host(host->target.name);
    std::vector<HostEnd> ends =
        for_each_host(run, batches[b], [&](const PlayHost& host) { return HostWorker(run, host, forks).work(); });
    all.insert(all.end(), ends.begin(), ends.end());
    if (b + 1 == batches.size()) break;
    const std::string why = stopped_by(run, ends, all, hosts.size(), b == 0 && strategy.canary > 0);
    stopped = !why.empty();
    if (stopped) run.recorder.warn("", "", why);
  }
  return as_given(std::move(all), hosts);
}

}  // namespace millwright
