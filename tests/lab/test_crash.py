"""The controller is killed with SIGKILL anywhere in a run that uses every kind; then it is resumed or taken back.

Taken back, the node is as it was; resumed, it is as after an undisturbed run. MILLWRIGHT_CRASH_ROUNDS says how many
instants (20, the same each time; ./check --nightly: 200 others), MILLWRIGHT_CRASH_SEED repeats what a failure printed.
"""
import hashlib
import json
import os
import random
import subprocess
import threading
import time

import pytest
from conftest import HERE, Millwright, busybox_rootfs

NODE = "crash1"
PLAYBOOK = "playbooks/crash.yml"
ROUNDS = int(os.environ.get("MILLWRIGHT_CRASH_ROUNDS", "20"))
# Packages and a container in every run, or (in ./check, which has no hour for it) in every fifth.
FULL_EVERY = 1 if ROUNDS > 20 else 5
# The same instants each time, so that what fails fails for who changed something; others at night.
SEED = int(os.environ.get("MILLWRIGHT_CRASH_SEED", random.randrange(1 << 32) if ROUNDS > 20 else 47514))

BEFORE = r"""
set -eu
mkdir -p /srv/crash/old/sub /srv/repo /srv/packages
echo precious >/srv/crash/old/sub/file; chmod 2751 /srv/crash/old/sub; ln -s sub/file /srv/crash/old/link
echo before >/srv/crash/kept.conf; chmod 644 /srv/crash/kept.conf; chown games:games /srv/crash/kept.conf
ln -s old /srv/crash/current; echo plain >/srv/crash/tune
for p in one two three; do
  d=/srv/packages/crash-$p; mkdir -p "$d/DEBIAN" "$d/usr/bin" "$d/etc"
  printf '#!/bin/sh\necho %s\n' "$p" >"$d/usr/bin/crash-$p"; chmod 755 "$d/usr/bin/crash-$p"
  echo "$p" >"$d/etc/crash-$p.conf"; echo "/etc/crash-$p.conf" >"$d/DEBIAN/conffiles"
  printf 'Package: crash-%s\nVersion: 1.0\nArchitecture: all\nMaintainer: lab\nDescription: lab\n' "$p" >"$d/DEBIAN/control"
  [ "$p" != one ] || echo 'Depends: crash-two' >>"$d/DEBIAN/control"
  dpkg-deb --build --root-owner-group "$d" /srv/repo >/dev/null
done
cd /srv/repo
for f in *.deb; do
  dpkg-deb -f "$f"; printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$f" "$(stat -c %s "$f")" "$(sha256sum <"$f" | cut -d' ' -f1)"
done >Packages
apt-get update -qq; apt-get install -qqy nftables >/dev/null # what `container` would install, which takes long
rm -f /etc/apt/sources.list.d/* /etc/apt/sources.list
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
apt-get update -qq; apt-get install -qqy crash-three >/dev/null
printf '[Service]\nExecStart=/bin/sleep 1111\n' >/etc/systemd/system/crash-old.service
systemctl daemon-reload; systemctl start crash-old
"""

# What may differ without anybody having changed it: what the runs keep about themselves, what runs by the clock, when a
# model was verified, and the copies (/etc/group-) that groupadd and groupdel leave.
SNAPSHOT = r"""
roots='/srv /etc /opt /root /usr/local /var/lib/lxc /var/lib/millwright'
find $roots 2>/dev/null \( -path '/var/lib/millwright/runs' -o -path '/var/lib/millwright/audit.log*' -o -path /var/lib/millwright/lock \
  -o -path '/etc/*-' -o -path '/var/lib/millwright/models/*/.*.millwright' -o -path /etc/ld.so.cache -o -path /root/.local -o -path '/var/lib/lxc/*/rootfs/var/lib/millwright/runs' \
  -o -path '/var/lib/lxc/*/rootfs/var/lib/millwright/audit.log*' -o -path /var/lib/millwright -o -path /var/lib/millwright/cache \
  -o -path '/var/lib/lxc/*/rootfs/var/lib/millwright' -o -path '/var/lib/lxc/*/rootfs/var/lib/millwright/lock' \) \
  -printf '' -o -type f -printf '%p %y %m %u %g ' -exec sh -c 'sha256sum <"$1"' - {} \; -o -printf '%p %y %m %u %g %l\n' |
  grep -v -e '^/var/lib/millwright/runs/' -e '/rootfs/var/lib/millwright/runs/' | sort
dpkg-query -W -f 'package ${Package} ${Version} ${db:Status-Abbrev}\n'
apt-mark showmanual | sed 's/^/manual /'
systemctl list-units --all --plain --no-legend --type=service,timer,socket,mount | awk '{print "unit", $1, $2, $3}' |
  grep -v -E 'unit (session-|user|run-|run\\x2d|systemd-|apt-|dpkg-|e2scrub|fstrim|logrotate|man-db|getty|container-getty|console|motd|emergency|rescue|initrd|modprobe|ldconfig|first-boot|lxc-monitord|rc-local|ssh@|display|plymouth|auditd|syslog|kmod|.*not-found)' | sort
systemctl list-unit-files --plain --no-legend 'crash-*' 'millwright*' | awk '{print "file", $1, $2}'
for u in crash-old crash-new; do echo "runs $u $(tr '\0' ' ' 2>/dev/null </proc/$(systemctl show -p MainPID --value $u)/cmdline || echo no)"; done
awk '{print "mount", $2, $3}' /proc/self/mounts | grep -v '/run/user' | sort
lxc-ls -f -F NAME,STATE,IPV4
ip -o link show | awk '{print "link", $2}' | grep -v veth
nft list tables
"""

