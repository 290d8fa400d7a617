// P8: one tool, asked for plainly and as a stream. A call must arrive as a call: not as text, not as thinking, its
// arguments JSON. A model that does not call is let pass: whether it should is not the server's matter.
#include <fmt/format.h>

#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

Value weather_tool() {
  return Value::array({{{"type", "function"},
                        {"function",
                         {{"name", "get_weather"},
                          {"description", "Current weather of a city"},
                          {"parameters",
                           {{"type", "object"},
                            {"properties", {{"city", {{"type", "string"}}}}},
                            {"required", Value::array({"city"})}}}}}}});
}

bool has_markup(const SmokeRules& rules, const TextField& field) {
  return !find_marker(field.text, rules.marker_list("tool_markup")).empty();
}

Finding judge_call(const ToolCall& call) {
  if (call.name != "get_weather")
    return {"tool_call_shape", fmt::format("calls '{}', which was not offered", call.name)};
  const Value arguments = Value::parse(call.arguments, nullptr, false);
  if (arguments.is_discarded())
    return {"tool_call_shape", "the arguments are no JSON: " + call.arguments.substr(0, 80)};
  if (!arguments.is_object())
    return {"tool_call_shape", "the arguments are no object: " + call.arguments.substr(0, 80)};
  return {};
}

// JSON that calls the tool by name, bare or in a code block: what models write where no parser takes it out.
bool has_json_call(const TextField& field) {
  const auto holds = [&](const char* word) { return field.text.find(word) != std::string::npos; };
  return holds("\"get_weather\"") && (holds("\"arguments\"") || holds("\"parameters\""));
}

Finding judge_called(const ChatReply& reply) {
  Finding finding = judge_call(reply.tools.empty() ? ToolCall{} : reply.tools.front());
  if (finding) return finding;
  if (reply.finish_reason == "length") return {"never_stops", "the call came, but no end of the turn"};
  if (reply.content.state == FieldState::blank) return {"tool_call_shape", "blanks in content beside the call"};
  return {};
}

// Nothing and no call: the model chose to answer by itself.
Finding judge_tools(const SmokeRules& rules, const ChatReply& reply) {
  if (reply.tool_calls > 0) return judge_called(reply);
  if (has_markup(rules, reply.reasoning)) return {"tool_call_in_reasoning", "the call came as thinking"};
  if (has_markup(rules, reply.content) || has_json_call(reply.content)) {
    return {"tool_call_unparsed", "the call came as text"};
  }
  if (reply.finish_reason == "tool_calls") return {"tool_call_unparsed", "finished for a call, but none is there"};
  return judge_reply(rules, reply, TextKind::answer);
}

class ToolsProbe final : public Probe {
 public:
  std::string name() const override { return "tools"; }
  std::string title() const override { return "tool call"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    ChatCall call;
    call.name = name();
    call.ask = session.rules().tools_ask;
    call.max_tokens = session.rules().tools_tokens;
    call.tools = weather_tool();
    const ChatOutcome plain = session.chat(call);
    if (plain.status >= 400 && plain.status < 500) {
      report.summary = "not offered: " + plain.reply.error_message;
      return report;
    }
    Finding finding = plain.trouble ? plain.trouble : judge_tools(session.rules(), plain.reply);
    record(report, session, call, plain, finding).expected = "a call of get_weather";
    if (!finding && plain.reply.tool_calls == 0) {
      report.summary = "the model answered without a call";
      return report;
    }
    for (int turn = 0; turn < kStreams && !finding && !session.stopped(); ++turn) {
      finding = as_stream(session, call, report);
    }
    if (!finding) finding = as_required_stream(session, call, report);
    conclude(report, session.rules(), finding);
    if (!finding) report.summary = "called, plainly and as a stream";
    return report;
  }

 private:
  static constexpr int kStreams = 3;  // calls were seen to be missing from some streams only (vllm#27641)

  static Finding as_stream(SmokeSession& session, ChatCall call, ProbeReport& report) {
    call.name += "-stream";
    call.stream = true;
    return judge_stream(session, call, session.chat(call), report);
  }

  // A parser of its own in vLLM (#24509). Servers that know no such choice refuse it.
  static Finding as_required_stream(SmokeSession& session, ChatCall call, ProbeReport& report) {
    call.name += "-required";
    call.stream = true;
    call.tool_choice = "required";
    const ChatOutcome outcome = session.chat(call);
    if (outcome.status >= 400 && outcome.status < 500) return {};
    return judge_stream(session, call, outcome, report);
  }

  static Finding judge_stream(SmokeSession& session, const ChatCall& call, const ChatOutcome& outcome,
                              ProbeReport& report) {
    Finding finding = outcome.trouble;
    if (!finding && outcome.reply.tool_calls == 0) {
      finding = {"tool_call_stream_only", "plainly a call, as a stream none: " + describe_reply(outcome.reply)};
    }
    if (!finding) {
      finding = judge_tools(session.rules(), outcome.reply);
      if (finding) finding.symptom_class = "tool_call_stream_only";
    }
    record(report, session, call, outcome, finding).expected = "a call of get_weather, as a stream";
    return finding;
  }
};

}  // namespace

std::unique_ptr<Probe> make_tools_probe() { return std::make_unique<ToolsProbe>(); }

}  // namespace millwright
