#include "steps/log/log_signs.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "orchestrator/base/text.hpp"
#include "steps/server/start_log.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

const Knowledge& shipped() {
  static const Knowledge knowledge = *load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  return knowledge;
}

std::vector<LogSign> all_signs() { return log_signs(shipped(), "").value(); }

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

bool has_all(const LogSign& sign) { return sign.example.find(sign.has) != std::string::npos; }

TEST(LogSigns, EveryRowReadsItsOwnExample) {
  std::set<std::string> ids;
  for (const LogSign& sign : all_signs()) {
    EXPECT_TRUE(ids.insert(sign.id).second) << sign.id << " is there twice";
    EXPECT_TRUE(has_all(sign)) << sign.id << ": its example lacks \"" << sign.has << '"';
    for (const std::string& engine : sign.engines) {
      const std::vector<LogSign> signs = log_signs(shipped(), engine).value();
      const std::vector<LogFinding> found = scan_log(signs, "cuda", sign.example + "\n");
      ASSERT_EQ(found.size(), 1u) << sign.id << " of " << engine;
      EXPECT_EQ(found[0].id, sign.id) << engine;
      EXPECT_EQ(found[0].sentence.find("{1}"), std::string::npos) << found[0].sentence;
      EXPECT_EQ(found[0].sentence.find("()"), std::string::npos) << found[0].sentence;
    }
  }
  EXPECT_GE(ids.size(), 25u);
}

// The order of rows must not be what keeps a harmless line harmless.
TEST(LogSigns, NoExampleIsAGraverLineOfAnotherRow) {
  const std::vector<LogSign> signs = all_signs();
  for (const LogSign& sign : signs) {
    for (const LogSign& other : signs) {
      if (other.id == sign.id || other.severity <= sign.severity) continue;
      EXPECT_FALSE(std::regex_search(sign.example, other.match)) << other.id << " reads the example of " << sign.id;
    }
  }
}

TEST(LogSigns, EnginesAreThoseOfTheData) {
  const Value engines = shipped().file("engines").at("engines");
  for (const LogSign& sign : all_signs()) {
    for (const std::string& engine : sign.engines) EXPECT_TRUE(engines.contains(engine)) << sign.id << ": " << engine;
  }
}

// Every recorded start that went well, on the device that it was for: nothing that is more than a note.
TEST(LogSigns, HealthyStartsAreNotAccused) {
  int seen = 0;
  for (const char* folder : {"/engine_logs", "/planner/logs"}) {
    for (const auto& entry : fs::directory_iterator(std::string(TEST_DATA) + folder)) {
      const std::string name = entry.path().filename().string();
      if (name.find("ok.log") == std::string::npos) continue;
      std::string engine = name.substr(0, name.find('-'));
      if (engine == "xllamacpp") engine = "llama.cpp";
      const std::vector<LogSign> signs = log_signs(shipped(), engine).value();
      ASSERT_FALSE(signs.empty()) << name;
      for (const LogFinding& finding : scan_log(signs, "cpu", content_of(entry.path()))) {
        EXPECT_EQ(finding.severity, SignSeverity::note) << name << ": " << finding_line(finding);
      }
      ++seen;
    }
  }
  EXPECT_GE(seen, 6);
}

// The same start on a node with a GPU would be no healthy one.
TEST(LogSigns, AStartThatFellBackToTheProcessorIsSaid) {
  const std::vector<LogSign> signs = log_signs(shipped(), "sglang").value();
  const std::string log = content_of(TEST_DATA "/planner/logs/sglang-0.5.23-cpu-ok.log");
  const std::vector<LogFinding> found = scan_log(signs, "cuda", log);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].symptom_class, "driver_too_old");
  EXPECT_EQ(found[0].severity, SignSeverity::warn);
  EXPECT_GT(found[0].times, 1);
  EXPECT_EQ(found[0].line_number, 1);
}

TEST(LogSigns, ARealLogOfLlamaCppHasItsNote) {
  const std::vector<LogSign> signs = log_signs(shipped(), "llama.cpp").value();
  const std::vector<LogFinding> found =
      scan_log(signs, "cpu", content_of(TEST_DATA "/engine_logs/llama.cpp-0.7.0-ok.log"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "end-token-doubtful");
  EXPECT_EQ(found[0].times, 2);
  EXPECT_EQ(finding_line(found[0]).find("never_stops: the file's own end token (special_eos_id)"), 0u);
}

TEST(LogSigns, TheGravestComesFirstAndLongLinesAreRead) {
  const std::vector<LogSign> signs = log_signs(shipped(), "vllm").value();
  const std::string log = "Casting torch.bfloat16 to torch.float16.\n" + std::string(1000000, 'x') +
                          "\nDetected errors during sampling! NaN in the logits.\r\n" +
                          "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)";
  const std::vector<LogFinding> found = scan_log(signs, "", log);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].symptom_class, "nccl_failed");
  EXPECT_EQ(found[0].line_number, 4);
  EXPECT_EQ(found[1].symptom_class, "nan_logits");
  EXPECT_EQ(found[2].severity, SignSeverity::note);
  EXPECT_EQ(findings_json(found).at(0).at("severity"), "fail");
}

TEST(LogSigns, ExplanationsAreThoseOfTheRow) {
  const std::vector<LogSign> signs = log_signs(shipped(), "sglang").value();
  const std::vector<LogFinding> found =
      scan_log(signs, "cpu", "Parameter model.layers.3.mlp.up.weight not found in params_dict\n");
  ASSERT_TRUE(explanation(found, "gibberish"));
  EXPECT_EQ(explanation(found, "gibberish")->symptom_class, "weights_missing");
  EXPECT_FALSE(explanation(found, "stream_cut"));
}

TEST(LogSigns, APatternThatIsNoneIsNamed) {
  const Value row = {{"id", "bad"},   {"engines", {"vllm"}}, {"class", "hang"}, {"severity", "warn"}, {"has", "x"},
                     {"match", "(x"}, {"sentence", "x"},     {"example", "x"},  {"source", "x"}};
  const Knowledge knowledge({{"log_signs", {{"signs", Value::array({row})}}}});
  const auto signs = log_signs(knowledge, "vllm");
  ASSERT_FALSE(signs);
  EXPECT_EQ(signs.error().kind, ErrorKind::invalid);
  EXPECT_NE(signs.error().message.find("log_signs.yml: bad: the pattern '(x'"), std::string::npos);
}

TEST(LogSigns, AStartThatEndedIsNamedByWhatItsLogSays) {
  const EngineProfile profile = engine_profile(shipped(), "vllm").value();
  const UnitState ended =
      parse_unit_state("ActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainCode=1\nExecMainStatus=1\n");
  StartLog weights(profile, "cuda");
  weights.add("ValueError: Following weights were not initialized from checkpoint: {'model.norm.weight'}\n");
  EXPECT_EQ(diagnose(ended, weights).symptom_class, "weights_missing");
  EXPECT_NE(diagnose(ended, weights).sentence.find("model.norm.weight"), std::string::npos);
  // What the engine says of its own end is the more precise.
  weights.add("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n");
  EXPECT_EQ(diagnose(ended, weights).symptom_class, "gpu_out_of_memory");
  StartLog fallback(profile, "cuda");
  fallback.add(
      "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12020).\n");
  EXPECT_EQ(diagnose(ended, fallback).symptom_class, "start_failed");
  EXPECT_NE(diagnose(ended, fallback).sentence.find("the driver (CUDA 12020) is too old"), std::string::npos);
}

}  // namespace
}  // namespace millwright
