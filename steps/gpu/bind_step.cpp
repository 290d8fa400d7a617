#include "steps/gpu/bind_step.hpp"

#include <fmt/format.h>

#include <regex>

#include "steps/gpu/bind_plan.hpp"
#include "steps/gpu/facts_script.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "gpu.bind";
  s.summary = "GPUs are run by nvidia, vfio-pci, another driver or none, now and after a reboot.";
  s.doc =
      "Gives all functions of the boards to the driver: the GPU to the one that is named, its sound and USB functions "
      "to "
      "vfio-pci too, or to whatever takes them. Every write that may wait in the kernel for ever has a deadline and is "
      "beside the step; nvidia is unloaded, never unbound.\n\n"
      "Refuses before anything is touched, with the name of what stands against it: a virtual machine, container, "
      "service "
      "or process that holds a device; a virtual machine of Proxmox that runs with it or takes it back at boot; "
      "another "
      "device in the same IOMMU group; virtual functions in use; a driver that is not there for the kernel that runs "
      "or "
      "boots next.\n\n"
      "With `persist` the boot files follow: ids and overrides in modprobe.d, driverctl and kernel command lines that "
      "say "
      "otherwise are taken out, what is missing is written, initramfs and boot menu are made again and read back. "
      "Where "
      "ids would take an identical GPU along, the address is used.\n\n"
      "What cannot happen while the host runs (the boot console uses the GPU, an unbind did not end) is set for the "
      "next "
      "boot; `needs_reboot` is true then, and `reboot` with `when: needed` does it.\n\n"
      "Undo gives every function back to the driver it had, and puts the boot files back byte by byte.";
  s.inputs = {
      {.name = "select",
       .type = ValueType::any,
       .default_value = "all",
       .doc = "all (of NVIDIA's), an address (0000:01:00.0, 01:00), a UUID, an id (10de:2230), an index in the order "
              "of addresses, or a list of those.",
       .known_elsewhere_as = {"gpus", "gpu", "devices"}},
      {.name = "driver",
       .need = Need::required,
       .doc = "nvidia, vfio-pci, none, or the name of another kernel driver.",
       .known_elsewhere_as = {"to"}},
      {.name = "persist",
       .type = ValueType::boolean,
       .default_value = true,
       .doc = "Also after a reboot. With `none` only what is now changes."},
      {.name = "unbind_timeout",
       .type = ValueType::duration,
       .default_value = "20s",
       .doc = "For a driver to let go; then the host needs a reboot."},
      {.name = "bind_timeout",
       .type = ValueType::duration,
       .default_value = "90s",
       .doc = "For a driver to be loaded and to take the GPU."}};
  s.outputs = {
      {.name = "gpus", .type = ValueType::list, .doc = "Of each: address, id, uuid, driver, minor."},
      {.name = "driver", .doc = "The one that was asked for."},
      {.name = "needs_reboot", .type = ValueType::boolean, .doc = "Whether only the next boot brings it about."},
      {.name = "reason", .doc = "Why it needs a reboot."},
      {.name = "notes", .type = ValueType::list, .doc = "What a person should look at."}};
  s.positional = "driver";
  s.example =
      "- uses: gpu.bind\n"
      "  with: {select: all, driver: nvidia}\n"
      "- uses: reboot\n"
      "  with: {when: needed}\n";
  s.deadline = std::chrono::minutes(20);
  return s;
}

std::vector<std::string> selection(const Inputs& inputs) {
  const Value& given = inputs.value("select");
  std::vector<std::string> out;
  const auto add = [&](const Value& one) { out.push_back(one.is_string() ? one.get<std::string>() : one.dump()); };
  if (given.is_array()) {
    for (const Value& one : given) add(one);
  } else {
    add(given);
  }
  return out;
}

Error about(std::string input, std::string message, std::string hint) {
  Error error = make_error(ErrorKind::invalid, std::move(message));
  error.hint = std::move(hint);
  error.detail = std::move(input);
  return error;
}

}  // namespace

const Signature& GpuBindStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> GpuBindStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  static const std::regex name("[a-z0-9][a-z0-9_-]*");
  if (inputs.has("driver") && !std::regex_match(inputs.string("driver"), name)) {
    errors.push_back(
        about("driver", fmt::format("'{}' is no driver", inputs.string("driver")), "nvidia, vfio-pci or none"));
  }
  static const std::regex one(
      "all|[0-9]{1,3}|GPU-[0-9a-fA-F-]+|[0-9a-fA-F]{4}:[0-9a-fA-F]{4}|([0-9a-fA-F]{4,5}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{"
      "1,2}(\\.[0-7])?");
  if (!inputs.has("select")) return errors;
  const auto given = selection(inputs);
  if (given.empty()) errors.push_back(about("select", "nothing is selected", "all, or a list"));
  for (const std::string& text : given) {
    if (!std::regex_match(text, one)) {
      errors.push_back(about("select", fmt::format("'{}' names no GPU", text),
                             "all, 0000:01:00.0, GPU-UUID, 10de:2230 or an index; quote what has a colon"));
    }
  }
  return errors;
}

std::vector<Question> GpuBindStep::ask(const Inputs& inputs) const {
  gpu::FactsQuery query;
  query.detail = gpu::FactsDetail::stable;
  const std::string driver = inputs.string("driver");
  if (driver != "nvidia" && driver != "none") query.drivers.push_back(driver);
  return {gpu::facts_question(query)};
}

Result<Change> GpuBindStep::plan(const Inputs& inputs, const Answers& answers) const {
  const Answer& answer = answers.at(gpu::kFactsKey);
  const auto facts = gpu::parse_gpu_facts(answer.out, knowledge_);
  if (!facts) {
    Error error = facts.error();
    error.detail = answer.err;
    return fail(std::move(error));
  }
  gpu::BindWish wish;
  wish.select = selection(inputs);
  wish.driver = inputs.string("driver");
  wish.persist = inputs.boolean("persist") ? gpu::Persist::yes : gpu::Persist::no;
  wish.unbind_deadline = inputs.duration("unbind_timeout");
  wish.bind_deadline = inputs.duration("bind_timeout");
  return gpu::plan_bind(*facts, wish);
}

}  // namespace millwright
