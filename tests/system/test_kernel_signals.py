"""Edges and frames of a kernel that has gpio-sim and vcan, in QEMU; this host's root is the guest's, read-only by 9p.

Debian's kernels have no gpio-sim, Ubuntu's have.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.driver_guest import IMAGE, KERNEL, MIRROR, MODULES, MORE, PACKAGES, PROGRAM
from support.measuring_lab import ROOT

from lab.virtual.images import cache, debian, filetree, tools
from lab.virtual.images.debian import AptRoot
from lab.virtual.images.filetree import Directory, RegularFile

pytestmark = pytest.mark.soak

DEADLINE_S = 3000  # of the guest, by TCG beside busy programs: not every host's KVM runs it
IN_ORDER = {
    **dict.fromkeys(("netfs", "9pnet", "9pnet_virtio", "9p", "can", "can-raw"), MODULES),
    **dict.fromkeys(("can-dev", "vcan", "gpio-sim"), MORE),
}
SHELL = "bin/busybox"
INIT = f"""#!/{SHELL} sh
/{SHELL} --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for each in {" ".join(IN_ORDER)}; do insmod /$each.ko; done
mount -t configfs config /sys/kernel/config
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro root /host
for each in proc sys dev; do mount --rbind /$each /host/$each; done
out=$(sed 's/.* out=//' /proc/cmdline)
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out "/host$out"
chroot /host /bin/sh "$out/go" > "/host$out/log" 2>&1
poweroff -f
"""


def build(folder: Path) -> Mapping[str, object]:
    """Fill a folder of the cache with a kernel and what it begins with."""
    with tempfile.TemporaryDirectory(prefix="boardlab-kernel-") as work:
        found = Path(work)
        apt = AptRoot(found / "apt", "bookworm", "amd64")
        apt.update()
        debian.extract(apt.download("busybox-static")["busybox-static"], {"(usr/)?bin/busybox": found / "busybox"})
        apt.mirror = MIRROR
        packages = apt.download_known(PACKAGES)
        debian.extract(packages[IMAGE], {f"boot/vmlinuz-{KERNEL}": folder / "vmlinuz"})
        for package in (MODULES, MORE):
            wanted = [name for name, its in IN_ORDER.items() if its == package]
            debian.extract(packages[package], {f".*/{name}\\.ko\\.zst": found / f"{name}.zst" for name in wanted})
        tree = {
            SHELL: RegularFile((found / "busybox").read_bytes(), 0o755),
            "init": RegularFile(INIT.encode(), 0o755),
            **{name: Directory() for name in ("proc", "sys", "dev", "host")},
            **{f"{name}.ko": RegularFile(tools.run(["zstd", "-dc", found / f"{name}.zst"])) for name in IN_ORDER},
        }
        (folder / "initrd.gz").write_bytes(filetree.build(tree))
    return {"kernel": KERNEL}


@pytest.mark.timeout(DEADLINE_S + 600)
def test_the_readers_say_the_truth_of_a_kernels_edges_and_frames(tmp_path: Path) -> None:
    assert shutil.which(PROGRAM), "apt install qemu-system-x86"
    recipe = cache.recipe_hash(init=INIT, packages=[each.sha256 for each in PACKAGES])
    images = cache.obtain("kernel-signals", recipe, build, root=cache.default_root(), report=print)
    # Captured output would be in a file without a name, which 9p does not keep.
    words = ("-m pytest --noconftest -c /dev/null -p no:cacheprovider -s -rA", f"--junit-xml={tmp_path}/junit.xml")
    (tmp_path / "go").write_text(
        f"cd {ROOT} && HOME={tmp_path} TMPDIR={tmp_path} PATH=$PATH:/usr/sbin PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "
        f"PYTHONPATH={ROOT} {sys.executable} {' '.join(words)} {ROOT}/tests/support/kernel_signals.py\n"
    )
    share = "security_model=none,multidevs=remap"
    command = [
        *(PROGRAM, "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nodefaults", "-no-reboot", "-display", "none"),
        *("-kernel", str(images / "vmlinuz"), "-initrd", str(images / "initrd.gz"), "-serial", "stdio"),
        # A busy host keeps the timer's interrupts from an emulated processor; the kernel takes that for a broken one.
        *("-append", f"console=ttyS0 quiet no_timer_check panic=-1 out={tmp_path}"),
        *("-virtfs", f"local,path=/,mount_tag=root,readonly=on,{share}"),
        *("-virtfs", f"local,path={tmp_path},mount_tag=out,{share}"),
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=DEADLINE_S)
    log = tmp_path / "log"
    assert log.exists(), (done.stdout + done.stderr)[-4000:].decode(errors="replace")
    report = log.read_text()
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot().iter("testsuite")
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": counts["tests"], "failures": 0, "errors": 0, "skipped": 0}, report[-4000:]
    assert counts["tests"] > 0
