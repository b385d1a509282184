"""The board's own account of its boot, asked at its prompt and compared.

Each answer ends with the MD5 of its text, so a damaged one is known, and asked for once more. It is no better clock
than the stamps: the answer's way, and the kernel's steps of 10 ms (USER_HZ), leave ± 10 to 50 ms.

Sources: proc(5) for stat, uptime and mountinfo; systemctl(1); dmesg(1), whose `-r` BusyBox has, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import asdict, evolve, field, frozen

from lab.benchmarks.boot.records import EFI_START, START, MomentLike
from lab.benchmarks.boot.timeline import DRIFT, TimeLine
from lab.errors import BoardlabError, BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag

CLOCK_PATTERN: Final = r"\d\.\d\d \d"  # in /proc/uptime, which an answer begins with
ERRORS_KEPT: Final = 20
# util-linux before 2.40 loses the facility with -r alone, and shows a program's line as the kernel's; BusyBox has no
# -S.
DMESG: Final = "{ dmesg -Sr || dmesg -r; } 2>/dev/null"
# Zones and cooling devices (Documentation/driver-api/thermal/sysfs-api.rst), and sensors of the board
# (Documentation/hwmon/sysfs-interface.rst).
THERMAL: Final = (
    "/sys/class/thermal/t*/temp /sys/class/thermal/c*/type /sys/class/thermal/c*/cur_state "
    "/sys/class/hwmon/h*/t*_input"
)
# Few characters and few programs: each program costs a slow board some 10 ms, and so do 30 characters. Any of them may
# fail or be missing. The clock comes at once; the shell and its parent are looked at, since one of them was the
# prompt's program. The last part counts the lines that the kernel logged in each second, by level, e.g. "120 <6>[
# 3".
_BEGIN: Final = "{ cd /proc;"
_END: Final = "} 2>/dev/null|tee /dev/tty|md5sum"
_PROCESSES: Final = r"cut -d\  -f1-7,22 uptime $$/stat $PPID/stat sys/kernel/random/boot_id sys/kernel/tainted;"
_FINGERPRINT: Final = 'grep -hE "^[^0-9]| / / " 1/comm cmdline version /etc/os-release self/mountinfo|md5sum;'
# The same as `THERMAL`, and more
_SHORT_THERMAL: Final = 'cd /sys/class;grep -H "" t*l/t*/temp t*l/c*/[tc]*e h*n/h*/t*_i*;'
_SYSTEMD: Final = (
    "systemctl is-system-running||systemctl --failed --no-legend --plain;"
    'systemctl show -pMainPID,NRestarts "*getty*.service";'
)
SOFTWARE: Final = (
    f'{_BEGIN} grep "" 1/comm cmdline version sys/kernel/printk /etc/os-release; grep " / / " self/mountinfo; dmesg '
    "-Sr >/dev/null && echo dmesg:-Sr; md5sum /sys/firmware/fdt /lib/modules/*/modules.dep; echo u-boot $(tr -d "
    f'"\\0" <device-tree/chosen/u-boot,version); {_SHORT_THERMAL}{_END}'
)

STEP_NS: Final = 10_000_000  # of /proc/uptime and of a process's start: 1/USER_HZ, truncated
HZ: Final = 100
KERNEL_STARTS: Final = (START, EFI_START, "first_printk")
LOST_LINES: Final = 3  # fewer may be parts of a line, which old kernels print and log in different ways
_URGENT: Final = 4  # lines at lower levels come even with `quiet`
LINES_KEPT: Final = 99  # of counts and errors of the kernel's log
_COUNT: Final = re.compile(r" *(\d{1,6}) (<(\d{1,3})>\[ *(\d{1,9}).*|\.\d{6}\])")
_STAMPED: Final = re.compile(r"\[ *(\d{1,9})(\.\d{6}\][^\r\n]*)")  # a program's line may be before it
# An oops, a warning, a soft lockup (Documentation/admin-guide/tainted-kernels.rst)
_TAINTS: Final = 1 << 7 | 1 << 9 | 1 << 14
_UBOOT: Final = "u-boot"
_OS_RELEASE: Final = "/etc/os-release"
_OS_NAMES: Final = ("NAME=", "VERSION=", "VERSION_ID=", "BUILD_ID=", "PRETTY_NAME=")
_DIGEST: Final = re.compile(r"([0-9a-f]{32}) [ *](\S+)")  # of md5sum
_THERMAL: Final = re.compile(r"(?:/sys/class/)?(?:thermal/(\w+)/(temp|type|cur_state)|hwmon/(hwmon\d+/temp\d+)_input)")
_SLOWS: Final = re.compile(r"cpu|processor|devfreq", re.IGNORECASE)  # in the type of a cooling device that is no fan
_UPTIME: Final = re.compile(r"(\d{1,9})\.(\d\d) \d+\.\d\d")
_PROCESS: Final = re.compile(r"(\d+) \((\S+)\) \S \d+ \d+ \d+ (-?\d+) (\d+)")
_BOOT_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MD5: Final = re.compile(r"([0-9a-f]{32})  -")
_UNIT: Final = re.compile(r"(MainPID|NRestarts)=(\d{1,9})")
_FAILED: Final = re.compile(r"(\S+\.\S+) +\S+ +failed ")


def facts_question(software: BoardSoftware, marks: Iterable[str]) -> str:
    """The command for a boot's facts, typed at the login's own shell.

    Args:
        software: of the board.
        marks: as of `BootKernelLog`.
    """
    pattern = "|".join(["^<[0-3]>.*", r"^<[0-9]*>\[ *[0-9]*", *(f"{mark[mark.index('.') :]}]" for mark in marks)])
    return (
        f"{_BEGIN}{_PROCESSES}{_FINGERPRINT}{_SHORT_THERMAL if software.has_thermal else ''}"
        f"{_SYSTEMD if software.init == 'systemd' else ''}"
        f'dmesg {software.dmesg}|grep -oE "{pattern}"|sort|uniq -c|head -n {LINES_KEPT};{_END}'
    )


def whole_text(lines: Sequence[str]) -> list[str] | None:
    """The lines of an answer whose digest is right; None: damaged, or without one."""
    match = _MD5.fullmatch(lines[-1].strip()) if lines else None
    return list(lines[:-1]) if match is not None and match[1] == _digest(lines[:-1]) else None


def with_digest(lines: Sequence[str]) -> list[str]:
    """An answer of a board that has no program for digests, with one."""
    return [*lines, f"{_digest(lines)}  -"]


def _digest(lines: Sequence[str]) -> str:
    return hashlib.md5("".join(f"{line}\n" for line in lines).encode(), usedforsecurity=False).hexdigest()


@frozen
class BoardSoftware:
    """Facts that cannot change within a boot.

    Attributes:
        fingerprint: by which a later boot knows that it has the same; None: the board has none.
        init: the name of process 1.
        level: below which lines go to the console; 0: unknown.
        dmesg: its options for a raw log.
        has_thermal: there is something that tells a temperature.
        names: name -> what runs, without what differs between two boots of the same.
    """

    fingerprint: str | None = None
    init: str = ""
    level: int = 0
    dmesg: str = "-r"
    has_thermal: bool = False
    names: Mapping[str, str] = field(factory=dict)


@frozen
class BoardFacts:
    """A board's own facts of its boot; empty or None: it does not say.

    Attributes:
        uptime_ns: of the kernel, CLOCK_BOOTTIME, truncated to `STEP_NS`.
        getty_ns: start of the prompt's program, the oldest on the shell's terminal that is no script; the same clock,
            truncated.
        boot_id: of this boot; each has another.
        state: `systemctl is-system-running`.
        failed: units of systemd that failed.
        restarts: how often systemd started the prompt's program again; None: no unit of a getty has that program.
        fingerprint: of the software.
        temperatures_c: thermal zone or sensor of hwmon -> its temperature.
        throttled: cooling devices that slow a processor down now.
    """

    uptime_ns: int | None = None
    getty_ns: int | None = None
    boot_id: str = ""
    state: str = ""
    failed: tuple[str, ...] = ()
    restarts: int | None = None
    taint: int | None = None
    fingerprint: str = ""
    temperatures_c: Mapping[str, float] = field(factory=dict)
    throttled: tuple[str, ...] = ()


@frozen
class LogFacts:
    """The kernel's log beside a console's text.

    Attributes:
        errors: lines at the levels emerg to err, the first `ERRORS_KEPT`.
        lost_lines: number of lines that the kernel's console let through, and that did not come.
        is_first: the kernel whose lines came first is the one that runs; False: unknown.
    """

    errors: tuple[str, ...] = ()
    lost_lines: int = 0
    is_first: bool = False


@frozen
class CrossCheck:
    """A board's facts on the console's time line.

    Attributes:
        zero_ns: earliest and latest instant of the kernel's time 0.
        login_ns: duration of the login before.
        took_ns: of all questions and answers.
    """

    facts: BoardFacts
    zero_ns: tuple[int, int]
    log: LogFacts = LogFacts()
    software: BoardSoftware = BoardSoftware()
    login_ns: int = 0
    took_ns: int = 0

    @property
    def flags(self) -> frozenset[Flag]:
        """Doubts of the boot's numbers."""
        facts, log = self.facts, self.log
        doubts = {
            Flag.KERNEL_ERRORS: bool(log.errors or facts.failed or (facts.taint or 0) & _TAINTS),
            Flag.CONSOLE_OVERRUN: log.lost_lines >= LOST_LINES,
            Flag.THROTTLED: bool(facts.throttled),
            Flag.PROMPT_REPEATED: bool(facts.restarts),
            Flag.NOT_CROSS_CHECKED: facts.restarts is None and self.software.init == "systemd",
        }
        return frozenset(flag for flag, holds in doubts.items() if holds)

    def is_first(self, split_ns: int) -> bool:
        """Return whether the running kernel is the one that started first.

        Args:
            split_ns: the last line of the first kernel; a second one began behind it.
        """
        return self.log.is_first or self.zero_ns[1] < split_ns

    def before_s(self, spoken: MomentLike | None) -> float:
        """Seconds from a kernel's line to the running kernel's time 0.

        0: it came behind.
        """
        before_ns = 0 if spoken is None else self.zero_ns[0] - spoken.t_ns
        return before_ns / 1e9 if before_ns > DRIFT * (self.facts.uptime_ns or 0) else 0.0

    def getty_starts_behind(self, t_ns: int) -> bool:
        """Return whether the prompt's program was started behind an instant.

        Then it is another one than at that instant.
        """
        if self.facts.getty_ns is None:
            return False
        return self.zero_ns[0] + self.facts.getty_ns - round(DRIFT * (self.facts.uptime_ns or 0)) > t_ns

    def time_line(self, start: MomentLike | None, prompt: MomentLike, line: TimeLine) -> TimeLine:
        """A boot's time line with the board's clock.

        An answer comes as soon as the clock is read, so its end is the likeliest instant; what it waits for is the
        same in all boots.

        Args:
            line: as far as the console tells; its `drawn` are seconds before the prompt.
        """
        way = (self.zero_ns[1] - self.zero_ns[0]) / 1e9
        line = evolve(line, way=way, begun=line.begun if self.log.is_first else None)
        zero_ns = self.zero_ns[1] - STEP_NS // 2
        zero = None if start is None else (zero_ns - start.t_ns) / 1e9
        if self.facts.getty_ns is None:
            return evolve(line, zero=zero)
        getty = (prompt.t_ns - zero_ns - self.facts.getty_ns) / 1e9
        drawn = (getty - before_s for before_s in line.drawn)
        # Before the one program that was started at the prompt, and before the kernel, something else wrote
        since_s = 0.0 if self.facts.restarts == 0 else -self.facts.getty_ns / 1e9
        drawn = (value for value in drawn if value + way >= since_s)
        return evolve(line, zero=zero, getty=getty, drawn=tuple(drawn))

    def document(self) -> dict[str, Any]:
        """The record for the attempt's details; durations are in s."""
        facts = {
            **asdict(self.facts),
            "init": self.software.init,
            "software": dict(self.software.names),
            "errors": self.log.errors,
        }
        lost = {"lost_lines": self.log.lost_lines} if self.log.lost_lines else {}
        known_facts = {name: value for name, value in facts.items() if value not in (None, "", (), {})}
        return {**known_facts, "login": self.login_ns / 1e9, "took": self.took_ns / 1e9, **lost}


