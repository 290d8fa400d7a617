#include "steps/server/planner/gpu_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright::planner {
namespace {

constexpr int kMostGpus = 1024;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// "RTX_A6000" and "rtx a6000" are the same name.
std::string plain(std::string_view name) { return replace_all(replace_all(lower(name), "_", "-"), " ", "-"); }

Failure not_understood(std::string_view part) {
  return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no GPU", part))
                  .with_hint("as in 2xA6000, 8x80GiB, rtx-3090:23.6GiB*2, or host:NAME"));
}

std::optional<int> count_of(std::string_view digits) {
  int out = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (failure != std::errc() || end != digits.data() + digits.size()) return {};
  return out;
}

// Takes "2x" from the front or "*2" from the end.
Result<int> take_count(std::string_view& part) {
  const std::string_view whole = part;
  int count = 1;
  const std::size_t digits = part.find_first_not_of("0123456789");
  if (digits != std::string_view::npos && digits > 0 && digits + 1 < part.size() &&
      (part[digits] == 'x' || part[digits] == 'X')) {
    count = count_of(part.substr(0, digits)).value_or(0);
    part.remove_prefix(digits + 1);
  } else if (const std::size_t star = part.rfind('*'); star != std::string_view::npos) {
    count = count_of(part.substr(star + 1)).value_or(0);
    part = part.substr(0, star);
  }
  if (count < 1 || count > kMostGpus)
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no number of GPUs from 1 to {}", whole, kMostGpus))
                    .with_hint("as in 2xA6000 or rtx-3090*2"));
  return count;
}

Gpu gpu_of_row(const Value& row) {
  Gpu out;
  out.title = row.at("title").get<std::string>();
  out.total_gib = row.at("gib").get<double>();
  out.smi_mib = row.at("smi_mib").get<double>();
  out.compute = row.at("compute").get<double>();
  out.unified = row.value("unified", false);
  return out;
}

Result<Gpu> named_gpu(const Knowledge& knowledge, std::string_view name) {
  const std::string wanted = plain(name);
  std::vector<std::string> names;
  const Value& document = knowledge.file("gpus");
  for (const Value& row : document.value("gpus", Value::array())) {
    for (const Value& one : row.at("names")) {
      const auto known = one.get<std::string>();
      if (known == wanted || "nvidia-" + known == wanted) return gpu_of_row(row);
      names.push_back(known);
    }
    if (plain(row.at("title").get<std::string>()) == wanted) return gpu_of_row(row);
  }
  const auto near = nearest(wanted, names);
  return fail(
      make_error(ErrorKind::usage, fmt::format("there is no GPU '{}' in what is known here", name))
          .with_hint(
              near ? fmt::format("did you mean '{}'? Any other works with its size: {}:48GiB", *near, name)
                   : fmt::format("say how large it is, as in {}:48GiB; several as in 2xA6000 or rtx-3090*2", name)));
}

bool is_size(const std::string& word) {
  return word.size() > 2 && ends_with(word, "gb") && word.find_first_not_of("0123456789") == word.size() - 2;
}

// "NVIDIA A100-SXM4-80GB" is the row a100-80gb: all words of a name but its size are in it, and the memory is the
// nearest.
std::optional<Gpu> gpu_as_driver_says(const Knowledge& knowledge, std::string_view name, double smi_mib) {
  const auto said = split(plain(name), '-');
  std::optional<Gpu> best;
  std::size_t most_words = 0;
  for (const Value& row : knowledge.file("gpus").value("gpus", Value::array())) {
    for (const Value& one : row.at("names")) {
      std::size_t words = 0;
      bool all = true;
      for (const std::string& word : split(one.get<std::string>(), '-')) {
        if (is_size(word)) continue;
        all = all && std::find(said.begin(), said.end(), word) != said.end();
        ++words;
      }
      const Gpu gpu = gpu_of_row(row);
      // A name stands for cards of several sizes; another size than the row's is another card.
      if (!all || words < most_words || std::abs(gpu.smi_mib - smi_mib) > 0.05 * smi_mib) continue;
      if (words == most_words && best && std::abs(best->smi_mib - smi_mib) <= std::abs(gpu.smi_mib - smi_mib)) continue;
      best = gpu;
      most_words = words;
    }
  }
  return best;
}

