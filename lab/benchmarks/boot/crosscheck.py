"""Cross-check of a boot's moments with what the board itself knows after its prompt.

One command at the shell returns the board's clock, the start of the program at the prompt, its software and its kernel's
errors. It is no better clock than the stamps: the answer's way, and the kernel's steps of 10 ms (USER_HZ), leave ± 10 to 50 ms. So it
refutes what is wrong by more.

Sources: proc(5) for stat, uptime and mountinfo; systemctl(1); dmesg(1), whose `-r` BusyBox has, too.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import asdict, evolve, field, frozen

from lab.benchmarks.boot.records import EFI_START, START, MomentLike
from lab.errors import BoardlabError, BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag

CLOCK_MARK: Final = "@@"  # the answer's begin; the typed command has it in two parts, so its echo is none
ERRORS_KEPT: Final = 20
# util-linux before 2.40 loses the facility with -r alone, and shows a program's line as the kernel's; BusyBox has no -S.
DMESG: Final = "{ dmesg -Sr || dmesg -r; } 2>/dev/null"
# Zones and cooling devices (Documentation/driver-api/thermal/sysfs-api.rst), and sensors of the board (Documentation/hwmon/sysfs-interface.rst).
THERMAL: Final = "/sys/class/thermal/t*/temp /sys/class/thermal/c*/type /sys/class/thermal/c*/cur_state /sys/class/hwmon/h*/t*_input"
# Short commands: a console may lose characters of a long one. Few, and few programs: each costs a slow board some 0.1 s. Any of them may
# fail or be missing; BusyBox has no dmesg -l. The last one counts the different lines that the kernel logged in each second, by level,
# e.g. "120 <6>[    3".
QUESTIONS: Final = (
    'read -r u i </proc/uptime; echo "@""@$u $i"; read -r s </proc/self/stat; echo "$s"; '
    'grep -hE "[(](login|[a-z]*getty|-?[a-z]*sh)[)] . 1 " /proc/[0-9]*/stat',
    'cd /proc; grep "" 1/comm cmdline version sys/kernel/random/boot_id sys/kernel/tainted sys/kernel/printk /etc/os-release '
    f"{THERMAL} 2>/dev/null",
    '{ grep " / / " /proc/self/mountinfo; md5sum /sys/firmware/fdt /lib/modules/*/modules.dep; '
    'echo u-boot $(tr -d "\\0" </proc/device-tree/chosen/u-boot,version); '
    "systemctl is-system-running || systemctl --failed --no-legend --plain; } 2>/dev/null",
    f'm=$({DMESG}); echo "$m" | grep "^<[0-3]>" | head -n {ERRORS_KEPT}; '
    r'echo "$m" | sort -u | grep -o "^<[0-9]*>\[ *[0-9]*" | uniq -c',
)

STEP_NS: Final = 10_000_000  # of /proc/uptime and of a process's start: 1/USER_HZ, truncated
HZ: Final = 100
EARLY_NS: Final = (
    50_000_000  # how much sooner than its program a prompt may seem to come: the two clocks' rates over a boot
)
LATE_NS: Final = (
    3_000_000_000  # a getty prints its prompt 0.1 s (BusyBox) or 1.0 s (agetty) after its start; beyond that again
)
AGETTY_NS: Final = 1_000_000_000  # that agetty sleeps on a serial line before its first prompt
APART_NS: Final = 500_000_000  # from the run's other boots
GETTY_APART_NS: Final = (
    1_500_000_000  # the same of the getty: a busy board starts programs late, and a person's Enter comes later
)
ZERO_NS: Final = (
    4_000_000_000  # of the kernel's clock behind "Starting kernel": it unpacks itself, and sets up its clocks
)
# CLOCK_BOOTTIME counts jiffies until then, and loses those in which a slow console prints with interrupts off: that kernel's time 0
# seems late by at most the time until this line came. Form: Linux kernel/time/clocksource.c.
CLOCK_SWITCHED: Final = r"\] clocksource: Switched to clocksource "
KERNEL_STARTS: Final = (START, EFI_START, "first_printk")
LOST_LINES: Final = 3  # fewer may be parts of a line, which old kernels print and log in different ways
_MANY_LINES: Final = 20  # of a log that no other kernel has
_URGENT: Final = 4  # lines at lower levels come even with `quiet`
_COUNT: Final = re.compile(r"(\d{1,6}) <(\d{1,3})>\[ *(\d{1,9})")
_STAMPED: Final = re.compile(r"\[ *(\d{1,9})(\.\d{6}\][^\r\n]*)")  # a program's line may be before it
_KNOWN: Final = 3  # boots of the run, from which on its median says something
_TAINTS: Final = (
    1 << 7 | 1 << 9 | 1 << 14
)  # an oops, a warning, a soft lockup (Documentation/admin-guide/tainted-kernels.rst)
_UBOOT: Final = "u-boot"
_OS_RELEASE: Final = "/etc/os-release"
_OS_NAMES: Final = ("NAME=", "VERSION=", "VERSION_ID=", "BUILD_ID=", "PRETTY_NAME=")
_DIGEST: Final = re.compile(r"([0-9a-f]{32}) [ *](\S+)")  # of md5sum
_THERMAL: Final = re.compile(
    r"/sys/class/thermal/(\w+)/(temp|type|cur_state)|/sys/class/hwmon/(hwmon\d+/temp\d+)_input"
)
_SLOWS: Final = re.compile(r"cpu|processor|devfreq", re.IGNORECASE)  # in the type of a cooling device that is no fan
_STAT: Final = re.compile(r"(\d+) \((.*)\) (\S.*)", re.DOTALL)


@frozen
class BoardFacts:
    """A board's own facts of its boot; empty or None: it does not say.

    Attributes:
        uptime_ns: of the kernel, CLOCK_BOOTTIME, truncated to `STEP_NS`.
        getty_ns: start of the getty or login on the shell's terminal, else of a shell there that init started; the same clock, truncated.
        boot_id: of this boot; each has another.
        init: the name of process 1.
        state: `systemctl is-system-running`.
        failed: units of systemd that failed.
        errors: lines of the kernel at the levels emerg to err, the first `ERRORS_KEPT`.
        logged: second of the kernel's clock -> number of different lines that its console let through, and how many of them a
            quieter one lets through, too.
        software: name -> what runs, without what differs between two boots of the same.
        temperatures_c: thermal zone or sensor of hwmon -> its temperature. throttled: cooling devices that slow a processor down now.
    """

    uptime_ns: int | None = None
    getty_ns: int | None = None
    boot_id: str = ""
    init: str = ""
    state: str = ""
    failed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    taint: int | None = None
    logged: Mapping[int, tuple[int, int]] = field(factory=dict)
    software: Mapping[str, str] = field(factory=dict)
    temperatures_c: Mapping[str, float] = field(factory=dict)
    throttled: tuple[str, ...] = ()


@frozen
class CrossCheck:
    """A board's facts on the console's time line.

    Attributes:
        zero_ns: earliest and latest instant of the kernel's time 0.
        lost_lines: number of lines that the kernel's console let through, and that did not come.
        login_ns: duration of the login before. took_ns: of all questions and answers.
        same_log: as many lines came in each second as the kernel that runs has logged.
        switched_ns: when the first kernel's line `CLOCK_SWITCHED` came; None: it did not.
    """

    facts: BoardFacts
    zero_ns: tuple[int, int]
    lost_lines: int = 0
    same_log: bool = False
    switched_ns: int | None = None
    login_ns: int = 0
    took_ns: int = 0

    @classmethod
    def of(cls, facts: BoardFacts, asked_ns: int, answer: MomentLike, console: str = "") -> CrossCheck | None:
        """Relate the clocks: the board read its clock between question and answer.

        Args:
            console: its text up to the question.

        Returns: None: the board does not say its uptime.
        """
        if facts.uptime_ns is None:
            return None
        earliest = asked_ns - facts.uptime_ns - STEP_NS
        zero_ns = (min(earliest, answer.t_ns - facts.uptime_ns), answer.t_ns - facts.uptime_ns)
        return cls(facts, zero_ns, *_compare_log(facts.logged, console))

    @property
    def flags(self) -> frozenset[Flag]:
        """Doubts of the boot's numbers."""
        found = {
            Flag.NOT_CROSS_CHECKED: self.getty() is None,
            Flag.KERNEL_ERRORS: bool(self.facts.errors or self.facts.failed or (self.facts.taint or 0) & _TAINTS),
            Flag.CONSOLE_OVERRUN: self.lost_lines >= LOST_LINES,
            Flag.THROTTLED: bool(self.facts.throttled),
        }
        return frozenset(flag for flag, holds in found.items() if holds)

    def getty(self) -> tuple[int, int] | None:
        """Earliest and latest start of the prompt's program."""
        if self.facts.getty_ns is None:
            return None
        return self.zero_ns[0] + self.facts.getty_ns, self.zero_ns[1] + self.facts.getty_ns + STEP_NS

    def confirms(self, other: CrossCheck) -> bool:
        """Return whether two answers say the same of one boot."""
        one, two = (evolve(each.facts, uptime_ns=0, errors=(), taint=0, logged={}) for each in (self, other))
        one, two = (evolve(each, temperatures_c={}, throttled=()) for each in (one, two))
        overlap = self.zero_ns[0] <= other.zero_ns[1] + STEP_NS and other.zero_ns[0] <= self.zero_ns[1] + STEP_NS
        return one == two and overlap

    def started_once(self, moments: Sequence[MomentLike], went_on_ns: int) -> bool:
        """Return whether the running kernel is the one that started first.

        Args:
            went_on_ns: the last line that went on with the first kernel's clock; a second kernel began behind it.
        """
        first = next((moment for moment in moments if moment.name in KERNEL_STARTS), None)
        if first is None or self.is_late(first) or first.t_ns >= self.zero_ns[1] + EARLY_NS:
            return False
        return self.zero_ns[1] < went_on_ns

    def is_late(self, start: MomentLike, limit_ns: int = ZERO_NS) -> bool:
        """Return whether the kernel's time 0 is too late behind its start.

        Args:
            limit_ns: that it may be late, on a quiet console too.
        """
        latest_ns = max(start.t_ns + limit_ns, start.t_ns if self.switched_ns is None else self.switched_ns)
        return self.zero_ns[0] > latest_ns

    def document(self, start: MomentLike | None, prompt: MomentLike) -> dict[str, Any]:
        """The record for the attempt's details.

        Times are in s: `login` and `took` are durations, `zero` is behind the start of the kernel.
        """
        facts = {name: value for name, value in asdict(self.facts).items() if value not in (None, "", (), {})}
        facts.pop("logged", None)
        zero = {} if start is None else {"zero": (sum(self.zero_ns) / 2 - start.t_ns) / 1e9}
        getty = self.getty()
        behind = {} if getty is None else {"getty": (prompt.t_ns - sum(getty) / 2) / 1e9}
        lost = {"lost_lines": self.lost_lines} if self.lost_lines else {}
        cost = {"login": self.login_ns / 1e9, "took": self.took_ns / 1e9}
        return {**facts, **cost, **zero, **behind, **lost}


