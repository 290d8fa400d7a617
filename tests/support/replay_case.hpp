// Public cases of servers that go wrong, as data (tests/data/smoke/cases/*.yml), and the server that each describes.
//
// A row says what comes (`says`, or `cycle`: one after the other) to which requests (`when`); everything else is
// answered well, or as `usually` has it. tests/data/smoke/cases/README.md lists the words. An unknown key is an error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/replay_surface.hpp"

namespace millwright {

struct ReplayCase {
  std::string id;
  std::string place;         // "file:line", for messages
  std::string public_class;  // what the case was filed as
  std::string seen, source;
  std::string not_expressible;  // why no request of a smoke test shows it; what follows is empty then
  std::string engine, level, verdict;
  std::string observed;  // the class that an outside observer can conclude; that of the case unless the row differs
  std::string because;   // why it is another one
  std::string probe;     // that finds it; empty: any
  std::string cure;      // a remedy of remedies.yml that is what helped; empty: `uncured` says why there is none
  std::string uncured;
  Value row;                                 // all of it, for replay_of
  std::map<std::string, std::string> texts;  // of its file
};

// All rows of the files in `folder`, in the order of file names. Throws std::runtime_error with file and line for what
// cannot be read, an unknown key, a missing one, and an id that comes twice.
std::vector<ReplayCase> load_replay_cases(const std::string& folder);

// The server of the case, with its state at the beginning. Throws like load_replay_cases.
ReplayBehaviour replay_of(const ReplayCase& row);

}  // namespace millwright
