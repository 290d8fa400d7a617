#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "inventory/data.hpp"
#include "inventory/host_range.hpp"
#include "inventory/host_regex.hpp"
#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

using Names = std::vector<std::string>;

// "a,b" splits at commas; "a:b" at colons outside of brackets, unless the whole is one address.
// Source: split_host_pattern of ansible/inventory/manager.py, 2.14.
Names split_pattern(const std::string& pattern) {
  Names parts;
  const auto add = [&](std::string_view part) {
    if (!trim(part).empty()) parts.emplace_back(trim(part));
  };
  if (pattern.find(',') != std::string::npos) {
    for (const std::string& part : split(pattern, ',')) add(part);
    return parts;
  }
  if (is_one_address(pattern)) return {pattern};
  std::string part;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const std::size_t close = c == '[' ? pattern.find(']', i) : std::string::npos;
    if (close != std::string::npos) {
      part += pattern.substr(i, close - i + 1);
      i = close;
    } else if (c == ':' || c == ' ' || c == '\t') {
      add(part);
      part.clear();
    } else {
      part += c;
    }
  }
  add(part);
  return parts;
}

// "@file": a pattern a line.
Result<Names> with_files(const Names& parts) {
  Names out;
  for (const std::string& part : parts) {
    if (part[0] != '@') {
      out.push_back(part);
      continue;
    }
    const auto text = read_file(part.substr(1));
    if (!text) return fail(wrap(text.error(), fmt::format("reading host patterns, one a line, for '{}'", part)));
    const std::size_t before = out.size();
    for (const std::string& line : split_lines(*text)) {
      if (!trim(line).empty()) out.emplace_back(trim(line));
    }
    if (out.size() == before)
      return fail(make_error(ErrorKind::usage, fmt::format("there is no host pattern in '{}'", part.substr(1)))
                      .with_hint("after @ comes a file with a pattern a line"));
  }
  return out;
}

struct Subscript {
  std::string base;
  bool given = false;
  bool single = false;
  long first = 0;
  std::optional<long> last;
};