def read_facts(text: Sequence[str]) -> BoardFacts | None:
    """Read a whole answer to `facts_question`, but for the kernel's log; None: it is none."""
    text = [line.rstrip() for line in text]  # BusyBox' cut leaves a delimiter
    uptime = _UPTIME.fullmatch(text[0]) if text else None
    if uptime is None:
        return None
    processes = [match.groups() for line in text if (match := _PROCESS.fullmatch(line))]
    terminal = processes[0][2] if processes else "0"
    starts = [(name.endswith("sh"), int(start)) for _, name, tty, start in processes if tty == terminal != "0"]
    at = next((number for number, line in enumerate(text) if _BOOT_ID.fullmatch(line)), len(text))
    taint = next(iter(text[at + 1 : at + 2]), "")
    named = {
        name: value.strip() for name, _, value in (line.partition(":") for line in text) if _THERMAL.fullmatch(name)
    }
    digests = [match[1] for line in text if (match := _MD5.fullmatch(line))]
    return BoardFacts(
        uptime_ns=int(uptime[1] + uptime[2]) * STEP_NS,
        getty_ns=min(starts)[1] * (10**9 // HZ) if starts else None,
        boot_id=text[at] if at < len(text) else "",
        state=next((line for line in text if re.fullmatch(r"[a-z]+", line)), ""),
        failed=tuple(match[1] for line in text if (match := _FAILED.match(line))),
        restarts=_restarts(text, {pid for pid, *_ in processes}),
        taint=int(taint) if taint.isdigit() else None,
        fingerprint=digests[0] if digests else "",
        temperatures_c=_temperatures(named),
        throttled=_throttled(named),
    )


def _restarts(text: Iterable[str], pids: Collection[str]) -> int | None:
    """The restarts of the unit of one of these processes; None: unknown."""
    unit: dict[str, str] = {}
    for line in text:  # units are apart by an empty line
        match = _UNIT.fullmatch(line)
        unit = {**unit, match[1]: match[2]} if match else {}
        if unit.get("MainPID") in pids and "NRestarts" in unit:
            return int(unit["NRestarts"])
    return None


def zero_of(facts: BoardFacts, asked_ns: int, answer: MomentLike) -> tuple[int, int] | None:
    """Earliest and latest instant of the kernel's time 0: the board read its clock between question and answer."""
    if facts.uptime_ns is None:
        return None
    latest_ns = answer.t_ns - facts.uptime_ns
    return min(asked_ns - facts.uptime_ns - STEP_NS, latest_ns), latest_ns


def read_log(text: Sequence[str], console: str, level: int, marks: Collection[str] = ()) -> LogFacts:
    """Read the kernel's log in a whole answer to `facts_question`.

    Args:
        console: the text that came up to the question.
        level: as of `BoardSoftware`.
        marks: that the question asked for.
    """
    counts = [match for line in text if (match := _COUNT.fullmatch(line))]
    logged = "\n".join(match[2] for match in counts)
    marks_there = [f"{mark[mark.index('.') :]}]" in logged for mark in marks]
    errors = (match[2] for match in counts if match[3] and match[2].rstrip()[-1:] and "]" in match[2])
    return LogFacts(
        errors=tuple(errors)[:ERRORS_KEPT],
        lost_lines=_lost_lines(_lines_per_second(counts, level), console),
        is_first=len(marks_there) > 1 and all(marks_there),
    )


def read_software(text: Sequence[str]) -> BoardSoftware:
    """Read a whole answer to `SOFTWARE`."""
    values: dict[str, str] = {}
    for line in text:
        name, _, value = line.partition(":")
        if name != _OS_RELEASE:
            values.setdefault(name, value.strip())
        elif value.startswith(_OS_NAMES):
            values[name] = f"{values.get(name, '')} {value}".strip()
    return BoardSoftware(
        init=values.get("1/comm", ""),
        level=_console_level(values),
        dmesg=values.get("dmesg", "-r"),
        has_thermal=any(map(_THERMAL.fullmatch, values)),
        names=_software(values, text),
    )


def _lost_lines(logged: Mapping[int, tuple[int, int]], console: str) -> int:
    """Number of logged lines that did not come.

    Only seconds before one count in which a line came that is not urgent: start-up scripts make the console quiet, and
    lines may still wait for it. A line that came twice, as with an early console, counts once: so it does in the
    answer.
    """
    came = Counter(int(second) for second, _ in set(_STAMPED.findall(console)))
    until = max((second for second, (_, urgent) in logged.items() if came[second] > urgent), default=0)
    return sum(max(0, count - came[second]) for second, (count, _) in logged.items() if second < until)


def read_thermal(lines: Iterable[str]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Temperatures in °C, and cooling devices that slow a processor down.

    Args:
        lines: of `grep -H "" THERMAL`.
    """
    values = {name: text.strip() for name, _, text in (line.strip().partition(":") for line in lines)}
    return _temperatures(values), _throttled(values)


def _thermal(found: Mapping[str, str], what: str) -> dict[str, str]:
    """Thermal zone, cooling device or sensor -> what it says."""
    matches = ((_THERMAL.fullmatch(name), text) for name, text in found.items())
    return {
        match[1] or match[3]: text for match, text in matches if match is not None and (match[2] or "temp") == what
    }


def _temperatures(found: Mapping[str, str]) -> dict[str, float]:
    readings = _thermal(found, "temp").items()
    return {zone: int(text) / 1000 for zone, text in readings if re.fullmatch(r"-?\d{1,6}", text)}


def _throttled(found: Mapping[str, str]) -> tuple[str, ...]:
    states, types = _thermal(found, "cur_state"), _thermal(found, "type")
    active = (name for name, state in states.items() if state.isdigit() and int(state))
    return tuple(types[name] for name in active if _SLOWS.search(types.get(name, "")))


def _console_level(found: Mapping[str, str]) -> int:
    """The level below which lines went to the console; 0: unknown.

    The fourth number of printk is that of the kernel's configuration. The first one is of no use: a login changes it.
    """
    levels = [int(number) for number in found.get("sys/kernel/printk", "").split()[3:4] if number.isdigit()]
    words = found.get("cmdline", "").split()
    quiet = [_URGENT for word in words if word == "quiet"]
    return (
        min([*levels, *quiet, *(int(word[9:]) for word in words if re.fullmatch(r"loglevel=\d", word))])
        if levels
        else 0
    )


def _lines_per_second(counts: Iterable[re.Match[str]], level: int) -> dict[int, tuple[int, int]]:
    """Second -> number of lines below a level, and of urgent ones."""
    lines_by_second: dict[int, tuple[int, int]] = {}
    for match in counts:
        if match[3]:
            count, second, of = int(match[1]), int(match[4]), int(match[3]) & 7  # the other bits are the facility's
            before = lines_by_second.get(second, (0, 0))
            lines_by_second[second] = (before[0] + count * (of < level), before[1] + count * (of < _URGENT < level))
    return lines_by_second


def _software(found: Mapping[str, str], lines: Sequence[str]) -> dict[str, str]:
    """The software that the answers name."""
    mounted = next((line for line in lines if line[:1].isdigit() and " - " in line), "")
    front, _, back = mounted.partition(" - ")
    # `/dev/root` names no partition. A card's number may change from boot to boot, and takes 8 minors or more
    # (Documentation/admin-guide/devices.txt, major 179; CONFIG_MMC_BLOCK_MINORS)
    card = re.search(r" 179:(\d{1,7}) ", front)
    digests = {match[2]: match[1] for line in lines if (match := _DIGEST.fullmatch(line))}
    names = {
        "uboot": next((line[len(_UBOOT) :].strip() for line in lines if line.startswith(_UBOOT)), ""),
        "kernel_build": found.get("version", ""),
        "init": found.get("1/comm", ""),
        "command_line": found.get("cmdline", ""),
        "os_release": found.get(_OS_RELEASE, ""),
        "root_options": " ".join([*front.split()[5:6], *back.split()]),
        "root_partition": str(int(card[1]) % 8) if card else "",
        "device_tree": digests.get("/sys/firmware/fdt", ""),
        "modules": " ".join(digest for path, digest in digests.items() if path.endswith("/modules.dep")),
    }
    return {name: text for name, text in names.items() if text}


# The device tree may have a seed
_FIXED: Final = ("uboot", "kernel_build", "init", "command_line", "os_release", "root_options", "modules")
_SICK: Final = "maintenance"  # of systemctl: the rescue or emergency target


def same_software(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two documents are of boots of one software, as far as they say."""
    software, others = (document.get("software") or {} for document in (one, other))
    return all(software.get(name) == others.get(name) for name in _FIXED)


def contradictions(
    check: CrossCheck,
    start: MomentLike | None,
    spoken: MomentLike | None,
    prompt: MomentLike,
    known: Sequence[Mapping[str, Any]],
) -> Iterator[BoardlabError]:
    """Facts of the board that no reading of its boot agrees with.

    Args:
        start: of the kernel; None: the boot counts from another moment.
        spoken: the first moment that a kernel prints behind its time 0; None: none is known, or the kernel is known to
            have started once. Until its clock source is there, a kernel loses ticks while it prints: its time 0 seems
            some 0.1 s late, on a busy emulator up to 0.5.
        known: documents of the run's other good boots of the same medium.
    """
    facts = check.facts
    if facts.boot_id and facts.boot_id in {earlier.get("boot_id") for earlier in known}:
        yield BoardTransientError(
            f"the board did not boot: its boot_id {facts.boot_id} is that of a cycle before. Was its power "
            "cut at all?",
            failure="not_rebooted",
        )
    yield from _another_software(check.software.names, known)
    if facts.state == _SICK:
        yield BoardTransientError(
            f"the board came up in systemd's state {facts.state!r}, not in its usual one; failed: "
            f"{', '.join(facts.failed) or 'nothing'}. Look at its log for what a service lacked",
            failure="emergency_mode",
        )
    drift_ns = round(DRIFT * (facts.uptime_ns or 0))  # of two crystals, since the kernel's start
    early_ns = 0 if start is None else start.t_ns - start.uncertainty_ns - check.zero_ns[1]
    if early_ns > drift_ns:
        yield LabTransientError(
            f"the kernel ran {early_ns / 1e9:.2f} s before the text that was taken as its start: this host stamped "
            "that text late, or it is no start of a kernel. Look at the host's load, then at the recording",
            failure="stamps_uncertain",
        )
    if spoken is not None and (before_s := check.before_s(spoken)):
        yield BoardTransientError(
            f"the kernel that runs is a second one (a restart or kexec in the boot): {spoken.text.strip()!r} came "
            f"{before_s:.2f} s before its time 0",
            failure="second_kernel",
        )
    if facts.getty_ns is not None and prompt.t_ns < check.zero_ns[0] + facts.getty_ns - drift_ns:
        before_s = (check.zero_ns[0] + facts.getty_ns - prompt.t_ns) / 1e9
        yield TestTransientError(
            f"the text {prompt.text.strip()!r} came {before_s:.2f} s before the program that prints the prompt was "
            "started: something else printed it. Make the type's `login` pattern stricter",
            failure="prompt_not_real",
        )


def _another_software(software: Mapping[str, str], known: Sequence[Mapping[str, Any]]) -> Iterator[BoardlabError]:
    """Software that the run's other boots of this medium did not have."""
    before: Mapping[str, str] = next(
        (earlier["software"] for earlier in known if isinstance(earlier.get("software"), Mapping)), {}
    )
    for name in (*_FIXED, "root_partition"):  # of which earlier runs say nothing
        if software.get(name) and before.get(name) and software[name] != before[name]:
            yield LabTransientError(
                f"another {name.replace('_', ' ')} than in this run's boots before: {software[name]!r} now, "
                f"{before[name]!r} then. A run is of one software: put the old one back, or measure the new one in a "
                "run of its own",
                failure="software_changed",
            )
