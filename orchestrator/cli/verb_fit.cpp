// fit: will this model fit on these GPUs with this engine, and with which flags? Also read from the log of a start.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/engine/engine.hpp"
#include "orchestrator/transport/connection.hpp"
#include "steps/log/log_signs.hpp"
#include "steps/server/planner/render.hpp"
#include "steps/server/planner/replan.hpp"
#include "steps/server/planner/version_guess.hpp"

namespace millwright {
namespace {

struct Options {
  std::string model;
  std::string gpus;
  std::string engine;
  std::vector<std::string> set;
  std::vector<std::string> given;
  std::string context;
  std::optional<int> concurrency;
  std::vector<std::string> logs;  // oldest first
  InventoryOptions inventory;
};

constexpr int kDoesNotFit = static_cast<int>(ExitCode::failed);
constexpr int kUnreachable = static_cast<int>(ExitCode::unreachable);

// The GPUs of a host of the inventory, asked over its connection.
Result<std::vector<planner::Gpu>> gpus_of_host(const Session& session, const Options& options,
                                               const Knowledge& knowledge, const std::string& name) {
  const auto inventory = load_inventory(session, options.inventory);
  if (!inventory) return fail(inventory.error().front());
  const auto names = inventory->match(name);
  if (!names) return fail(names.error());
  if (names->size() != 1)
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is {} hosts", name, names->size()))
                    .with_hint("name one host of the inventory (-i)"));
  const auto host = play_host(*inventory, names->front());
  if (!host) return fail(host.error());
  const std::unique_ptr<Connector> connector = session.wiring.make_connector(*session.wiring.clock);
  auto connection = connector->connect(host->target);
  if (!connection) return fail(wrap(connection.error(), "connecting to " + name));
  Command command;
  command.script = planner::gpu_question();
  const auto answer = (*connection)->run(command);
  if (!answer) return fail(wrap(answer.error(), "asking " + name + " for its GPUs"));
  if (answer->exit_code != 0)
    return fail(make_error(ErrorKind::refused,
                           fmt::format("{} cannot say which GPUs it has: {}", name, trim(answer->err + answer->out)))
                    .with_hint("nvidia-smi must work there; or name the GPUs: --gpus 2xA6000"));
  return planner::parse_gpu_answer(knowledge, answer->out);
}

Result<std::vector<planner::Gpu>> gpus_of(const Session& session, const Options& options, const Knowledge& knowledge) {
  constexpr std::string_view host = "host:";
  if (starts_with(options.gpus, host))
    return gpus_of_host(session, options, knowledge, options.gpus.substr(host.size()));
  return planner::parse_gpu_spec(knowledge, options.gpus);
}

Result<planner::Model> model_of(const Options& options, const Knowledge& knowledge, const std::string& engine) {
  std::error_code failure;
  if (std::filesystem::exists(options.model, failure) || ends_with(options.model, ".gguf") ||
      starts_with(options.model, ".") || starts_with(options.model, "/"))
    return planner::read_model(options.model, engine == "llama.cpp");
  return planner::known_model(knowledge, options.model);
}

Result<planner::Given> given_of(const std::vector<std::string>& terms) {
  planner::Given out;
  for (const std::string& term : terms) {
    const std::size_t equals = term.find('=');
    if (equals == std::string::npos)
      return fail(make_error(ErrorKind::usage, fmt::format("'{}' has no value", term))
                      .with_hint("as in --given weights_gib=14.99"));
    if (auto set = out.set(term.substr(0, equals), term.substr(equals + 1)); !set) return fail(set.error());
  }
  return out;
}

Result<std::optional<int>> context_of(const Options& options) {
  if (options.context.empty()) return std::optional<int>();
  const auto tokens = planner::tokens_of(options.context);
  if (!tokens) return fail(wrap(tokens.error(), "reading --context"));
  return std::optional(*tokens);
}

Result<void> check_concurrency(const std::optional<int>& requests) {
  if (!requests || (*requests >= 1 && *requests <= 1000000)) return {};
  return fail(make_error(ErrorKind::usage, fmt::format("--concurrency: {} is no number of requests", *requests))
                  .with_hint("from 1 to 1000000; leave it out for the engine's own"));
}

struct Question {
  planner::Query query;
  planner::GivenFlags flags;
  planner::FlagTable table;
};

// One version of an engine, and the flags that were given as it takes them.
struct EnginePart {
  planner::EngineFacts facts;
  planner::FlagTable table;
  planner::GivenFlags flags;
};

Result<EnginePart> engine_of(const Options& options, const Knowledge& knowledge) {
  const std::size_t at = options.engine.find('@');
  auto facts = planner::engine_facts(knowledge, options.engine.substr(0, at),
                                     at == std::string::npos ? "" : options.engine.substr(at + 1));
  if (!facts) return fail(facts.error());
  auto table = planner::FlagTable::load(knowledge, facts->engine(), facts->version());
  if (!table) return fail(table.error());
  auto flags = planner::read_flags(*table, *facts, options.set);
  if (!flags) return fail(flags.error());
  return EnginePart{std::move(*facts), std::move(*table), std::move(*flags)};
}

Result<Question> question_of(const Session& session, const Options& options, const Knowledge& knowledge) {
  const auto context = context_of(options);
  if (!context) return fail(context.error());
  if (auto checked = check_concurrency(options.concurrency); !checked) return fail(checked.error());
  auto engine = engine_of(options, knowledge);
  if (!engine) return fail(engine.error());
  const auto given = given_of(options.given);
  if (!given) return fail(given.error());
  auto model = model_of(options, knowledge, engine->facts.engine());
  if (!model) return fail(model.error());
  auto gpus = gpus_of(session, options, knowledge);
  if (!gpus) return fail(gpus.error());
  planner::Query query{std::move(*model), std::move(engine->facts), std::move(*gpus), engine->flags.set, *given,
                       *context,          options.concurrency};
  return Question{std::move(query), std::move(engine->flags), std::move(engine->table)};
}

// A log that does not say its version: of those that it can be, the newest.
Result<std::optional<planner::VersionGuess>> guessed(Options& options, const planner::LogReading& reading,
                                                     const Knowledge& knowledge, Question& question) {
  if (options.engine.find('@') != std::string::npos) return std::optional<planner::VersionGuess>();
  const planner::Query& query = question.query;
  auto guess = planner::guess_version(knowledge, reading, &query.model, query.gpus);
  if (guess.version.empty()) return std::optional<planner::VersionGuess>();
  options.engine += "@" + guess.version;
  auto engine = engine_of(options, knowledge);
  if (!engine) return fail(engine.error());
  question.query.facts = std::move(engine->facts);
  question.query.set = engine->flags.set;
  question.table = std::move(engine->table);
  question.flags = std::move(engine->flags);
  return std::optional(std::move(guess));
}

int answer_error(const Session& session, const Error& error) {
  const bool contacted =
      error.kind == ErrorKind::connect || error.kind == ErrorKind::auth || error.kind == ErrorKind::host_key;
  if (contacted || error.kind == ErrorKind::refused) session.fail_with(error);
  if (error.kind == ErrorKind::refused) return kUsage;
  return contacted ? kUnreachable : session.refuse(error);
}

// As wide as the terminal; what is read by a program stays in lines of its own.
void print_text(const Session& session, const std::string& text) {
  const bool terminal = session.console.out_is == Terminal::yes;
  session.console.out(terminal ? planner::broken(text, session.console.columns) : text);
}

void print_json(const Session& session, const Value& json) {
  session.console.out(json.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
}

int plan_only(const Session& session, const Options& options, const Knowledge& knowledge) {
  if (options.model.empty() || options.gpus.empty() || options.engine.empty())
    return session.refuse(make_error(ErrorKind::usage, "fit needs a model, --gpus and --engine")
                              .with_hint("millwright fit --help shows examples"));
  const auto question = question_of(session, options, knowledge);
  if (!question) return answer_error(session, question.error());
  const planner::Plan plan = planner::make_plan(knowledge, question->query, question->flags, question->table);
  if (session.common.json) {
    print_json(session, planner::to_json(plan, question->query, options.model));
  } else {
    print_text(session, planner::as_text(plan, question->query, options.model, session.console.columns));
  }
  return plan.decision == planner::Decision::does_not_fit ? kDoesNotFit : kDone;
}

Result<std::string> text_of(const std::string& file) {
  constexpr std::uintmax_t most = 256u << 20;
  std::error_code failure;
  if (!std::filesystem::is_regular_file(file, failure) || std::filesystem::file_size(file, failure) > most)
    return fail(make_error(ErrorKind::usage, fmt::format("{} is no log file of at most 256 MiB", file))
                    .with_hint("journalctl -u UNIT > FILE writes one"));
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return fail(make_error(ErrorKind::io, "cannot read " + file).with_hint("may this user read it?"));
  return text.str();
}

Result<planner::LogReading> reading_of(const std::string& file, const std::string& engine, const Knowledge& knowledge) {
  auto text = text_of(file);
  if (!text) return fail(text.error());
  auto reading = planner::read_log(knowledge, *text, engine);
  if (!reading) return fail(wrap(reading.error(), "reading " + file));
  if (auto checked = planner::check_is_log(*reading); !checked) return fail(wrap(checked.error(), "reading " + file));
  return reading;
}

// What the log itself says stands in for what the command line leaves out.
void complete(Options& options, const planner::LogReading& reading, const Knowledge& knowledge) {
  if (options.engine.empty())
    options.engine = reading.version.empty() ? reading.engine : reading.engine + "@" + reading.version;
  std::error_code failure;
  if (options.model.empty() &&
      (std::filesystem::exists(reading.model, failure) || planner::known_model(knowledge, reading.model)))
    options.model = reading.model;
  if (!options.gpus.empty()) return;
  const auto pre = reading.term("pre_gib");
  const auto total =
      reading.failure ? reading.failure->numbers.find("total_gib") : std::map<std::string, double>::const_iterator();
  const bool has_total = reading.failure && total != reading.failure->numbers.end();
  if (!pre && !has_total) return;
  int ranks = 1;
  for (const char* name : {"tp-size", "tensor-parallel-size", "pp-size", "pipeline-parallel-size"}) {
    const auto found = reading.arguments.find(name);
    if (found != reading.arguments.end()) ranks *= std::max(1, std::atoi(found->second.c_str()));
  }
  options.gpus = fmt::format("{}xgpu:{:.2f}GiB", ranks, has_total ? total->second : *pre);
}

// What the log says of the server besides. Where GPUs are named, a start on the processor is none as wanted.
Result<std::vector<LogFinding>> findings_of(const std::string& file, const std::string& engine, bool gpus_named,
                                            const Knowledge& knowledge) {
  auto signs = log_signs(knowledge, engine);
  if (!signs) return fail(signs.error());
  auto text = text_of(file);
  if (!text) return fail(text.error());
  return scan_log(*signs, gpus_named ? "cuda" : "", *text);
}

std::string findings_text(const std::vector<LogFinding>& findings) {
  std::string out;
  for (const LogFinding& finding : findings) {
    out += fmt::format("{:<8} {}, line {}: {}\n", to_string(finding.severity), finding.symptom_class,
                       finding.line_number, finding.sentence);
  }
  return out;
}

// Without a model there is nothing to compare with and nothing to solve; what is no matter of memory is answered all
// the same.
int say_reading(const Session& session, const Options& options, const planner::LogReading& reading,
                const std::vector<LogFinding>& findings, const Knowledge& knowledge) {
  const std::string& file = options.logs.back();
  const bool failed = reading.failure.has_value();
  std::string verdict;
  if (failed && !planner::is_about_memory(*reading.failure)) {
    const std::size_t at = options.engine.find('@');
    const auto facts = planner::engine_facts(knowledge, reading.engine,
                                             at == std::string::npos ? reading.version : options.engine.substr(at + 1));
    if (!facts) return session.refuse(facts.error());
    const auto table = planner::FlagTable::load(knowledge, facts->engine(), facts->version());
    if (!table) return session.refuse(table.error());
    verdict = planner::verdict_without_memory(*reading.failure, *table);
  } else {
    verdict = fmt::format("to compare and to plan the next start, name {}",
                          options.model.empty() ? "the model" : "the GPUs (--gpus)");
  }
  if (session.common.json) {
    print_json(session, {{"schema_version", planner::kPlanSchemaVersion},
                         {"log", planner::to_json(reading, file)},
                         {"findings", findings_json(findings)},
                         {"verdict", verdict}});
  } else {
    print_text(session, planner::as_text(reading, file) + findings_text(findings) + verdict + "\n");
  }
  return failed ? kDoesNotFit : kDone;
}

int from_log(const Session& session, Options options, const Knowledge& knowledge) {
  std::vector<planner::LogReading> readings;
  for (const std::string& file : options.logs) {
    auto reading = reading_of(file, options.engine.substr(0, options.engine.find('@')), knowledge);
    if (!reading) return session.refuse(reading.error());
    readings.push_back(std::move(*reading));
  }
  const planner::LogReading reading = std::move(readings.back());
  readings.pop_back();
  const bool gpus_named = !options.gpus.empty();
  complete(options, reading, knowledge);
  const std::string& file = options.logs.back();
  const auto findings = findings_of(file, reading.engine, gpus_named, knowledge);
  if (!findings) return session.refuse(findings.error());
  const bool failed = reading.failure.has_value();
  if (options.model.empty() || options.gpus.empty()) {
    return say_reading(session, options, reading, *findings, knowledge);
  }
  auto question = question_of(session, options, knowledge);
  if (!question) return answer_error(session, question.error());
  const auto guess = guessed(options, reading, knowledge, *question);
  if (!guess) return session.refuse(guess.error());
  planner::add_logged_flags(reading, question->table, question->flags);
  question->query.set = question->flags.set;
  const auto warnings = planner::log_mismatches(knowledge, reading, question->query, options.model);
  const planner::Replan replan =
      planner::replan(knowledge, question->query, question->flags, question->table, reading, readings);
  if (session.common.json) {
    Value json = planner::to_json(replan.plan, question->query, options.model);
    json["log"] = planner::to_json(reading, file);
    json["replan"] = planner::to_json(replan);
    json["findings"] = findings_json(*findings);
    json["log"]["warnings"] = warnings;
    if (*guess)
      json["log"]["assumed_version"] = {
          {"version", (*guess)->version}, {"possible", (*guess)->possible}, {"figures_agree", (*guess)->figures_agree}};
    print_json(session, json);
  } else {
    const std::string version = *guess ? "version  " + planner::words_of(**guess) + "\n" : "";
    std::string differs;
    for (const std::string& warning : warnings) differs += "warning  " + warning + "\n";
    print_text(session, planner::as_text(reading, file) + differs + findings_text(*findings) + version +
                            planner::as_text(replan, question->query, options.model));
  }
  return failed && (replan.next.empty() || replan.opposite) ? kDoesNotFit : kDone;
}

int run(const Session& session, const Options& options) {
  const auto knowledge = load_knowledge(planner::planner_folders(knowledge_folders()));
  if (!knowledge) return session.refuse(knowledge.error());
  return options.logs.empty() ? plan_only(session, options, *knowledge) : from_log(session, options, *knowledge);
}

}  // namespace

void add_fit(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("fit", "Does a model fit on GPUs, and with which flags?");
  verb->add_option("model", options->model, "Folder with config.json, a GGUF file, or a known name")
      ->type_name("MODEL");
  verb->add_option("-g,--gpus", options->gpus, "2xA6000, 8x80GiB, rtx-3090:23.6GiB*2, or host:NAME to ask one")
      ->type_name("SPEC");
  verb->add_option("-E,--engine", options->engine,
                   "sglang, vllm or llama.cpp, with @VERSION (default: the newest known)")
      ->type_name("NAME[@VERSION]");
  verb->add_option("--set", options->set, "A flag as the engine spells it, without dashes; repeatable")
      ->type_name("FLAG[=VALUE]")
      ->allow_extra_args(false);
  verb->add_option("--given", options->given,
                   "A measured term in GiB: weights_gib, pre_gib, post_gib, kv_pool_gib, activation_gib, "
                   "non_torch_gib, graphs_gib")
      ->type_name("TERM=GIB")
      ->allow_extra_args(false);
  verb->add_option("--context", options->context, "Longest request, in tokens; 32k is 32768, 1M is 1048576")
      ->type_name("N");
  verb->add_option("--concurrency", options->concurrency, "Requests at once")->type_name("N");
  verb->add_option("--from-log", options->logs,
                   "Log of a start: compare, or plan the next; again for tries before, oldest first")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_inventory_options(*verb, options->inventory);
  add_common_options(*verb, session.common);
  verb->footer(
      "\nExit codes: 0 fits, or worth a try; 1 usage; 2 does not fit, or the log shows a\nfailure without a cure here; "
      "4 host not reached\n"
      "\nExamples:\n  millwright fit Qwen/Qwen3.6-27B --gpus 2xA6000 --engine sglang@0.5.9\n"
      "  millwright fit /srv/models/gemma --gpus 8x80GiB --engine vllm --context 32768\n"
      "  millwright fit m.gguf --gpus rtx-3090 --engine llama.cpp --set ctx-size=65536\n"
      "  millwright fit openai/gpt-oss-120b --gpus H100 --engine vllm@0.11.0 --json\n"
      "  millwright fit Qwen/Qwen3.6-27B --gpus 2xA6000 --from-log sglang.log\n"
      "  millwright fit Qwen/Qwen3-32B --gpus host:gpu1 -i hosts.yml --engine sglang");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
