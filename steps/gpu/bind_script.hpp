// The actions of gpu.bind, as shell.
//
// Pure functions; any thread.
#pragma once

#include "steps/gpu/bind_plan.hpp"

namespace millwright::gpu {

// Changes the boot files all together, makes initramfs and boot menu again, and reads back what came of it. Undo puts
// the files back byte by byte and makes both again. With a reason the host is also marked as waiting for a reboot.
Action boot_action(const GpuFacts& facts, const BootPlan& boot, const std::string& reboot_reason,
                   const std::string& root);

// Unbinds and binds. Every write into sysfs is beside the script, with a deadline: one that never ends marks the host
// as waiting for a reboot, which is success where the boot files are set (persist), else a failure.
Action bind_action(const std::vector<Move>& moves, const BindWish& wish);

}  // namespace millwright::gpu
