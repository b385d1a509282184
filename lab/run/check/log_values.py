"""Values that the logs of boots show: names, prompts, the console; and why one is not sure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab.benchmarks.boot.starts import FAKE_START
from lab.run.check.bare_log import UNSEEN, bare_lines
from lab.terminal import plain

UNSURE: Final = "UNSURE: "
MEDIUM: Final = "medium"  # of a log whose medium nobody gave: each vendor numbers its devices in its own way
# Behind the prompt stands nothing, what somebody typed, or a line of the kernel.
LOGIN: Final = re.compile(
    r"^\W*?(\(none\)|[A-Za-z0-9][\w.-]*) login: ?(?:[a-z_][\w-]*|(?:<\d+>)?\[ *\d+\.\d{6}\].*)?$"
)
_ASKS: Final = re.compile(r"^\W*Please press Enter to activate this console\.")  # BusyBox init, askfirst
_SHELL: Final = re.compile(r"^root@([\w.-]+):[^ ]*[#$](?= |$)")
_WAITS: Final = re.compile(r"^((?:[\w.@()-]{0,40}:)?[~/][\w./-]* ?[#$] )$")  # a shell, at the end of a log
_ANSWERS: Final = re.compile(r"^((?:[\w.@()-]{0,40}:)?[~/][\w./-]* ?[#$] )")  # the same, and what was typed
_UBOOT: Final = re.compile(r"^((?:=|[\w@ .-]{1,24}?[=>#]?)[>#] |barebox@[^:]{1,60}:[^ ]* )(?=$|\S)")
_LOADS: Final = re.compile(r"\bU-Boot \d|barebox 20|CFE version \d")  # whose prompt it is
_COMMAND_LINE: Final = re.compile(r"Kernel command line: .*\b(?:console|root)=")
KERNEL_BEGINS: Final = re.compile(r"(.*\b(?:Booting Linux on |Linux version \d).*)")
_CONSOLE: Final = re.compile(r"\bconsole=((?:tty[A-Za-z]|hvc)\w*)(?:,(\d+))?")
_CONSOLE_ENABLED: Final = re.compile(r"(?<!boot)console \[((?:tty[A-Za-z]|hvc)\w*)\] enabled")
_GETTY: Final = re.compile(r"^\S.* ((?:tty[A-Z]|hvc)\w*) *$")  # the line before the login prompt: \l of /etc/issue
_ROOT: Final = re.compile(r"\broot=(\S+)")
_MOUNTED: Final = re.compile(r"\(((?:mmcblk|sd[a-z]|vd[a-z]|nvme)\w*)\): mounted filesystem")
_MODEL: Final = re.compile(r"(?:Machine model|^Model|MIPS: machine is):? *(.+)")
# Of U-Boot, not the kernel's `CPU: ARMv7 Processor`, nor an architecture or a frequency.
_SOC: Final = re.compile(r"^(?:SoC|CPU) *: +(?!ARM|All CPU|rv\d|\d|cpu_|div |PIPT)(\S.*)")
_KERNEL_TIME: Final = re.compile(r"^(?:<\d+>)?\[ *(\d{1,5}\.\d{6})(?:@\d+)?\]")
_VERSIONS: Final = {
    "U-Boot": re.compile(r"(?<!SPL )(?<!TPL )(?<!=)\bU-Boot (20\d\d\.\d\d\S*|1\.\d\.\d\S*)"),
    "Linux": re.compile(r"\bLinux version (\S+)"),
    "TF-A": re.compile(r"\bBL31: (v\S+)"),
}
KERNEL_STARTS: Final = r"Starting kernel \.\.\.|EFI stub: Booting Linux Kernel\.\.\."
ASKED: Final = r"Please press Enter to activate this console\."


@frozen
class BootLog:
    """One boot's text.

    Attributes:
        lines: up to the login prompt.
        behind: those after it.
        medium: that it booted from.
        sure: the caller says so.
    """

    name: str
    lines: tuple[str, ...] = field(repr=False)
    behind: tuple[str, ...] = field(repr=False)
    medium: str
    sure: bool

    def hits(self, regex: re.Pattern[str]) -> list[int]:
        """Numbers of the lines that fit."""
        return [n for n, line in enumerate(self.lines) if regex.search(line) and not FAKE_START.search(line)]

    def first(self, regex: re.Pattern[str]) -> re.Match[str] | None:
        """The first match in a line."""
        return next((match for line in self.lines if (match := regex.search(line))), None)


@frozen
class Value:
    """A value from logs, and the reason to doubt it; empty: none."""

    text: str
    doubt: str

    @property
    def comment(self) -> str:
        """The doubt behind a line of the draft."""
        return f"    # {UNSURE}{self.doubt}" if self.doubt else ""


def settle(sightings: Sequence[tuple[str, str]], missing: str) -> Value:
    """The value that most lines show.

    Args:
        sightings: of each line the log and the value.
        missing: the doubt if there is none.
    """
    if not sightings:
        return Value("", missing)
    (value, count), *others = Counter(value for _, value in sightings).most_common()
    if others:
        log, other = next((log, other) for log, other in sightings if other != value)
        return Value(value, f"{plain(Path(log).name)} has {toml_text(other)}, too")
    return Value(value, "one line says so" if count == 1 else "")


def sightings(logs: Sequence[BootLog], regex: re.Pattern[str]) -> list[tuple[str, str]]:
    return [(log.name, match[1].strip()[:60]) for log in logs for line in log.lines if (match := regex.search(line))]


def read_log(path: Path, medium: str) -> BootLog:
    texts = [UNSEEN.sub("", line.decode("latin-1")) for line in bare_lines(path)]
    ends = [number for number, text in enumerate(texts, start=1) if LOGIN.match(text)]
    ends = ends or [number for number, text in enumerate(texts, start=1) if _ASKS.match(text)]
    end = ends[0] if ends else len(texts)
    return BootLog(str(path), tuple(texts[:end]), tuple(texts[end:]), medium or MEDIUM, bool(medium))


def login_prompt(logs: Sequence[BootLog]) -> Value:
    """The pattern of the login prompt."""
    sightings = [(log.name, match[1]) for log in logs if (match := LOGIN.match(log.lines[-1]))]
    names = list(dict.fromkeys(name for _, name in sightings))
    if not names:
        asking = [log.name for log in logs if _ASKS.match(log.lines[-1])]
        if asking:
            return Value(ASKED, "a shell behind Enter, without a login" + (", in one log" * (len(asking) == 1)))
        return Value(r"[\w.-]+ login: ", "no log reaches a login prompt")
    if len(names) > 1:
        hosts = "|".join(map(literal, names))
        return Value(f"({hosts}) login: ", f"the host is called {', '.join(names)}: is a part of it a serial number?")
    shells = [match[1] for log in logs for line in log.behind if (match := _SHELL.match(line))]
    sure = len(sightings) > 1 or names[0] in shells
    return Value(f"{literal(names[0])} login: ", "" if sure else "one line says so")


def literal(text: str) -> str:
    """A regular expression of this text, without needless backslashes."""
    return re.sub(r"\\([ ~#=>@/:-])", r"\1", re.escape(text))


def _typed_prompts(log: BootLog) -> Iterator[tuple[str, str]]:
    """The bootloader's prompts: lines of its own time that something was typed into."""
    begin = next(iter(log.hits(_LOADS)), len(log.lines))
    ends = [number for number in log.hits(re.compile(rf"{KERNEL_STARTS}|Linux version \d")) if number > begin]
    for line in log.lines[begin : ends[0] if ends else len(log.lines)]:
        if (match := _UBOOT.match(line)) and match[1].strip():
            yield log.name, match[1]


