#include "steps/gpu/facts_step.hpp"

#include <fmt/format.h>

#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/facts_script.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "gpu.facts";
  s.summary = "The GPUs of the host, their drivers, and who holds them.";
  s.doc =
      "Looks and changes nothing. `millwright facts HOST` shows the same as a table.\n\n"
      "GPUs are told by PCI ids and class, whether a driver runs them or not; product names and architectures are "
      "data. "
      "Who holds a device is seen only with `become`.";
  s.inputs = {};
  s.outputs = {
      {.name = "gpus",
       .type = ValueType::list,
       .doc = "One mapping a GPU: address, index, id, product, architecture, compute_capability, driver, uuid, "
              "minor, iommu_group, functions, peers, claims ..."},
      {.name = "count", .type = ValueType::integer, .doc = "How many of NVIDIA's there are."},
      {.name = "facts", .type = ValueType::mapping, .doc = "Everything, as `millwright facts --json` has it."}};
  s.example =
      "- id: gpus\n"
      "  uses: gpu.facts\n"
      "- uses: assert\n"
      "  with: {that: \"{{ steps.gpus.count >= 2 }}\"}\n";
  return s;
}

// "2 x RTX A6000 on vfio-pci"
std::string summary_of(const gpu::GpuFacts& facts) {
  std::map<std::string, int> counted;
  for (const gpu::Gpu& one : facts.gpus) {
    const gpu::PciFunction& f = facts.function(one.address);
    if (!f.is_nvidia()) continue;
    const std::string name = !one.product.name.empty() ? one.product.name : one.model.empty() ? f.id() : one.model;
    ++counted[fmt::format("{} {}", name, f.driver.empty() ? "without a driver" : "on " + f.driver)];
  }
  std::vector<std::string> parts;
  for (const auto& [text, count] : counted) parts.push_back(fmt::format("{} x {}", count, text));
  return parts.empty() ? "no NVIDIA GPU" : join(parts, ", ");
}

}  // namespace

const Signature& GpuFactsStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Question> GpuFactsStep::ask(const Inputs&) const { return {gpu::facts_question({})}; }

Result<Change> GpuFactsStep::plan(const Inputs&, const Answers& answers) const {
  const auto facts = gpu::parse_gpu_facts(answers.at(gpu::kFactsKey).out, knowledge_);
  if (!facts) {
    Error error = facts.error();
    error.detail = answers.at(gpu::kFactsKey).err;
    return fail(std::move(error));
  }
  Change change;
  change.summary = summary_of(*facts);
  Value all = gpu::to_json(*facts);
  std::int64_t count = 0;
  for (const gpu::Gpu& one : facts->gpus) count += facts->function(one.address).is_nvidia() ? 1 : 0;
  change.outputs = {{"gpus", all.at("gpus")}, {"count", count}};
  change.outputs["facts"] = std::move(all);
  return change;
}

}  // namespace millwright