@pytest.fixture(scope="module")
def lab(make_lab):
    lab = make_lab("crash", 1)
    lab.ssh(NODE, "sh -s", input=BEFORE, timeout=300)
    return lab


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """By how much of the playbook runs: a model, and a root file system that boots within a second."""
    folder = tmp_path_factory.mktemp("crash")
    tar = busybox_rootfs(folder)
    (folder / "tiny.gguf").write_bytes(b"GGUF" + bytes(range(256)) * 4096)
    values = ["-e", json.dumps({"rootfs": str(tar), "model": str(folder / "tiny.gguf"),
                                "rootfs_sha256": hashlib.sha256(tar.read_bytes()).hexdigest()})]
    return {True: [*values, "-e", "full=true"], False: [*values, "-e", "full=false"]}


def snapshot(lab):
    return lab.ssh(NODE, SNAPSHOT).stdout.splitlines()


def differences(wanted, found):
    return [f"- {line}" for line in wanted if line not in set(found)] + \
        [f"+ {line}" for line in found if line not in set(wanted)]


def same(wanted, lab):
    if other := differences(wanted, snapshot(lab)):
        pytest.fail("the node is not as it should be:\n" + "\n".join(other))


class Killed:
    """One call of the program that is killed after its k-th event and a moment more."""

    def __init__(self, millwright, words, after, moment):
        self.lines = []
        self.process = subprocess.Popen(millwright.command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env=millwright.env, cwd=HERE)
        reached = threading.Event()

        def read():
            for line in self.process.stdout:
                self.lines.append(line)
                if len(self.lines) >= after:
                    reached.set()
            reached.set()

        reader = threading.Thread(target=read)
        reader.start()
        if not reached.wait(300):
            self.process.kill()
            pytest.fail("nothing more came:\n" + "".join(self.lines[-30:]))
        time.sleep(moment)
        self.process.kill()
        self.process.wait()
        reader.join()

    @property
    def run_id(self):
        ids = [json.loads(line)["run"] for line in self.lines if line.startswith("{")]
        return ids[0] if ids else None


class Game:
    def __init__(self, lab, inputs, folder, random_):
        self.lab, self.inputs, self.random = lab, inputs[True], random_
        self.owner = Millwright(lab, folder / "owner")
        self.folder = folder
        self.story = []

    def apply(self):
        return ["apply", PLAYBOOK, "-i", str(self.lab.inventory), "--json", *self.inputs]

    def back(self, run_id):
        """The words of a rollback, by the controller that ran it or by one that knows nothing."""
        words = ["rollback", run_id, "-i", str(self.lab.inventory), "--json", "-y"]
        if self.random.random() < 0.5:
            return self.owner, words
        stranger = Millwright(self.lab, self.folder / f"stranger{len(self.story)}")
        return stranger, [*words, "--from-node", NODE]

    def again(self, run_id):
        return self.owner, ["resume", run_id, "-i", str(self.lab.inventory), "--json", *self.inputs]

    def call(self, millwright, words):
        self.story.append(" ".join(words[:2] + words[-2:]))
        if self.random.random() < 0.25:  # and killed once more
            killed = Killed(millwright, words, self.random.randint(1, 25), self.random.random() * 0.3)
            self.story.append(f"killed again after {len(killed.lines)} lines")
        done = millwright.run(*words, timeout=300)
        # Killed before its first action, the node knows nothing of it, and there is nothing to take back.
        if done.code == 1 and "--from-node" in words and "knows no run" in done.out + done.err:
            return
        # Killed when it had just come to its end.
        if done.code == 1 and words[0] == "resume" and "there is nothing to go on with" in done.out + done.err:
            return
        done.expect(0)


def test_whatever_the_instant(lab, inputs, tmp_path):
    print(f"MILLWRIGHT_CRASH_SEED={SEED} MILLWRIGHT_CRASH_ROUNDS={ROUNDS}")
    game = Game(lab, inputs, tmp_path, random.Random(SEED))
    before = snapshot(lab)
    began = time.monotonic()
    after, events = {}, {}
    for full in (True, False):
        game.inputs = inputs[full]
        undisturbed = game.owner.run(*game.apply(), timeout=600).expect(0)
        events[full] = len(undisturbed.out.splitlines())
        after[full] = snapshot(lab)
        assert len(differences(before, after[full])) > 15, "the playbook does something"
        game.owner.run("rollback", "last", "-i", game.owner.inventory, "-y", "--json").expect(0)
        same(before, lab)
    for number in range(ROUNDS):
        full = number % FULL_EVERY == 0
        game.inputs = inputs[full]
        # Counted in events, so that on a slow machine the instants are the same.
        killed = Killed(game.owner, game.apply(), game.random.randint(1, events[full]), game.random.random() * 0.3)
        game.story = [f"round {number}: killed after {len(killed.lines)} of {events[full]} lines"]
        try:
            if killed.run_id is None:
                continue
            if game.random.random() < 0.5:
                game.call(*game.again(killed.run_id))
                same(after[full], lab)
            game.call(*game.back(killed.run_id))
            same(before, lab)
        except BaseException:
            print("\n".join(game.story), f"\nMILLWRIGHT_CRASH_SEED={SEED} MILLWRIGHT_CRASH_ROUNDS={ROUNDS}")
            print("".join(killed.lines[-5:]))
            raise
    print(f"{ROUNDS} instants in {time.monotonic() - began:.0f} s")
