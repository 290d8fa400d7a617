#include "steps/server/planner/line_pattern.hpp"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

namespace millwright::planner {
namespace {

constexpr std::uint32_t kMostSteps = 200000;

}  // namespace

struct LinePattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
};

void LinePattern::Free::operator()(Compiled* compiled) const {
  pcre2_match_data_free(compiled->data);
  pcre2_match_context_free(compiled->context);
  pcre2_code_free(compiled->code);
  delete compiled;
}

Result<LinePattern> LinePattern::compile(const std::string& expression) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), 0, &error, &at, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 128> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return fail(ErrorKind::invalid, fmt::format("'{}' is no regular expression: {} (character {})", expression,
                                                reinterpret_cast<const char*>(message.data()), at));
  }
  LinePattern out;
  out.compiled_.reset(
      new Compiled{code, pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_context_create(nullptr)});
  pcre2_set_match_limit(out.compiled_->context, kMostSteps);
  return out;
}

std::optional<std::vector<std::string>> LinePattern::groups(std::string_view line) const {
  const int found = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(line.data()), line.size(), 0, 0,
                                compiled_->data, compiled_->context);
  if (found <= 0) return {};
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(compiled_->data);
  std::vector<std::string> out;
  for (std::uint32_t group = 1; group < pcre2_get_ovector_count(compiled_->data); ++group) {
    const bool there = static_cast<int>(group) < found && ends[2 * group] != PCRE2_UNSET;
    out.emplace_back(there ? line.substr(ends[2 * group], ends[2 * group + 1] - ends[2 * group]) : std::string_view());
  }
  return out;
}

}  // namespace millwright::planner
