#include "orchestrator/transport/connector.hpp"

#include "orchestrator/transport/descriptor.hpp"
#include "orchestrator/transport/lane_connection.hpp"
#include "orchestrator/transport/local_source.hpp"
#include "orchestrator/transport/ssh_source.hpp"

namespace millwright {
namespace {

LaunchSettings launch_settings(const Target& target) {
  LaunchSettings settings;
  settings.become_method = target.become_method;
  settings.become_user = target.become_user;
  settings.become_password = target.become_password;
  return settings;
}

class RealConnector final : public Connector {
 public:
  Result<std::unique_ptr<Connection>> connect(const Target& target) override {
    LaneSettings settings;
    settings.launch = launch_settings(target);
    if (target.via == Via::local) {
      settings.name = target.name.empty() ? "localhost" : target.name;
      return std::make_unique<LaneConnection>(make_local_source(), settings);
    }
    auto source = make_ssh_source(target);
    if (!source) return Failure(source.error());
    settings.name = (*source)->name();
    return std::make_unique<LaneConnection>(std::move(*source), settings);
  }

  Result<std::unique_ptr<Connection>> hop(Connection& host, const ContainerTarget& target) override {
    auto* lanes = dynamic_cast<LaneConnection*>(&host);
    if (lanes == nullptr) {
      return fail(ErrorKind::internal, "a hop needs a connection that this connector made, not " + host.name());
    }
    if (lanes->settings().launch.container) {
      return fail(ErrorKind::usage,
                  "a container within a container cannot be reached: " + target.id + " in " + host.name());
    }
    LaneSettings settings = lanes->settings();
    settings.name = target.backend + " " + target.id + " in " + host.name();
    settings.launch.container = target;
    return std::make_unique<LaneConnection>(lanes->source(), settings);
  }
};

}  // namespace

std::unique_ptr<Connector> make_connector(Clock&) {
  prepare_process();
  return std::make_unique<RealConnector>();
}

}  // namespace millwright
