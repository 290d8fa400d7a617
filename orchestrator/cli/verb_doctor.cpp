#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/engine/engine.hpp"
#include "steps/server/compatibility.hpp"

namespace millwright {
namespace {

struct Options {
  CompatibilityQuery query;
  double compute_capability = 0;
  int driver = 0;
};

Result<void> known_engine(const Knowledge& knowledge, const std::string& engine) {
  std::vector<std::string> engines;
  for (const Value& family : knowledge.file("models").value("models", Value::array())) {
    for (const Value& row : family.at("engines")) {
      const auto name = row.at("engine").get<std::string>();
      if (std::find(engines.begin(), engines.end(), name) == engines.end()) engines.push_back(name);
    }
  }
  if (std::find(engines.begin(), engines.end(), engine) != engines.end()) return {};
  std::sort(engines.begin(), engines.end());
  return fail(make_error(ErrorKind::usage, fmt::format("there is no engine '{}'", engine))
                  .with_hint("known are " + join(engines, ", ")));
}

std::string as_text(const CompatibilityReport& report, const CompatibilityQuery& query) {
  std::string out;
  for (const CompatibilityFinding& finding : report.findings) {
    out += fmt::format("{:<8} {}\n", to_string(finding.verdict), finding.what);
    if (!finding.cure.empty()) out += fmt::format("         try: {}\n", finding.cure);
    if (!finding.source.empty()) out += fmt::format("         seen: {}\n", finding.source);
  }
  for (const std::string& need : report.needs) out += fmt::format("needs    the Python package {}\n", need);
  if (!report.reasoning_parser.empty()) out += fmt::format("flag     reasoning parser: {}\n", report.reasoning_parser);
  if (!report.tool_parser.empty()) out += fmt::format("flag     tool call parser: {}\n", report.tool_parser);
  out += fmt::format("{}: {} with {} {}\n", to_string(report.verdict), query.model, query.engine, query.version);
  return out;
}

int run(const Session& session, Options options) {
  const auto knowledge = load_knowledge(knowledge_folders());
  if (!knowledge) return session.refuse(knowledge.error());
  if (const auto known = known_engine(*knowledge, options.query.engine); !known) return session.refuse(known.error());
  if (options.compute_capability > 0) options.query.compute_capability = options.compute_capability;
  if (options.driver > 0) options.query.driver = options.driver;
  const auto report = check_compatibility(*knowledge, options.query);
  if (!report) return session.refuse(report.error());
  session.console.out(session.common.json ? to_json(*report).dump(2) + "\n" : as_text(*report, options.query));
  return static_cast<int>(report->verdict == Compatibility::refused ? ExitCode::failed : ExitCode::done);
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("doctor", "Does an engine version know a model, on this GPU?");
  verb->add_option("-m,--model", options->query.model, "Model id, or the architecture of a GGUF file")
      ->type_name("ID")
      ->required();
  verb->add_option("-E,--engine", options->query.engine, "sglang, vllm or llama.cpp")->type_name("NAME")->required();
  verb->add_option("-V,--version", options->query.version, "Version of the engine")->type_name("VERSION")->required();
  verb->add_option("--compute-capability", options->compute_capability, "Of the GPU, as in 8.6")->type_name("X.Y");
  verb->add_option("--driver", options->driver, "Branch of the NVIDIA driver, as in 550")->type_name("BRANCH");
  add_common_options(*verb, session.common);
  verb->footer(
      "\nExit codes: 0 nothing stands against it (or nothing is known), 1 usage, 2 refused\n"
      "\nExamples:\n  millwright doctor -m Qwen/Qwen3.6-27B -E sglang -V 0.5.9\n"
      "  millwright doctor -m Qwen/Qwen3.6-27B -E sglang -V 0.5.11 --driver 550 --json");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
