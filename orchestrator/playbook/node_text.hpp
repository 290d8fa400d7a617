// Where the characters of a scalar's text stand in the file, through quotes, escapes and block indentation. Internal.
//
// Immutable after construction.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/yaml.hpp"

namespace millwright {

class NodeText {
 public:
  // A text whose first character is at `origin`, in one line.
  NodeText(std::string text, const SourceMark& origin);
  explicit NodeText(const YamlNode& node);

  const std::string& text() const { return text_; }
  // The place of a byte of the text. Texts that fold several lines into one (multi-line plain and quoted scalars) know
  // only the places in their first line; all later ones fall back to the start of the scalar.
  SourceMark mark(std::size_t offset, std::size_t length = 1) const;

 private:
  std::string text_;
  SourceMark origin_;
  bool quoted_ = false;
  bool direct_ = false;            // no quotes, tags or escapes between origin and text
  std::vector<SourceMark> lines_;  // literal blocks
};

}  // namespace millwright