def _compare_log(logged: Mapping[int, tuple[int, int]], console: str) -> tuple[int, bool]:
    """Number of logged lines that did not come; True: others did.

    Only seconds before one count in which a line came that is not urgent: start-up scripts make the console quiet, and lines may
    still wait for it. A line that came twice, as with an early console, counts once: so it does in the answer.
    """
    came = Counter(int(second) for second, _ in set(_STAMPED.findall(console)))
    talked = [second for second, (_, urgent) in logged.items() if came[second] > urgent]
    until = max(talked, default=0)
    differ = [count - came[second] for second, (count, _) in logged.items() if second < until]
    lines = sum(count for second, (count, _) in logged.items() if second < until)
    return sum(max(0, each) for each in differ), lines >= _MANY_LINES and not any(differ)


def read_facts(answers: Sequence[Sequence[str]]) -> BoardFacts:
    """Read the answers to `QUESTIONS`, by lines; what is garbled or missing stays unknown."""
    clock, files, root, log = ([line.strip() for line in lines if line.strip()] for lines in answers)
    marked = next((number for number, line in enumerate(root) if line.split()[0] == _UBOOT), len(root))
    systemd = root[marked + 1 :]
    uptime = re.match(rf"{CLOCK_MARK}(\d{{1,9}})\.(\d\d) ", clock[0]) if clock else None
    stats = [stat for line in clock[1:] if (stat := _stat(line))]
    terminal = stats[0][1][4] if stats else "0"
    starts = [(name.endswith("sh"), int(fields[19])) for name, fields in stats[1:] if fields[4] == terminal != "0"]
    found: dict[str, str] = {}
    for line in files:
        name, _, text = line.partition(":")
        if name != _OS_RELEASE:
            found.setdefault(name, text.strip())
        elif text.startswith(_OS_NAMES):
            found[name] = f"{found.get(name, '')} {text}".strip()
    boot_id, taint = found.get("sys/kernel/random/boot_id", ""), found.get("sys/kernel/tainted", "")
    return BoardFacts(
        uptime_ns=int(uptime[1] + uptime[2]) * STEP_NS if uptime else None,
        getty_ns=min(starts)[1] * (10**9 // HZ) if starts else None,
        boot_id=boot_id if re.fullmatch(r"[0-9a-f-]{36}", boot_id) else "",
        init=found.get("1/comm", ""),
        state=systemd[0] if systemd and re.fullmatch(r"[a-z]+", systemd[0]) else "",
        failed=tuple(line.split()[0] for line in systemd[1:]),
        errors=tuple(line for line in log if line.startswith("<")),
        taint=int(taint) if taint.isdigit() else None,
        logged=_logged(log, _console_level(found)),
        software=_software(found, root[: marked + 1]),
        temperatures_c=_temperatures(found),
        throttled=_throttled(found),
    )


def read_thermal(lines: Iterable[str]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Temperatures in °C, and cooling devices that slow a processor down.

    Args:
        lines: of `grep -H "" THERMAL`.
    """
    found = {name: text.strip() for name, _, text in (line.strip().partition(":") for line in lines)}
    return _temperatures(found), _throttled(found)


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


def _logged(lines: Sequence[str], level: int) -> dict[int, tuple[int, int]]:
    """Second -> number of lines below a level, and of urgent ones."""
    found: dict[int, tuple[int, int]] = {}
    for match in filter(None, map(_COUNT.fullmatch, lines)):
        count, second, of = int(match[1]), int(match[3]), int(match[2]) & 7  # the other bits are the facility's
        before = found.get(second, (0, 0))
        found[second] = (before[0] + count * (of < level), before[1] + count * (of < _URGENT < level))
    return found


def _stat(line: str) -> tuple[str, list[str]] | None:
    """The name in /proc/PID/stat and the fields from the state on.

    The name may hold anything.
    """
    match = _STAT.fullmatch(line)
    fields = match[3].split() if match else []
    return (match[2], fields) if match and len(fields) > 19 and fields[19].isdigit() else None


def _software(found: Mapping[str, str], lines: Sequence[str]) -> dict[str, str]:
    """The software that the answers name."""
    mounted = next((line for line in lines if " - " in line), "")
    front, _, back = mounted.partition(" - ")
    digests = {match[2]: match[1] for line in lines if (match := _DIGEST.fullmatch(line))}
    names = {
        "uboot": next((line[len(_UBOOT) :].strip() for line in lines[-1:] if line.startswith(_UBOOT)), ""),
        "kernel_build": found.get("version", ""),
        "command_line": found.get("cmdline", ""),
        "os_release": found.get(_OS_RELEASE, ""),
        "root_options": " ".join([*front.split()[5:6], *back.split()]),
        "device_tree": digests.get("/sys/firmware/fdt", ""),
        "modules": " ".join(digest for path, digest in digests.items() if path.endswith("/modules.dep")),
    }
    return {name: text for name, text in names.items() if text}


# --- The judgement ---


_FIXED: Final = (
    "uboot",
    "kernel_build",
    "command_line",
    "os_release",
    "root_options",
    "modules",
)  # the device tree may have a seed
_SICK: Final = "maintenance"  # of systemctl: the rescue or emergency target


def contradictions(
    check: CrossCheck, start: MomentLike | None, prompt: MomentLike, known: Sequence[Mapping[str, Any]]
) -> Iterator[BoardlabError]:
    """Facts of the board that refute the moments.

    Args:
        start: of the kernel; None: the boot counts from another moment.
        known: documents of the run's other good boots of the same medium.
    """
    facts = check.facts
    if facts.boot_id and facts.boot_id in {one.get("boot_id") for one in known}:
        yield BoardTransientError(
            f"the board did not boot: its boot_id {facts.boot_id} is that of a cycle before. Was its power cut at all?",
            failure="not_rebooted",
        )
    yield from _another_software(facts.software, known)
    if facts.state == _SICK:
        yield BoardTransientError(
            f"the board came up in systemd's state {facts.state!r}, not in its usual one; failed: {', '.join(facts.failed) or 'nothing'}. "
            "Look at its log for what a service lacked",
            failure="emergency_mode",
        )
    if start is not None:
        late_ns = check.zero_ns[0] - start.t_ns
        early_ns = start.t_ns - check.zero_ns[1]
        if early_ns > EARLY_NS:
            yield LabTransientError(
                f"the kernel ran {early_ns / 1e9:.2f} s before the `{start.name}` that was taken: this host stamped that text late, or it is no start "
                "of a kernel. Look at the host's load, then at the recording",
                failure="stamps_uncertain",
            )
        if _is_late(check, start, known) and not check.same_log:
            yield BoardTransientError(
                f"the kernel that runs started {late_ns / 1e9:.2f} s after the `{start.name}` that was taken: it is a second one (a restart or kexec "
                "in the boot), or that text was no start of a kernel",
                failure="second_kernel",
            )
    getty = check.getty()
    if getty is None:
        return
    if prompt.t_ns < getty[0] - EARLY_NS:
        yield TestTransientError(
            f"the text {prompt.text.strip()!r} came {(getty[0] - prompt.t_ns) / 1e9:.2f} s before the program that prints the prompt was started: "
            "something else printed it. Make the type's `login` pattern stricter",
            failure="prompt_not_real",
        )
    usual_ns = _usual_ns(known, "getty")
    behind_ns = prompt.t_ns - getty[1]
    if behind_ns > (LATE_NS if usual_ns is None else usual_ns + GETTY_APART_NS):
        yield TestTransientError(
            f"the prompt that was taken came {behind_ns / 1e9:.2f} s after its program was started: it was printed again, and the first one "
            "was damaged or not recognised. Look at the recording for the first one",
            failure="prompt_again",
        )


def doubts(
    check: CrossCheck, start: MomentLike | None, prompt: MomentLike, known: Sequence[Mapping[str, Any]]
) -> frozenset[Flag]:
    """Flags of a boot that the facts neither refute nor confirm.

    A kernel that seems to have started late is no second one if its log is the one that came: a slow board's clock starts late.
    A prompt sooner after its getty's start than a getty sleeps may be another text, behind which the prompt came as an answer.
    """
    is_late = start is not None and _is_late(check, start, known)
    getty, usual_ns = check.getty(), _usual_ns(known, "getty")
    if usual_ns is None:
        usual_ns = AGETTY_NS if check.facts.init == "systemd" else 0
    is_early = getty is not None and prompt.t_ns < getty[0] + usual_ns - APART_NS
    found = {Flag.NOT_CROSS_CHECKED: is_late, Flag.PROMPT_REPEATED: is_early}
    return frozenset(flag for flag, holds in found.items() if holds)


def _is_late(check: CrossCheck, start: MomentLike, known: Sequence[Mapping[str, Any]]) -> bool:
    usual_ns = _usual_ns(known, "zero")
    return check.is_late(start, ZERO_NS if usual_ns is None else usual_ns + APART_NS)


def _another_software(software: Mapping[str, str], known: Sequence[Mapping[str, Any]]) -> Iterator[BoardlabError]:
    """Software that the run's other boots of this medium did not have."""
    before: Mapping[str, str] = next(
        (one["software"] for one in known if isinstance(one.get("software"), Mapping)), {}
    )
    for name in _FIXED:
        if software.get(name) and before.get(name) and software[name] != before[name]:
            yield LabTransientError(
                f"another {name.replace('_', ' ')} than in this run's boots before: {software[name]!r} now, {before[name]!r} then. A run is of one "
                "software: put the old one back, or measure the new one in a run of its own",
                failure="software_changed",
            )


def _usual_ns(known: Sequence[Mapping[str, Any]], name: str) -> int | None:
    values = [one[name] for one in known if isinstance(one.get(name), float)]
    return round(statistics.median(values) * 1e9) if len(values) >= _KNOWN else None
