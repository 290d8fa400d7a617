#include "orchestrator/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/report/html_parts.hpp"
#include "orchestrator/report/html_text.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxEvidence = 256u << 10;

std::string read_evidence(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return "(the file " + path + " cannot be read)";
  std::string bytes(kMaxEvidence, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  if (in.peek() != std::ifstream::traits_type::eof()) bytes += "\n[more in " + path + "]";
  return bytes;
}

std::string counts_sentence(const RunFacts& run) {
  std::vector<std::string> parts;
  for (const char* state : {"changed", "ok", "failed", "ignored", "skipped", "unreachable"}) {
    const auto count = run.counts.find(state);
    if (count != run.counts.end() && count->second > 0) parts.push_back(fmt::format("{} {}", count->second, state));
  }
  return join(parts, ", ");
}

// Lines that tell nothing new are left to the graph and the time line.
bool tells(const StoryLine& line) { return !line.word.empty() && line.word != "skipped"; }

std::string story_line(const StoryLine& line, const std::string& name) {
  const std::string at = line.at_ms <= 0 ? "0 s" : html_duration(line.at_ms);
  std::string out =
      "<li><span class=\"at\">" + html(at) + "</span><span>" + badge(line.word) + "</span><span class=\"what\">";
  if (line.took_ms > 0) out += "<span class=\"right\">" + html(html_duration(line.took_ms)) + "</span>";
  const std::string who = line.host + (line.host.empty() || line.step.empty() ? "" : " ") + line.step;
  if (!who.empty()) out += "<span class=\"who\">" + html(who) + "</span> ";
  if (!name.empty()) out += "<span class=\"soft\">" + html(name) + "</span> ";
  out += html(line.text);
  if (!line.more.empty()) out += folded("more", line.more);
  return out + "</span></li>\n";
}

}  // namespace

std::string html_header(const RunFacts& run) {
  const auto [words, state] = exit_words(run);
  std::string out = fmt::format("<header class=\"top {}\"><h1>{}</h1>", tone(state), html(words));
  const bool says_more = run.sentence != "done";  // the heading says that already
  if (says_more && !run.sentence.empty()) out += "<p class=\"lead\">" + html(run.sentence) + "</p>";
  out += "<dl class=\"facts\">";
  const auto fact = [&](const char* title, const std::string& text) {
    if (!text.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>", title, html(text));
  };
  fact("playbook", run.playbook);
  fact(run.hosts.size() == 1 ? "host" : "hosts",
       run.hosts.size() > 12 ? fmt::format("{}", run.hosts.size()) : join(run.hosts, ", "));
  fact("endpoint", run.endpoint);
  fact("cured by", run.cured_by);
  // What a run that was taken back or gone on with had come to: the reason for that.
  for (const EarlierEnd& end : run.before) {
    const std::string ended = exit_words(end.exit_code).first;
    fact(("before: " + end.verb).c_str(),
         ended + (end.sentence.empty() || end.sentence == "done" ? "" : ": " + end.sentence));
  }
  fact("steps", counts_sentence(run));
  fact("started", run.started + (run.took_ms > 0 ? ", took " + html_duration(run.took_ms) : ""));
  fact("run", run.id);
  return out + "</dl></header>\n";
}

std::string html_story(const RunFacts& run) {
  std::string lines;
  for (const StoryLine& line : run.story) {
    if (tells(line)) lines += story_line(line, run.name_of(line.step));
  }
  if (lines.empty()) return "";
  return "<section><h2>Story</h2><div class=\"card\"><ol class=\"story\">" + lines + "</ol></div></section>\n";
}

std::string html_report(const std::vector<Event>& events, const std::vector<EvidenceRecord>& evidence,
                        const Redactor& secrets) {
  RunFacts run = gather_run(events, secrets);
  for (const EvidenceRecord& kept : evidence) {
    run.evidence.push_back({kept.host, kept.step, kept.name, secrets.redact(read_evidence(kept.path))});
  }
  const auto [words, state] = exit_words(run);
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" "
      "content=\"no-referrer\">\n";
  page += "<title>" + html(words + ": " + (run.playbook.empty() ? run.id : run.playbook)) + "</title>\n<style>";
  page += html_style();
  page += "</style></head><body><main>\n";
  page += html_header(run) + html_story(run) + html_graph(run) + html_gantt(run) + html_probes(run) +
          html_commands(run) + html_undone(run) + html_evidence(run);
  page += "<footer>millwright" + (run.id.empty() ? std::string() : " · run " + html(run.id)) +
          " · this page needs no network</footer>\n</main></body></html>\n";
  return page;
}

}  // namespace millwright
