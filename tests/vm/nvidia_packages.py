"""Debian packages with the names of NVIDIA's driver and fakegpu inside: what apt, dkms and the kernel do with them is real."""
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
DKMS = """PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
MAKE[0]="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/${{PACKAGE_NAME}}/${{PACKAGE_VERSION}}/build modules"
CLEAN="true"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
"""
# As debhelper's dh_dkms writes them.
POSTINST = "#!/bin/sh\nset -e\n[ \"$1\" != configure ] || /usr/lib/dkms/common.postinst nvidia {version} '' '' \"$2\"\n"
PRERM = "#!/bin/sh\nset -e\ncase $1 in remove | upgrade | deconfigure) dkms remove -m nvidia -v {version} --all || true ;; esac\n"
OTHERS = ("nvidia-smi", "libcuda1", "nvidia-modprobe", "nvidia-persistenced")


def build(folder, name, version, depends=""):
    """The package from what lies in `folder`; removes nothing."""
    control = folder / "DEBIAN"
    control.mkdir(parents=True, exist_ok=True)
    (control / "control").write_text(
        f"Package: {name}\nVersion: {version}-1\nArchitecture: amd64\nMaintainer: lab <lab@localhost>\n"
        + (f"Depends: {depends}\n" if depends else "") + "Description: stand-in\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", folder, folder.parent / f"{name}_{version}.deb"], check=True,
                   stdout=subprocess.DEVNULL)


def build_driver(folder, version):
    """nvidia-kernel-dkms and the rest of the family in this version, into `folder`/repo; returns that folder."""
    repo = folder / "repo"
    module = repo / f"module-{version}"
    source = module / f"usr/src/nvidia-{version}"
    source.mkdir(parents=True)
    text = (HERE / "guest/fakegpu/fakegpu.c").read_text()
    text = text.replace('#define VERSION "1.0"', f'#define VERSION "{version}"').replace("fakegpu", "nvidia")
    (source / "nvidia.c").write_text(text)
    (source / "Makefile").write_text("obj-m := nvidia.o\n")
    (source / "dkms.conf").write_text(DKMS.format(version=version))
    (module / "DEBIAN").mkdir()
    for script, content in (("postinst", POSTINST), ("prerm", PRERM)):
        (module / "DEBIAN" / script).write_text(content.format(version=version))
        (module / "DEBIAN" / script).chmod(0o755)
    build(module, "nvidia-kernel-dkms", version, "dkms")
    for name in OTHERS:
        folder_of = repo / f"{name}-{version}"
        if name == "nvidia-smi":
            (folder_of / "etc").mkdir(parents=True)
            (folder_of / "DEBIAN").mkdir()
            (folder_of / "etc/nvidia-lab.conf").write_text("# as it comes\n")
            (folder_of / "DEBIAN/conffiles").write_text("/etc/nvidia-lab.conf\n")
        build(folder_of, name, version)
    return repo


def index(repo):
    """The repository's Packages file."""
    out = subprocess.run(["dpkg-scanpackages", "-m", ".", "/dev/null"], cwd=repo, capture_output=True, text=True, check=True)
    (repo / "Packages").write_text(out.stdout)
