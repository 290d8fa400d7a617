// facts: what is known about the GPUs of a host.
#include <CLI/CLI.hpp>
#include <memory>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/transport/connection.hpp"
#include "steps/gpu/facts_script.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright {
namespace {

struct Options {
  std::string host;
  InventoryOptions inventory;
};

Result<PlayHost> host_named(const Session& session, const Options& options) {
  const auto inventory = load_inventory(session, options.inventory);
  if (!inventory) return fail(inventory.error().front());
  const auto names = match_hosts(*inventory, options.host, options.inventory);
  if (!names) return fail(names.error());
  if (names->size() != 1) {
    return fail(make_error(ErrorKind::usage, "'" + options.host + "' is " + std::to_string(names->size()) + " hosts")
                    .with_hint("one at a time: name one host of the inventory"));
  }
  return play_host(*inventory, names->front());
}

int run(const Session& session, const Options& options) {
  const auto knowledge = load_knowledge(knowledge_folders());
  if (!knowledge) return session.refuse(knowledge.error());
  const auto host = host_named(session, options);
  if (!host) return session.refuse(host.error());
  const auto unreachable = [&](const Error& error) {
    session.fail_with(error);
    return static_cast<int>(ExitCode::unreachable);
  };
  const std::unique_ptr<Connector> connector = session.wiring.make_connector(*session.wiring.clock);
  auto connection = connector->connect(host->target);
  if (!connection) return unreachable(wrap(connection.error(), "connecting to " + host->target.name));
  const Question question = gpu::facts_question({});
  Command command;
  command.script = question.script;
  command.deadline = question.deadline;
  command.become = host->target.become;
  const auto answer = (*connection)->run(command);
  if (!answer) return unreachable(wrap(answer.error(), "asking " + host->target.name));
  const auto facts = gpu::parse_gpu_facts(answer->out, *knowledge);
  if (!facts) {
    Error error = facts.error();
    error.detail = answer->err;
    return session.fail_with(error);
  }
  session.console.out(session.common.json
                          ? gpu::to_json(*facts).dump(2, ' ', false, Value::error_handler_t::replace) + "\n"
                          : gpu::to_table(*facts));
  return kDone;
}

}  // namespace

void add_facts(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("facts", "GPUs of a host, their drivers, and who holds them");
  verb->add_option("host", options->host, "A host of the inventory")->type_name("HOST")->required();
  add_inventory_options(*verb, options->inventory);
  add_common_options(*verb, session.common);
  verb->footer(
      "\nLooks and changes nothing, in one round trip. Who holds a device is seen only as\n"
      "root (become in the inventory).\n"
      "Exit codes: 0 told, 1 usage, 4 unreachable\n"
      "\nExamples:\n  millwright facts gpu1 -i hosts.yml\n"
      "  millwright facts gpu1 -i hosts.yml --json | jq '.gpus[] | {address, driver}'");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
