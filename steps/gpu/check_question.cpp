#include <charconv>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/check_judge.hpp"

namespace millwright::gpu {

namespace {

constexpr const char* kScript = R"sh(T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
tab=$(printf '\t')
cat >"$T/cuda.py" <<'PYTHON'
import ctypes
import sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, what, *arguments):
    error = getattr(cuda, name)(*arguments)
    if error:
        print("cuda", "done", error, what, 0, sep="\t")
        sys.exit()
call("cuInit", "cuInit", 0)
count = ctypes.c_int()
call("cuDeviceGetCount", "cuDeviceGetCount", ctypes.byref(count))
for number in range(count.value):
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    of = " of GPU %d" % number
    call("cuDeviceGet", "cuDeviceGet" + of, ctypes.byref(device), number)
    call("cuCtxCreate_v2", "cuCtxCreate" + of, ctypes.byref(context), 0, device)
    size = 1 << 20
    call("cuMemAlloc_v2", "cuMemAlloc" + of, ctypes.byref(memory), ctypes.c_size_t(size))
    call("cuMemsetD8_v2", "cuMemset" + of, memory, ctypes.c_ubyte(90), ctypes.c_size_t(size))
    back = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", "cuMemcpy" + of, back, memory, ctypes.c_size_t(size))
    if back.raw != b"Z" * size:
        print("cuda", "done", -1, "reading back" + of, 0, sep="\t")
        sys.exit()
    call("cuMemFree_v2", "cuMemFree" + of, memory)
    call("cuCtxDestroy_v2", "cuCtxDestroy" + of, context)
print("cuda", "done", 0, "-", count.value, sep="\t")
PYTHON
cuda=
if command -v python3 >/dev/null 2>&1 && python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; then
  (
    python3 "$T/cuda.py" >"$T/cuda.part" 2>/dev/null || :
    mv "$T/cuda.part" "$T/cuda"
  ) </dev/null >/dev/null 2>&1 &
  cuda=$!
fi
dmesg 2>/dev/null | grep -E 'NVRM|nvidia|vfio-pci|D3cold|BOOTFB' | sed 's/^\[[^]]*\] *//' | tail -n 300 |
  while IFS= read -r l; do printf 'log\t%s\n' "$l"; done
df -P -k /dev/shm 2>/dev/null | awk 'NR == 2 { print "shm\t" $2 }'
{ ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || :; } | awk '$1 == "libcuda.so.1" || $1 == "libnvidia-ml.so.1" { print $1, $NF }' |
  while read -r n f; do printf 'lib\t%s\t%s\n' "$n" "$(readlink -f "$f")"; done
for g in /sys/kernel/iommu_groups/*; do
  [ -r "$g/type" ] || continue
  read -r t <"$g/type"
  printf 'group\t%s\t%s\n' "${g##*/}" "$t"
done
if command -v lspci >/dev/null 2>&1; then
  lspci -vvv 2>/dev/null | awk '/^[0-9a-f]/ { a = $1 } /ACSCtl:/ && /ReqRedir\+/ { print "acs\t" a }'
fi
if [ -z "$cuda" ]; then
  printf 'cuda\tnone\t0\t-\t0\n'
else
  n=0
  while [ ! -e "$T/cuda" ] && [ "$n" -lt 600 ]; do
    n=$((n + 1))
    sleep 0.1 2>/dev/null || { sleep 1; n=$((n + 9)); }
  done
  if [ -s "$T/cuda" ]; then
    cat "$T/cuda"
  elif [ -e "$T/cuda" ]; then
    printf 'cuda\tnone\t0\t-\t0\n'
  else
    kill -9 "$cuda" 2>/dev/null || :
    printf 'cuda\tlate\t0\t-\t0\n'
  fi
fi
)sh";

int number(const std::string& text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace

Question check_question() { return {.key = "check", .script = kScript, .deadline = std::chrono::minutes(2)}; }

CheckAnswer parse_check(const std::string& out) {
  CheckAnswer seen;
  seen.cuda_state = "none";
  for (const std::string& line : split_lines(out)) {
    const std::vector<std::string> f = split(line, '\t');
    if (f[0] == "log" && f.size() >= 2) seen.kernel_log.push_back(line.substr(4));
    if (f[0] == "shm" && f.size() >= 2) seen.shm_kib = static_cast<std::uint64_t>(std::max(0, number(f[1])));
    if (f[0] == "lib" && f.size() >= 3) seen.libraries[f[1]] = f[2];
    if (f[0] == "group" && f.size() >= 3) seen.group_types[number(f[1])] = f[2];
    if (f[0] == "acs" && f.size() >= 2) seen.redirecting_bridges.push_back(f[1]);
    if (f[0] == "cuda" && f.size() >= 5) {
      seen.cuda_state = f[1];
      seen.cuda_error = number(f[2]);
      seen.cuda_call = f[3];
      seen.cuda_count = number(f[4]);
    }
  }
  return seen;
}

}  // namespace millwright::gpu