def console(logs: Sequence[BootLog]) -> tuple[Value, Value]:
    """The console's name in Linux, and its speed."""
    names: list[tuple[str, str]] = []
    speeds: list[tuple[str, str]] = []
    for log in logs:
        consoles = list(_CONSOLE.finditer(command_line(log)))
        names += [(log.name, console[1]) for console in consoles]
        speeds += [(log.name, console[2]) for console in consoles if console[2]]
        names += sightings([log], _CONSOLE_ENABLED)
        if LOGIN.match(log.lines[-1]):
            above = [line for line in log.lines[-4:-1] if line.strip()]
            names += [(log.name, match[1]) for line in above[-1:] if (match := _GETTY.match(line))]
    return settle(names, "no command line of a kernel names a console="), settle(speeds, "assumed")


def command_line(log: BootLog) -> str:
    """The kernel's own, which a bootloader may print before it with other words."""
    begins = next(iter(log.hits(KERNEL_BEGINS)), 0)
    numbers = log.hits(_COMMAND_LINE)
    return log.lines[next((number for number in numbers if number >= begins), numbers[-1])] if numbers else ""


def model_of(logs: Sequence[BootLog]) -> Value:
    """The board's name."""
    return settle(sightings(logs, _MODEL), "no log names the board")


def soc_of(logs: Sequence[BootLog]) -> Value:
    """The SoC, in U-Boot's words."""
    return settle(sightings(logs, _SOC), "no log names it")


