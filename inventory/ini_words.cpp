#include "inventory/ini_words.hpp"

#include <fmt/format.h>

namespace millwright {

Result<std::vector<IniWord>> split_ini_words(std::string_view line, Comments comments) {
  std::vector<IniWord> words;
  IniWord word;
  bool inside = false;  // a word has begun, be it empty
  char quote = '\0';
  const auto finish = [&](std::size_t end) {
    if (!inside) return;
    word.length = end - word.at;
    words.push_back(word);
    word = {};
    inside = false;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else if (c == '\\' && quote == '"' && i + 1 < line.size() && (line[i + 1] == '"' || line[i + 1] == '\\')) {
        word.text += line[++i];
      } else {
        word.text += c;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      finish(i);
      continue;
    }
    if (c == '#' && comments == Comments::yes) {  // also in the middle of a word, as shlex does
      finish(i);
      return words;
    }
    if (!inside) {
      inside = true;
      word.at = i;
    }
    if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '\\') {
      if (i + 1 == line.size())
        return fail(make_error(ErrorKind::invalid, "the line ends in a backslash").with_hint("write \\\\ for one"));
      word.text += line[++i];
    } else {
      word.text += c;
    }
  }
  if (quote != '\0')
    return fail(make_error(ErrorKind::invalid, fmt::format("the quote {} is not closed", quote))
                    .with_hint("close it, or write the value without it"));
  finish(line.size());
  return words;
}

}  // namespace millwright
