// Connections in use, so that the second Ctrl-C can make their calls return.
//
// Safe for concurrent use.
#pragma once

#include <set>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

class LiveConnections {
 public:
  void add(Connection* connection) {
    const Lock guard(mutex_);
    connections_.insert(connection);
  }
  // After this returns, the connection may be destroyed.
  void remove(Connection* connection) {
    const Lock guard(mutex_);
    connections_.erase(connection);
  }
  void interrupt_all() {
    const Lock guard(mutex_);
    for (Connection* connection : connections_) connection->interrupt();
  }

 private:
  Mutex mutex_;
  std::set<Connection*> connections_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright
