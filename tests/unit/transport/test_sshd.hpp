// A real sshd on 127.0.0.1 with its own keys and configuration, in a folder that goes with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "orchestrator/transport/connection.hpp"

namespace millwright {

// Runs a command line, returns what it printed; a failing one ends the test program.
std::string sh(const std::string& command);

// A folder below /tmp that is removed with everything in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string root_;
};

class TestSshd {
 public:
  // `options`: further lines of sshd_config; the first value of a keyword stands, and these come first.
  explicit TestSshd(const std::vector<std::string>& options = {});
  ~TestSshd();
  void stop();   // the listener and its sessions
  void start();  // again, on the same port
  // Ends the processes that serve sessions, as a crash or a reboot would, but not the listener.
  void kill_sessions() const;

  int port() const { return port_; }
  std::string key_file() const { return folder_.path("user_key"); }  // private key that may log in
  std::string known_hosts() const { return folder_.path("known_hosts"); }
  std::string host_key() const;  // "ssh-ed25519 AAAA..."
  const TestFolder& folder() const { return folder_; }
  // A target that logs in with the key and knows the host; no other configuration of this machine is read.
  Target target() const;
  static std::string user();

 private:
  TestFolder folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace millwright
