// Version of units.hpp: parsing, ordering and specifiers by PEP 440 (https://peps.python.org/pep-0440/).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {

namespace {

using Digits = std::string;  // decimal, without leading zeros: numbers of any length keep their order

struct Parts {
  Digits epoch = "0";
  std::vector<Digits> release;
  std::optional<std::pair<char, Digits>> pre;  // 'a', 'b', 'c' (for rc)
  std::optional<Digits> post;
  std::optional<Digits> dev;
  std::vector<std::string> local;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == '.' || c == '-' || c == '_'; }

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool take(std::string_view word) {
    if (!starts_with(rest_, word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<Digits> digits() {
    std::size_t end = 0;
    while (end < rest_.size() && is_digit(rest_[end])) ++end;
    if (end == 0 || end > 200) return std::nullopt;
    std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    while (text.size() > 1 && text.front() == '0') text.remove_prefix(1);
    return Digits(text);
  }
  // One of the words, with at most one separator before it; the number after it may have one too and may be absent.
  std::optional<Digits> suffix(std::initializer_list<std::string_view> words) {
    const std::string_view before = rest_;
    if (is_separator(peek())) rest_.remove_prefix(1);
    for (const std::string_view word : words) {
      if (!take(word)) continue;
      const std::string_view after_word = rest_;
      if (is_separator(peek())) rest_.remove_prefix(1);
      if (const auto number = digits()) return number;
      rest_ = after_word;
      return Digits("0");
    }
    rest_ = before;
    return std::nullopt;
  }
  std::string_view rest() const { return rest_; }
  void reset(std::string_view rest) { rest_ = rest; }

 private:
  std::string_view rest_;
};

bool read_release(Reader& in, Parts& parts) {
  auto number = in.digits();
  if (!number) return false;
  if (in.take("!")) {
    parts.epoch = *number;
    number = in.digits();
    if (!number) return false;
  }
  parts.release.push_back(*number);
  while (in.peek() == '.') {
    const std::string_view before = in.rest();
    in.take(".");
    number = in.digits();
    if (!number) {
      in.reset(before);
      break;
    }
    parts.release.push_back(*number);
  }
  return true;
}

void read_suffixes(Reader& in, Parts& parts) {
  if (auto a = in.suffix({"alpha", "a"})) {
    parts.pre = {'a', *a};
  } else if (auto b = in.suffix({"beta", "b"})) {
    parts.pre = {'b', *b};
  } else if (auto c = in.suffix({"preview", "pre", "rc", "c"})) {
    parts.pre = {'c', *c};
  }
  const std::string_view before = in.rest();
  if (in.take("-")) {  // the implicit post release, "1.0-1"
    parts.post = in.digits();
    if (!parts.post) in.reset(before);
  }
  if (!parts.post) parts.post = in.suffix({"post", "rev", "r"});
  parts.dev = in.suffix({"dev"});
}

bool read_local(Reader& in, Parts& parts) {
  if (!in.take("+")) return true;
  std::string segment;
  for (const char c : std::string(in.rest()) + ".") {
    if (is_separator(c)) {
      if (segment.empty()) return false;
      parts.local.push_back(segment);
      segment.clear();
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      segment += c;
    } else {
      return false;
    }
  }
  in.reset({});
  return true;
}

std::optional<Parts> parse_parts(std::string_view text) {
  std::string lower(trim(text));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Parts parts;
  Reader in(lower);
  if (in.take("b")) {  // llama.cpp's build tags
    const auto build = in.digits();
    if (!build || !in.done()) return std::nullopt;
    parts.release.push_back(*build);
    return parts;
  }
  in.take("v");
  if (!read_release(in, parts)) return std::nullopt;
  read_suffixes(in, parts);
  if (!read_local(in, parts) || !in.done()) return std::nullopt;
  return parts;
}

// Longer numbers sort after shorter ones, equally long ones by their digits.
std::string number_key(const Digits& digits) { return static_cast<char>(digits.size()) + digits; }

std::string local_key(const std::vector<std::string>& local) {
  if (local.empty()) return "\x01";
  std::string key = "\x02";
  for (const std::string& segment : local) {
    if (std::all_of(segment.begin(), segment.end(), is_digit)) {
      const std::size_t zeros = std::min(segment.find_first_not_of('0'), segment.size() - 1);
      key += '\x04' + number_key(segment.substr(zeros));
    } else {
      key += '\x03' + segment + '\x01';
    }
  }
  return key + '\x02';
}

// Low bytes stand for what sorts first ("no post release", "dev of nothing"), 0x7f for what sorts last.
std::string key_of(const Parts& parts) {
  std::string key = number_key(parts.epoch);
  std::size_t last = parts.release.size();
  while (last > 1 && parts.release[last - 1] == "0") --last;
  for (std::size_t i = 0; i < last; ++i) key += '\x02' + number_key(parts.release[i]);
  key += '\x01';
  if (parts.pre) {
    key += parts.pre->first + number_key(parts.pre->second);
  } else {
    key += !parts.post && parts.dev ? '\x01' : '\x7f';
  }
  key += parts.post ? '\x02' + number_key(*parts.post) : std::string("\x01");
  key += parts.dev ? '\x02' + number_key(*parts.dev) : std::string("\x7f");
  return key + local_key(parts.local);
}

Parts public_part(Parts parts) {
  parts.local.clear();
  return parts;
}

std::string base_key(const Parts& parts) {
  Parts base;
  base.epoch = parts.epoch;
  base.release = parts.release;
  return key_of(base);
}

bool has_prefix(const Parts& version, const Parts& prefix) {
  if (version.epoch != prefix.epoch) return false;
  for (std::size_t i = 0; i < prefix.release.size(); ++i) {
    if ((i < version.release.size() ? version.release[i] : Digits("0")) != prefix.release[i]) return false;
  }
  return true;
}

bool compare(const Parts& version, std::string_view op, const Parts& wanted) {
  const std::string have = key_of(public_part(version));
  const std::string want = key_of(public_part(wanted));
  if (op == ">=") return have >= want;
  if (op == "<=") return have <= want;
  if (op == "==" || op == "!=") {
    const bool same = wanted.local.empty() ? have == want : key_of(version) == key_of(wanted);
    return same == (op == "==");
  }
  // PEP 440: "<V" does not take in pre-releases of V, nor ">V" its post releases or local builds, unless V is such.
  const bool same_base = base_key(version) == base_key(wanted);
  if (op == "<") {
    const bool pre_of_it = same_base && (version.pre || version.dev) && !(wanted.pre || wanted.dev);
    return have < want && !pre_of_it;
  }
  const bool post_of_it = same_base && version.post && !wanted.post;
  return have > want && !post_of_it;
}

Failure malformed(std::string_view clause) {
  return fail(make_error(ErrorKind::invalid, fmt::format("'{}' is not a version specifier", clause))
                  .with_hint("write it as >=0.5.9,<0.6 or ==0.5.* or ~=0.5.9 or !=0.5.10"));
}

Result<bool> clause_matches(const Version& version, const Parts& parts, std::string_view clause) {
  std::string_view op;
  for (const std::string_view candidate : {"===", "==", "!=", "<=", ">=", "~=", "<", ">"}) {
    if (starts_with(clause, candidate)) {
      op = candidate;
      break;
    }
  }
  if (op.empty()) return malformed(clause);
  std::string_view text = trim(clause.substr(op.size()));
  if (op == "===") return version.text() == text;
  const bool wildcard = ends_with(text, ".*");
  if (wildcard) text.remove_suffix(2);
  const std::optional<Parts> wanted = parse_parts(text);
  if (!wanted) return malformed(clause);
  if (wildcard) {
    if (op != "==" && op != "!=") return malformed(clause);
    return has_prefix(parts, *wanted) == (op == "==");
  }
  if (op == "~=") {
    if (wanted->release.size() < 2) return malformed(clause);
    Parts prefix = *wanted;
    prefix.release.pop_back();
    return has_prefix(parts, prefix) && compare(parts, ">=", *wanted);
  }
  return compare(parts, op, *wanted);
}

}  // namespace

Result<Version> Version::parse(std::string_view text) {
  const std::optional<Parts> parts = parse_parts(text);
  if (!parts) {
    return fail(make_error(ErrorKind::invalid, fmt::format("'{}' is not a version", text))
                    .with_hint("versions look like 0.5.9, 1.0rc1, 535.261.03, 0.18.0.post1 or b11669"));
  }
  Version version;
  version.text_ = std::string(trim(text));
  version.key_ = key_of(*parts);
  return version;
}

Result<bool> version_matches(const Version& version, std::string_view specifier) {
  if (trim(specifier).empty()) return true;
  const std::optional<Parts> parts = parse_parts(version.text());
  if (!parts) return fail(ErrorKind::invalid, fmt::format("'{}' is not a version", version.text()));
  bool all = true;
  for (const std::string& clause : split(specifier, ',')) {
    const Result<bool> one = clause_matches(version, *parts, trim(clause));
    if (!one) return one;
    all = all && *one;
  }
  return all;
}

}  // namespace millwright
