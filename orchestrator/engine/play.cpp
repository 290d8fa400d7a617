#include "orchestrator/engine/play.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

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

std::vector<std::vector<const PlayHost*>> batches_of(const std::vector<PlayHost>& hosts, const StrategyDecl& strategy) {
  std::vector<std::vector<const PlayHost*>> batches;
  const auto total = static_cast<int>(hosts.size());
  int at = 0;
  const auto take = [&](int count) {
    std::vector<const PlayHost*> batch;
    for (; at < total && count > 0; --count) batch.push_back(&hosts[static_cast<std::size_t>(at++)]);
    if (!batch.empty()) batches.push_back(std::move(batch));
  };
  if (strategy.canary > 0) take(strategy.canary);
  const int size = strategy.batch ? std::max(1, strategy.batch->of(total)) : total;
  while (at < total) take(size);
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

std::vector<HostEnd> play(RunContext& run, const std::vector<PlayHost>& hosts) {
  std::vector<HostEnd> all;
  ForkLimit forks(run.options.forks);
  const StrategyDecl& strategy = run.playbook.strategy;
  const auto batches = batches_of(hosts, strategy);
  bool stopped = false;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    if (stopped || run.stop_starting()) {
      for (const PlayHost* host : batches[b]) all.push_back(never_started(*host));
      continue;
    }
    for (const PlayHost* host : batches[b]) run.board.add_host(host->target.name);
    std::vector<HostEnd> ends =
        for_each_host(run, batches[b], [&](const PlayHost& host) { return HostWorker(run, host, forks).work(); });
    const bool canary = b == 0 && strategy.canary > 0;
    const auto unseen = [](const HostEnd& end) { return end.summary.state == "unreachable"; };
    const bool blind = canary && std::all_of(ends.begin(), ends.end(), unseen);
    std::move(ends.begin(), ends.end(), std::back_inserter(all));
    const int failed = failures(all);
    const int allowed = strategy.max_failures ? strategy.max_failures->of(static_cast<int>(hosts.size()))
                        : canary              ? 0
                                              : static_cast<int>(hosts.size());
    stopped = failed > allowed || blind;
    if (stopped && b + 1 < batches.size()) {
      run.recorder.warn(
          "", "",
          blind ? "no canary could be reached: the other hosts are left alone"
                : fmt::format("{} hosts failed ({} allowed): the other hosts are left alone", failed, allowed));
    }
  }
  return all;
}

}  // namespace millwright
