#include "steps/model/model_tree.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/model/model_source.hpp"

namespace fs = std::filesystem;

namespace millwright {

namespace {

constexpr int kDeepest = 8;
constexpr std::size_t kLengthBytes = 8;
// As the library has it. Source: safetensors' src/tensor.rs, MAX_HEADER_SIZE.
constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr const char* kIndex = "model.safetensors.index.json";

Error damaged(const std::string& symptom_class, std::string message, std::string hint) {
  return make_error(ErrorKind::invalid, std::move(message)).with_class(symptom_class).with_hint(std::move(hint));
}

Result<void> read_folder(const fs::path& folder, const std::string& below, int depth, ModelTree& out) {
  if (depth > kDeepest) {
    return fail(make_error(ErrorKind::invalid, out.folder + " has folders in folders, " + below)
                    .with_hint("a link in it may lead back to it"));
  }
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (starts_with(name, ".")) continue;
    const bool plain = std::none_of(
        name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\\' || c == 127; });
    if (!plain)
      return fail(ErrorKind::invalid, "a file name in " + folder.string() + " has a control character or a \\");
    std::error_code unreadable;
    if (entry.is_directory(unreadable)) {
      if (auto inner = read_folder(entry.path(), below + name + "/", depth + 1, out); !inner) return inner;
    } else if (entry.is_regular_file(unreadable)) {
      out.files.push_back({below + name, entry.file_size(unreadable), ""});
    } else {
      return fail(make_error(ErrorKind::io, "cannot read " + entry.path().string())
                      .with_hint("is it a link to something that is gone?"));
    }
    if (unreadable) return fail(ErrorKind::io, "cannot read " + entry.path().string() + ": " + unreadable.message());
  }
  if (failed) return fail(ErrorKind::io, "cannot read " + folder.string() + ": " + failed.message());
  return {};
}

// What the header's tensors need, in bytes after it.
std::uint64_t data_end(const Value& header) {
  std::uint64_t end = 0;
  for (const Value& tensor : header) {
    if (!tensor.is_object()) continue;
    const Value offsets = tensor.value("data_offsets", Value::array());
    if (offsets.size() == 2 && offsets.at(1).is_number_unsigned())
      end = std::max(end, offsets.at(1).get<std::uint64_t>());
  }
  return end;
}

// 8 bytes of length, little-endian, then JSON, then the tensors. Source: safetensors' README, "Format".
Result<void> check_safetensors(const ModelTree& tree, const TreeFile& file) {
  const std::string path = tree.folder + "/" + file.path;
  std::ifstream in(path, std::ios::binary);
  std::array<char, kLengthBytes> raw{};
  const bool read = static_cast<bool>(in.read(raw.data(), raw.size()));
  if (std::string_view(raw.data(), raw.size()) == "version ") {
    return fail(damaged("file_corrupt", path + " is the pointer that git keeps in place of a large file",
                        "git lfs pull in " + tree.folder));
  }
  std::uint64_t length = 0;
  for (std::size_t i = raw.size(); i-- > 0;) length = length << 8U | static_cast<unsigned char>(raw[i]);
  if (!read || length > kLargestHeader || kLengthBytes + length > file.bytes) {
    return fail(damaged("file_corrupt", path + " is cut short or no safetensors file", "download it again"));
  }
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  const Value header = Value::parse(text, nullptr, false);
  if (!header.is_object()) {
    return fail(damaged("file_corrupt", path + " has a header that is no JSON", "download it again"));
  }
  const std::uint64_t wanted = kLengthBytes + length + data_end(header);
  if (wanted == file.bytes) return {};
  return fail(damaged("file_corrupt",
                      path + " has " + std::to_string(file.bytes) + " bytes where its header says " +
                          std::to_string(wanted) + (file.bytes < wanted ? ": it is cut short" : ""),
                      "download it again"));
}

Result<void> check_index(const ModelTree& tree, const std::set<std::string>& names) {
  if (names.count(kIndex) == 0) return {};
  std::ifstream in(tree.folder + "/" + kIndex, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Value index = Value::parse(text, nullptr, false);
  if (!index.is_object() || !index.value("weight_map", Value()).is_object()) {
    return fail(damaged("file_corrupt", tree.folder + "/" + kIndex + " has no weight_map", "download it again"));
  }
  for (const Value& file : index.at("weight_map")) {
    if (!file.is_string() || names.count(file.get<std::string>()) != 0) continue;
    return fail(damaged("file_missing",
                        tree.folder + " lacks " + file.get<std::string>() + ", which " + kIndex + " names",
                        "the download did not finish; get the rest of it"));
  }
  return {};
}

}  // namespace

std::uint64_t ModelTree::bytes() const {
  std::uint64_t sum = 0;
  for (const TreeFile& file : files) sum += file.bytes;
  return sum;
}

std::vector<std::string> ModelTree::folders() const {
  std::set<std::string> out;
  for (const TreeFile& file : files) {
    for (std::size_t slash = file.path.find('/'); slash != std::string::npos; slash = file.path.find('/', slash + 1))
      out.insert(file.path.substr(0, slash));
  }
  return {out.begin(), out.end()};
}

std::string ModelTree::manifest() const {
  std::string out;
  for (const TreeFile& file : files) out += file.sha256 + "  " + file.path + "\n";
  return out;
}

std::string ModelTree::sha256() const { return sha256_hex(manifest()); }

Result<ModelTree> list_tree(const std::string& folder) {
  ModelTree out;
  out.folder = folder;
  while (out.folder.size() > 1 && out.folder.back() == '/') out.folder.pop_back();
  if (auto read = read_folder(out.folder, "", 0, out); !read) return fail(read.error());
  std::sort(out.files.begin(), out.files.end(),
            [](const TreeFile& left, const TreeFile& right) { return left.path < right.path; });
  return out;
}

Result<void> hash_tree(ModelTree& tree) {
  for (TreeFile& file : tree.files) {
    auto hashed = hash_file(tree.folder + "/" + file.path);
    if (!hashed) return fail(hashed.error());
    file.sha256 = *hashed;
  }
  return {};
}

Result<void> check_tree(const ModelTree& tree) {
  std::set<std::string> names;
  for (const TreeFile& file : tree.files) names.insert(file.path);
  if (names.count("config.json") == 0) {
    return fail(damaged("file_missing", tree.folder + " has no config.json, so it is no model",
                        "name the folder that the model was downloaded to, or one GGUF file"));
  }
  if (auto whole = check_index(tree, names); !whole) return whole;
  for (const TreeFile& file : tree.files) {
    if (!ends_with(file.path, ".safetensors")) continue;
    if (auto whole = check_safetensors(tree, file); !whole) return whole;
  }
  return {};
}

}  // namespace millwright
