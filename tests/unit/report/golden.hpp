#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// Compares with a file; MILLWRIGHT_ACCEPT=1 writes the new text there instead.
inline void expect_golden(const std::string& path, const std::string& text) {
  const char* accept = std::getenv("MILLWRIGHT_ACCEPT");
  if (accept != nullptr && std::string(accept) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(file_text(path), text) << "golden file " << path << "; MILLWRIGHT_ACCEPT=1 takes the new text";
}
