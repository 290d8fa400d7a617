#include "orchestrator/report/html.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "orchestrator/journal/sqlite_journal.hpp"
#include "orchestrator/report/html_text.hpp"

namespace millwright {
namespace {

EventType type_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(EventType::run_finished); ++i) {
    if (to_string(static_cast<EventType>(i)) == name) return static_cast<EventType>(i);
  }
  throw std::runtime_error("no event type " + name);
}

// "ms" is the time since the start; without it events are a second apart.
std::vector<Event> recorded_events(const std::string& file) {
  std::ifstream in(std::string(TEST_DATA) + "/report/" + file);
  EXPECT_TRUE(in) << file;
  std::vector<Event> events;
  for (std::string line; std::getline(in, line);) {
    const Value row = Value::parse(line);
    Event event;
    event.type = type_named(row.at("type"));
    event.seq = events.size() + 1;
    event.time =
        TimePoint(Seconds(1796048000)) + Milliseconds(row.value("ms", static_cast<std::int64_t>(events.size()) * 1000));
    event.run = "20261130-1412-k3f";
    event.host = row.value("host", "");
    event.step = row.value("step", "");
    event.data = row.value("data", Value::object());
    events.push_back(std::move(event));
  }
  return events;
}

// $MW_HTML_OUT names a folder: the page is written there, to be looked at.
void show(const std::string& name, const std::string& page) {
  if (const char* folder = std::getenv("MW_HTML_OUT")) std::ofstream(std::string(folder) + "/" + name) << page;
}

