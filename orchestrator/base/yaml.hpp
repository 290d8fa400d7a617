// Strict YAML 1.2 with source positions. What yaml-cpp lets pass and people get hurt by is an error here: duplicate
// keys, an unterminated quote, alias bombs, documents too large or too deep, tabs as indentation, several documents.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

enum class YamlKind { null, scalar, sequence, mapping };

struct YamlEntry;

// An immutable tree; copies are cheap enough for configuration and may be read from any thread.
struct YamlNode {
  YamlKind kind = YamlKind::null;
  SourceMark mark;                 // of the node's first character
  std::string tag;                 // "!secret", "!vault"; empty for plain YAML
  std::string text;                // scalars: as written, quotes and escapes resolved
  bool quoted = false;             // scalars: quoted, or a block scalar; never a number, boolean or null then
  std::vector<SourceMark> lines;   // block literals (|): the place of each line of `text`; empty for all else
  std::vector<YamlNode> items;     // sequences
  std::vector<YamlEntry> entries;  // mappings, in the order of the file; keys are scalars

  const YamlNode* find(std::string_view key) const;  // mapping lookup; nullptr when absent or no mapping
  // YAML 1.2 core schema: true/false, null/~, integers (0x, 0o too), floats; YAML 1.1's yes/no/on/off stay strings.
  // Two things stay text where the schema would lose what was written: decimal integers with a leading zero (0644 is
  // 420 in YAML 1.1 and 644 in 1.2) and numbers beyond 64 bits. Scalars with a tag of their own are text.
  Value to_value() const;
};

// Not std::pair, which wants complete types.
struct YamlEntry {
  YamlEntry(YamlNode key, YamlNode value) : first(std::move(key)), second(std::move(value)) {}

  YamlNode first;  // the key
  YamlNode second;
};

struct YamlLimits {
  std::size_t max_bytes = 8u << 20;
  std::size_t max_depth = 64;
  std::size_t max_nodes = 500'000;  // after aliases are expanded
};

// Merge keys (<<: *base) are resolved as in YAML 1.1: a key of the mapping itself wins over a merged one, an earlier
// merged mapping over a later one. Aliases are replaced by copies, whose marks are those of the anchored original.
//
// All errors found, at least one, or the document. An empty document is a null node. `file` is used in messages only.
tl::expected<YamlNode, std::vector<Error>> parse_yaml(std::string_view text, const std::string& file,
                                                      const YamlLimits& limits = {});
// Reads the file first; one that is unreadable, no regular file, or far too large is an io error.
tl::expected<YamlNode, std::vector<Error>> load_yaml(const std::string& path, const YamlLimits& limits = {});

}  // namespace millwright
