#include "inventory/host_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool digits_only(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "[1:20]", "[a:f]", "[1:20:2]": the bracket at text[at]; returns the index after it, or npos.
std::size_t range_end(std::string_view text, std::size_t at) {
  const std::size_t close = text.find(']', at);
  if (close == std::string_view::npos) return close;
  const std::vector<std::string> bounds = split(text.substr(at + 1, close - at - 1), ':');
  const bool letters = bounds.size() >= 2 && bounds[0].size() == 1 && bounds[1].size() == 1 &&
                       kLetters.find(bounds[0]) != std::string_view::npos &&
                       kLetters.find(bounds[1]) != std::string_view::npos;
  const bool numbers = bounds.size() >= 2 && digits_only(bounds[0]) && digits_only(bounds[1]);
  if (!(letters || numbers) || bounds.size() > 3 || (bounds.size() == 3 && !digits_only(bounds[2])))
    return std::string_view::npos;
  return close + 1;
}

// Ansible's idea of a host name with ranges: labels of word characters, dashes and ranges, that start and end well.
bool is_host_name(std::string_view text) {
  bool start = true;
  char last = '.';
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '[') {
      i = range_end(text, i);
      if (i == std::string_view::npos) return false;
      last = 'x';
      start = false;
      continue;
    }
    const char c = text[i++];
    if (c == '.') {
      if (start || last == '-' || last == '_') return false;
      start = true;
    } else if (!is_word(c) && (c != '-' || start)) {
      return false;
    } else {
      start = false;
    }
    last = c;
  }
  return !start && last != '-' && last != '_';
}

bool is_ipv6(std::string_view text) {
  return std::count(text.begin(), text.end(), ':') >= 2 &&
         text.find_first_not_of("0123456789abcdefABCDEF:.[]") == std::string_view::npos;
}

struct Address {
  std::string host;
  std::optional<int> port;
};

// A port counts only behind something that can have one; "fe80::1" is all address.
Address split_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || !digits_only(std::string_view(text).substr(colon + 1))) return {text, {}};
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    const std::string inner = host.substr(1, host.size() - 2);
    if (is_ipv6(inner) || is_host_name(inner)) {
      host = inner;
    } else if (!is_host_name(host)) {
      return {text, {}};
    }
  } else if (!is_host_name(host)) {
    return {text, {}};
  }
  int port = 0;
  const char* last = text.data() + text.size();
  if (std::from_chars(text.data() + colon + 1, last, port).ptr != last || port > 65535) return {text, {}};
  return {host, port};
}

struct Range {
  std::vector<std::string> values;
};

Result<std::int64_t> bound(std::string_view text, std::string_view whole) {
  std::int64_t value = 0;
  const char* last = text.data() + text.size();
  if (!digits_only(text) || std::from_chars(text.data(), last, value).ptr != last) {
    return fail(make_error(ErrorKind::invalid, fmt::format("'[{}]' is no host range", whole))
                    .with_hint("a range is [1:20], [01:20], [a:f] or [1:20:2]"));
  }
  return value;
}

Result<Range> expand_letters(const std::vector<std::string>& bounds, std::int64_t step, std::string_view whole) {
  const std::size_t first = kLetters.find(bounds[0]);
  const std::size_t last = kLetters.find(bounds[1]);
  if (first > last) return fail(ErrorKind::invalid, fmt::format("the range '[{}]' ends before it begins", whole));
  Range range;
  for (std::size_t i = first; i <= last; i += static_cast<std::size_t>(step)) range.values.emplace_back(1, kLetters[i]);
  return range;
}

Result<Range> expand_numbers(const std::vector<std::string>& bounds, std::int64_t step, std::string_view whole) {
  const std::string begin = bounds[0].empty() ? "0" : bounds[0];
  const auto first = bound(begin, whole);
  if (!first) return fail(first.error());
  if (bounds[1].empty()) return fail(ErrorKind::invalid, fmt::format("the range '[{}]' has no end", whole));
  const auto last = bound(bounds[1], whole);
  if (!last) return fail(last.error());
  const bool padded = begin.size() > 1 && begin[0] == '0';
  if (padded && begin.size() != bounds[1].size()) {
    return fail(make_error(ErrorKind::invalid, fmt::format("the range '[{}]' pads its ends differently", whole))
                    .with_hint("write both ends with equally many digits"));
  }
  if (*first > *last) return fail(ErrorKind::invalid, fmt::format("the range '[{}]' ends before it begins", whole));
  if (static_cast<std::uint64_t>(*last - *first) / static_cast<std::uint64_t>(step) >= kMaxRangeHosts)
    return fail(ErrorKind::invalid, fmt::format("the range '[{}]' makes more than {} hosts", whole, kMaxRangeHosts));
  Range range;
  for (std::int64_t i = *first; i <= *last; i += step)
    range.values.push_back(padded ? fmt::format("{:0{}}", i, begin.size()) : fmt::format("{}", i));
  return range;
}

Result<Range> expand_range(std::string_view inside) {
  const std::vector<std::string> bounds = split(inside, ':');
  if (bounds.size() != 2 && bounds.size() != 3) {
    return fail(make_error(ErrorKind::invalid, fmt::format("'[{}]' is no host range", inside))
                    .with_hint("a range is [1:20], [01:20], [a:f] or [1:20:2]"));
  }
  std::int64_t step = 1;
  if (bounds.size() == 3) {
    const auto given = bound(bounds[2], inside);
    if (!given) return fail(given.error());
    if (*given == 0) return fail(ErrorKind::invalid, fmt::format("the range '[{}]' has step 0", inside));
    step = *given;
  }
  const bool letters = bounds[0].size() == 1 && bounds[1].size() == 1 &&
                       kLetters.find(bounds[0]) != std::string_view::npos &&
                       kLetters.find(bounds[1]) != std::string_view::npos;
  return letters ? expand_letters(bounds, step, inside) : expand_numbers(bounds, step, inside);
}

Result<std::vector<std::string>> expand(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos) return std::vector<std::string>{text};
  const std::size_t close = text.find(']', open);
  if (close == std::string::npos) return fail(ErrorKind::invalid, fmt::format("'{}' lacks a closing ']'", text));
  const auto range = expand_range(std::string_view(text).substr(open + 1, close - open - 1));
  if (!range) return fail(range.error());
  const auto tails = expand(text.substr(close + 1));
  if (!tails) return fail(tails.error());
  if (range->values.size() * tails->size() > kMaxRangeHosts)
    return fail(ErrorKind::invalid, fmt::format("'{}' makes more than {} hosts", text, kMaxRangeHosts));
  std::vector<std::string> names;
  for (const std::string& value : range->values) {
    for (const std::string& tail : *tails) names.push_back(text.substr(0, open) + value + tail);
  }
  return names;
}

}  // namespace

bool is_one_address(const std::string& text) {
  const Address address = split_port(text);
  return is_host_name(address.host) || is_ipv6(address.host);
}

Result<HostEntry> parse_host_entry(const std::string& text) {
  const Address address = split_port(text);
  HostEntry entry;
  entry.port = address.port;
  entry.range = address.host.find('[') != std::string::npos;
  auto names = expand(address.host);
  if (!names) return fail(names.error());
  entry.names = std::move(*names);
  return entry;
}

}  // namespace millwright
