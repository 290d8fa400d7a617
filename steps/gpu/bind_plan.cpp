#include "steps/gpu/bind_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/bind_checks.hpp"
#include "steps/gpu/bind_script.hpp"

namespace millwright::gpu {

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
}

bool is_id(const std::string& text) { return text.size() == 9 && text[4] == ':'; }

bool matches(const GpuFacts& facts, const Gpu& gpu, const std::string& wanted) {
  const PciFunction& f = facts.function(gpu.address);
  if (wanted == "all") return f.is_nvidia() && f.physical_function.empty();
  if (is_number(wanted)) return f.is_nvidia() && std::to_string(gpu.index) == wanted;
  if (is_id(wanted)) return f.id() == wanted;
  if (const std::string address = normal_pci_address(wanted); !address.empty()) {
    return address == gpu.address || address == f.slot();
  }
  return !gpu.uuid.empty() && gpu.uuid == wanted;
}

std::string known_gpus(const GpuFacts& facts) {
  std::vector<std::string> out;
  for (const Gpu& gpu : facts.gpus)
    out.push_back(fmt::format("{} ({})", gpu.address, facts.function(gpu.address).id()));
  return out.empty() ? "there is no GPU" : "there are " + join(out, ", ");
}

std::string shown(const std::string& driver) { return driver.empty() || driver == kNone ? "no driver" : driver; }

// "2 GPUs vfio-pci -> nvidia"
std::string summary_of(const GpuFacts& facts, const BindPicture& picture, const BindWish& wish) {
  std::map<std::string, int> from;
  for (const Move& move : picture.moves) {
    if (facts.function(move.address).is_display()) ++from[shown(move.from)];
  }
  std::vector<std::string> parts;
  for (const auto& [driver, count] : from) {
    parts.push_back(fmt::format("{} GPU{} {} -> {}", count, count == 1 ? "" : "s", driver, shown(wish.driver)));
  }
  if (parts.empty() && !picture.moves.empty()) parts.push_back("other functions of the boards leave vfio-pci");
  return join(parts, ", ");
}

std::string so_already(const BindPicture& picture, const BindWish& wish) {
  return fmt::format("{} GPU{} on {}", picture.gpus.size(), picture.gpus.size() == 1 ? "" : "s", shown(wish.driver));
}

Value outputs_of(const GpuFacts& facts, const BindPicture& picture, const BindWish& wish) {
  Value gpus = Value::array();
  for (const Gpu* gpu : picture.gpus) {
    gpus.push_back({{"address", gpu->address},
                    {"id", facts.function(gpu->address).id()},
                    {"uuid", gpu->uuid},
                    {"driver", facts.function(gpu->address).driver},
                    {"minor", gpu->minor ? Value(*gpu->minor) : Value()}});
  }
  return {{"gpus", gpus},
          {"driver", wish.driver},
          {"needs_reboot", !picture.reboot_reason.empty()},
          {"reason", picture.reboot_reason},
          {"notes", picture.notes}};
}

std::string moves_diff(const std::vector<Move>& moves) {
  std::string out;
  for (const Move& move : moves) {
    out += fmt::format("- {} {}\n+ {} {}\n", move.address, shown(move.from), move.address,
                       move.to == kAnyHostDriver ? "its own driver, if it has one" : shown(move.to));
  }
  return out;
}

}  // namespace

Result<std::vector<const Gpu*>> select_gpus(const GpuFacts& facts, const std::vector<std::string>& select) {
  std::vector<const Gpu*> out;
  for (std::string wanted : select) {
    std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                   [&](unsigned char c) { return starts_with(wanted, "GPU-") ? c : std::tolower(c); });
    bool found = false;
    for (const Gpu& gpu : facts.gpus) {
      if (!matches(facts, gpu, wanted)) continue;
      found = true;
      if (std::find(out.begin(), out.end(), &gpu) == out.end()) out.push_back(&gpu);
    }
    if (found) continue;
    std::string hint = known_gpus(facts);
    if (starts_with(wanted, "GPU-"))
      hint = "a UUID is known only while nvidia runs the GPU; " + hint + ": name it by address";
    return fail(make_error(ErrorKind::refused, fmt::format("no GPU is '{}'", wanted)).with_hint(std::move(hint)));
  }
  std::sort(out.begin(), out.end(), [](const Gpu* a, const Gpu* b) { return a->address < b->address; });
  return out;
}

