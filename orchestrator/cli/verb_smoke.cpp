#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/cli/interrupts.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/engine/engine.hpp"
#include "orchestrator/report/junit.hpp"
#include "steps/smoke/baseline.hpp"
#include "steps/smoke/later.hpp"
#include "steps/smoke/register.hpp"
#include "steps/smoke/smoke.hpp"
#include "steps/smoke/smoke_step.hpp"

namespace millwright {
namespace {

struct Options {
  std::string url;
  std::string model;
  std::string level = "quick";
  std::string key_env;
  std::string key_file;
  std::string wait = "0s";
  std::string evidence;
  std::string junit;
  std::string baseline;
  std::string recheck;
  bool accuracy = false;
};

// Failed exchanges are written here, named after the time, only once there is one to write.
class EvidenceFolder {
 public:
  EvidenceFolder(std::string path, const Clock& clock) : path_(std::move(path)) {
    if (path_.empty()) path_ = "smoke-" + replace_all(replace_all(iso_utc(clock.now()), ":", ""), "-", "");
  }
  std::string keep(const std::string& name, std::string_view bytes) {
    std::error_code failure;
    std::filesystem::create_directories(path_, failure);
    const std::filesystem::path file = std::filesystem::path(path_) / std::filesystem::path(name).filename();
    std::ofstream out(file, std::ios::binary);
    out << redactor().redact(bytes);
    out.close();
    used_ = true;
    return out ? file.string() : "(could not be written: " + file.string() + ")";
  }
  bool used() const { return used_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool used_ = false;
};

// Not the engine's codes: 3 is "no", since nothing is left in a state.
constexpr int kFail = 3;

int exit_code_of(const SmokeReport& report, const InterruptLevel& interrupt) {
  if (report.cancelled && interrupt > 0) return static_cast<int>(ExitCode::interrupted);
  switch (report.verdict) {
    case VerdictKind::pass:
    case VerdictKind::degraded:
      return static_cast<int>(ExitCode::done);
    case VerdictKind::fail:
      return kFail;
    case VerdictKind::inconclusive:
      return static_cast<int>(ExitCode::inconclusive);
  }
  return static_cast<int>(ExitCode::inconclusive);
}

Result<std::string> key_of_file(const std::string& path) {
  const auto text = read_file(path, kLargestTextFile, Pipes::read);
  const std::string line(text ? trim(text->substr(0, text->find('\n'))) : "");
  if (line.empty())
    return fail(make_error(ErrorKind::usage, fmt::format("no API key in the file {}", path))
                    .with_hint("--api-key-file names a readable file whose first line is the key"));
  return line;
}

Result<std::string> key_of_variable(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0')
    return fail(make_error(ErrorKind::usage, fmt::format("the environment variable {} is not set", variable))
                    .with_hint("--key-env names the variable that holds the key, not the key itself"));
  return std::string(value);
}

Result<std::string> api_key(const Options& options) {
  if (options.key_env.empty() && options.key_file.empty()) return std::string();
  auto key = options.key_file.empty() ? key_of_variable(options.key_env) : key_of_file(options.key_file);
  if (key) redactor().add(*key);
  return key;
}

Error unknown_level(const std::string& level, const SmokeRules& rules) {
  std::vector<std::string> known;
  for (const auto& [name, probes] : rules.levels) known.push_back(name);
  return make_error(ErrorKind::usage, fmt::format("there is no level '{}'", level))
      .with_hint("known are " + join(known, ", "));
}

std::string junit_of(const SmokeReport& report, const std::string& url, const std::string& started) {
  std::vector<JunitCase> cases;
  for (const ProbeReport& probe : report.probes) {
    std::string state(to_string(probe.verdict));
    if (probe.verdict == ProbeVerdict::fail) state = "failed";
    const std::string& symptom = probe.symptom_class;
    cases.push_back(
        {url, probe.title, state, symptom.empty() ? probe.summary : symptom + ": " + probe.summary, probe.seconds});
  }
  return redactor().redact(junit_xml("smoke " + url, cases, report.seconds, started));
}

Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return fail(make_error(ErrorKind::io, "cannot write " + path));
  return {};
}

// The baseline of --baseline; nothing when there is no such file yet.
Result<std::optional<SmokeBaseline>> baseline_of(const std::string& path) {
  if (path.empty() || !std::filesystem::exists(path)) return std::optional<SmokeBaseline>();
  const auto text = read_file(path);
  if (!text) return fail(wrap(text.error(), "reading --baseline"));
  const auto baseline = read_baseline(*text);
  if (!baseline)
    return fail(make_error(ErrorKind::usage, path + ": " + baseline.error().message).with_hint(baseline.error().hint));
  return std::optional<SmokeBaseline>(*baseline);
}

std::string json_of(const SmokeReport& report) {
  return redactor().redact_value(to_json(report)).dump(2, ' ', false, Value::error_handler_t::replace) + "\n";
}

// Writes what was asked for besides the output; the first passing run makes the baseline.
Result<void> write_files(const Session& session, const Options& options, const SmokeReport& report, bool had_baseline) {
  if (!options.junit.empty()) {
    const std::string xml = junit_of(report, options.url, iso_utc(session.wiring.clock->now()));
    if (options.junit == "-") {
      session.console.out(xml);
    } else if (auto written = write_text(options.junit, xml); !written) {
      return written;
    }
  }
  if (options.baseline.empty() || had_baseline || report.verdict != VerdictKind::pass) return {};
  if (auto written = write_text(options.baseline, json_of(report)); !written) return written;
  if (!session.common.json && options.junit != "-") session.console.out("Baseline written: " + options.baseline + "\n");
  return {};
}

// What is no address must not be told as a server that does not answer.
Result<void> check_usage(const Session& session, const Options& options) {
  if (const auto parts = split_endpoint(options.url); !parts) {
    Error error = parts.error();
    error.kind = ErrorKind::usage;
    return fail(std::move(error));
  }
  if (options.junit == "-" && session.common.json) {
    return fail(make_error(ErrorKind::usage, "--json and --junit - both want standard output")
                    .with_hint("write one of them to a file: --junit FILE"));
  }
  return {};
}

int run(const Session& session, const Options& options) {
  if (const auto good = check_usage(session, options); !good) return session.refuse(good.error());
  const bool text = !session.common.json && options.junit != "-";
  auto knowledge = load_knowledge(knowledge_folders());
  if (!knowledge) return session.refuse(knowledge.error());
  const auto rules = load_smoke_rules(*knowledge);
  if (!rules) return session.refuse(rules.error());
  if ((*rules)->levels.count(options.level) == 0) return session.refuse(unknown_level(options.level, **rules));
  const auto key = api_key(options);
  if (!key) return session.refuse(key.error());
  const auto wait = parse_duration(options.wait);
  if (!wait) return session.refuse(wait.error());
  const auto recheck =
      read_recheck_times(options.recheck.empty() ? std::vector<std::string>() : split(options.recheck, ','));
  if (!recheck) return session.refuse(recheck.error());
  const auto baseline = baseline_of(options.baseline);
  if (!baseline) return session.refuse(baseline.error());
  SmokeOptions smoke;
  smoke.url = options.url;
  smoke.model = options.model;
  smoke.level = options.level;
  smoke.api_key = *key;
  smoke.ready_wait = *wait;
  smoke.recheck = *recheck;
  smoke.accuracy = options.accuracy;
  EvidenceFolder evidence(options.evidence, *session.wiring.clock);
  smoke.keep = [&](const std::string& name, std::string_view bytes) { return evidence.keep(name, bytes); };
  if (text) {
    smoke.on_probe = [&](const ProbeReport& probe) {
      session.console.out(redactor().redact(probe_line(probe)) + "\n");
    };
  }
  const Interrupts interrupts;
  smoke.cancelled = [&] { return interrupts.level() > 0; };
  const std::unique_ptr<HttpClient> http = session.wiring.make_http();
  SmokeReport report = run_smoke(*http, *session.wiring.clock, **rules, smoke);
  if (*baseline) {
    compare_with_baseline(report, **baseline, **rules);
    for (const ProbeReport& probe : report.probes) {
      if (smoke.on_probe && (probe.name == "speed" || probe.name == "score")) smoke.on_probe(probe);
    }
  }
  if (session.common.json) {
    session.console.out(json_of(report));
  } else if (text) {
    session.console.out(redactor().redact(closing_lines(report, **rules)));
    if (evidence.used()) session.console.out("Evidence: " + evidence.path() + "\n");
  }
  if (auto written = write_files(session, options, report, baseline->has_value()); !written)
    return session.refuse(written.error());
  return exit_code_of(report, interrupts.level());
}

}  // namespace

void add_smoke(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("smoke", "Test an OpenAI-compatible endpoint");
  verb->add_option("url", options->url, "http://host:port, with or without /v1")->type_name("URL")->required();
  verb->add_option("-m,--model", options->model, "Model id (default: the first that the server lists)")
      ->type_name("ID");
  verb->add_option("--level", options->level, "quick (default), standard or thorough")->type_name("LEVEL");
  verb->add_option("--api-key-file", options->key_file, "File whose first line is the API key")->type_name("FILE");
  verb->add_option("--key-env", options->key_env, "Environment variable that holds the API key")
      ->type_name("NAME")
      ->excludes("--api-key-file");
  verb->add_option("--wait", options->wait, "Wait so long for a server that is still starting")->type_name("DURATION");
  verb->add_flag("--accuracy", options->accuracy, "Ask arithmetic in words, too (level thorough does)");
  verb->add_option("--recheck", options->recheck, "Ask again after these times, such as 10m,1h, and wait for them")
      ->type_name("TIMES");
  verb->add_option("--evidence", options->evidence, "Folder for the raw bytes of failed exchanges")->type_name("DIR");
  verb->add_option("--junit", options->junit, "Write JUnit XML there; - is standard output")->type_name("FILE");
  verb->add_option("--baseline", options->baseline,
                   "Compare speed and accuracy with that file; the first run that passes makes it")
      ->type_name("FILE");
  add_common_options(*verb, session.common);
  verb->footer(
      "\nExit codes: 0 pass or degraded, 1 usage, 3 fail, 6 inconclusive, 130 interrupted\n"
      "\nExamples:\n  millwright smoke http://10.0.0.5:30000\n"
      "  millwright smoke http://localhost:8080/v1 --wait 10m --json\n"
      "  millwright smoke http://10.0.0.5:8000 --level standard --junit smoke.xml\n"
      "  millwright smoke http://10.0.0.5:8000 --baseline llm.json\n"
      "  millwright smoke http://10.0.0.5:30000 --recheck 10m,1h\n"
      "  millwright smoke https://llm.example.org/v1 --api-key-file ~/.llm-key");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
