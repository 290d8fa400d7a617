// P1: /v1/models answers, names the model, and allows the context that was asked for.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/probe.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

constexpr std::size_t kLongestName = 1000;  // it goes into every request and report

struct ListedModel {
  std::string id;
  std::string owner;
  std::optional<std::int64_t> max_length;
};

std::string text_of(const Value& parent, const char* key) {
  const auto found = parent.find(key);
  return found != parent.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> length_of(const Value& parent, const char* key) {
  const auto found = parent.find(key);
  if (found == parent.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > INT64_MAX) return {};
  return found->get<std::int64_t>();
}

std::vector<ListedModel> listed_models(const Value& document) {
  std::vector<ListedModel> models;
  if (!document.is_object()) return models;
  const auto data = document.find("data");
  if (data == document.end() || !data->is_array()) return models;
  for (const Value& entry : *data) {
    if (!entry.is_object()) continue;
    ListedModel model{text_of(entry, "id"), text_of(entry, "owned_by"), length_of(entry, "max_model_len")};
    if (const auto meta = entry.find("meta"); meta != entry.end() && meta->is_object()) {
      if (!model.max_length) model.max_length = length_of(*meta, "n_ctx");
      if (!model.max_length) model.max_length = length_of(*meta, "n_ctx_train");
    }
    if (!model.id.empty() && model.id.size() <= kLongestName) models.push_back(std::move(model));
  }
  return models;
}

// A place that tells the version: vLLM and SGLang have one, llama.cpp puts it into every chat reply.
void learn_version(SmokeSession& session) {
  const bool sglang = session.server.engine == "sglang";
  if (!sglang && session.server.engine != "vllm") return;
  for (const char* path : {"/version", "/server_info", "/get_server_info"}) {
    if (sglang == (std::string_view(path) == "/version")) continue;
    const GetOutcome outcome = session.get_root(path, Seconds(5));
    if (outcome.trouble || !outcome.response) continue;
    std::vector<std::string> surprises;
    std::string why;
    const auto document = parse_json(outcome.response->body, surprises, why);
    if (!document || !document->is_object()) continue;
    session.server.version = printable(text_of(*document, "version"), 40);
    if (!session.server.version.empty()) return;
  }
}

std::string engine_of(const std::string& owner) {
  if (owner == "llamacpp") return "llama.cpp";
  if (owner == "vllm" || owner == "sglang") return owner;
  return "";
}

class ReadyProbe final : public Probe {
 public:
  std::string name() const override { return "ready"; }
  std::string title() const override { return "ready"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    const GetOutcome outcome = wait_for_models(session);
    Exchange exchange;
    exchange.asked = "GET /v1/models";
    Finding finding = outcome.trouble;
    if (!finding) {
      finding = read_models(session, *outcome.response, report);
    } else if (models_not_offered(outcome) && !session.options().model.empty()) {
      report.notes.emplace_back("the server has no /v1/models; the name given is used");
      finding = {};
      report.summary = session.options().model;
    }
    exchange.got = finding ? finding.what : report.summary;
    exchange.symptom_class = finding.symptom_class;
    exchange.right = !finding;
    if (finding) exchange.evidence = session.keep("ready.txt", outcome.raw);
    report.exchanges.push_back(std::move(exchange));
    conclude(report, session.rules(), finding);
    return report;
  }

 private:
  static bool models_not_offered(const GetOutcome& outcome) {
    return outcome.response && (outcome.response->status == 404 || outcome.response->status == 405);
  }

  // A closed port or a loading server is asked again for as long as the options allow.
  static GetOutcome wait_for_models(SmokeSession& session) {
    const SteadyPoint end = session.clock().steady() + session.options().ready_wait;
    while (true) {
      GetOutcome outcome = session.get("/models", session.rules().request_timeout);
      const std::string& found = outcome.trouble.symptom_class;
      const bool may_change = found == "not_listening" || found == "still_loading" || found == "hang";
      if (!may_change || session.clock().steady() >= end || session.stopped()) return outcome;
      session.clock().sleep(Milliseconds(500), session.options().cancelled);
    }
  }

  static Finding read_models(SmokeSession& session, const HttpResponse& response, ProbeReport& report) {
    std::string why;
    const auto document = parse_json(response.body, report.notes, why);
    if (!document) return {"not_openai", "/v1/models: " + why};
    const std::vector<ListedModel> models = listed_models(*document);
    if (models.empty()) {
      const bool list = document->is_object() && document->contains("data") && (*document)["data"].is_array();
      return list ? Finding{"no_model", "/v1/models lists no model"}
                  : Finding{"not_openai", "/v1/models answers something else"};
    }
    const std::string& wanted = session.options().model;
    const auto chosen = wanted.empty()
                            ? models.begin()
                            : std::find_if(models.begin(), models.end(), [&](const auto& m) { return m.id == wanted; });
    session.server.engine = engine_of(models.front().owner);
    if (chosen == models.end()) {
      return {"model_name_404",
              fmt::format("'{}' is not served; /v1/models lists '{}'", wanted, printable(models.front().id, 100))};
    }
    session.server.model = chosen->id;
    session.server.max_length = chosen->max_length;
    learn_version(session);
    report.summary = describe(session.server);
    const auto& least = session.options().min_context;
    if (least && chosen->max_length && *chosen->max_length < *least) {
      return {"context_too_small", fmt::format("{} tokens of context, {} wanted", *chosen->max_length, *least)};
    }
    return {};
  }

  static std::string describe(const ServerFacts& server) {
    std::vector<std::string> parts;
    if (!server.engine.empty()) {
      parts.push_back(server.version.empty() ? server.engine : server.engine + " " + server.version);
    }
    parts.push_back(printable(server.model, 80));
    if (server.max_length) parts.push_back(fmt::format("{} tokens", *server.max_length));
    return join(parts, ", ");
  }
};

}  // namespace

std::unique_ptr<Probe> make_ready_probe() { return std::make_unique<ReadyProbe>(); }

}  // namespace millwright
