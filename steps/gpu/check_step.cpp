#include "steps/gpu/check_step.hpp"

#include <fmt/format.h>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/check_judge.hpp"
#include "steps/gpu/facts_script.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "gpu.check";
  s.summary = "The GPUs work: NVML, CUDA and the kernel agree.";
  s.doc =
      "Changes nothing. Fails when fewer GPUs run with nvidia than there should be, when nvidia-smi or CUDA fails or "
      "knows fewer of them, when library and module are of different versions, or when the kernel reported since the "
      "last boot that a GPU is lost; what else the kernel said then explains it.\n\n"
      "CUDA is tried on each GPU (memory taken, filled, read back) where the node has Python and libcuda.so.1. What "
      "may "
      "break GPUs that talk to each other, and a small /dev/shm, are notes: they are not tried.";
  s.inputs = {{.name = "gpus",
               .type = ValueType::integer,
               .doc = "How many have to work. Default: all of NVIDIA's.",
               .known_elsewhere_as = {"count"}}};
  s.outputs = {{.name = "gpus", .type = ValueType::integer, .doc = "How many run with nvidia."},
               {.name = "driver_version", .doc = "Of the module that is loaded."},
               {.name = "notes", .type = ValueType::list, .doc = "What a person should know."}};
  s.example = "- uses: gpu.check\n  with: {gpus: 2}\n";
  return s;
}

std::string text_of(const gpu::Finding& finding) {
  return finding.what + (finding.cure.empty() ? "" : " -> " + finding.cure) +
         (finding.source.empty() ? "" : " [seen: " + finding.source + "]");
}

}  // namespace

const Signature& GpuCheckStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Question> GpuCheckStep::ask(const Inputs&) const {
  return {gpu::facts_question({}), gpu::check_question()};
}

Result<Change> GpuCheckStep::plan(const Inputs& inputs, const Answers& answers) const {
  const Answer& answer = answers.at(gpu::kFactsKey);
  const auto facts = gpu::parse_gpu_facts(answer.out, knowledge_);
  if (!facts) {
    Error error = facts.error();
    error.detail = answer.err;
    return fail(std::move(error));
  }
  gpu::CheckWish wish;
  if (inputs.has("gpus")) wish.gpus = static_cast<int>(inputs.integer("gpus"));
  const auto findings = gpu::judge(*facts, gpu::parse_check(answers.at("check").out), wish, knowledge_);
  if (!findings.empty() && findings.front().level == gpu::Finding::Level::failure) {
    Error error = make_error(ErrorKind::refused, findings.front().what);
    error.hint = findings.front().cure;
    std::vector<std::string> more;
    for (std::size_t i = 1; i < findings.size(); ++i) more.push_back(text_of(findings[i]));
    error.detail = join(more, "\n");
    return fail(std::move(error));
  }
  Change change;
  Value notes = Value::array();
  for (const gpu::Finding& finding : findings) notes.push_back(text_of(finding));
  int bound = 0;
  for (const gpu::Gpu& one : facts->gpus) bound += facts->function(one.address).driver == "nvidia" ? 1 : 0;
  change.summary =
      fmt::format("{} GPU{} with nvidia {}{}", bound, bound == 1 ? "" : "s", facts->nvidia_version,
                  findings.empty() ? "" : fmt::format("; {} notes, first: {}", notes.size(), findings.front().what));
  change.outputs = {{"gpus", bound}, {"driver_version", facts->nvidia_version}, {"notes", notes}};
  return change;
}

}  // namespace millwright
