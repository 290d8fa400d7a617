#include "orchestrator/cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace millwright {
namespace {

constexpr std::size_t kNarrowest = 40;

void write_to(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

Console standard_console() {
  Console console;
  console.out = [](std::string_view text) { write_to(stdout, text); };
  console.err = [](std::string_view text) { write_to(stderr, text); };
  console.read_line = [] {
    std::string line;
    std::getline(std::cin, line);
    return line;
  };
  console.out_is = ::isatty(STDOUT_FILENO) == 1 ? Terminal::yes : Terminal::no;
  console.in_is = ::isatty(STDIN_FILENO) == 1 ? Terminal::yes : Terminal::no;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
    console.columns = std::max<std::size_t>(size.ws_col, kNarrowest);
    console.rows = size.ws_row;
  }
  return console;
}

}  // namespace millwright