def shell_prompt(logs: Sequence[BootLog]) -> Value:
    """The pattern of the shell's prompt, behind the login or behind Enter."""
    shells = [(log.name, match[1]) for log in logs for line in log.behind if (match := _SHELL.match(line))]
    host = settle(shells, "no log is logged in")
    if host.text:
        return Value(f"root@{literal(host.text)}:[^ ]*# ", host.doubt)
    login = login_prompt(logs)
    if login.text != ASKED:
        return Value(f"root@{login.text.removesuffix(' login: ')}:[^ ]*# ", host.doubt)
    answers = [(log.name, match[1]) for log in logs for line in log.behind if (match := _ANSWERS.match(line))]
    answer = settle(answers[:1], "no log shows what comes behind Enter")
    return Value(literal(answer.text) if answer.text else r"root@[\w.-]+:[^ ]*# ", answer.doubt)


def waiting_shell(logs: Sequence[BootLog]) -> Value:
    """The prompt of a shell that logs end at."""
    return settle(
        [(log.name, match[1]) for log in logs if (match := _WAITS.match(log.lines[-1]))], "no log ends at it"
    )


def bootloader_prompt(logs: Sequence[BootLog]) -> Value:
    """The bootloader's prompt."""
    return settle(
        [sighting for log in logs for sighting in _typed_prompts(log)], "no log stops at it; CONFIG_SYS_PROMPT"
    )


def root_device(logs: Sequence[BootLog]) -> Value:
    """The kernel's `root=`, which a mount of it confirms."""
    roots: list[tuple[str, str]] = []
    for log in logs:
        if match := _ROOT.search(command_line(log)):
            mounted = [device for _, device in sightings([log], _MOUNTED) if match[1] == f"/dev/{device}"]
            roots += [(log.name, match[1])] * (1 + len(mounted))
    return settle(roots, "")


def last_kernel_time_s(logs: Sequence[BootLog]) -> float:
    """The latest time of a kernel's line."""
    return max((float(time) for _, time in sightings(logs, _KERNEL_TIME)), default=0.0)


def versions(logs: Sequence[BootLog]) -> Iterator[str]:
    """The software of the logs, as comments."""
    for what, regex in _VERSIONS.items():
        printed = dict.fromkeys(match[1] for log in logs if (match := log.first(regex)))
        if printed:
            yield f"# {what} {', '.join(printed)}"


def toml_text(text: str) -> str:
    """A literal string where it has a backslash, else a basic one."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return (
        f"'{printable}'" if "\\" in printable and "'" not in printable else json.dumps(printable, ensure_ascii=False)
    )