Result<BindPicture> look_at_bind(const GpuFacts& facts, const BindWish& wish) {
  auto gpus = select_gpus(facts, wish.select);
  if (!gpus) return fail(gpus.error());
  if (!facts.host.root) {
    return fail(make_error(ErrorKind::refused, "not root on the node, so who holds a GPU cannot be seen")
                    .with_hint("set become: true"));
  }
  BindPicture picture;
  picture.gpus = std::move(*gpus);
  for (const Gpu* gpu : picture.gpus) {
    for (const std::string& address : gpu->functions) {
      picture.functions.push_back(address);
      const PciFunction& f = facts.function(address);
      const std::string wanted = wanted_driver(f, wish);
      // A link that is gone does not mean that the unbind has ended.
      const bool stuck = facts.stuck.count(address) != 0;
      if (stuck || !is_as_wanted(f, wanted))
        picture.moves.push_back({address, f.driver.empty() ? kNone : f.driver, wanted});
    }
  }
  if (auto fine = check_devices(facts, picture, wish); !fine) return fail(fine.error());
  picture.reboot_reason = reboot_reason(facts, picture);
  if (auto fine = check_claims(facts, picture, wish); !fine) return fail(fine.error());
  if (picture.reboot_reason.empty()) {
    if (auto fine = check_holders(facts, picture); !fine) return fail(fine.error());
  }
  if (auto fine = check_groups(facts, picture, wish); !fine) return fail(fine.error());
  if (auto fine = check_driver(facts, picture, wish); !fine) return fail(fine.error());
  if (!picture.reboot_reason.empty() && (wish.persist == Persist::no || wish.driver == kNone)) {
    return fail(
        make_error(ErrorKind::refused, picture.reboot_reason + ", so only a reboot could do it")
            .with_hint("with persist: true what the next boot does is set, and the reboot is left to a later step"));
  }
  return picture;
}

Result<Change> plan_bind(const GpuFacts& facts, const BindWish& wish) {
  auto picture = look_at_bind(facts, wish);
  if (!picture) return fail(picture.error());
  BootPlan boot;
  if (wish.persist == Persist::yes && wish.driver != kNone) {
    boot = plan_boot_files(facts, {wish.driver, picture->functions});
    if (!boot.impossible.empty()) {
      return fail(make_error(ErrorKind::refused, "the next boot would undo it: " + boot.impossible.front())
                      .with_hint("put that right by hand, or set persist: false for a change until the next boot"));
    }
    picture->notes.insert(picture->notes.end(), boot.notes.begin(), boot.notes.end());
  }
  Change change;
  change.outputs = outputs_of(facts, *picture, wish);
  const bool reboot = !picture->reboot_reason.empty();
  const bool flag_missing = reboot && !facts.host.reboot_required;
  if (!boot.empty() || flag_missing) {
    change.actions.push_back(boot_action(facts, boot, reboot ? picture->reboot_reason : "", wish.root));
    change.diff += edits_diff(boot.edits);
  }
  if (!reboot && !picture->moves.empty()) {
    change.actions.push_back(bind_action(picture->moves, wish));
    change.diff += moves_diff(picture->moves);
  }
  std::vector<std::string> parts;
  if (!picture->moves.empty()) parts.push_back(summary_of(facts, *picture, wish));
  if (picture->moves.empty() && boot.empty()) parts.push_back(so_already(picture.value(), wish));
  if (!boot.empty()) parts.push_back("what the next boot does is set");
  if (reboot) parts.push_back("needs a reboot: " + picture->reboot_reason);
  for (const std::string& note : picture->notes) parts.push_back(note);
  change.summary = join(parts, "; ");
  return change;
}

}  // namespace millwright::gpu
