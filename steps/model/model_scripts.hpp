// The shell of the model step. Each can run again after it ran half; the model is there whole or not at all.
#pragma once

#include <cstdint>
#include <string>

#include "steps/contract/change.hpp"
#include "steps/model/model_source.hpp"

namespace millwright {

// Prints "file <size> <mtime>" or "tree <size> <hash of all names, sizes and times>" when the model is there, and the
// sidecar's line.
std::string look_script(const ModelSource& source);
struct ModelFound {
  bool there = false;
  bool folder = false;
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
// Fails when a folder that is used in place does not look whole: its sentence names the file.
std::string check_in_place_script(const ModelSource& source);
// Keeps what `verify_in_place_script` printed as the sidecar, so that it is not read again while it is unchanged.
Action remember_action(const ModelSource& source, const std::string& sidecar_line);

// A folder of files. "<bytes> <path>" of each that has arrived in <path>.part.
std::string arrived_script(const ModelSource& source);
// Its input is the manifest; what has another hash is removed and named. Else as finish_script.
std::string finish_tree_script(const ModelSource& source);

}  // namespace millwright
