// What stands against a change of drivers, each question by itself.
//
// Pure functions; any thread. Refusals are errors of kind refused.
#pragma once

#include "steps/gpu/bind_plan.hpp"

namespace millwright::gpu {

inline constexpr const char* kNone = "none";
inline constexpr const char* kAnyHostDriver = "-";

bool is_vfio_name(std::string_view driver);
// What a function shall be bound to; see Move.
std::string wanted_driver(const PciFunction& function, const BindWish& wish);
bool is_as_wanted(const PciFunction& function, const std::string& wanted);

// Of the holders those that a move would take the device from. nvidia-persistenced is not one: it is stopped.
std::vector<const Holder*> holders_of(const GpuFacts& facts, const std::vector<Move>& moves);

Result<void> check_devices(const GpuFacts& facts, const BindPicture& picture, const BindWish& wish);
Result<void> check_holders(const GpuFacts& facts, const BindPicture& picture);
// Virtual machines that run with it, or would take it back at the next boot.
Result<void> check_claims(const GpuFacts& facts, BindPicture& picture, const BindWish& wish);
Result<void> check_groups(const GpuFacts& facts, const BindPicture& picture, const BindWish& wish);
Result<void> check_driver(const GpuFacts& facts, BindPicture& picture, const BindWish& wish);
// Why this has to wait for a reboot; empty: it need not.
std::string reboot_reason(const GpuFacts& facts, const BindPicture& picture);

}  // namespace millwright::gpu
