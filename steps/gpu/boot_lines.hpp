// Lines of modprobe.d and words of kernel command lines, taken apart and put together again.
//
// Pure functions; any thread.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millwright::gpu {

// A logical line of modprobe.d: backslashes at line ends joined.
struct ModprobeLine {
  std::vector<std::string> words;  // empty: a comment or nothing
  std::string text;                // as written, with its newline(s)
};
std::vector<ModprobeLine> modprobe_lines(const std::string& content);

// '-' and '_' are the same in names of modules.
std::string module_name(std::string_view name);

// "ids=10de:2230,10DE:1AEF" -> both in lower case; only vendor:device of longer entries.
std::vector<std::string> vfio_ids_of(std::string_view value);
// The ids of a line `options vfio-pci ... ids=...`; empty for other lines.
std::vector<std::string> vfio_ids_of(const ModprobeLine& line);
// The line without those ids: other ids and options stay; empty when nothing is left to say.
std::string without_ids(const ModprobeLine& line, const std::set<std::string>& ids);

// Ids and blacklisted modules of a kernel command line.
std::vector<std::string> vfio_ids_of_command_line(std::string_view text);
std::vector<std::string> blacklist_of_command_line(std::string_view text);
// The same text with those ids and modules taken out of vfio-pci.ids= and modprobe.blacklist=; all else, blanks too,
// stays byte by byte. Works on a whole file such as /etc/default/grub: only lines that assign a command line change.
std::string clean_command_line(const std::string& text, const std::set<std::string>& ids,
                               const std::set<std::string>& modules);

}  // namespace millwright::gpu
