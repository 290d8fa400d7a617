#include "steps/smoke/smoke_step.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/smoke/later.hpp"
#include "steps/smoke/register.hpp"
#include "steps/smoke/server_log.hpp"
#include "steps/smoke/smoke.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

// Of the questions, however many; and of the step, with the longest wait that `recheck` may ask for.
constexpr Milliseconds kQuestionsDeadline = std::chrono::minutes(30);
constexpr Milliseconds kStepDeadline = std::chrono::hours(25);

InputSpec input(std::string name, ValueType type, std::string doc, Value default_value = nullptr) {
  InputSpec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.doc = std::move(doc);
  spec.default_value = std::move(default_value);
  return spec;
}

std::vector<InputSpec> smoke_inputs(const SmokeRules& rules) {
  InputSpec level = input("level", ValueType::string, "How much is asked.", "quick");
  for (const auto& [name, probes] : rules.levels) level.one_of.push_back(name);
  InputSpec key = input("api_key", ValueType::string, "API key of the server, a !secret.");
  key.secrecy = Secrecy::secret;
  return {
      input("endpoint", ValueType::string,
            "URL of the server as its node sees it, usually \"{{ steps.server.endpoint }}\"; asked through a tunnel."),
      input("url", ValueType::string, "URL that the controller asks directly, in place of endpoint."),
      input("model", ValueType::string, "Name to ask for; the first of /v1/models where none is given."),
      level,
      key,
      input("first_token_timeout", ValueType::duration,
            "Deadline of the very first answer, since kernels may be compiled then.", "15m"),
      input("ready_wait", ValueType::duration, "How long a closed port or a loading server is waited for.", "60s"),
      input("min_context", ValueType::integer, "Context length that the server must offer; less is degraded."),
      input("accuracy", ValueType::boolean, "Ask arithmetic in words, too, and say how much is right.", false),
      input("recheck", ValueType::list,
            "Times after which the known answers are asked again, such as [10m, 1h]; the step waits for them, and its "
            "deadline is that much later where it has none of its own."),
      input("questions", ValueType::list,
            "Questions in place of the built-in ones: a list of {ask: ..., expect: [..., ...]}."),
  };
}

Signature smoke_signature(const SmokeRules& rules) {
  Signature signature;
  signature.kind = "smoke";
  signature.summary = "Asks a served model and judges its answers.";
  signature.doc =
      "A server that says it is ready may still answer nothing or garbage. This step asks for the model list, a first "
      "token, known answers, a paragraph, the same answer as a stream, and log-probabilities, and names what is wrong "
      "by a class of playbooks/knowledge/classes.yml. Raw bytes of every failed exchange are kept as evidence. It "
      "changes nothing but for a note in the current release of the server that it has passed "
      "(`millwright releases`), so there is nothing to undo.";
  signature.inputs = smoke_inputs(rules);
  signature.outputs = {{"verdict", ValueType::string, "pass, degraded, fail or inconclusive"},
                       {"class", ValueType::string, "Symptom class; empty when all is well"},
                       {"report", ValueType::mapping, "The whole report, as `millwright smoke --json` prints it"}};
  signature.positional = "endpoint";
  signature.example =
      "- uses: smoke\n"
      "  with: {endpoint: \"{{ steps.server.endpoint }}\"}\n"
      "  on_failure:\n"
      "    - {do: remedy, attempts: 3}\n"
      "    - {do: rollback}\n";
  signature.deadline = kStepDeadline;
  signature.only_looks = true;
  return signature;
}

Error about(std::string input_name, std::string message) {
  Error error = make_error(ErrorKind::invalid, std::move(message));
  error.detail = std::move(input_name);
  return error;
}

