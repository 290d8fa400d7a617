// Pieces of the scripts of actions, for one alone (action_script.cpp) and for many together (pipeline_prepare.cpp).
// Pure text. They need script_helpers, and S (the state folder) and D (the action's) set.
#pragma once

#include <string>

#include "orchestrator/engine/action_script.hpp"

namespace millwright {

// Exit statuses of a script before the action itself runs. sysexits.h where one fits.
inline constexpr int cannot_create = 73;
inline constexpr int taken_status = 72;
inline constexpr int locked_status = 77;
inline constexpr int stale_status = 75;
inline constexpr int unprepared_status = 70;

// Makes these (shell words) and what is above them. Sets R (the run's folder) and mw_first (not empty: nothing of this
// run was here before).
std::string make_folders(const std::string& folders);

// Takes the node's lock for the run, or calls `say` with "locked <holder>" and exits with locked_status.
std::string take_lock(const std::string& run, const std::string& holder, const std::string& say);

// The log of the node, before a run's first line in it: renamed when it has grown.
std::string rotate_audit();

// What an action needs and what takes it back, into $D.
std::string put_down(const ActionScript& parts);

// The folder that a path is in.
std::string folder_of(const std::string& path);

}  // namespace millwright
