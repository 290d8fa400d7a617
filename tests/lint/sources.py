"""Which files of the repository the lint tests look at."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked(root=ROOT):
    """Files under version control, and those about to be; in an unpacked archive: all but build outputs."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True)
    if git.returncode == 0:
        names = [name for name in git.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")]
        names = [name for name in names if not name.startswith(("build/", ".git/"))]
    return sorted(name for name in names if (root / name).is_file() and not (root / name).is_symlink())


def text_of(name, root=ROOT):
    """The text of a file, or None for a binary one."""
    data = (root / name).read_bytes()
    return None if b"\0" in data else data.decode("utf-8", "replace")
