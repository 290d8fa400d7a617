#include <algorithm>

#include "orchestrator/engine/pipeline.hpp"

namespace millwright {

Result<std::shared_ptr<Pipe>> Pipes::send(NodeSession& node, Become become, std::vector<PipeUnit> units,
                                          const std::vector<Wanted>& others) {
  auto pipe = std::make_shared<Pipe>(run_, host_, node, become, std::move(units));
  if (Result<void> sent = pipe->send(others); !sent) return fail(sent.error());
  std::list<std::shared_ptr<Pipe>> gone;  // taken down outside of the lock
  const Lock guard(mutex_);
  for (auto it = pipes_.begin(); it != pipes_.end();) {
    const auto next = std::next(it);
    if ((*it)->idle()) gone.splice(gone.end(), pipes_, it);
    it = next;
  }
  pipes_.push_back(pipe);
  return pipe;
}

std::vector<std::shared_ptr<Pipe>> Pipes::all() const {
  const Lock guard(mutex_);
  return {pipes_.begin(), pipes_.end()};
}

std::shared_ptr<Pipe> Pipes::take(const std::string& key, SteadyPoint deadline) {
  for (const auto& pipe : all()) {
    if (pipe->take(key, deadline) != nullptr) return pipe;
  }
  return nullptr;
}

std::set<std::size_t> Pipes::steps_left() const {
  std::set<std::size_t> out;
  for (const auto& pipe : all()) out.merge(pipe->steps_left());
  return out;
}

void Pipes::stop() {
  for (const auto& pipe : all()) pipe->stop();
}

void Pipes::drop(std::size_t step) {
  for (const auto& pipe : all()) {
    if (pipe->has_step(step)) pipe->drop_rest();
  }
}

void Pipes::wait() {
  for (const auto& pipe : all()) pipe->wait();
}

}  // namespace millwright