Result<double> gib_of(std::string_view text) {
  const auto bytes = parse_size(text);
  if (!bytes)
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no size", text)).with_hint("as in 80GiB or 23.6GiB"));
  const double gib = static_cast<double>(*bytes) / (1024.0 * 1024.0 * 1024.0);
  if (gib < 0.5 || gib > 4096)
    return fail(
        make_error(ErrorKind::usage, fmt::format("'{}' is no size of a GPU's memory", text)).with_hint("as in 80GiB"));
  return gib;
}

Result<Gpu> one_gpu(const Knowledge& knowledge, std::string_view part) {
  if (part.empty()) return not_understood(part);
  const std::size_t colon = part.find(':');
  if (colon != std::string_view::npos) {
    const auto gib = gib_of(part.substr(colon + 1));
    if (!gib) return fail(gib.error());
    auto known = named_gpu(knowledge, part.substr(0, colon));
    Gpu out = known ? *known : Gpu{};
    if (!known) out.title = std::string(part.substr(0, colon));
    out.total_gib = *gib;
    return out;
  }
  if (std::isdigit(static_cast<unsigned char>(part.front())) != 0 && lower(part).find('b') != std::string::npos &&
      parse_size(part)) {
    const auto gib = gib_of(part);
    if (!gib) return fail(gib.error());
    Gpu out;
    out.title = fmt::format("{:g} GiB GPU", *gib);
    out.total_gib = *gib;
    return out;
  }
  return named_gpu(knowledge, part);
}

}  // namespace

Result<std::vector<Gpu>> parse_gpu_spec(const Knowledge& knowledge, std::string_view spec) {
  std::vector<Gpu> out;
  for (const std::string& piece : split(spec, ',')) {
    std::string_view part = trim(piece);
    if (part.empty()) return not_understood(spec);
    const auto count = take_count(part);
    if (!count) return fail(count.error());
    const auto gpu = one_gpu(knowledge, trim(part));
    if (!gpu) return fail(gpu.error());
    if (out.size() + static_cast<std::size_t>(*count) > kMostGpus) return not_understood(spec);
    out.insert(out.end(), static_cast<std::size_t>(*count), *gpu);
  }
  return out;
}

std::string gpu_question() {
  return "nvidia-smi --query-gpu=name,memory.total,memory.free,compute_cap --format=csv,noheader,nounits";
}

Result<std::vector<Gpu>> parse_gpu_answer(const Knowledge& knowledge, std::string_view answer) {
  std::vector<Gpu> out;
  for (const std::string& line : split_lines(answer)) {
    const auto fields = split(line, ',');
    if (fields.size() < 4) continue;
    const auto number = [&](std::size_t at) { return std::atof(std::string(trim(fields[at])).c_str()); };
    // "NVIDIA GB10, [N/A], [N/A], 12.1": its memory is the host's, and the driver does not count it.
    if (const auto shared = named_gpu(knowledge, trim(fields[0])); trim(fields[1]) == "[N/A]" && shared) {
      out.push_back(*shared);
      continue;
    }
    if (number(1) <= 0) continue;
    Gpu gpu;
    const auto known = gpu_as_driver_says(knowledge, trim(fields[0]), number(1));
    if (known) gpu = *known;
    gpu.title = std::string(trim(fields[0]));
    gpu.smi_mib = number(1);
    if (!known) gpu.total_gib = gpu.smi_mib / 1024.0;
    gpu.free_gib = std::min(gpu.total_gib, number(2) / 1024.0);
    gpu.compute = number(3);
    out.push_back(std::move(gpu));
  }
  if (out.empty())
    return fail(make_error(ErrorKind::refused, "the host names no GPU with memory")
                    .with_hint("does nvidia-smi work there? Is the driver loaded?"));
  return out;
}

}  // namespace millwright::planner
