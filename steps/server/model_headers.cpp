#include "steps/server/model_headers.hpp"

#include <openssl/evp.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace fs = std::filesystem;

namespace millwright {

namespace {

// A folder of the controller that goes when this does.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "millwright-model-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string from_base64(const std::string& text) {
  std::string out(text.size() / 4 * 3 + 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < 0) return {};
  std::size_t bytes = static_cast<std::size_t>(size);
  for (auto it = text.rbegin(); it != text.rend() && *it == '=' && bytes > 0; ++it) --bytes;
  out.resize(bytes);
  return out;
}

}  // namespace

std::string model_headers_script(const std::string& path) {
  return "m=" + shell_quote(path) + R"sh(
[ -d "$m" ] || { echo "no folder"; exit 0; }
left=2500000
send() { # file, bytes
  [ "$2" -le "$left" ] || return 0
  left=$((left - $2))
  echo "file $(basename "$1") $(stat -L -c %s "$1")"
  head -c "$2" "$1" | base64 -w 0
  echo
}
for f in "$m"/config.json "$m"/*.safetensors.index.json "$m"/hf_quant_config.json; do
  [ ! -f "$f" ] || send "$f" "$(stat -L -c %s "$f")"
done
for f in "$m"/*.safetensors; do
  [ -f "$f" ] || continue
  n=$(head -c 8 "$f" | od -An -tu8 | tr -d ' ')
  [ "${#n}" -lt 10 ] || continue
  send "$f" "$((n + 8))"
done
)sh";
}

Result<planner::Model> read_model_headers(const std::string& answer) {
  const std::vector<std::string> lines = split_lines(answer);
  const TemporaryFolder folder;
  if (folder.path().empty()) return fail(ErrorKind::io, "no temporary folder can be made here");
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
    std::istringstream head(lines[i]);
    std::string word, name;
    std::uintmax_t size = 0;
    head >> word >> name >> size;
    if (word != "file" || name.find('/') != std::string::npos || name.empty()) {
      return fail(ErrorKind::internal,
                  "the node's answer about the model is not understood: " + lines[i].substr(0, 80));
    }
    const std::string bytes = from_base64(lines[i + 1]);
    std::ofstream(folder.path() / name, std::ios::binary) << bytes;
    std::error_code failure;
    fs::resize_file(folder.path() / name, size, failure);
    if (failure) return fail(ErrorKind::io, "cannot write " + (folder.path() / name).string());
  }
  return planner::read_model(folder.path().string(), false);
}

namespace {

// The beginning of a GGUF file in pieces, each below what one answer may have (4 MiB). A header has the vocabulary with
// its merges: 6.5 MB of Gemma 3, 8 MB of Llama 3.
constexpr std::uint64_t kPiece = 2'900'000;
constexpr std::uint64_t kPieces = 6;

Result<planner::Model> gguf_on_node(StepContext& context, const std::string& path) {
  const std::string file = shell_quote(path);
  std::vector<NodeCommand> commands(kPieces + 1);
  commands[0].script = "stat -L -c %s " + file + "\n";
  for (std::uint64_t i = 0; i < kPieces; ++i) {
    commands[i + 1].script = "tail -c +" + std::to_string(i * kPiece + 1) + " " + file + " | head -c " +
                             std::to_string(kPiece) + " | base64 -w 0\n";
  }
  auto answers = context.node().run_all(commands);
  if (!answers) return fail(answers.error());
  if (!answers->front().ok())
    return fail(ErrorKind::refused, path + " cannot be read: " + std::string(trim(answers->front().err)));
  const TemporaryFolder folder;
  if (folder.path().empty()) return fail(ErrorKind::io, "no temporary folder can be made here");
  const fs::path here = folder.path() / "model.gguf";
  {
    std::ofstream out(here, std::ios::binary);
    for (std::size_t i = 1; i < answers->size(); ++i) out << from_base64(std::string(trim(answers->at(i).out)));
  }
  std::error_code failure;
  fs::resize_file(here, std::strtoull(answers->front().out.c_str(), nullptr, 10), failure);
  if (failure) return fail(ErrorKind::io, "cannot write " + here.string());
  return planner::read_model(here.string(), true);
}

}  // namespace

Result<planner::Model> model_on_node(StepContext& context, const std::string& path) {
  if (ends_with(path, ".gguf")) {
    auto model = gguf_on_node(context, path);
    if (!model) return fail(wrap(model.error(), "the model " + path + " on " + context.node().name()));
    return model;
  }
  NodeCommand command;
  command.script = model_headers_script(path);
  auto answer = context.node().run(command);
  if (!answer) return fail(answer.error());
  if (starts_with(answer->out, "no folder")) {
    return fail(make_error(ErrorKind::refused, path + " is no folder of a model")
                    .with_hint("llama.cpp fits a GGUF file to its memory by itself"));
  }
  auto model = read_model_headers(answer->out);
  if (!model) return fail(wrap(model.error(), "the model " + path + " on " + context.node().name()));
  return model;
}

}  // namespace millwright