Result<std::vector<KnownQuestion>> read_questions(const Value& list) {
  std::vector<KnownQuestion> questions;
  if (!list.is_array()) return questions;
  for (const Value& entry : list) {
    KnownQuestion question;
    question.id = std::to_string(questions.size() + 1);
    if (entry.is_object() && entry.value("ask", Value()).is_string()) question.ask = entry.at("ask");
    const Value expect = entry.is_object() ? entry.value("expect", Value()) : Value();
    if (expect.is_string()) question.expect.push_back(expect);
    if (expect.is_array()) {
      for (const Value& phrase : expect) {
        if (phrase.is_string()) question.expect.push_back(phrase);
        if (phrase.is_number()) question.expect.push_back(phrase.dump());
      }
    }
    if (question.ask.empty() || question.expect.empty()) {
      return fail(about("questions",
                        fmt::format("question {} needs `ask` (text) and `expect` (a list of texts)", question.id)));
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

Result<std::vector<Milliseconds>> recheck_times(const Inputs& inputs) {
  std::vector<std::string> texts;
  const Value list = inputs.value("recheck");
  if (!list.is_array()) return std::vector<Milliseconds>{};
  for (const Value& time : list) texts.push_back(time.is_string() ? time.get<std::string>() : time.dump());
  return read_recheck_times(texts);
}

// The step kind's own deadline leaves room for every time of `recheck`; the questions have half an hour between them. A
// deadline that the playbook sets holds as it is.
SteadyPoint test_deadline(StepContext& context, const std::vector<Milliseconds>& recheck) {
  const SteadyPoint now = context.clock().steady();
  const bool own = context.deadline() < now + kStepDeadline - std::chrono::minutes(1);
  if (own) return context.deadline();
  const Milliseconds waits = recheck.empty() ? Milliseconds(0) : recheck.back();
  return std::min(context.deadline(), now + kQuestionsDeadline + waits);
}

SmokeOptions options_from(StepContext& context) {
  const Inputs& inputs = context.inputs();
  SmokeOptions options;
  options.model = inputs.string_or("model", "");
  options.level = inputs.string("level");
  options.api_key = inputs.string_or("api_key", "");
  if (!options.api_key.empty()) redactor().add(options.api_key);
  options.first_token_timeout = inputs.duration("first_token_timeout");
  options.ready_wait = inputs.duration("ready_wait");
  if (inputs.has("min_context")) options.min_context = inputs.integer("min_context");
  options.accuracy = inputs.boolean("accuracy");
  // Checked before the run.
  options.recheck = recheck_times(inputs).value_or(std::vector<Milliseconds>{});
  options.deadline = test_deadline(context, options.recheck);
  options.on_wait = [&context](const std::string& text) { context.progress(text); };
  options.cancelled = [&context] { return context.cancelled(); };
  options.keep = [&context](const std::string& name, std::string_view bytes) {
    return context.keep(name, redactor().redact(bytes));
  };
  options.on_start = [&context](const std::string& title) { context.progress("asking: " + title); };
  options.on_probe = [&context](const ProbeReport& probe) {
    context.progress(probe_line(probe));
    const Exchange* shown = nullptr;
    for (const Exchange& exchange : probe.exchanges) {
      if (shown == nullptr || (shown->right && !exchange.right)) shown = &exchange;
    }
    context.probe_finished({{"name", probe.name},
                            {"verdict", to_string(probe.verdict)},
                            {"class", probe.symptom_class},
                            {"summary", clean_utf8(probe.summary).text},
                            {"seconds", probe.seconds},
                            {"tokens", probe.tokens ? Value(*probe.tokens) : Value()},
                            {"expected", shown ? Value(shown->expected) : Value()},
                            {"got", shown ? Value(clean_utf8(shown->got).text) : Value()},
                            {"evidence", shown ? Value(shown->evidence) : Value()}});
  };
  return options;
}

// "immediate_eos_null: 200 OK, but content and reasoning are null; asked ..., got ..."
std::string verdict_sentence(const SmokeReport& report) {
  std::string sentence = report.sentence;
  for (const ProbeReport& probe : report.probes) {
    if (probe.symptom_class.empty() || probe.symptom_class != report.symptom_class) continue;
    for (const Exchange& exchange : probe.exchanges) {
      if (exchange.right || exchange.asked.empty()) continue;
      return sentence +
             fmt::format(" Asked \"{}\", got {}", printable(exchange.asked, 80), printable(exchange.got, 120));
    }
    return sentence;
  }
  return sentence;
}

}  // namespace

namespace {

Failure no_url(const std::string& url, const std::string& why) {
  return fail(make_error(ErrorKind::invalid, fmt::format("'{}' is no URL of a server: {}", url, why))
                  .with_hint("write it as http://127.0.0.1:8080/v1"));
}

}  // namespace

Result<EndpointParts> split_endpoint(const std::string& url) {
  EndpointParts parts;
  const std::size_t scheme_end = url.find("://");
  parts.scheme = scheme_end == std::string::npos ? "http" : url.substr(0, scheme_end);
  if (parts.scheme != "http" && parts.scheme != "https") {
    return no_url(url, fmt::format("'{}://' is neither http:// nor https://", parts.scheme));
  }
  std::string rest = scheme_end == std::string::npos ? url : url.substr(scheme_end + 3);
  const std::size_t end = rest.find_first_of("/?#");
  if (end != std::string::npos) {
    parts.path = rest.substr(end);
    rest.resize(end);
  }
  if (rest.find_first_of(" \t\n\\\"<>") != std::string::npos) return no_url(url, "a host name has no such characters");
  parts.port = parts.scheme == "https" ? 443 : 80;
  const std::size_t bracket = rest.rfind(']');
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    const std::string digits = rest.substr(colon + 1);
    const bool number =
        !digits.empty() && digits.size() <= 5 && digits.find_first_not_of("0123456789") == std::string::npos;
    parts.port = number ? std::stoi(digits) : 0;
    if (parts.port < 1 || parts.port > 65535) return no_url(url, fmt::format("'{}' is no port", digits));
    rest.resize(colon);
  }
  if (!rest.empty() && rest.front() == '[' && rest.back() == ']') rest = rest.substr(1, rest.size() - 2);
  parts.host = rest;
  if (parts.host.empty()) return no_url(url, "it names no host");
  // A server that listens on every address is reached by loopback.
  if (parts.host == "0.0.0.0" || parts.host == "::") parts.host = "127.0.0.1";
  return parts;
}

SmokeStep::SmokeStep(std::shared_ptr<const SmokeRules> rules, std::vector<LogSign> signs)
    : rules_(std::move(rules)), signs_(std::move(signs)), signature_(smoke_signature(*rules_)) {}

std::vector<Error> SmokeStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  if (inputs.has("endpoint") && inputs.has("url")) {
    errors.push_back(about("url", "`endpoint` and `url` exclude each other"));
  }
  for (const char* name : {"endpoint", "url"}) {
    if (!inputs.has(name)) continue;
    if (auto parts = split_endpoint(inputs.string(name)); !parts) errors.push_back(about(name, parts.error().message));
  }
  if (auto times = recheck_times(inputs); !times) errors.push_back(about("recheck", times.error().message));
  if (auto questions = read_questions(inputs.value("questions")); !questions) errors.push_back(questions.error());
  return errors;
}

