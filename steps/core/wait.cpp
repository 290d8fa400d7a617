#include "steps/core/wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "wait";
  s.summary = "Wait until a port, a path, a command or a URL on the node is as wanted.";
  s.doc =
      "One of `port`, `path`, `command`, `url`, seen from the node. It asks every `interval` until it is so, and fails "
      "with what it saw last when `timeout` is over. Nothing is changed.";
  s.inputs = {
      {.name = "port", .type = ValueType::integer, .doc = "A TCP port that takes connections."},
      {.name = "host", .default_value = "127.0.0.1", .doc = "Of `port`: whose, as seen from the node."},
      {.name = "path", .doc = "A path that exists, absolute."},
      {.name = "command", .doc = "Shell text that only looks and ends with 0.", .known_elsewhere_as = {"cmd", "until"}},
      {.name = "url", .doc = "An address that answers with one of `status`."},
      {.name = "status",
       .type = ValueType::list,
       .default_value = Value::array({200}),
       .doc = "Of `url`: HTTP statuses."},
      {.name = "state",
       .default_value = "present",
       .one_of = {"present", "absent", "started", "stopped"},
       .doc = "absent (or stopped): until it is not so any more."},
      {.name = "timeout", .type = ValueType::duration, .default_value = "5m", .doc = "Then the step fails."},
      {.name = "interval",
       .type = ValueType::duration,
       .default_value = "1s",
       .doc = "Between two looks.",
       .known_elsewhere_as = {"sleep"}},
      {.name = "delay", .type = ValueType::duration, .default_value = "0s", .doc = "Before the first look."}};
  s.outputs = {{.name = "elapsed", .type = ValueType::number, .doc = "Seconds that it took."}};
  s.example =
      "- uses: wait\n"
      "  with: {port: 8080, timeout: 2m}\n"
      "- uses: wait\n"
      "  with: {url: \"http://127.0.0.1:8080/health\", timeout: 10m}\n";
  s.deadline = std::chrono::hours(2);
  s.only_looks = true;
  return s;
}

constexpr std::string_view kWays[] = {"port", "path", "command", "url"};

std::vector<std::string_view> given_ways(const Inputs& inputs) {
  std::vector<std::string_view> given;
  for (const std::string_view way : kWays) {
    if (inputs.has(way)) given.push_back(way);
  }
  return given;
}

std::string described(const Inputs& inputs) {
  if (inputs.has("port")) return fmt::format("port {} of {}", inputs.integer("port"), inputs.string("host"));
  if (inputs.has("path")) return inputs.string("path");
  if (inputs.has("url")) return inputs.string("url");
  const std::string command = inputs.string("command");
  return "`" + command.substr(0, command.find('\n')) + "`";
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "0.0.0.0" || starts_with(host, "127.");
}

// The node's own ports are in /proc, which needs no tool; others are tried with what is there. 3: nothing is there.
std::string port_script(const std::string& host, std::int64_t port) {
  if (is_loopback(host)) {
    return fmt::format("grep -qsE ':{:04X} 0+:0000 0A' /proc/net/tcp /proc/net/tcp6\n", port);
  }
  return fmt::format(R"sh(h={} p={}
if command -v nc >/dev/null 2>&1; then nc -z -w 5 "$h" "$p"
elif command -v python3 >/dev/null 2>&1; then
  python3 -c 'import socket,sys; socket.create_connection((sys.argv[1],int(sys.argv[2])),5)' "$h" "$p"
elif command -v bash >/dev/null 2>&1; then timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2"' sh "$h" "$p"
else
  echo "none of nc, python3, bash is there to try a port of another machine" >&2
  exit 3
fi
)sh",
                     shell_quote(host), port);
}

// Over TLS the certificate has to fit the name, so the node itself must ask. 3: nothing is there to ask with.
std::string https_script(const std::string& url) {
  return fmt::format(R"sh(u={}
if command -v curl >/dev/null 2>&1; then
  curl -sS -o /dev/null -m 10 -w '%{{http_code}}' -- "$u"
elif command -v wget >/dev/null 2>&1; then
  wget -q -S -T 10 -O /dev/null -- "$u" 2>&1 | sed -n 's|^ *HTTP/[0-9.]* \([0-9]*\).*|\1|p' | tail -n 1
else
  echo "neither curl nor wget is there to ask an https address" >&2
  exit 3
fi
)sh",
                     shell_quote(url));
}

