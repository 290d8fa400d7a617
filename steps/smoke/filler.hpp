// Text to make prompts long with: plain English sentences that repeat no phrase for some hundred words, so that a loop
// in an answer is never an echo of the prompt.
//
// Pure; safe from any thread.
#pragma once

#include <cstddef>
#include <string>

namespace millwright {

// At least `words` words, the same for the same `seed`.
std::string filler_text(std::size_t words, unsigned seed);
// A word that no text holds by chance and that small models can repeat: "maple-cedar-41".
std::string code_word(unsigned seed);

}  // namespace millwright
