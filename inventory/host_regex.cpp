#include "inventory/host_regex.hpp"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

namespace millwright {
namespace {

constexpr std::size_t kLongest = 1000;         // bytes
constexpr std::uint32_t kMostSteps = 200'000;  // for one name: some milliseconds
constexpr std::uint32_t kMostHeapKib = 1024;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 200> text{};
  const int size = pcre2_get_error_message(code, text.data(), text.size());
  return size < 0 ? fmt::format("PCRE2 error {}", code) : std::string(reinterpret_cast<const char*>(text.data()));
}

Failure no_expression(const std::string& text, const std::string& why) {
  return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no regular expression: {}", text, why))
                  .with_hint("after ~ comes a regular expression; for a glob such as web* leave out the ~"));
}

PCRE2_SPTR bytes(const std::string& text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

const pcre2_code* code_of(const std::shared_ptr<const void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

}  // namespace

Result<HostRegex> HostRegex::compile(const std::string& text) {
  if (text.size() > kLongest)
    return fail(make_error(ErrorKind::usage, fmt::format("the regular expression of {} bytes is too long", text.size()))
                    .with_hint(fmt::format("at most {}; @FILE takes a pattern a line", kLongest)));
  int problem = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(bytes(text), text.size(), PCRE2_ANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                                         &problem, &at, nullptr);
  if (code == nullptr) return no_expression(text, fmt::format("{} at byte {}", message_of(problem), at + 1));
  HostRegex out;
  out.text_ = text;
  out.code_ = std::shared_ptr<const void>(
      code, [](const void* done) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(done))); });
  return out;
}

Result<bool> HostRegex::matches(const std::string& name) const {
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits(pcre2_match_context_create(nullptr),
                                                                                    pcre2_match_context_free);
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> found(
      pcre2_match_data_create_from_pattern(code_of(code_), nullptr), pcre2_match_data_free);
  pcre2_set_match_limit(limits.get(), kMostSteps);
  pcre2_set_depth_limit(limits.get(), kMostSteps);
  pcre2_set_heap_limit(limits.get(), kMostHeapKib);
  const int result = pcre2_match(code_of(code_), bytes(name), name.size(), 0, 0, found.get(), limits.get());
  if (result >= 0) return true;
  // A name that is no UTF-8 (of a file of another encoding) is matched by none.
  if (result == PCRE2_ERROR_NOMATCH || (result <= PCRE2_ERROR_UTF8_ERR1 && result >= PCRE2_ERROR_UTF8_ERR21))
    return false;
  return fail(make_error(ErrorKind::usage, fmt::format("the regular expression '{}' cannot be decided for '{}': {}",
                                                       text_, name, message_of(result)))
                  .with_hint("write it without nested repetitions such as (a+)+"));
}

}  // namespace millwright