struct Url {
  std::string host;
  int port = 80;
  std::string rest = "/";
};

std::optional<Url> parse_http(std::string_view text) {
  if (!starts_with(text, "http://")) return std::nullopt;
  text.remove_prefix(7);
  Url url;
  const std::size_t slash = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, slash);
  if (slash < text.size()) url.rest = (text[slash] == '/' ? "" : "/") + std::string(text.substr(slash));
  if (authority.find('@') != std::string_view::npos) return std::nullopt;
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos) {
    const std::string digits(authority.substr(colon + 1));
    if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos) return {};
    url.port = std::stoi(digits);
    authority = authority.substr(0, colon);
  }
  if (starts_with(authority, "[") && ends_with(authority, "]")) authority = authority.substr(1, authority.size() - 2);
  url.host = std::string(authority);
  if (url.host.empty() || url.port < 1 || url.port > 65535) return std::nullopt;
  return url;
}

struct Look {
  bool so = false;
  std::string saw;
};

class Watch {
 public:
  explicit Watch(StepContext& context) : context_(context), inputs_(context.inputs()) {}

  Result<Look> look() {
    if (inputs_.has("url")) return look_at_url();
    std::string script;
    if (inputs_.has("port")) {
      script = port_script(inputs_.string("host"), inputs_.integer("port"));
    } else if (inputs_.has("path")) {
      script = fmt::format("[ -e {0} ] || [ -L {0} ]\n", shell_quote(inputs_.string("path")));
    } else {
      script = inputs_.string("command") + "\n";
    }
    const auto answer = run(script);
    if (!answer) return fail(answer.error());
    std::string saw = inputs_.has("port") ? "closed" : inputs_.has("path") ? "absent" : last_line(*answer);
    if (answer->ok()) saw = inputs_.has("port") ? "open" : inputs_.has("path") ? "there" : "exit status 0";
    return Look{answer->ok(), std::move(saw)};
  }

 private:
  static std::string last_line(const Answer& answer) {
    const auto lines = split_lines(trim(answer.err.empty() ? answer.out : answer.err));
    std::string text = fmt::format("exit status {}", answer.exit_code);
    return lines.empty() || lines.back().empty() ? text : text + ", " + lines.back().substr(0, 200);
  }

  Result<Answer> run(std::string script) {
    NodeCommand command;
    command.script = std::move(script);
    auto answer = context_.node().run(command);
    if (answer && answer->exit_code == 3 && !inputs_.has("command")) {
      return fail(make_error(ErrorKind::refused, std::string(trim(answer->err)))
                      .with_hint("install one of them on the node, or use `command`"));
    }
    return answer;
  }

  Result<Look> judge(int status) const {
    const auto wanted = inputs_.strings("status");
    const std::string text = std::to_string(status);
    return Look{std::find(wanted.begin(), wanted.end(), text) != wanted.end(), "HTTP " + text};
  }

  Result<Look> look_at_url() {
    const auto url = parse_http(inputs_.string("url"));
    if (!url) {
      const auto answer = run(https_script(inputs_.string("url")));
      if (!answer) return fail(answer.error());
      const std::string code(trim(answer->out));
      if (code.size() != 3 || code == "000" || code.find_first_not_of("0123456789") != std::string::npos) {
        return Look{false, last_line(*answer)};
      }
      return judge(std::stoi(code));
    }
    if (!tunnel_) {
      auto tunnel = context_.node().tunnel(url->host, url->port);
      if (!tunnel) return fail(tunnel.error());
      tunnel_ = std::move(*tunnel);
    }
    HttpRequest request;
    request.url = tunnel_->base_url() + url->rest;
    request.headers["Host"] = url->port == 80 ? url->host : fmt::format("{}:{}", url->host, url->port);
    request.total_timeout = std::chrono::seconds(10);
    request.max_body = 64 * 1024;
    const auto response = context_.http().send(request);
    if (!response) return Look{false, seen_from_node(response.error(), *url)};
    return judge(response->status);
  }

