#include "orchestrator/transport/known_hosts.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/descriptor.hpp"

namespace millwright {
namespace {

constexpr std::size_t kSha1 = 20;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string decode_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3 + 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < 0) return {};
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.resize(static_cast<std::size_t>(size) - padding);
  return out;
}

std::string encode_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

std::string name_hash(std::string_view salt, std::string_view name) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha1(), salt.data(), static_cast<int>(salt.size()), reinterpret_cast<const unsigned char*>(name.data()),
       name.size(), digest.data(), &size);
  return {reinterpret_cast<char*>(digest.data()), size};
}

bool hashed_fits(std::string_view field, const std::string& name) {
  const std::vector<std::string> parts = split(field, '|');  // "", "1", salt, hash
  if (parts.size() != 4 || parts[1] != "1") return false;
  const std::string salt = decode_base64(parts[2]);
  return salt.size() == kSha1 && decode_base64(parts[3]) == name_hash(salt, name);
}

bool names_fit(const std::string& field, const std::string& name) {
  if (starts_with(field, "|")) return hashed_fits(field, name);
  bool fits = false;
  for (const std::string& pattern : split(field, ',')) {
    if (starts_with(pattern, "!")) {
      if (match_wildcard(name, lower(pattern.substr(1)))) return false;
    } else if (match_wildcard(name, lower(pattern))) {
      fits = true;
    }
  }
  return fits;
}

std::optional<KnownHost> read_line(const std::string& line, const std::string& name) {
  std::istringstream words(line);
  KnownHost entry;
  std::string names;
  words >> names;
  if (names.empty() || names[0] == '#') return std::nullopt;
  if (names[0] == '@') {
    if (names == "@revoked") {
      entry.mark = KnownHostMark::revoked;
    } else if (names == "@cert-authority") {
      entry.mark = KnownHostMark::authority;
    } else {
      return std::nullopt;
    }
    words >> names;
  }
  words >> entry.type >> entry.base64;
  if (entry.base64.empty() || !names_fit(names, name)) return std::nullopt;
  return entry;
}

}  // namespace

bool match_wildcard(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string known_host_name(const std::string& host, int port) {
  return port == 22 ? lower(host) : "[" + lower(host) + "]:" + std::to_string(port);
}

std::vector<KnownHost> find_known_hosts(const std::vector<std::string>& files, const std::string& name) {
  std::vector<KnownHost> found;
  for (const std::string& path : files) {
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      auto entry = read_line(line, name);
      if (!entry) continue;
      entry->file = path;
      entry->line = number;
      found.push_back(std::move(*entry));
    }
  }
  return found;
}

Result<void> add_known_host(const std::string& file, const std::string& name, const std::string& type,
                            const std::string& base64, HashNames hash) {
  std::string shown = name;
  if (hash == HashNames::yes) {
    std::string salt(kSha1, '\0');
    RAND_bytes(reinterpret_cast<unsigned char*>(salt.data()), static_cast<int>(salt.size()));
    shown = "|1|" + encode_base64(salt) + "|" + encode_base64(name_hash(salt, name));
  }
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (!folder.empty()) mkdir(folder.c_str(), 0700);
  const Descriptor out(open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  // A last line without its newline would swallow ours.
  char last = '\n';
  const off_t size = lseek(out.get(), 0, SEEK_END);
  if (size > 0 && pread(out.get(), &last, 1, size - 1) != 1) last = '\n';
  const std::string line = (last == '\n' ? "" : "\n") + shown + " " + type + " " + base64 + "\n";
  if (!out.valid() || write(out.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return fail(ErrorKind::io, "cannot add the new host key to " + file + ": " + std::strerror(errno));
  }
  return {};
}

KeyVerdict judge_host_key(const std::vector<KnownHost>& entries, const std::string& type, const std::string& base64) {
  KeyVerdict verdict;
  const KnownHost* match = nullptr;
  const KnownHost* differs = nullptr;
  for (const KnownHost& entry : entries) {
    const bool same = entry.type == type && entry.base64 == base64;
    if (entry.mark == KnownHostMark::revoked) {
      if (!same) continue;
      verdict.state = KeyState::revoked;
      verdict.entry = entry;
      return verdict;
    }
    if (entry.mark == KnownHostMark::authority) {
      verdict.authorities.push_back(entry);
    } else if (same) {
      match = match == nullptr ? &entry : match;
    } else if (entry.type == type) {
      differs = differs == nullptr ? &entry : differs;
    } else {
      verdict.other_types.push_back(entry);
    }
  }
  // A revocation further down must still be found, so the others are judged at the end. Several keys of one type may
  // be known (a cluster behind one name): one match is enough.
  if (match != nullptr) {
    verdict.state = KeyState::known;
    verdict.entry = *match;
  } else if (differs != nullptr) {
    verdict.state = KeyState::changed;
    verdict.entry = *differs;
  }
  return verdict;
}

}  // namespace millwright
