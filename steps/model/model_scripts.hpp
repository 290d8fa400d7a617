// The shell of the model step. Each can run again after it ran half; the model is there whole or not at all.
#pragma once

#include <cstdint>
#include <string>

#include "steps/contract/change.hpp"
#include "steps/model/model_source.hpp"

namespace millwright {

// Prints "file <size> <mtime>" when the model is there, and the sidecar's line.
std::string look_script(const ModelSource& source);
struct ModelFound {
  bool there = false;
  std::uint64_t bytes = 0;
  std::string stamp;           // size and time of the file
  std::string sidecar_stamp;   // those it had when it was verified
  std::string sidecar_sha256;  // and its hash then
};
ModelFound read_look(const std::string& out);

// Folders, group, space; its undo removes the model again unless a server uses it.
Action folder_action(const ModelSource& source, std::uint64_t bytes_needed);
std::string download_script(const ModelSource& source);  // to <path>.part, resuming; prints "bytes DONE TOTAL"
std::string package_script(const ModelSource& source);   // to <path>.part
// Verifies <path>.part (or the path itself), gives it its name, writes the sidecar, prints the hash.
std::string finish_script(const ModelSource& source);
std::string verify_in_place_script(const ModelSource& source);

}  // namespace millwright
