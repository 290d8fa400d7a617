#include "steps/smoke/filler.hpp"

#include <fmt/format.h>

#include <array>
#include <random>

namespace millwright {
namespace {

constexpr std::array kWho = {"The gardener",   "A sailor",    "My neighbour", "The baker",
                             "An old teacher", "The doctor",  "A farmer",     "The musician",
                             "Her cousin",     "The captain", "A traveller",  "The painter"};
constexpr std::array kDid = {"carried", "painted",  "repaired", "found", "sold",   "remembered",
                             "watched", "borrowed", "hid",      "built", "washed", "described"};
constexpr std::array kWhat = {"a wooden ladder", "the blue bicycle", "an empty basket", "the kitchen clock",
                              "a bag of apples", "the garden gate",  "a letter",        "the small boat",
                              "a pair of boots", "the stone bridge", "an umbrella",     "the brass lamp"};
constexpr std::array kWhen = {"before breakfast",           "on a rainy afternoon",   "near the harbour",
                              "after the market closed",    "during the long winter", "while the others slept",
                              "at the edge of the village", "without saying a word",  "for the first time",
                              "under the chestnut trees",   "with great patience",    "late in the evening"};
constexpr std::array kTrees = {"maple", "cedar", "willow", "birch", "alder", "hazel", "rowan", "aspen"};

template <std::size_t N>
const char* one_of(const std::array<const char*, N>& list, std::mt19937& random) {
  return list[random() % N];
}

}  // namespace

std::string filler_text(std::size_t words, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  constexpr std::size_t words_each = 9;  // of the shortest sentence, about
  for (std::size_t count = 0; count < words; count += words_each) {
    text += fmt::format("{} {} {} {}. ", one_of(kWho, random), one_of(kDid, random), one_of(kWhat, random),
                        one_of(kWhen, random));
  }
  return text;
}

std::string code_word(unsigned seed) {
  std::mt19937 random(seed + 1000);
  const char* first = one_of(kTrees, random);
  const char* second = one_of(kTrees, random);
  return fmt::format("{}-{}-{}", first, second, 10 + seed % 90);
}

}  // namespace millwright