Result<StepOutcome> SmokeStep::run(StepContext& context) const {
  SmokeOptions options = options_from(context);
  auto questions = read_questions(context.inputs().value("questions"));
  if (!questions) return fail(questions.error());
  options.questions = std::move(*questions);
  options.url = context.inputs().string_or("url", "");
  std::unique_ptr<NodeTunnel> tunnel;
  if (options.url.empty()) {
    if (!context.inputs().has("endpoint")) {
      return fail(make_error(ErrorKind::invalid, "smoke needs `endpoint` or `url`")
                      .with_hint("endpoint: \"{{ steps.server.endpoint }}\""));
    }
    const auto parts = split_endpoint(context.inputs().string("endpoint"));
    if (!parts) return fail(parts.error());
    const auto open_way = [&context, &tunnel, parts]() -> Result<std::string> {
      auto opened = context.node().tunnel(parts->host, parts->port);
      if (!opened) return fail(wrap(opened.error(), "opening a way to the model server"));
      tunnel = std::move(*opened);
      return tunnel->base_url() + parts->path;
    };
    auto url = open_way();
    if (!url) return fail(url.error());
    options.url = std::move(*url);
    options.way_again = open_way;
    options.look_at_log = [this, &context]() -> std::optional<LogLook> {
      NodeCommand command;
      command.script = server_log_script(context.inputs().string("endpoint"));
      auto answer = context.node().run(command);
      // A way to the node that is lost shows in what comes next.
      return answer ? read_server_log(signs_, answer->out) : std::nullopt;
    };
  }
  const SmokeReport report = run_smoke(context.http(), context.clock(), *rules_, options);
  if (report.cancelled && context.cancelled()) {
    return fail(ErrorKind::interrupted, "the smoke test was ended before it was finished");
  }
  StepOutcome outcome;
  outcome.verdict = Verdict{report.verdict, report.symptom_class, verdict_sentence(report)};
  outcome.summary = report.symptom_class.empty() ? report.sentence : report.symptom_class + ": " + report.sentence;
  outcome.outputs = {{"verdict", to_string(report.verdict)},
                     {"class", report.symptom_class},
                     {"report", redactor().redact_value(to_json(report))}};
  const bool passed = report.verdict == VerdictKind::pass || report.verdict == VerdictKind::degraded;
  if (tunnel && passed) {
    NodeCommand mark;
    mark.script = mark_verified_script(context.inputs().string("endpoint"), std::string(to_string(report.verdict)),
                                       iso_utc(context.clock().now()), context.run_id());
    if (auto marked = context.node().run(mark); !marked) return fail(marked.error());
  }
  return outcome;
}

std::string mark_verified_script(const std::string& endpoint, const std::string& verdict, const std::string& at,
                                 const std::string& run) {
  const std::size_t host = endpoint.find("://");
  const std::size_t path = host == std::string::npos ? std::string::npos : endpoint.find('/', host + 3);
  const std::string base = endpoint.substr(0, path);
  return "for d in /var/lib/millwright/servers/*/current; do\n  case \"$(cat \"$d/health\" 2>/dev/null)\" in\n    " +
         shell_quote(base + "/") + "*)\n      umask 027\n      { echo " + shell_quote(verdict + " " + at + " " + run) +
         " > \"$d/verified.new\" && mv -f \"$d/verified.new\" \"$d/verified\"; } 2>/dev/null || : ;;\n  esac\ndone\n";
}

Result<std::shared_ptr<const SmokeRules>> load_smoke_rules(const Knowledge& knowledge) {
  auto rules = SmokeRules::from(knowledge.file("probes"), knowledge.file("classes"));
  if (!rules) return fail(rules.error());
  return std::make_shared<const SmokeRules>(std::move(*rules));
}

void register_smoke_steps(StepRegistry& registry, std::shared_ptr<const SmokeRules> rules, std::vector<LogSign> signs) {
  registry.add(std::make_unique<SmokeStep>(std::move(rules), std::move(signs)));
}

}  // namespace millwright
