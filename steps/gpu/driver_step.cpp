#include "steps/gpu/driver_step.hpp"

#include "steps/gpu/driver_choice.hpp"
#include "steps/gpu/facts_script.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "gpu.driver";
  s.summary = "NVIDIA's driver is installed from packages, and built for the kernels that matter.";
  s.doc =
      "Chooses the flavour of the module by the architecture of the GPUs, takes the headers of the kernel that runs "
      "and of "
      "the one that boots next along, installs without recommended extras, and looks whether the module is there for "
      "both "
      "kernels.\n\n"
      "Refuses before anything is touched what data says cannot work: a branch or flavour that does not run these "
      "GPUs, a "
      "driver that does not build for a kernel, missing headers, Secure Boot with a key that is not enrolled, packages "
      "that "
      "are held, half installed or of different drivers, NVIDIA's package source beside another method, a driver of "
      "the "
      ".run installer.\n\n"
      "Another version than the one that is loaded takes its place at once where nothing uses the module, else at the "
      "next boot: `needs_reboot` is true then, and `reboot` with `when: needed` does it. A module that is not loaded "
      "is left "
      "to `gpu.bind`, or a reboot.\n\n"
      "Undo removes what was installed, or puts the version of before back as long as apt can have it.";
  s.inputs = {
      {.name = "method",
       .default_value = "auto",
       .one_of = {"auto", "debian", "ubuntu", "nvidia-repo"},
       .doc = "Whose packages. auto: NVIDIA's where its source is set up, else the distribution's. nvidia-repo "
              "does not set "
              "the source up."},
      {.name = "branch",
       .default_value = "auto",
       .doc = "As in 580. auto: the newest that runs these GPUs and builds."},
      {.name = "module",
       .default_value = "auto",
       .one_of = {"auto", "open", "proprietary"},
       .doc = "Flavour of the kernel module. auto: by architecture and branch."},
      {.name = "hold",
       .type = ValueType::boolean,
       .default_value = false,
       .doc = "Keep apt from changing any package of the driver by itself; this step still may."},
      {.name = "version",
       .doc = "As in 580.105.08, or newest. Default: what is installed, else the newest that suits. All packages "
              "of "
              "the driver move together, up or down."},
      {.name = "state",
       .default_value = "present",
       .one_of = {"present", "absent"},
       .doc = "absent: every package of the driver goes, with its configuration; no GPU may be run by it."},
      {.name = "reload",
       .type = ValueType::boolean,
       .default_value = true,
       .doc = "Load the module anew where another version is loaded."}};
  s.outputs = {{.name = "version", .doc = "Of the driver."},
               {.name = "branch", .doc = "Its first number."},
               {.name = "module", .doc = "open or proprietary."},
               {.name = "method", .doc = "Whose packages they are."},
               {.name = "kernels", .type = ValueType::list, .doc = "That it is there for."},
               {.name = "needs_reload", .type = ValueType::boolean, .doc = "Whether another version is loaded."},
               {.name = "needs_reboot", .type = ValueType::boolean, .doc = "Whether only the next boot loads it."},
               {.name = "notes", .type = ValueType::list, .doc = "What was not checked, and why."}};
  s.example =
      "- uses: gpu.driver\n"
      "  with: {branch: auto, hold: true}\n"
      "- uses: gpu.bind\n"
      "  with: {driver: nvidia}\n";
  s.deadline = std::chrono::minutes(90);
  return s;
}

}  // namespace

const Signature& GpuDriverStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Question> GpuDriverStep::ask(const Inputs&) const {
  gpu::FactsQuery query;
  query.detail = gpu::FactsDetail::stable;
  return {gpu::facts_question(query), gpu::driver_question(knowledge_)};
}

Result<Change> GpuDriverStep::plan(const Inputs& inputs, const Answers& answers) const {
  const Answer& answer = answers.at(gpu::kFactsKey);
  const auto facts = gpu::parse_gpu_facts(answer.out, knowledge_);
  if (!facts) {
    Error error = facts.error();
    error.detail = answer.err;
    return fail(std::move(error));
  }
  gpu::DriverWish wish;
  wish.method = inputs.string("method");
  wish.branch = inputs.string("branch");
  wish.module = inputs.string("module");
  wish.version = inputs.string_or("version", "");
  wish.hold = inputs.boolean("hold");
  wish.reload = inputs.boolean("reload");
  const gpu::DriverState state = gpu::parse_driver_state(answers.at("driver").out);
  if (inputs.string("state") == "absent") return gpu::plan_driver_removal(*facts, state);
  return gpu::plan_driver(*facts, state, wish, knowledge_);
}

}  // namespace millwright
