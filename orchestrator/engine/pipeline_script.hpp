// What makes a batch of actions stop by itself, on the node: each piece of a pipeline begins only when all before it
// have ended as they should.
//
// Pure text; nothing here touches a node. A file beside the folders of the run's actions (the gate) holds the number of
// the piece that may begin next; it is made when all that the pieces need has been put down
// (pipeline_prepare.hpp). A piece that ends well writes the number of the one behind it; one that fails, is
// stale, is killed or never begins writes nothing, so nothing behind it begins, whether the controller lives or not.
#pragma once

#include <cstddef>
#include <string>

#include "steps/contract/change.hpp"

namespace millwright {

struct Gate {
  std::string file;       // absolute, on the node; empty: there is none
  std::size_t place = 0;  // of the piece
};

// Exit status of a piece whose turn it was not.
inline constexpr int gate_closed = 76;
// Exit status of `check_script` when the answers are others.
inline constexpr int check_stale = 75;

// Stands first in the script of a piece. Sets G.
std::string gate_text(const Gate& gate);

// A piece that changes nothing: it only makes sure that the answers are still those that were planned on.
std::string check_script(const Gate& gate, const std::vector<Question>& questions, const Answers& planned_on);

// A question behind an action, with its answer as ever, unless the action did not get to begin. With an expectation it
// is noted in the action's folder when the answer is as expected.
std::string after_script(const std::string& question, const std::string& remote_dir, const Expectation* expected);

// Prints the mark of an action (parse_mark reads it) and lets the next piece begin when it is "done" and this many
// answers were as expected.
std::string judge_script(const Gate& gate, const std::string& remote_dir, std::size_t expectations);
// Whether it let the next one begin.
bool judged_passed(const std::string& out);

// Prints "closed" when the pipeline of so many pieces has ended before its end, else "through".
std::string end_script(const std::string& gate_file, std::size_t pieces);
// Stands before a question that is of interest only when the pipeline has ended before its end.
std::string unless_through(const std::string& gate_file, std::size_t pieces);

}  // namespace millwright
