#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/gpu/driver_choice.hpp"

namespace millwright::gpu {

namespace {

constexpr const char* kScript = R"sh(tab=$(printf '\t')
if ! command -v apt-get >/dev/null 2>&1; then
  printf 'apt\tno\n'
  exit 0
fi
branches=$(apt-cache pkgnames nvidia-headless- 2>/dev/null | sed -n 's/^nvidia-headless-\([0-9][0-9]*\)-server$/\1/p' | sort -un)
all=
for p in $names; do
  case $p in
    *BRANCH*) for b in $branches; do all="$all ${p%%BRANCH*}$b${p#*BRANCH}"; done ;;
    *) all="$all $p" ;;
  esac
done
for k in $(for d in /lib/modules/*; do printf '%s\n' "${d##*/}"; done); do
  if [ -e "/lib/modules/$k/build/Makefile" ]; then h=yes; else h=no; fi
  printf 'headers\t%s\t%s\n' "$k" "$h"
  [ "$h" = yes ] || all="$all linux-headers-$k proxmox-headers-$k pve-headers-$k"
done
[ -z "$all" ] || apt-cache policy $all 2>/dev/null | awk '/^[^ ].*:$/ { p = $1; sub(/:$/, "", p) }
  $1 == "Installed:" { i = $2 } $1 == "Candidate:" { print "package\t" p "\t" i "\t" $2 }'
family=$(dpkg-query -W -f '${Package} ' 'nvidia-*' 'libnvidia-*' 'libcuda1' 2>/dev/null) || :
# shellcheck disable=SC2086
[ -z "$all$family" ] || apt-cache madison $all $family 2>/dev/null | while IFS=' |' read -r p v _; do
  printf 'available\t%s\t%s\n' "$p" "$v"
done
dpkg-query -W -f '${Package}\t${db:Status-Abbrev}\t${Version}\n' 'nvidia-*' 'libnvidia-*' 'libcuda1' 'cuda-drivers*' 2>/dev/null |
  while IFS="$tab" read -r p s v; do
    case $s in
      ii* | hi*) printf 'family\t%s\t%s\n' "$p" "$v" ;;
      i* | h*) printf 'half\t%s\n' "$p" ;;
    esac
  done
dpkg-query -W -f '${Package}\t${db:Status-Abbrev}\n' 2>/dev/null | awk -F'\t' '$2 ~ /^.[FHUW]/ { print "half\t" $1 }'
apt-mark showhold 2>/dev/null | while read -r p; do printf 'held\t%s\n' "$p"; done
if grep -rqs 'compute/cuda/repos' /etc/apt/sources.list /etc/apt/sources.list.d; then printf 'repo\tnvidia\n'; fi
if [ -x /usr/bin/nvidia-uninstall ]; then printf 'runfile\tyes\n'; fi
if command -v mokutil >/dev/null 2>&1 && [ -r /var/lib/dkms/mok.pub ] &&
  mokutil --test-key /var/lib/dkms/mok.pub 2>/dev/null | grep -q 'already enrolled'; then
  printf 'key\tenrolled\n'
fi
)sh";

}  // namespace

Question driver_question(const Knowledge& knowledge) {
  std::set<std::string> names;
  for (const Value& row : knowledge.file("gpu").value("packages", Value::array())) {
    names.insert(row.at("module").get<std::string>());
    for (const Value& one : row.at("others")) names.insert(one.get<std::string>());
  }
  return {.key = "driver",
          .script = "names=" + shell_quote(join({names.begin(), names.end()}, " ")) + "\n" + kScript,
          .deadline = std::chrono::minutes(1)};
}

DriverState parse_driver_state(const std::string& out) {
  DriverState state;
  const auto text = [](const std::string& word) { return word == "(none)" ? std::string() : word; };
  for (const std::string& line : split_lines(out)) {
    const std::vector<std::string> f = split(line, '\t');
    if (f.size() < 2) continue;
    if (f[0] == "apt") state.apt = f[1] != "no";
    if (f[0] == "half") state.half_installed.insert(f[1]);
    if (f[0] == "held") state.held.insert(f[1]);
    if (f[0] == "repo") state.nvidia_repo = true;
    if (f[0] == "runfile") state.run_file = true;
    if (f[0] == "key") state.key_enrolled = true;
    if (f[0] == "headers" && f.size() >= 3) state.headers[f[1]] = f[2] == "yes";
    if (f[0] == "family" && f.size() >= 3) state.family[f[1]] = f[2];
    if (f[0] == "available" && f.size() >= 3) state.available[f[1]].push_back(f[2]);
    if (f[0] != "package" || f.size() < 4) continue;
    state.packages[f[1]] = {text(f[2]), text(f[3])};
    const std::size_t at = f[1].find("-headers-");
    if (at != std::string::npos && !text(f[3]).empty()) state.header_packages[f[1].substr(at + 9)] = f[1];
  }
  return state;
}

}  // namespace millwright::gpu
