#include "tls_server.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

extern char** environ;

namespace millwright {

TlsServer::TlsServer(const std::string& kind) {
  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::string script = std::string(SOURCE_DIR) + "/tests/support/tls_server.py", argument = kind;
  char program[] = "python3";
  char* arguments[] = {program, script.data(), argument.data(), nullptr};
  const int failure = posix_spawnp(&process_, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  input_ = input[1];
  if (failure != 0) throw std::runtime_error("python3 cannot be started");
  FILE* said = ::fdopen(output[0], "r");
  char path[1024] = "";
  const bool told = said != nullptr && std::fscanf(said, "%d %1023s", &port_, path) == 2;
  if (said != nullptr) std::fclose(said);
  if (!told) throw std::runtime_error("tests/support/tls_server.py did not start");
  certificate_ = path;
}

TlsServer::~TlsServer() {
  ::close(input_);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace millwright