struct KeptFile {
  KeptFile(const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  ~KeptFile() { std::filesystem::remove(path); }
  std::string path = testing::TempDir() + "html_test_" + std::to_string(::getpid()) + ".txt";
};

// Every opened element is closed in order: what a browser would otherwise repair in its own way.
void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-zA-Z0-9]+)([^>]*)>)");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), tag); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (name == "meta" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty()) << name;
      ASSERT_EQ(open.back(), name) << "at " << it->position();
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(HtmlReport, TellsTheFoundingStory) {
  const KeptFile kept("POST /v1/chat/completions\n\nHTTP 200\n\n{\"content\":null,\"reasoning_content\":null}");
  const std::string page =
      html_report(recorded_events("founding.events.ndjson"),
                  {{"20261130-1412-k3f", "gpu1/llm", "smoke", "known_answers-capital.txt", kept.path, 80}});
  show("founding.html", page);
  expect_well_formed(page);
  for (const char* text :
       {"<h1>Done, after a repair</h1>", "gpu1 is ready: http://127.0.0.1:30000/v1 in container llm",
        "SGLang 0.5.9 -&gt; 0.5.11 (qwen3_5 needs &gt;= 0.5.10)", "immediate_eos_null",
        "raw bytes: known_answers-capital.txt", "{&quot;content&quot;:null", "Graph of the steps", "class=\"gantt\"",
        "install SGLang 0.5.9", "Asked &quot;What is the capital of France?&quot;"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
}

TEST(HtmlReport, NeedsNoNetworkAndRunsNoScript) {
  const std::string page = html_report(recorded_events("founding.events.ndjson"), {});
  for (const char* text : {"<script", "<link", "<img", "<iframe", "@import", "url(http", " src=", " href="}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

// What a model, a command or a host name says must never become part of the page's own code.
TEST(HtmlReport, HostileTextStaysText) {
  const std::string hostile =
      "</pre></details><script>alert(1)</script>\"' onmouseover='x' <img src=x onerror=alert(2)>"
      "\x1b[31m\xFF\x00"
      "end&amp;";
  std::vector<Event> events = recorded_events("founding.events.ndjson");
  for (Event& event : events) {
    if (!event.host.empty()) event.host = hostile;
    if (!event.step.empty()) event.step = hostile;
    std::function<void(Value&)> poison = [&](Value& value) {
      if (value.is_string()) value = hostile;
      if (value.is_structured()) {
        for (Value& item : value) poison(item);
      }
    };
    poison(event.data);
    event.run = hostile;
  }
  const KeptFile kept(hostile);
  const std::string page = html_report(events, {{"r", hostile, hostile, hostile, kept.path, 9}});
  show("hostile.html", page);
  expect_well_formed(page);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_EQ(page.find('\xFF'), std::string::npos);
  // No attribute was broken out of: outside of quoted values nothing of it is left in a tag.
  const std::string bare = std::regex_replace(page, std::regex("\"[^\"<>]*\""), "\"\"");
  EXPECT_FALSE(std::regex_search(bare, std::regex("<[a-z]+[^>]* on[a-z]+=")));
}

TEST(HtmlReport, SecretsAreTakenOut) {
  Redactor secrets;
  secrets.add("hf_topsecret<1>");
  std::vector<Event> events = recorded_events("founding.events.ndjson");
  for (Event& event : events) {
    if (event.type == EventType::step_output) event.data["text"] = "token hf_topsecret<1> used";
  }
  const KeptFile kept("Authorization: hf_topsecret<1>");
  const std::string page = html_report(events, {{"r", "h", "s", "n", kept.path, 9}}, secrets);
  EXPECT_EQ(page.find("topsecret"), std::string::npos);
  EXPECT_NE(page.find("token [secret] used"), std::string::npos);
}

TEST(HtmlReport, EveryRecordedRunMakesAPage) {
  for (const char* file :
       {"cured.ndjson", "rollback.ndjson", "interrupted.ndjson", "many.ndjson", "plan.ndjson", "hostile.ndjson"}) {
    const std::string page = html_report(recorded_events(file), {});
    show(std::string(file) + ".html", page);
    expect_well_formed(page);
    expect_well_formed(junit_report(recorded_events(file)).substr(38));
  }
  EXPECT_NE(html_report({}, {}).find("Not finished"), std::string::npos);
}

TEST(HtmlReport, ARollbackSaysWhatRemains) {
  const std::string page = html_report(recorded_events("rollback.ndjson"), {});
  EXPECT_NE(page.find("Not as before"), std::string::npos);
  EXPECT_NE(page.find("./migrate cannot be taken back"), std::string::npos);
  EXPECT_NE(page.find("changed by someone else since"), std::string::npos);
}

Event event(EventType type, Value data) {
  Event out;
  out.type = type;
  out.run = "20261130-1412-k3f";
  out.data = std::move(data);
  return out;
}

// Why somebody took a run back is on its page afterwards, too.
TEST(HtmlReport, ARunThatWasTakenBackStillSaysHowItHadFailed) {
  const Value begun = {{"playbook", "p"}, {"hosts", {"h1"}}, {"steps", Value::array()}, {"verb", "apply"}};
  Value back = begun;
  back["verb"] = "rollback";
  const Value counts = {{"ok", 0}, {"changed", 0}, {"failed", 1}};
  const std::string page = html_report(
      {event(EventType::run_started, begun),
       event(EventType::run_finished,
             {{"exit_code", 2}, {"sentence", "failed, left as it is: h1: no such disk"}, {"counts", counts}}),
       event(EventType::run_started, back),
       event(EventType::run_finished, {{"exit_code", 0}, {"sentence", "rolled back"}, {"counts", counts}})},
      {});
  expect_well_formed(page);
  EXPECT_NE(page.find("<h1>Taken back</h1>"), std::string::npos);
  EXPECT_NE(page.find("before: apply</dt><dd>Failed, and left as it is: failed, left as it is: h1: no such disk"),
            std::string::npos)
      << page.substr(page.find("<h1>"), 900);
}

TEST(HtmlReport, NamesOfStepsAndIgnoredFailuresAreShown) {
  const std::string page = html_report(recorded_events("named.ndjson"), {});
  show("named.html", page);
  expect_well_formed(page);
  EXPECT_NE(page.find("<span class=\"soft\">Bind the GPUs</span>"), std::string::npos);
  EXPECT_NE(page.find("badge warn\">ignored</span>"), std::string::npos);
  EXPECT_NE(page.find("2 changed, 3 ok, 1 ignored"), std::string::npos);
}

TEST(WriteHtmlReport, MakesAPageThatOnlyItsOwnerReads) {
  const std::string folder = testing::TempDir() + "write_html_" + std::to_string(::getpid());
  auto journal = open_sqlite_journal(folder + "/state");
  ASSERT_TRUE(journal.has_value());
  const auto path = write_html_report(**journal, "no-such-run", folder + "/runs/x");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(*path, folder + "/runs/x/report.html");
  EXPECT_EQ(std::filesystem::status(*path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(folder);
  const auto refused = write_html_report(**journal, "no-such-run", "/proc/none");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
}

TEST(JunitReport, TheLastGoOfAStepCountsAndProbesAreCases) {
  const std::string xml = junit_report(recorded_events("founding.events.ndjson"));
  EXPECT_NE(xml.find("<testsuite name=\"gpu1/llm\" tests=\"8\" failures=\"0\" errors=\"0\" skipped=\"0\""),
            std::string::npos)
      << xml;
  EXPECT_NE(xml.find("name=\"smoke: known answers\""), std::string::npos);
}

TEST(JunitReport, AnIgnoredFailureIsNoFailureAndNoSuccess) {
  const std::string xml = junit_report(recorded_events("named.ndjson"));
  EXPECT_NE(xml.find("name=\"gpus: Bind the GPUs\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("<skipped message=\"failed, and that is ignored: ended with status 1\"/>"), std::string::npos)
      << xml;
}

TEST(JunitReport, AFailedProbeIsAFailure) {
  std::vector<Event> events = recorded_events("founding.events.ndjson");
  events.erase(events.end() - 6, events.end());  // before the second remedy
  const std::string xml = junit_report(events);
  EXPECT_NE(xml.find("name=\"smoke: known answers\" time=\"0.600\"><failure message=\"immediate_eos_null: 3 of 3"),
            std::string::npos)
      << xml;
}

}  // namespace
}  // namespace millwright
