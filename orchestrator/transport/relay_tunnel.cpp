#include "orchestrator/transport/relay_tunnel.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>

#include "orchestrator/base/shell.hpp"

namespace millwright {
namespace {

constexpr std::size_t kHeld = 256 * 1024;
constexpr Milliseconds kDialDeadline = std::chrono::seconds(15);

// One direction: what was read and not yet written.
struct Flow {
  std::string held;
  bool ended = false;   // nothing more to read
  bool closed = false;  // the end was passed on
};

struct Joint {
  Descriptor client;
  std::unique_ptr<Program> far;
  Flow up, down;
  bool broken = false;
  bool finished() const { return broken || (down.closed && (up.closed || up.held.empty())); }
};

void fill(Flow& flow, int fd, bool& broken) {
  char buffer[32 * 1024];
  const ssize_t got = read(fd, buffer, sizeof buffer);
  if (got > 0) {
    flow.held.append(buffer, static_cast<std::size_t>(got));
  } else if (got == 0) {
    flow.ended = true;
  } else if (errno != EAGAIN && errno != EINTR) {
    broken = true;
  }
}

void spill(Flow& flow, int fd, bool& broken) {
  const ssize_t put = write(fd, flow.held.data(), flow.held.size());
  if (put > 0) flow.held.erase(0, static_cast<std::size_t>(put));
  if (put < 0 && errno != EAGAIN && errno != EINTR) broken = true;
}

class RelayTunnel final : public Tunnel {
 public:
  RelayTunnel(Descriptor listener, int port, Dial dial)
      : listener_(std::move(listener)), port_(port), dial_(std::move(dial)), thread_([this] { serve(); }) {}
  ~RelayTunnel() override {
    stop_.set();
    thread_.join();
  }
  int local_port() const override { return port_; }

 private:
  void serve() {
    while (true) {
      std::vector<pollfd> set{{stop_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Joint& joint : joints_) watch(joint, set);
      if (poll_until(set, std::chrono::steady_clock::now() + std::chrono::hours(1)) == 0) continue;
      if (set[0].revents != 0) return;
      std::size_t at = 2;
      for (Joint& joint : joints_) {
        step(joint, &set[at]);
        at += 5;
      }
      joints_.remove_if([](const Joint& joint) { return joint.finished(); });
      if (set[1].revents != 0) accept_one();
    }
  }

  static void watch(const Joint& joint, std::vector<pollfd>& set) {
    const auto when = [](bool wanted, int fd) { return wanted ? fd : -1; };
    set.push_back({when(!joint.up.ended && joint.up.held.size() < kHeld, joint.client.get()), POLLIN, 0});
    set.push_back({when(!joint.up.held.empty(), joint.far->input()), POLLOUT, 0});
    set.push_back({when(!joint.down.ended && joint.down.held.size() < kHeld, joint.far->output()), POLLIN, 0});
    set.push_back({when(!joint.down.held.empty(), joint.client.get()), POLLOUT, 0});
    set.push_back({joint.far->errors(), POLLIN, 0});
  }

  static void step(Joint& joint, const pollfd* ready) {
    if (ready[0].revents != 0) fill(joint.up, joint.client.get(), joint.broken);
    if (ready[1].revents != 0) spill(joint.up, joint.far->input(), joint.broken);
    if (ready[2].revents != 0) fill(joint.down, joint.far->output(), joint.broken);
    if (ready[3].revents != 0) spill(joint.down, joint.client.get(), joint.broken);
    if (ready[4].revents != 0) {
      Flow ignored;
      fill(ignored, joint.far->errors(), joint.broken);
      // The relay's program is gone; what it still has to say comes on its output.
      if (ignored.ended) joint.down.ended = joint.down.ended || (ready[2].revents & POLLHUP) != 0;
    }
    if (joint.up.ended && joint.up.held.empty() && !joint.up.closed) {
      joint.far->close_input();
      joint.up.closed = true;
    }
    if (joint.down.ended && joint.down.held.empty() && !joint.down.closed) {
      shutdown(joint.client.get(), SHUT_WR);
      joint.down.closed = true;
    }
  }

  void accept_one() {
    Descriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) return;
    const int one = 1;
    setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    auto far = dial_(std::chrono::steady_clock::now() + kDialDeadline, stop_);
    if (!far) {
      const linger reset{1, 0};
      setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      return;
    }
    Joint joint;
    joint.client = std::move(client);
    joint.far = std::move(*far);
    joints_.push_back(std::move(joint));
  }

  Descriptor listener_;
  int port_;
  Dial dial_;
  Wakeup stop_;
  std::list<Joint> joints_;  // of the thread
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Tunnel>> make_relay_tunnel(Dial dial) {
  prepare_process();
  Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.valid() || bind(listener.get(), generic, size) != 0 || listen(listener.get(), 64) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    return fail(ErrorKind::io, std::string("cannot listen on 127.0.0.1: ") + std::strerror(errno));
  }
  return std::make_unique<RelayTunnel>(std::move(listener), ntohs(address.sin_port), std::move(dial));
}

std::string relay_script(const std::string& host, int port) {
  const std::string h = shell_quote(host), p = std::to_string(port);
  const std::string python =
      "import os,socket,sys,threading\n"
      "s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
      "def up():\n"
      "  while True:\n"
      "    b=os.read(0,65536)\n"
      "    if not b: break\n"
      "    s.sendall(b)\n"
      "  s.shutdown(1)\n"
      "threading.Thread(target=up,daemon=True).start()\n"
      "while True:\n"
      "  b=s.recv(65536)\n"
      "  if not b: break\n"
      "  while b: b=b[os.write(1,b):]\n";
  const std::string perl =
      "use IO::Socket; $s=IO::Socket::INET->new(PeerAddr=>$ARGV[0],PeerPort=>$ARGV[1]) or exit 1;"
      "if($p=fork){while(sysread($s,$b,65536)){$o=0;while($o<length $b){$o+=syswrite(STDOUT,$b,length($b)-$o,$o)}}"
      "kill 9,$p}else{while(sysread(STDIN,$b,65536)){$o=0;while($o<length $b){$o+=syswrite($s,$b,length($b)-$o,$o)}}"
      "shutdown($s,1)}";
  const std::string bash = "exec 3<>/dev/tcp/$0/$1; cat <&3 & cat >&3; wait";
  return "has() { command -v \"$1\" >/dev/null 2>&1; }\n"
         "if has socat; then exec socat - TCP:" +
         h + ":" + p + ";\n" + "elif has ncat; then exec ncat " + h + " " + p + ";\n" +
         "elif has python3; then exec python3 -c " + shell_quote(python) + " " + h + " " + p + ";\n" +
         "elif has perl; then exec perl -e " + shell_quote(perl) + " " + h + " " + p + ";\n" +
         "elif has nc; then exec nc " + h + " " + p + ";\n" + "elif has bash; then exec bash -c " + shell_quote(bash) +
         " " + h + " " + p + ";\n" + "fi\necho 'no socat, ncat, python3, perl, nc or bash there' >&2; exit 127\n";
}

}  // namespace millwright
