// Probes, commands, what was undone, and evidence.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "orchestrator/report/html_parts.hpp"
#include "orchestrator/report/html_text.hpp"

namespace millwright {
namespace {

const EvidenceFacts* find_evidence(const RunFacts& run, const std::string& name) {
  if (name.empty()) return nullptr;
  for (const EvidenceFacts& kept : run.evidence) {
    if (kept.name == name || ends_with(name, "/" + kept.name)) return &kept;
  }
  return nullptr;
}

std::string exchange_html(const RunFacts& run, const ExchangeFacts& exchange) {
  std::string out = "<dl class=\"qa\">";
  const auto row = [&](const char* title, const std::string& text) {
    if (!text.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>", title, html(text));
  };
  row("asked", exchange.asked);
  row("expected", exchange.expected);
  row(exchange.right ? "got" : "got instead", exchange.got);
  row("class", exchange.symptom_class);
  out += "</dl>";
  if (const EvidenceFacts* kept = find_evidence(run, exchange.evidence))
    out += folded("raw bytes: " + kept->name, kept->text);
  return out;
}

std::string probe_html(const RunFacts& run, const ProbeFacts& probe) {
  std::string out = fmt::format("<div class=\"probe\"><span class=\"name\">{}</span>{}<span class=\"what\">{}",
                                html(probe.name), badge(probe.verdict), html(probe.summary));
  if (probe.took_ms > 0) out += " <span class=\"soft small\">" + html(html_duration(probe.took_ms)) + "</span>";
  std::string inside;
  for (const ExchangeFacts& exchange : probe.exchanges) inside += exchange_html(run, exchange);
  for (const std::string& note : probe.notes) inside += "<p class=\"soft small\">note: " + html(note) + "</p>";
  if (!inside.empty()) {
    const bool shown = probe.verdict != "pass" && probe.verdict != "skipped";
    out += fmt::format("<details{}><summary class=\"small\">{} question{} and answer{}</summary>{}</details>",
                       shown ? " open" : "", probe.exchanges.size(), probe.exchanges.size() == 1 ? "" : "s",
                       probe.exchanges.size() == 1 ? "" : "s", inside);
  }
  return out + "</span></div>";
}

std::string diff_html(const std::string& diff) {
  std::string out = "<pre class=\"diff\">";
  for (const std::string& line : split_lines(diff)) {
    const char first = line.empty() ? ' ' : line.front();
    const char* shade = first == '+' ? "add" : first == '-' ? "del" : nullptr;
    out += shade ? fmt::format("<span class=\"{}\">{}</span>\n", shade, html(line)) : html(line) + "\n";
  }
  return out + "</pre>";
}

std::string command_html(const CommandFacts& command) {
  std::string state = "output";
  if (command.started) {
    state = !command.exit_code ? "cancelled" : *command.exit_code == 0 ? "ok" : "failed";
  }
  std::string out =
      "<details><summary>" + badge(state) + " " + html(command.host + " " + command.step) + ": " + html(command.title);
  if (command.exit_code && *command.exit_code != 0)
    out += fmt::format(" <span class=\"bad\">status {}</span>", *command.exit_code);
  if (command.took_ms > 0) out += " <span class=\"soft small\">" + html(html_duration(command.took_ms)) + "</span>";
  out += "</summary>";
  if (command.started) {
    out += "<p class=\"small soft\">" +
           (command.undo_title.empty() ? std::string("cannot be taken back") : "undo: " + html(command.undo_title)) +
           "</p>";
  }
  if (!trim(command.script).empty()) out += "<pre>" + html(command.script) + "</pre>";
  if (!trim(command.output).empty())
    out += "<p class=\"small soft\">printed</p><pre>" + html(command.output) + "</pre>";
  return out + "</details>\n";
}

}  // namespace

std::string html_probes(const RunFacts& run) {
  if (run.tests.empty()) return "";
  std::string out = "<section><h2>Tests</h2>";
  int number = 0;
  for (const TestFacts& test : run.tests) {
    ++number;
    out += fmt::format(
        "<div class=\"card\"><h3>{} {} {} {}</h3>", badge(test.verdict), html(test.host), html(test.step),
        run.tests.size() > 1 ? fmt::format("<span class=\"soft\">test {} of {}</span>", number, run.tests.size()) : "");
    if (!test.symptom_class.empty()) out += "<p><code>" + html(test.symptom_class) + "</code></p>";
    if (!test.sentence.empty()) out += "<p>" + html(test.sentence) + "</p>";
    if (!test.server.empty()) out += "<p class=\"soft small\">" + html(test.server) + "</p>";
    for (const ProbeFacts& probe : test.probes) out += probe_html(run, probe);
    out += "</div>";
  }
  return out + "</section>\n";
}

std::string html_commands(const RunFacts& run) {
  if (run.commands.empty() && run.diffs.empty()) return "";
  std::string out = "<section><h2>What was done</h2><div class=\"card\">";
  for (const CommandFacts& command : run.commands) out += command_html(command);
  for (const auto& [where, diff] : run.diffs) {
    out += "<details><summary>" + badge("change") + " " + html(where) + ": what changes</summary>" + diff_html(diff) +
           "</details>\n";
  }
  return out + "</div></section>\n";
}

std::string html_undone(const RunFacts& run) {
  if (run.undos.empty() && run.remaining.empty()) return "";
  std::string out = "<section><h2>What was undone</h2><div class=\"card\">";
  for (const UndoFacts& undo : run.undos) {
    out += "<p>" + badge(undo.state) + " " + html(undo.host + " " + undo.step) + ": " + html(undo.title);
    if (!undo.error.empty()) out += " <span class=\"soft\">" + html(undo.error) + "</span>";
    out += "</p>";
  }
  if (!run.remaining.empty()) {
    out += "<h3>Not as before</h3><ul>";
    for (const std::string& what : run.remaining) out += "<li>" + html(what) + "</li>";
    out += "</ul>";
  }
  return out + "</div></section>\n";
}

std::string html_evidence(const RunFacts& run) {
  if (run.evidence.empty()) return "";
  std::string out = "<section><h2>Evidence</h2><div class=\"card\">";
  for (const EvidenceFacts& kept : run.evidence)
    out += folded(kept.host + " " + kept.step + ": " + kept.name, kept.text);
  return out + "</div></section>\n";
}

}  // namespace millwright
