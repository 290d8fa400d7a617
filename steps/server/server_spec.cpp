#include "steps/server/server_spec.hpp"

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {

namespace {

std::vector<InputSpec> inputs(const Knowledge& knowledge) {
  return {
      {.name = "name", .default_value = "llm", .doc = "Name of the server on its node; its unit is millwright-<name>."},
      {.name = "engine",
       .default_value = "llama.cpp",
       .one_of = known_engines(knowledge),
       .doc = "The inference engine."},
      {.name = "version",
       .default_value = "latest-known-good",
       .doc = "Engine version, one that `sources` (or millwright's own data) can install."},
      {.name = "sources",
       .type = ValueType::mapping,
       .default_value = Value::object(),
       .doc = "How to install each version: {VERSION: {method: archive, path or url, sha256}} or {VERSION: {method: "
              "wheel, "
              "packages: [{name, version, sha256: [...]}], wheelhouse}}. Paths are here; node:/path is on "
              "the node. "
              "Several versions give the remedy `next known-good version` something to install."},
      {.name = "model", .need = Need::required, .doc = "Path of the model on the node, as the model step gives it."},
      {.name = "model_sha256", .doc = "Its SHA-256, as the model step gives it: another model makes another release."},
      {.name = "served_name", .doc = "Name of the model in the API; the engine's own choice when absent."},
      {.name = "host", .default_value = "127.0.0.1", .doc = "Address to listen on."},
      {.name = "port", .type = ValueType::integer, .doc = "Port to listen on; the engine's usual one when absent."},
      {.name = "context",
       .type = ValueType::integer,
       .doc = "Context length in tokens; the engine's own choice when absent."},
      {.name = "max_requests",
       .type = ValueType::integer,
       .doc = "Requests served at once; the engine's own choice when absent."},
      {.name = "parallel", .type = ValueType::integer, .doc = "Another name of max_requests: llama.cpp's."},
      {.name = "tensor_parallel", .type = ValueType::integer, .doc = "GPUs that share each layer."},
      {.name = "kv_dtype", .doc = "Type of the KV cache, in the engine's own words: fp8_e5m2, q8_0."},
      {.name = "reasoning_parser", .doc = "Which parser takes the thinking out of an answer: qwen3."},
      {.name = "tool_parser", .doc = "Which parser takes tool calls out of an answer: qwen25, hermes."},
      {.name = "speculative",
       .type = ValueType::any,
       .doc =
           "Speculative decoding: a mapping of the engine's own settings (a flag each, or one JSON text), or a text."},
      {.name = "device",
       .default_value = "auto",
       .one_of = {"auto", "cpu", "cuda"},
       .doc = "What it runs on. auto: NVIDIA GPUs when the node has any, else the CPU; llama.cpp decides by itself."},
      {.name = "memory_max",
       .type = ValueType::size,
       .doc = "The kernel ends the server when it uses more memory of the host than this; no limit when absent."},
      {.name = "memory",
       .default_value = "auto",
       .one_of = {"auto", "given"},
       .doc =
           "auto: memory flags are planned from the model and the GPUs, and anew from the log of a start that failed "
           "for want of memory; llama.cpp fits itself to GPUs, keeps no more of prompts than memory_max or a "
           "container's limit has room for, and is planned anew when the kernel ended it. given: "
           "only what the other inputs say."},
      {.name = "extra_flags",
       .type = ValueType::list,
       .default_value = Value::array(),
       .doc =
           "Further words for the engine's command line, as they are. One that this version does not have is an error "
           "before anything is started."},
      {.name = "api_key",
       .doc =
           "Key that clients must send. Never on a command line: in a file that only the server's user can read, or in "
           "its environment.",
       .secrecy = Secrecy::secret},
      {.name = "env",
       .type = ValueType::mapping,
       .default_value = Value::object(),
       .doc = "Environment of the server; kept in a file that only root can read."},
      {.name = "release",
       .type = ValueType::integer,
       .doc = "Run this earlier release of the server again, as it is on the node, whatever the other inputs say. The "
              "remedy `previous release` sets it."},
      {.name = "ready_timeout",
       .type = ValueType::duration,
       .default_value = "15m",
       .doc = "The whole start may take this long."},
      {.name = "stall_timeout",
       .type = ValueType::duration,
       .default_value = "5m",
       .doc = "A start that neither logs nor loads anything for this long has failed."},
  };
}

template <class T>
std::optional<T> optional_integer(const Inputs& inputs, std::string_view name) {
  if (!inputs.has(name)) return std::nullopt;
  return static_cast<T>(inputs.integer(name));
}

}  // namespace

std::string ServerSpec::unit() const { return "millwright-" + name + ".service"; }
std::string ServerSpec::user() const { return "mw-" + name; }
std::string ServerSpec::folder() const { return "/var/lib/millwright/servers/" + name; }
std::string ServerSpec::probe_host() const { return host == "0.0.0.0" || host == "::" ? "127.0.0.1" : host; }

Signature server_signature(const Knowledge& knowledge) {
  Signature out;
  out.kind = "server";
  out.summary = "A model server as a release on the node: engine, flags, unit; started, watched until it is ready";
  out.doc =
      "Installs the engine version in an environment of its own beside the others, makes a release (command, unit, "
      "environment file) and switches to it: one symlink, one restart. The log is followed while the server starts; "
      "ready means the engine's ready line and an answer of /v1/models. A start that fails has a symptom class and its "
      "log is kept. When the running release is as wanted and answers, nothing is done.\n\n"
      "Undo stops the new release, puts the previous one back and waits until it answers; without a previous one the "
      "server is removed.";
  out.inputs = inputs(knowledge);
  out.outputs = {
      {.name = "endpoint", .doc = "Base URL of the API as seen from the node, with /v1."},
      {.name = "host", .doc = "Address that a client on the node connects to."},
      {.name = "port", .type = ValueType::integer, .doc = "Port it listens on."},
      {.name = "engine", .doc = "The engine."},
      {.name = "version", .doc = "Its version."},
      {.name = "model", .doc = "Path of the model on the node."},
      {.name = "served_name", .doc = "Name of the model in the API, as /v1/models says."},
      {.name = "release", .type = ValueType::integer, .doc = "Number of the release that runs."},
      {.name = "previous_release",
       .type = ValueType::integer,
       .doc = "Number of an earlier release of the same model to go back to; null when there is none."},
      {.name = "replaces",
       .type = ValueType::mapping,
       .doc = "What ran before and comes back by a rollback (title, outputs); null when nothing did."},
      {.name = "unit", .doc = "The systemd unit."},
      {.name = "load_seconds", .type = ValueType::number, .doc = "From start to ready; null when it ran already."},
      {.name = "facts", .type = ValueType::mapping, .doc = "What the log said about slots, context and cache."},
      {.name = "findings",
       .type = ValueType::list,
       .doc = "What else the log said of the server: {class, severity, sentence, line, times}, the gravest first."},
  };
  out.example =
      "- uses: server\n  in: box\n  needs: [weights]\n  with:\n    engine: llama.cpp\n    model: \"{{ "
      "steps.weights.path }}\"\n"
      "    model_sha256: \"{{ steps.weights.sha256 }}\"\n    context: 4096\n";
  out.deadline = std::chrono::minutes(45);
  return out;
}

Value merged_sources(const EngineProfile& profile, const Inputs& inputs) {
  Value out = profile.sources;
  const Value& given = inputs.value("sources");
  if (given.is_object()) {
    for (const auto& [version, source] : given.items()) out[version] = source;
  }
  for (auto& source : out) {
    if (!source.is_object()) continue;
    const Value defaults = profile.methods.value(source_text(source, "method"), Value::object());
    for (const auto& [key, value] : defaults.items()) {
      if (!source.contains(key)) source[key] = value;
    }
  }
  return out;
}

Result<std::string> resolve_version(const EngineProfile& profile, const Inputs& inputs) {
  const Value sources = merged_sources(profile, inputs);
  const std::string wanted = inputs.string_or("version", "latest-known-good");
  if (wanted != "latest-known-good") {
    if (sources.contains(wanted)) return wanted;
    std::vector<std::string> known;
    for (const auto& [version, source] : sources.items()) known.push_back(version);
    return fail(make_error(ErrorKind::invalid, "nothing says how to install " + profile.title + " " + wanted)
                    .with_hint("`sources` has " + (known.empty() ? "none" : join(known, ", "))));
  }
  const Value& own = inputs.value("sources");
  // The user's own sources first: whoever lists some means one of them.
  for (const Value& candidates : {own.is_object() ? own : Value::object(), sources}) {
    for (const std::string& version : profile.known_good) {
      if (candidates.contains(version)) return version;
    }
    std::string best;
    for (const auto& [version, source] : candidates.items()) {
      const auto parsed = Version::parse(version);
      const auto best_parsed = Version::parse(best);
      if (best.empty() || (parsed && best_parsed && *parsed > *best_parsed)) best = version;
    }
    if (!best.empty()) return best;
  }
  return fail(make_error(ErrorKind::invalid, "nothing says how to install " + profile.title)
                  .with_hint("give `sources: {VERSION: {method: archive, path: ..., sha256: ...}}`"));
}

Result<ServerSpec> server_spec(const EngineProfile& profile, const Inputs& given) {
  ServerSpec spec;
  spec.release = optional_integer<int>(given, "release");
  // An earlier release is as the node has it; nothing is installed.
  auto version = spec.release ? Result<std::string>(given.string_or("version", "")) : resolve_version(profile, given);
  if (!version) return fail(version.error());
  spec.name = given.string("name");
  spec.engine = profile.id;
  spec.version = *version;
  if (!spec.release) spec.source = merged_sources(profile, given).at(*version);
  spec.model = given.string("model");
  spec.model_sha256 = given.string_or("model_sha256", "");
  spec.served_name = given.string_or("served_name", "");
  spec.host = given.string("host");
  spec.port = optional_integer<int>(given, "port").value_or(profile.default_port);
  spec.context = optional_integer<std::int64_t>(given, "context");
  spec.max_requests = optional_integer<std::int64_t>(given, given.has("max_requests") ? "max_requests" : "parallel");
  spec.tensor_parallel = optional_integer<std::int64_t>(given, "tensor_parallel");
  spec.kv_dtype = given.string_or("kv_dtype", "");
  spec.reasoning_parser = given.string_or("reasoning_parser", "");
  spec.tool_parser = given.string_or("tool_parser", "");
  if (given.has("speculative") && given.value("speculative") != "") spec.speculative = given.value("speculative");
  spec.device = given.string("device");
  if (given.has("memory_max")) spec.memory_max = given.size("memory_max");
  spec.memory_auto = given.string("memory") == "auto";
  spec.extra_flags = given.strings("extra_flags");
  spec.api_key = given.string_or("api_key", "");
  const Value& env = given.value("env");
  if (env.is_object()) {
    for (const auto& [key, value] : env.items())
      spec.env[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  spec.ready_timeout = given.duration("ready_timeout");
  spec.stall_timeout = given.duration("stall_timeout");
  return spec;
}

}  // namespace millwright
