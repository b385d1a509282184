"""Values of a board that the logs of its boots show: names, prompts, console, software.

Each value comes with the reason to doubt it, if there is one.
"""

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
# Stands for the medium of a log for which none was given. The log cannot tell: vendors number their devices freely.
MEDIUM: Final = "medium"
# After the prompt may come nothing, a typed name, or a line of the kernel.
LOGIN: Final = re.compile(
    r"^\W*?(\(none\)|[A-Za-z0-9][\w.-]*) login: ?(?:[a-z_][\w-]*|(?:<\d+>)?\[ *\d+\.\d{6}\].*)?$"
)
_ASKS: Final = re.compile(r"^\W*Please press Enter to activate this console\.")  # BusyBox init, askfirst
_SHELL: Final = re.compile(r"^root@([\w.-]+):[^ ]*[#$](?= |$)")
_WAITS: Final = re.compile(r"^((?:[\w.@()-]{0,40}:)?[~/][\w./-]* ?[#$] )$")  # a shell's prompt at the end of a log
_ANSWERS: Final = re.compile(r"^((?:[\w.@()-]{0,40}:)?[~/][\w./-]* ?[#$] )")  # a shell's prompt, also with typed input
_UBOOT: Final = re.compile(r"^((?:=|[\w@ .-]{1,24}?[=>#]?)[>#] |barebox@[^:]{1,60}:[^ ]* )(?=$|\S)")
_BOOTLOADER: Final = re.compile(r"\bU-Boot \d|barebox 20|CFE version \d")  # banners of bootloaders with a prompt
_COMMAND_LINE: Final = re.compile(r"Kernel command line: .*\b(?:console|root)=")
KERNEL_BEGINS: Final = re.compile(r"(.*\b(?:Booting Linux on |Linux version \d).*)")
_CONSOLE: Final = re.compile(r"\bconsole=((?:tty[A-Za-z]|hvc)\w*)(?:,(\d+))?")
_CONSOLE_ENABLED: Final = re.compile(r"(?<!boot)console \[((?:tty[A-Za-z]|hvc)\w*)\] enabled")
_GETTY: Final = re.compile(r"^\S.* ((?:tty[A-Z]|hvc)\w*) *$")  # line above the login prompt, by \l in /etc/issue
_ROOT: Final = re.compile(r"\broot=(\S+)")
_MOUNTED: Final = re.compile(r"\(((?:mmcblk|sd[a-z]|vd[a-z]|nvme)\w*)\): mounted filesystem")
_MODEL: Final = re.compile(r"(?:Machine model|^Model|MIPS: machine is):? *(.+)")
# U-Boot's line. It must not match the kernel's `CPU: ARMv7 Processor`, nor an architecture or a frequency.
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
    """The text of one boot.

    Attributes:
        name: path of the log.
        lines: lines up to the login prompt, at least one.
        behind: lines after it.
        medium: the medium that it booted from.
        sure: True if the caller has given the medium.
    """

    name: str
    lines: tuple[str, ...] = field(repr=False)
    behind: tuple[str, ...] = field(repr=False)
    medium: str
    sure: bool

    def hits(self, regex: re.Pattern[str]) -> list[int]:
        """Return the indices of the lines that match, from 0."""
        return [index for index, line in enumerate(self.lines) if regex.search(line) and not FAKE_START.search(line)]

    def first(self, regex: re.Pattern[str]) -> re.Match[str] | None:
        """Return the match in the first line that matches."""
        return next((match for line in self.lines if (match := regex.search(line))), None)


@frozen
class Value:
    """A value that logs show.

    Attributes:
        text: the value; empty: no log shows it.
        doubt: the reason to doubt it; empty: there is none.
    """

    text: str
    doubt: str

    @property
    def comment(self) -> str:
        """The doubt as a comment at the end of a line of the draft; empty: there is none."""
        return f"    # {UNSURE}{self.doubt}" if self.doubt else ""


def settle(sightings: Sequence[tuple[str, str]], missing: str) -> Value:
    """Return the value that most lines show; it is doubted if another line differs, or only one shows it.

    Args:
        sightings: for each line the name of its log and the value.
        missing: the doubt of a value that no line shows.
    """
    if not sightings:
        return Value("", missing)
    (value, count), *others = Counter(value for _, value in sightings).most_common()
    if others:
        log, other = next((log, other) for log, other in sightings if other != value)
        return Value(value, f"{plain(Path(log).name)} has {toml_text(other)}, too")
    return Value(value, "one line says so" if count == 1 else "")