std::optional<long> whole_number(std::string_view text) {
  long value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// "web[0]", "web[-1]", "web[1:3]", "web[1:]": both ends included. Other brackets are a glob's.
Subscript split_subscript(const std::string& pattern) {
  Subscript out{pattern, false, false, 0, {}};
  if (pattern[0] == '~' || pattern.back() != ']') return out;
  const std::size_t open = pattern.rfind('[');
  if (open == std::string::npos || open == 0) return out;
  const std::string inside = pattern.substr(open + 1, pattern.size() - open - 2);
  const std::size_t colon = inside.find_first_of(":-", 1);
  const auto first = whole_number(std::string_view(inside).substr(0, colon));
  if (!first || (colon != std::string::npos && *first < 0)) return out;
  if (colon != std::string::npos && colon + 1 < inside.size()) {
    out.last = whole_number(std::string_view(inside).substr(colon + 1));
    if (!out.last || *out.last < 0) return out;
  }
  out.base = pattern.substr(0, open);
  out.given = true;
  out.single = colon == std::string::npos;
  out.first = *first;
  return out;
}

Result<Names> apply(const Subscript& subscript, const Names& hosts, const std::string& pattern) {
  if (!subscript.given || hosts.empty()) return hosts;
  const long size = static_cast<long>(hosts.size());
  const long first = subscript.first < 0 ? subscript.first + size : subscript.first;
  const long last = subscript.single ? first : std::min(subscript.last.value_or(size - 1), size - 1);
  if (subscript.single && (first < 0 || first >= size))
    return fail(
        make_error(ErrorKind::usage, fmt::format("'{}' asks for a host that is not there", pattern))
            .with_hint(fmt::format("'{}' has {} host{}, counted from 0", subscript.base, size, size == 1 ? "" : "s")));
  Names out;
  for (long i = first; i <= last; ++i) out.push_back(hosts[static_cast<std::size_t>(i)]);
  return out;
}

class Matcher {
 public:
  explicit Matcher(const Inventory::Data& data) : data_(data) {}

  Result<Names> all_of(const Names& parts) {
    Names found;
    for (const std::string& part : ordered(parts)) {
      const bool intersect = part[0] == '&';
      const bool exclude = part[0] == '!';
      const auto that = one(intersect || exclude ? part.substr(1) : part);
      if (!that) return that;
      const std::set<std::string> those(that->begin(), that->end());
      if (intersect || exclude) {
        found.erase(std::remove_if(found.begin(), found.end(),
                                   [&](const std::string& host) { return (those.count(host) != 0) == exclude; }),
                    found.end());
      } else {
        for (const std::string& host : *that) {
          if (std::find(found.begin(), found.end(), host) == found.end()) found.push_back(host);
        }
      }
    }
    return found;
  }

 private:
  // Whatever the order on the command line: first what is wanted, then what it must also be in, then what is left out.
  static Names ordered(const Names& parts) {
    Names wanted, also, without;
    for (const std::string& part : parts) (part[0] == '!' ? without : part[0] == '&' ? also : wanted).push_back(part);
    if (wanted.empty()) wanted.push_back("all");
    wanted.insert(wanted.end(), also.begin(), also.end());
    wanted.insert(wanted.end(), without.begin(), without.end());
    return wanted;
  }

  Result<Names> one(const std::string& pattern) {
    if (pattern.empty())
      return fail(
          make_error(ErrorKind::usage, "'&' and '!' need a pattern behind them").with_hint("for example: all:!gpu1"));
    if (data_.hosts.count(pattern) != 0) return Names{pattern};
    const Subscript subscript = split_subscript(pattern);
    const auto hosts = enumerate(subscript.base);
    if (!hosts) return hosts;
    return apply(subscript, *hosts, pattern);
  }

  Result<Names> enumerate(const std::string& pattern) {
    const bool glob = pattern.find_first_of("*?[") != std::string::npos;
    const bool regex = pattern[0] == '~';
    const auto groups = filter(data_.group_order, pattern);
    if (!groups) return groups;
    Names found;
    for (const std::string& group : *groups) add(found, data_.hosts_in(group));
    if (groups->empty() || regex || glob || pattern.find('.') != std::string::npos) {
      const auto hosts = filter(data_.host_order, pattern);
      if (!hosts) return hosts;
      add(found, *hosts);
    }
    const bool local = pattern == "localhost" || pattern == "127.0.0.1" || pattern == "::1";
    if (found.empty() && local) found.push_back(data_.localhost.name);
    if (found.empty() && groups->empty() && !glob && !regex) return fail(unknown(pattern));
    return found;
  }

  static void add(Names& to, const Names& more) {
    const std::set<std::string> known(to.begin(), to.end());
    for (const std::string& name : more) {
      if (known.count(name) == 0) to.push_back(name);
    }
  }

  static Result<Names> filter(const Names& names, const std::string& pattern) {
    Names out;
    if (pattern[0] != '~') {
      for (const std::string& name : names) {
        if (::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0) out.push_back(name);
      }
      return out;
    }
    const auto expression = HostRegex::compile(pattern.substr(1));
    if (!expression) return fail(expression.error());
    for (const std::string& name : names) {
      const auto matches = expression->matches(name);
      if (!matches) return fail(matches.error());
      if (*matches) out.push_back(name);
    }
    return out;
  }

  Error unknown(const std::string& name) const {
    Names known = data_.host_order;
    known.insert(known.end(), data_.group_order.begin(), data_.group_order.end());
    const auto near = nearest(name, known);
    return make_error(ErrorKind::usage, fmt::format("no host or group is called '{}'", name))
        .with_hint(near ? fmt::format("did you mean '{}'?", *near)
                        : "millwright inventory --graph shows what there is");
  }

  const Inventory::Data& data_;
};

}  // namespace

Result<std::vector<std::string>> Inventory::match(const std::string& pattern) const {
  const auto parts = with_files(split_pattern(pattern));
  if (!parts) return parts;
  if (parts->empty()) return fail(ErrorKind::usage, "the host pattern is empty");
  auto found = Matcher(*data_).all_of(*parts);
  if (found && found->empty())
    return fail(make_error(ErrorKind::usage, fmt::format("no host matches '{}'", pattern))
                    .with_hint("millwright inventory --graph shows what there is"));
  return found;
}

}  // namespace millwright
