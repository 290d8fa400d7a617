#include <gtest/gtest.h>

#include "golden.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/report/event_data.hpp"
#include "orchestrator/report/views.hpp"

namespace millwright {
namespace {

class FixedClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::seconds(1'000'000)) + passed; }
  SteadyPoint steady() const override { return SteadyPoint(passed); }
  void sleep(Milliseconds duration, const std::function<bool()>&) override { passed += duration; }
  Milliseconds passed{0};
};

EventType type_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(EventType::run_finished); ++i) {
    if (to_string(static_cast<EventType>(i)) == name) return static_cast<EventType>(i);
  }
  ADD_FAILURE() << "no event type " << name;
  return EventType::warning;
}

Event event_from(const Value& line) {
  Event event;
  event.type = type_named(text_in(line, "type"));
  event.run = "20261130-1412-k3f";
  event.host = text_in(line, "host");
  event.step = text_in(line, "step");
  event.data = line.contains("data") ? line["data"] : Value::object();
  event.time = TimePoint(std::chrono::seconds(1'000'000));
  return event;
}

std::vector<Event> events_of(const std::string& name) {
  std::vector<Event> events;
  for (const std::string& line : split_lines(file_text(TEST_DATA "/report/" + name + ".ndjson")))
    events.push_back(event_from(Value::parse(line)));
  EXPECT_FALSE(events.empty()) << name;
  return events;
}

std::string plain(const std::string& name, ReportOptions options = {}) {
  std::string out;
  PlainView view([&](std::string_view text) { out += text; }, options);
  for (const Event& event : events_of(name)) view.on_event(event);
  return out;
}

class Stories : public ::testing::TestWithParam<const char*> {};

TEST_P(Stories, AreToldAsExpectedWithin80Columns) {
  const std::string text = plain(GetParam());
  expect_golden(std::string(TEST_DATA "/report/") + GetParam() + ".expected", text);
  for (const std::string& line : split_lines(text)) EXPECT_LE(width_of(line), 80U) << line;
}

INSTANTIATE_TEST_SUITE_P(Report, Stories,
                         ::testing::Values("cured", "plan", "many", "rollback", "interrupted", "hostile", "named",
                                           "plan-stopped", "plan-named"));

TEST(Views, DiffsAndActionsOnRequest) {
  ReportOptions options;
  options.diffs = true;
  options.verbose = 2;
  expect_golden(TEST_DATA "/report/cured.verbose.expected", plain("cured", options));
}

TEST(Views, SecretsNeverLeave) {
  Redactor secrets;
  secrets.add("hunter2hunter2");
  std::string out;
  const Write write = [&](std::string_view text) { out += text; };
  ReportOptions options;
  options.verbose = 2;
  FixedClock clock;
  PlainView lines(write, options, secrets);
  NdjsonView json(write, secrets);
  TerminalView terminal(write, options, 10, clock, secrets);
  Event event = event_from(Value{{"type", "step_progress"}, {"host", "h"}, {"step", "s"}});
  event.data = {{"text", "token hunter2hunter2"}};
  for (EventSink* sink :
       {static_cast<EventSink*>(&lines), static_cast<EventSink*>(&json), static_cast<EventSink*>(&terminal)}) {
    sink->on_event(event);
    Event output = event;
    output.type = EventType::step_output;
    output.data = {{"text", "hunter2hunter2"}, {"hunter2hunter2", 1}};
    sink->on_event(output);
  }
  EXPECT_EQ(out.find("hunter2"), std::string::npos);
  EXPECT_NE(out.find("[secret]"), std::string::npos);
}

TEST(Views, NdjsonIsOneObjectALine) {
  std::string out;
  NdjsonView view([&](std::string_view text) { out += text; });
  const std::vector<Event> events = events_of("hostile");
  for (const Event& event : events) view.on_event(event);
  const std::vector<std::string> lines = split_lines(out);
  ASSERT_EQ(lines.size(), events.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Value parsed = Value::parse(lines[i]);
    EXPECT_EQ(parsed["schema_version"], 1);
    EXPECT_EQ(parsed["type"], to_string(events[i].type));
    EXPECT_EQ(parsed["time"], "1970-01-12T13:46:40Z");
  }
}

// A terminal of the simplest kind: enough to see what stays on the screen.
class Screen {
 public:
  void write(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\x1b') {
        std::size_t end = i + 2;
        while (text[end] >= '0' && text[end] <= '9') ++end;
        const std::string number(text.substr(i + 2, end - i - 2));
        if (text[end] == 'A') row_ -= std::stoul(number);
        if (text[end] == 'J') lines_.resize(row_);
        i = end;
      } else if (text[i] == '\n') {
        ++row_;
        if (lines_.size() < row_) lines_.resize(row_);
      } else if (text[i] != '\r') {
        if (lines_.size() <= row_) lines_.resize(row_ + 1);
        lines_[row_] += text[i];
      }
    }
  }
  std::string text() const { return join(lines_, "\n"); }
  std::size_t rows() const { return lines_.size(); }

 private:
  std::vector<std::string> lines_;
  std::size_t row_ = 0;
};

TEST(TerminalView, LeavesTheSameLinesAsThePlainOne) {
  for (const char* name : {"cured", "many", "rollback"}) {
    Screen screen;
    FixedClock clock;
    {
      TerminalView view([&](std::string_view text) { screen.write(text); }, {}, 20, clock);
      for (const Event& event : events_of(name)) view.on_event(event);
    }
    EXPECT_EQ(screen.text() + "\n", plain(name)) << name;
  }
}

TEST(TerminalView, ShowsWhatRunsAndNeverMoreThanItsRows) {
  Screen screen;
  FixedClock clock;
  TerminalView view([&](std::string_view text) { screen.write(text); }, {}, 3, clock);
  const auto send = [&](const char* type, const std::string& step, Value data) {
    Event event = event_from(Value{{"type", type}, {"host", "gpu1"}, {"step", step}});
    event.data = std::move(data);
    view.on_event(event);
  };
  send("run_started", "", {{"hosts", {"gpu1"}}, {"steps", {{{"id", "weights"}}}}});
  send("step_started", "weights", Value::object());
  clock.passed = std::chrono::seconds(1);
  send("step_progress", "weights", {{"text", "38.2 of 55.6 GiB"}, {"fraction", 0.69}});
  EXPECT_NE(screen.text().find("running   38.2 of 55.6 GiB"), std::string::npos) << screen.text();
  EXPECT_NE(screen.text().find("[=======>   ]"), std::string::npos) << screen.text();
  clock.passed = std::chrono::seconds(12);
  send("step_started", "other", Value::object());
  send("step_started", "third", Value::object());
  send("step_started", "fourth", Value::object());
  view.tick();
  EXPECT_EQ(screen.rows(), 2U + 3U) << screen.text();
  EXPECT_NE(screen.text().find("… and 2 more running"), std::string::npos) << screen.text();
  EXPECT_NE(screen.text().find("12 s"), std::string::npos) << screen.text();
}

}  // namespace
}  // namespace millwright