  // What was asked is the tunnel's end here; what is meant is the address there. A tunnel takes every connection, and
  // drops it when nothing takes it on the other side.
  std::string seen_from_node(const Error& error, const Url& url) const {
    const std::string there = fmt::format("{}:{}", url.host, url.port);
    const std::string here = tunnel_->base_url().substr(std::string_view("http://").size());
    for (const char* dropped : {"Empty reply", "reset by peer", "Recv failure", "Send failure"}) {
      if (error.message.find(dropped) != std::string::npos) return "nothing answers at " + there;
    }
    const std::size_t colon = here.rfind(':');
    const std::string spelt = here.substr(0, colon) + " port " + here.substr(colon + 1);
    return replace_all(replace_all(error.message, here, there), spelt, fmt::format("{} port {}", url.host, url.port));
  }

  StepContext& context_;
  const Inputs& inputs_;
  std::unique_ptr<NodeTunnel> tunnel_;
};

}  // namespace

const Signature& WaitStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> WaitStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  const auto ways = given_ways(inputs);
  if (ways.size() > 1) {
    errors.push_back(core::input_error(std::string(ways[1]),
                                       fmt::format("'{}' and '{}' cannot be waited for at once", ways[0], ways[1]),
                                       "write one step for each"));
  }
  if (inputs.has("port") && (inputs.integer("port") < 1 || inputs.integer("port") > 65535)) {
    errors.push_back(core::input_error("port", "a port is a number from 1 to 65535"));
  }
  if (inputs.has("path") && !starts_with(inputs.string("path"), "/")) {
    errors.push_back(core::input_error("path", "'path' must be absolute"));
  }
  if (inputs.has("url") && !starts_with(inputs.string("url"), "https://") && !parse_http(inputs.string("url"))) {
    errors.push_back(core::input_error("url", "'url' must begin with http:// or https:// and name a host"));
  }
  return errors;
}

Result<StepOutcome> WaitStep::run(StepContext& context) const {
  const Inputs& inputs = context.inputs();
  if (given_ways(inputs).size() != 1) {
    return fail(ErrorKind::invalid, "wait needs one of 'port', 'path', 'command', 'url'");
  }
  const std::string state = inputs.string("state");
  const bool wanted = state == "present" || state == "started";
  const std::string what = described(inputs);
  const SteadyPoint began = context.clock().steady();
  const SteadyPoint until = std::min(context.deadline(), began + inputs.duration("timeout"));
  const auto stopped = [&context] { return context.cancelled(); };
  if (inputs.duration("delay").count() > 0) context.clock().sleep(inputs.duration("delay"), stopped);
  Watch watch(context);
  std::string last;
  while (true) {
    if (context.cancelled()) return fail(ErrorKind::interrupted, "stopped while waiting for " + what);
    const auto look = watch.look();
    if (!look) return fail(wrap(look.error(), "waiting for " + what));
    const auto elapsed = std::chrono::duration_cast<Milliseconds>(context.clock().steady() - began);
    if (look->so == wanted) {
      StepOutcome outcome;
      outcome.summary = fmt::format("{}: {} after {}", what, look->saw, format_duration(elapsed));
      outcome.outputs = {{"elapsed", static_cast<double>(elapsed.count()) / 1000}};
      return outcome;
    }
    if (look->saw != last) context.progress(fmt::format("{}: {}", what, look->saw), {});
    last = look->saw;
    if (context.clock().steady() >= until) {
      return fail(make_error(ErrorKind::timeout,
                             fmt::format("{} is not {} after {}: {}", what, state, format_duration(elapsed), last))
                      .with_hint("a longer `timeout` helps only if it is on its way"));
    }
    context.clock().sleep(inputs.duration("interval"), stopped);
  }
}

}  // namespace millwright
