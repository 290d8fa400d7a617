#include "orchestrator/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Amount {
  double number = 0;
  std::string unit;  // lower case
};

// Takes "<digits>[.<digits>] [<letters>]" off the front.
std::optional<Amount> take_amount(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  Amount amount;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + end, amount.number, std::chars_format::fixed);
  if (code != std::errc() || stop != text.data() + end) return std::nullopt;
  text = trim(text.substr(end));
  std::size_t letters = 0;
  while (letters < text.size() && std::isalpha(static_cast<unsigned char>(text[letters])) != 0) ++letters;
  amount.unit = lower(text.substr(0, letters));
  text = trim(text.substr(letters));
  return amount;
}

std::optional<double> milliseconds_per(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit == "s" || unit == "sec" || unit == "second" || unit == "seconds") return 1000;
  if (unit == "m" || unit == "min" || unit == "minute" || unit == "minutes") return 60 * 1000.0;
  if (unit == "h" || unit == "hour" || unit == "hours") return 3600 * 1000.0;
  if (unit == "d" || unit == "day" || unit == "days") return 86400 * 1000.0;
  return std::nullopt;
}

Failure bad_duration(std::string_view text) {
  return fail(make_error(ErrorKind::invalid, fmt::format("'{}' is not a duration", text))
                  .with_hint("write it as 90s, 1.5m, 2h, 1h30m, 250ms or 1d; a bare number is seconds"));
}

Failure bad_size(std::string_view text) {
  return fail(make_error(ErrorKind::invalid, fmt::format("'{}' is not a size", text))
                  .with_hint("write it as 512, 64K, 16 MiB, 1.5GiB or 2GB (decimal); a bare number is bytes"));
}

// Longer than any run; keeps sums of deadlines and time points far from overflow.
constexpr double kLongestMs = 100.0 * 366 * 86400 * 1000;

std::optional<double> bytes_per(std::string_view unit) {
  if (unit.empty() || unit == "b" || unit == "bytes") return 1;
  constexpr std::string_view prefixes = "kmgtpe";
  const std::size_t at = prefixes.find(unit.front());
  if (at == std::string_view::npos) return std::nullopt;
  const int power = static_cast<int>(at) + 1;
  const std::string_view rest = unit.substr(1);
  if (rest.empty() || rest == "ib") return std::pow(1024.0, power);
  if (rest == "b") return std::pow(1000.0, power);
  return std::nullopt;
}

}  // namespace

Result<Milliseconds> parse_duration(std::string_view text) {
  std::string_view rest = trim(text);
  if (rest.empty()) return bad_duration(text);
  double total = 0;
  bool first = true;
  while (!rest.empty()) {
    const std::optional<Amount> amount = take_amount(rest);
    if (!amount) return bad_duration(text);
    const bool bare = amount->unit.empty();
    if (bare && !(first && rest.empty())) return bad_duration(text);
    const std::optional<double> factor = bare ? std::optional<double>(1000) : milliseconds_per(amount->unit);
    if (!factor) return bad_duration(text);
    total += amount->number * *factor;
    first = false;
  }
  if (!(total <= kLongestMs)) {
    return fail(ErrorKind::invalid, fmt::format("the duration '{}' is longer than 100 years", text));
  }
  return Milliseconds(std::llround(total));
}

std::string format_duration(Milliseconds duration) {
  const long long ms = duration.count();
  if (ms < 0) return "-" + format_duration(-duration);
  if (ms < 1000) return fmt::format("{} ms", ms);
  const long long tenths = (ms + 50) / 100;
  if (tenths < 600) return fmt::format("{}.{} s", tenths / 10, tenths % 10);
  const long long seconds = (ms + 500) / 1000;
  if (seconds < 3600) return fmt::format("{} m {:02} s", seconds / 60, seconds % 60);
  const long long minutes = (seconds + 30) / 60;
  if (minutes < 24 * 60) return fmt::format("{} h {:02} m", minutes / 60, minutes % 60);
  const long long hours = (minutes + 30) / 60;
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

Result<std::uint64_t> parse_size(std::string_view text) {
  std::string_view rest = trim(text);
  const std::optional<Amount> amount = rest.empty() ? std::nullopt : take_amount(rest);
  if (!amount || !rest.empty()) return bad_size(text);
  const std::optional<double> factor = bytes_per(amount->unit);
  if (!factor) return bad_size(text);
  if (*factor == 1.0) {  // whole bytes stay exact beyond the 53 bits of a double
    const std::string_view digits = trim(text).substr(0, trim(text).find_first_not_of("0123456789"));
    std::uint64_t exact = 0;
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), exact);
    if (code == std::errc() && stop == digits.data() + digits.size() && amount->number == std::floor(amount->number)) {
      return exact;
    }
  }
  const double bytes = std::round(amount->number * *factor);
  if (!(bytes < 18446744073709551616.0)) {  // 2^64
    return fail(ErrorKind::invalid, fmt::format("the size '{}' is larger than 16 EiB", text));
  }
  return static_cast<std::uint64_t>(bytes);
}

std::string format_size(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace millwright
