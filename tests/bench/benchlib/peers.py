"""Ansible and Mitogen for the benches, in a virtual environment of their own under the user's cache folder."""

import os
import pathlib
import subprocess
import sys

# The newest that the package index offers for this Python (3.11 of Debian 12; Ansible 2.20 needs 3.12).
ANSIBLE = "2.19.14"
MITOGEN = "0.3.54"


class Peers:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ansible_playbook = self.folder / "bin/ansible-playbook"

    @property
    def mitogen_strategies(self):
        return next(self.folder.glob("lib/python3*/site-packages/ansible_mitogen/plugins/strategy"))


def install(say):
    """Makes the environment once; the package index is the one that pip is configured for."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "millwright/bench" / f"peers-{ANSIBLE}-{MITOGEN}-py{sys.version_info[0]}.{sys.version_info[1]}"
    peers = Peers(folder)
    if not (folder / "complete").exists():
        say(f"installing ansible-core {ANSIBLE} and mitogen {MITOGEN} into {folder}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", f"ansible-core=={ANSIBLE}", f"mitogen=={MITOGEN}"],
                       check=True)
        (folder / "complete").touch()
    return peers
