"""Storage programs: filesystem_tests, fio, dd, and file system tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool, complain, drawn, option, play
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams

_BUSY_BUS = 0.9  # of what a bus can carry
_SMALL = (
    *("flash_eraseall", "ubiattach", "ubidetach", "ubimkvol", "losetup", "rmdir", "fsck"),
    *("mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mkfs.vfat"),
)


def _mount(session: LoginSession, arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    """Note the mounted device for the tests on it."""
    yield from ()
    words = [word for word in arguments[1:] if word.startswith(("/dev/", "ubi"))]
    kind = option(arguments, "-t")
    if arguments[0] == "mount" and words and kind:
        device = words[0]
        number = int(device[11]) if device.startswith("/dev/mmcblk") else -1
        medium = session.computer.model.mmc_media.get(number, "nand")
        session.kernel.settings |= {"mounted": medium, "filesystem": kind}
    return 0


def _mounted(session: LoginSession) -> dict[str, str]:
    settings = session.kernel.settings
    return {"medium": settings.get("mounted", "sd"), "filesystem": settings.get("filesystem", "ext4")}


def _on_medium(session: LoginSession, metric: str, params: Mapping[str, str]) -> float:
    """A drawn rate (MB/s) that the medium's bus can carry; a relative's figure may be of another medium."""
    rate = drawn(session, metric, 20.0, **params)
    media = session.computer.model.board.media
    most = media[params["medium"]].mb_s if params["medium"] in media else 0.0
    return min(rate, _BUSY_BUS * most) if most else rate


def _files(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    mode = "write" if "-write" in arguments else "read"
    size = option(arguments, "-buffer_size", "102400")
    params = {**_mounted(session), "buffer": size, "direction": mode}
    rate = _on_medium(session, "storage.file.throughput", params)
    load = drawn(session, "storage.file.cpu_load", 5.0, **params)
    text = (
        "|TEST START|filesystem_tests|\n|TRACE LOG|Parameters      : |\n"
        f"|TRACE LOG||PERFDATA|bsize:{size}|iomode:{mode}|throughput:{rate:.2f}MB/S|cpuload:{load:.2f}%||\n"
        "|TEST RESULT|PASS|filesystem_tests|\n|TEST END|filesystem_tests|\n"
    )
    return (yield from play(session, streams, text, 100 / rate))


def _fio(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = dict(word.lstrip("-").split("=", 1) for word in arguments if "=" in word)
    mode, size = words.get("rw", "write"), words.get("blocksize", "4k")
    params = {**_mounted(session), "buffer": size, "direction": mode}
    rate = _on_medium(session, "storage.fio.throughput", params)
    session.kernel.settings["load"] = f"{drawn(session, 'storage.fio.cpu_load', 2.0, **params):.2f}"
    binary, decimal = _rate(rate / 1.048576, "Mi", "Ki", 1024), _rate(rate, "M", "k", 1000)
    seconds = float(words.get("runtime", "60"))
    moved = f"io={rate * seconds / 1.048576:.0f}MiB ({rate * seconds:.0f}MB), run={seconds * 1000:.0f}-{seconds * 1000:.0f}msec"
    text = (
        f"boardlab: (g=0): rw={mode}, bs=(R) {size}-{size}, (W) {size}-{size}, (T) {size}-{size}, ioengine=libaio, iodepth=4\n"
        f"fio-3.36\nStarting 1 process\n\nboardlab: (groupid=0, jobs=1): err= 0: pid=1204: Wed Jan  8 18:24:01 2025\n"
        f"  {mode}: IOPS={rate * 10:.0f}, BW={binary} ({decimal})({rate * 57:.0f}MiB/60001msec)\n"
        f"\nRun status group 0 (all jobs):\n{mode.upper():>7}: bw={binary} ({decimal}), {binary}-{binary} ({decimal}-{decimal}), {moved}\n"
    )
    return (yield from play(session, streams, text, seconds))


def _rate(value: float, unit: str, smaller: str, step: int) -> str:
    """Three significant digits, as fio prints them; the smaller unit below ten."""
    if value < 10:
        return f"{value * step:.0f}{smaller}B/s"
    return f"{value:.1f}{unit}B/s" if value < 100 else f"{value:.0f}{unit}B/s"


def _dd(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = dict(word.split("=", 1) for word in arguments[1:] if "=" in word)
    source, target = words.get("if", ""), words.get("of", "")
    size = _bytes(words.get("bs", "512")) * int(words.get("count", "1"))
    seconds = size / 170e6
    on_scratch = next((way for way, place in (("write", target), ("read", source)) if place.startswith("/mnt/")), "")
    if on_scratch:
        size = size if on_scratch == "write" else int(session.kernel.settings.get("copied", "0"))
        session.kernel.settings["copied"] = str(size)
        params = {**_mounted(session), "buffer": words["bs"], "direction": on_scratch}
        seconds = size / 1e6 / _on_medium(session, "storage.file.throughput", params)
    if source.startswith("/dev/mtd"):
        rate = drawn(session, "ospi.raw.throughput", 80.0, file="50", direction="read")
        seconds = size / 2**20 / rate
    elif session.files.read(session.path(source)) is None:
        return (yield from complain(streams, f"dd: failed to open '{source}': No such file or directory"))
    if target and not target.startswith("/dev/null"):
        problem = yield from session.files.write(session.path(target), b"\0")
        if problem:
            return (yield from complain(streams, f"dd: {problem}"))
    records = size // _bytes(words.get("bs", "512"))
    text = f"{records}+0 records in\n{records}+0 records out\n{size} bytes ({size / 1e6:.0f} MB, {size / 2**20:.0f} MiB) copied"
    yield from play(
        session,
        Streams(streams.err, streams.err),
        f"{text}, {seconds:.6g} s, {size / 1e6 / seconds:.0f} MB/s\n",
        seconds,
    )
    return 0


def _bytes(text: str) -> int:
    factor = {"k": 1024, "M": 2**20}.get(text[-1], 1)
    return int(text.rstrip("kM")) * factor


def _done(_session: LoginSession, _arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    yield from ()
    return 0


TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(_SMALL, _done),
    **dict.fromkeys(("mount", "umount"), _mount),
    "dd": _dd,
    "filesystem_tests": _files,
    "fio": _fio,
}
