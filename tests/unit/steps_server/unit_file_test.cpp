#include "steps/server/unit_file.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "orchestrator/base/text.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

ServerSpec server(int port) {
  ServerSpec out;
  out.name = "no-such-server";
  out.engine = "llama.cpp";
  out.version = "1";
  out.port = port;
  return out;
}

// A socket of this process that listens on a port of its own.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 1) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no port to listen on");
    }
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
};

TEST(UnitFile, WhoListensOnThePortIsNamed) {
  const testing_tools::RealShell shell;
  const Listener listener;
  const std::string script = port_holder_script(server(listener.port()));
  const std::string wanted = "pid " + std::to_string(::getpid()) + " (unit_steps_serv";
  for (const std::string& without_ss : {std::string(), std::string("command() { return 1; }\n")}) {
    const Answer found = shell.run(without_ss + script, "-eu");
    EXPECT_TRUE(found.ok()) << found.err;
    EXPECT_TRUE(starts_with(found.out, wanted)) << "found: " << found.out << found.err;
  }
}

TEST(UnitFile, AFreePortAndAnOwnOneAreHeldByNobody) {
  const testing_tools::RealShell shell;
  int port = 0;
  {
    const Listener gone;
    port = gone.port();
  }
  EXPECT_EQ(shell.run(port_holder_script(server(port)), "-eu").out, "");
  // The server's own processes are those of its user.
  const Listener listener;
  const std::string me = ::getpwuid(::getuid())->pw_name;
  const std::string own = replace_all(port_holder_script(server(listener.port())), "mw-no-such-server", me);
  EXPECT_EQ(shell.run(own, "-eu").out, "");
}

TEST(UnitFile, TheProcessesOfAUserAreFound) {
  const testing_tools::RealShell shell;
  const std::string functions = process_functions(server(1));
  EXPECT_EQ(shell.run(functions + "server_pids\nawait_gone\necho gone\n", "-eu").out, "gone\n");
  const std::string me = ::getpwuid(::getuid())->pw_name;
  const Answer mine = shell.run(replace_all(functions, "mw-no-such-server", me) + "server_pids\n", "-eu");
  const auto pids = split_lines(mine.out);
  EXPECT_NE(std::find(pids.begin(), pids.end(), std::to_string(::getpid())), pids.end()) << mine.out << mine.err;
}

// nvidia-smi answers as 590.48.01 does: a line "pid, MiB" for each process that has memory; other tenants' stay.
TEST(UnitFile, AStopWaitsUntilTheDriverHasGivenTheMemoryBack) {
  testing_tools::RealShell shell;
  shell.write("bin/nvidia-smi",
              "#!/bin/sh\necho \"$*\" >>" + shell.path("asked") + "\nn=$(wc -l <" + shell.path("asked") +
                  ")\necho '77, 3000'\n[ $n -gt $HELD_FOR ] || echo '4242, 20480'\n",
              0755);
  const std::string world = "PATH=" + shell.path("bin") + ":$PATH; export HELD_FOR\n" + process_functions(server(1)) +
                            "systemctl() { echo \"systemctl $*\"; gone=yes; }\nsleep() { :; }\n"
                            "gone=no; server_pids() { if [ $gone = no ]; then echo 4242; fi; }\n";
  const Answer late = shell.run("HELD_FOR=3\n" + world + "stop_server llm.service\necho free\n", "-eu");
  EXPECT_EQ(late.out, "systemctl stop llm.service\nfree\n") << late.err;
  EXPECT_EQ(shell.run("sort " + shell.path("asked") + " | uniq -c | tr -s ' '\n", "-eu").out,
            " 4 --query-compute-apps=pid,used_memory --format=csv,noheader,nounits\n");
  const Answer never = shell.run("HELD_FOR=1000\n" + world + "stop_server llm.service\necho free\n", "-eu");
  EXPECT_FALSE(never.ok());
  EXPECT_NE(never.err.find("keeps memory of processes that have ended: process 4242: 20480 MiB"), std::string::npos)
      << never.err;
  EXPECT_EQ(never.err.find("77"), std::string::npos) << "another tenant's";
  // No driver, or one that fails, is nothing to wait for.
  shell.write("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n", 0755);
  EXPECT_TRUE(shell.run("HELD_FOR=0\n" + world + "stop_server llm.service\n", "-eu").ok());
}

TEST(UnitFile, ProgramsBesideTheEngineAreShell) {
  const testing_tools::RealShell shell;
  for (const std::string& text : {await_gpus_text(), ended_text()}) {
    shell.write("program", text, 0755);
    const Answer checked = shell.run("sh -n " + shell.path("program") + "\n", "-eu");
    EXPECT_TRUE(checked.ok()) << checked.err;
  }
  const Answer ended = shell.run(ended_text(), "-u");
  EXPECT_TRUE(ended.ok() && ended.err.empty()) << ended.err;
}

TEST(UnitFile, LimitsAndGpusAreInTheUnitOnlyWhenAskedFor) {
  ServerSpec spec = server(8080);
  spec.device = "cpu";
  EXPECT_EQ(unit_text(spec).find("MemoryMax"), std::string::npos);
  EXPECT_EQ(unit_text(spec).find("await-gpus"), std::string::npos);
  spec.device = "cuda";
  spec.memory_max = 1U << 30;
  EXPECT_NE(unit_text(spec).find("\nMemoryMax=1073741824\n"), std::string::npos);
  EXPECT_NE(unit_text(spec).find("\nExecStartPre=/var/lib/millwright/servers/no-such-server/current/await-gpus\n"),
            std::string::npos);
}

}  // namespace
}  // namespace millwright
