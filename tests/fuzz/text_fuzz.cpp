// What a model may say: it is made text, cut, shown and measured, and each of them keeps its promise.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "steps/smoke/text_signs.hpp"
#include "steps/smoke/utf8.hpp"

namespace {

bool share(double value) { return value >= 0 && value <= 1; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const millwright::CleanText clean = millwright::clean_utf8(bytes);
  if ((clean.invalid_bytes == 0) != (clean.text == bytes)) std::abort();
  if (millwright::clean_utf8(clean.text).invalid_bytes > 0) std::abort();
  const std::string cut = millwright::cut_text(clean.text, data[0]);
  if (cut.size() > data[0] + 3u || millwright::clean_utf8(cut).invalid_bytes > 0) std::abort();
  const std::string line = millwright::printable(bytes, size);
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(line.begin(), line.end(), control)) std::abort();
  const millwright::TextSigns signs = millwright::measure_text(bytes);
  const double shares[] = {signs.tail_repetition, signs.repetition, signs.foreign_letters, signs.distinct_words,
                           signs.common_words};
  if (!std::all_of(std::begin(shares), std::end(shares), share)) std::abort();
  if (signs.characters > 16384 || signs.letters > signs.characters || signs.longest_word > signs.characters) {
    std::abort();
  }
  return 0;
}