def sightings(logs: Sequence[BootLog], regex: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return for each line that matches the name of its log and the text of group 1."""
    return [(log.name, match[1].strip()[:60]) for log in logs for line in log.lines if (match := regex.search(line))]


def read_log(path: Path, medium: str) -> BootLog:
    """Read the log of one boot.

    Args:
        medium: the medium that it booted from; empty: not given.

    Raises:
        ConfigurationError: the file cannot be read, or is not a log.
    """
    texts = [UNSEEN.sub("", line.decode("latin-1")) for line in bare_lines(path)]
    ends = [number for number, text in enumerate(texts, start=1) if LOGIN.match(text)]
    ends = ends or [number for number, text in enumerate(texts, start=1) if _ASKS.match(text)]
    end = ends[0] if ends else len(texts)
    return BootLog(str(path), tuple(texts[:end]), tuple(texts[end:]), medium or MEDIUM, bool(medium))


def login_prompt(logs: Sequence[BootLog]) -> Value:
    """Return the pattern of the login prompt, or of the line that asks for Enter."""
    sightings = [(log.name, match[1]) for log in logs if (match := LOGIN.match(log.lines[-1]))]
    names = list(dict.fromkeys(name for _, name in sightings))
    if not names:
        asking = [log.name for log in logs if _ASKS.match(log.lines[-1])]
        if asking:
            return Value(ASKED, "a shell behind Enter, without a login" + (", in one log" * (len(asking) == 1)))
        return Value(r"[\w.-]+ login: ", "no log reaches a login prompt")
    if len(names) > 1:
        hosts = "|".join(map(literal, names))
        return Value(f"({hosts}) login: ", f"the host has the names {', '.join(names)}: is a part a serial number?")
    shells = [match[1] for log in logs for line in log.behind if (match := _SHELL.match(line))]
    sure = len(sightings) > 1 or names[0] in shells
    return Value(f"{literal(names[0])} login: ", "" if sure else "one line says so")


def literal(text: str) -> str:
    """Return a regular expression that matches this text, without needless backslashes."""
    return re.sub(r"\\([ ~#=>@/:-])", r"\1", re.escape(text))


def _bootloader_prompts(log: BootLog) -> Iterator[tuple[str, str]]:
    """Yield the prompts between the bootloader's banner and the kernel's start, each with the log's name."""
    begin = next(iter(log.hits(_BOOTLOADER)), len(log.lines))
    ends = [number for number in log.hits(re.compile(rf"{KERNEL_STARTS}|Linux version \d")) if number > begin]
    for line in log.lines[begin : ends[0] if ends else len(log.lines)]:
        if (match := _UBOOT.match(line)) and match[1].strip():
            yield log.name, match[1]


def console(logs: Sequence[BootLog]) -> tuple[Value, Value]:
    """Return the console's name in Linux, e.g. "ttyS2", and its speed in Bd."""
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
    """Return the line in which the kernel prints its command line; empty: the log has none.

    A bootloader may print another command line before it.
    """
    begins = next(iter(log.hits(KERNEL_BEGINS)), 0)
    numbers = log.hits(_COMMAND_LINE)
    return log.lines[next((number for number in numbers if number >= begins), numbers[-1])] if numbers else ""


def model_of(logs: Sequence[BootLog]) -> Value:
    """Return the board's name, as the bootloader or the kernel prints it."""
    return settle(sightings(logs, _MODEL), "no log names the board")


def soc_of(logs: Sequence[BootLog]) -> Value:
    """Return the SoC's name, as U-Boot prints it."""
    return settle(sightings(logs, _SOC), "no log names it")


def shell_prompt(logs: Sequence[BootLog]) -> Value:
    """Return the pattern of the shell's prompt after the login or after Enter."""
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
    """Return the shell's prompt at which logs end without a login."""
    return settle(
        [(log.name, match[1]) for log in logs if (match := _WAITS.match(log.lines[-1]))], "no log ends at it"
    )


def bootloader_prompt(logs: Sequence[BootLog]) -> Value:
    """Return the bootloader's prompt."""
    return settle(
        [sighting for log in logs for sighting in _bootloader_prompts(log)],
        "no log stops at it; CONFIG_SYS_PROMPT has it",
    )


def root_device(logs: Sequence[BootLog]) -> Value:
    """Return the kernel's `root=`; a line that mounts this device confirms it."""
    roots: list[tuple[str, str]] = []
    for log in logs:
        if match := _ROOT.search(command_line(log)):
            mounted = [device for _, device in sightings([log], _MOUNTED) if match[1] == f"/dev/{device}"]
            roots += [(log.name, match[1])] * (1 + len(mounted))
    return settle(roots, "")


def last_kernel_time_s(logs: Sequence[BootLog]) -> float:
    """Return the latest time that a kernel printed before a line, in s since its start; 0: there is none."""
    return max((float(time) for _, time in sightings(logs, _KERNEL_TIME)), default=0.0)


def versions(logs: Sequence[BootLog]) -> Iterator[str]:
    """Yield a comment of TOML for each program, with the versions that the logs show."""
    for program, regex in _VERSIONS.items():
        printed = dict.fromkeys(match[1] for log in logs if (match := log.first(regex)))
        if printed:
            yield f"# {program} {', '.join(printed)}"


def toml_text(text: str) -> str:
    """Return a text as a string of TOML: a literal one if it has backslashes, else a basic one."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return (
        f"'{printable}'" if "\\" in printable and "'" not in printable else json.dumps(printable, ensure_ascii=False)
    )
