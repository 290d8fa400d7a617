#include "steps/server/planner/model_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/config_reader.hpp"
#include "steps/server/planner/size_check.hpp"

namespace fs = std::filesystem;

namespace millwright::planner {

const char* to_string(WeightSource source) {
  switch (source) {
    case WeightSource::tensors:
      return "the checkpoint's own tensors";
    case WeightSource::total_size:
      return "total_size of the safetensors index";
    case WeightSource::published:
      return "a published size";
    case WeightSource::config:
      return "the widths in the config";
  }
  return "";
}

namespace {

constexpr std::uint64_t kMaxJson = 64u << 20;

Result<Value> read_json(const fs::path& path) {
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  if (failure)
    return fail(make_error(ErrorKind::io, "cannot read " + path.string())
                    .with_hint("does it exist, and may this user read it?"));
  if (size > kMaxJson)
    return fail(ErrorKind::invalid, fmt::format("{} is far too large for what it should be", path.string()));
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  Value out = Value::parse(text.str(), nullptr, false);
  if (out.is_discarded())
    return fail(make_error(ErrorKind::invalid, path.string() + " is no JSON")
                    .with_hint("was it downloaded whole? A Git LFS pointer is no file"));
  return out;
}

// The tensors of one safetensors file: 8 bytes of length, then JSON. Source: safetensors' README, "Format".
Result<std::vector<TensorInfo>> read_safetensors(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::uint64_t size = 0;
  in.read(reinterpret_cast<char*>(&size), sizeof size);
  if (!in || size == 0 || size > (100u << 20))
    return fail(make_error(ErrorKind::invalid, path.string() + " does not begin as a safetensors file")
                    .with_hint("was it downloaded whole? A Git LFS pointer is no file"));
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  const Value header = Value::parse(text, nullptr, false);
  if (!in || !header.is_object())
    return fail(ErrorKind::invalid, path.string() + ": its header is cut short or no JSON");
  std::vector<TensorInfo> out;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    if (!tensor.is_object())
      return fail(ErrorKind::invalid, fmt::format("{}: tensor {} is no object", path.string(), name));
    const auto offsets = tensor.find("data_offsets");
    if (offsets == tensor.end() || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number() ||
        !(*offsets)[1].is_number())
      return fail(ErrorKind::invalid, fmt::format("{}: tensor {} has no offsets", path.string(), name));
    const double begin = (*offsets)[0].get<double>(), end = (*offsets)[1].get<double>();
    for (const double bytes : {begin, end, end - begin}) {
      if (auto checked = check_bytes(bytes, path.string(), fmt::format("data_offsets of {}", name)); !checked)
        return fail(checked.error());
    }
    out.push_back({name, end - begin, ConfigReader(tensor).text({"dtype"}, "")});
  }
  return out;
}

// Scales all parts so that they sum up to what is known.
void scale_to(WeightParts& parts, double bytes) {
  const double total = parts.total();
  if (total <= 0) return;
  const double factor = bytes / total;
  for (auto* list :
       {&parts.layer_split, &parts.layer_attention, &parts.layer_replicated, &parts.layer_kv, &parts.layer_experts}) {
    for (double& one : *list) one *= factor;
  }
  for (double* one : {&parts.embedding, &parts.head, &parts.vision, &parts.other}) *one *= factor;
}

// Names of the weight_map and their files. Nothing else in the directory counts: repositories carry second copies.
Result<void> from_index(const fs::path& folder, const Value& index, Model& model) {
  std::map<std::string, std::set<std::string>> by_file;
  if (!index.is_object() || !index.contains("weight_map") || !index.at("weight_map").is_object())
    return fail(ErrorKind::invalid, (folder / "model.safetensors.index.json").string() + " has no weight_map");
  for (const auto& [tensor, file] : index.at("weight_map").items()) {
    if (file.is_string()) by_file[fs::path(file.get<std::string>()).filename().string()].insert(tensor);
  }
  if (by_file.empty())
    return fail(make_error(ErrorKind::invalid,
                           (folder / "model.safetensors.index.json").string() + " names no tensor in its weight_map")
                    .with_hint("download it anew; without an index the sizes are worked out from the config"));
  std::vector<TensorInfo> tensors;
  std::size_t absent = 0;
  for (const auto& [file, wanted] : by_file) {
    if (!fs::exists(folder / file)) {
      ++absent;
      continue;
    }
    auto found = read_safetensors(folder / file);
    if (!found) return fail(found.error());
    for (TensorInfo& tensor : *found) {
      if (wanted.count(tensor.name) > 0) tensors.push_back(std::move(tensor));
    }
  }
  if (absent == 0) {
    model.weights = weights_of_tensors(model.shape, tensors);
    model.weight_source = WeightSource::tensors;
    return {};
  }
  model.notes.push_back(fmt::format("{} of {} files that the index names are not here", absent, by_file.size()));
  const auto meta = index.find("metadata");
  if (meta != index.end() && meta->is_object() && meta->contains("total_size") && meta->at("total_size").is_number()) {
    const auto total = meta->at("total_size").get<double>();
    const std::string file = (folder / "model.safetensors.index.json").string();
    if (auto checked = check_bytes(total, file, "metadata.total_size"); !checked) return fail(checked.error());
    scale_to(model.weights, total);
    model.weight_source = WeightSource::total_size;
  }
  return {};
}

Result<Model> from_config(const fs::path& folder) {
  const auto config = read_json(folder / "config.json");
  if (!config) return fail(config.error());
  const std::string file = (folder / "config.json").string();
  if (auto checked = check_config_numbers(*config, file); !checked) return fail(checked.error());
  auto shape = shape_of_config(
      *config, folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string());
  if (!shape) return fail(shape.error());
  Model model;
  model.shape = std::move(*shape);
  if (model.shape.quant.method.empty() && fs::exists(folder / "hf_quant_config.json")) {
    // ModelOpt's checkpoints before they had a quantization_config.
    if (const auto quant = read_json(folder / "hf_quant_config.json"); quant && quant->is_object()) {
      Value inner = quant->value("quantization", Value::object());
      if (inner.is_object())
        model.shape.quant.method = "modelopt",
        model.shape.quant.linear_bits = ConfigReader(inner).text({"quant_algo"}, "") == "NVFP4" ? 4.5 : 8.01;
    }
  }
  model.weights = weights_of_config(model.shape);
  const std::string widths = fmt::format(
      "the size of the weights that hidden_size {}, {} layers, intermediate_size {}, {} experts and "
      "vocab_size {} make",
      model.shape.hidden, model.shape.layers.size(), model.shape.mlp_width, model.shape.experts.count,
      model.shape.vocab);
  if (auto checked = check_bytes(model.weights.total(), file, widths); !checked) return fail(checked.error());
  if (fs::exists(folder / "model.safetensors.index.json")) {
    const auto index = read_json(folder / "model.safetensors.index.json");
    if (!index) return fail(index.error());
    if (auto read = from_index(folder, *index, model); !read) return fail(read.error());
  } else if (fs::exists(folder / "model.safetensors")) {
    const auto tensors = read_safetensors(folder / "model.safetensors");
    if (!tensors) return fail(tensors.error());
    model.weights = weights_of_tensors(model.shape, *tensors);
    model.weight_source = WeightSource::tensors;
  }
  return model;
}

// The other parts of "name-00001-of-00003.gguf".
std::vector<fs::path> parts_of(const fs::path& first) {
  const std::string name = first.filename().string();
  const std::size_t at = name.find("-00001-of-");
  if (at == std::string::npos) return {first};
  std::vector<fs::path> out;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(first.parent_path().empty() ? "." : first.parent_path(), failure)) {
    const std::string other = entry.path().filename().string();
    if (starts_with(other, name.substr(0, at + 1)) && ends_with(other, name.substr(at + 6)))
      out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<Model> from_gguf(const fs::path& path) {
  Model model;
  model.is_gguf = true;
  std::vector<TensorInfo> tensors;
  bool first = true;
  for (const fs::path& part : parts_of(path)) {
    auto file = read_gguf(part.string());
    if (!file) return fail(file.error());
    if (auto checked = check_gguf_numbers(*file, part.string()); !checked) return fail(checked.error());
    if (first) {
      auto shape = shape_of_gguf(*file, path.filename().string());
      if (!shape) return fail(shape.error());
      model.shape = std::move(*shape);
    }
    first = false;
    tensors.insert(tensors.end(), file->tensors.begin(), file->tensors.end());
  }
  model.weights = weights_of_tensors(model.shape, tensors);
  model.weight_source = WeightSource::tensors;
  return model;
}

// The GGUF model of a directory, and a projector beside it. The largest counts: a directory of many quantisations is a
// choice that only a person can make, which a note says.
struct GgufChoice {
  fs::path model;
  double projector = 0;
  std::size_t count = 0;
};

GgufChoice gguf_of(const fs::path& folder) {
  GgufChoice out;
  std::uintmax_t largest = 0;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (!ends_with(name, ".gguf")) continue;
    const auto size = fs::file_size(entry.path(), failure);
    if (name.find("mmproj") != std::string::npos) {
      out.projector = static_cast<double>(size);
      continue;
    }
    if (name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos) continue;
    ++out.count;
    if (out.model.empty() || size > largest) out.model = entry.path(), largest = size;
  }
  return out;
}

}  // namespace

Result<Model> read_model(const std::string& path, bool prefer_gguf) {
  std::error_code failure;
  if (!fs::exists(path, failure))
    return fail(make_error(ErrorKind::io, "there is no " + path)
                    .with_hint("a directory with config.json, a GGUF file, or the name of a known model"));
  if (!fs::is_directory(path, failure)) {
    if (fs::path(path).filename() == "config.json") return from_config(fs::path(path).parent_path());
    return from_gguf(path);
  }
  const GgufChoice gguf = gguf_of(path);
  const bool config = fs::exists(fs::path(path) / "config.json", failure);
  if (gguf.model.empty() && !config)
    return fail(make_error(ErrorKind::invalid, path + " has neither a config.json nor a GGUF file")
                    .with_hint("download config.json and model.safetensors.index.json of the model there"));
  if (config && (!prefer_gguf || gguf.model.empty())) return from_config(path);
  auto model = from_gguf(gguf.model);
  if (!model) return model;
  model->mmproj_bytes = gguf.projector;
  if (gguf.count > 1)
    model->notes.push_back(
        fmt::format("{} GGUF files are there; this is {}", gguf.count, gguf.model.filename().string()));
  return model;
}

}  // namespace millwright::planner
