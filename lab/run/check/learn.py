"""A board type drafted from the logs of its boots.

Its patterns are those of the shipped types that fit the logs; what the logs leave open is marked `UNSURE` in the
draft.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab import boards
from lab.benchmarks.boot import ENDS, START
from lab.boards import MediumEvidence, MomentPattern
from lab.errors import ConfigurationError
from lab.run.check.bare_log import UNSEEN, bare_lines
from lab.terminal import plain

UNSURE: Final = "UNSURE: "
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_MEDIUM: Final = "medium"  # of a log whose medium nobody gave: each vendor numbers its devices in its own way
# Behind the prompt stands nothing, what somebody typed, or a line of the kernel.
_LOGIN: Final = re.compile(
    r"^\W*?(\(none\)|[A-Za-z0-9][\w.-]*) login: ?(?:[a-z_][\w-]*|(?:<\d+>)?\[ *\d+\.\d{6}\].*)?$"
)
_SHELL: Final = re.compile(r"^(root@[\w.-]+:)[^ ]*[#$](?= |$)")
_UBOOT: Final = re.compile(r"^((?:=|[\w@ .-]{1,24}?[=>#]?)[>#] )(?=$|\S)")
_COMMAND_LINE: Final = re.compile(r"Kernel command line: .*\b(?:console|root)=")
_KERNEL_BEGINS: Final = re.compile(r"(.*\b(?:Booting Linux on |Linux version ).*)")
_CONSOLE: Final = re.compile(r"\bconsole=(tty[A-Za-z]\w*)(?:,(\d+))?")
_ROOT: Final = re.compile(r"\broot=(\S+)")
_MODEL: Final = re.compile(r"(?:Machine model|^Model|OF: fdt: Machine model): *(.+)")
# Of U-Boot, not the kernel's `CPU: ARMv7 Processor`.
_SOC: Final = re.compile(r"^(?:SoC|CPU): +(?!ARMv\d|All CPU)(\S.*)")
_VERSIONS: Final = {
    "U-Boot": re.compile(r"(?<!SPL )(?<!=)\bU-Boot (20\d\d\.\d\d\S*)"),
    "Linux": re.compile(r"\bLinux version (\S+)"),
    "TF-A": re.compile(r"\bBL31: (v\S+)"),
}
_REQUIRED: Final = frozenset({"spl", "uboot", START})
_STARTS: Final = ("efi_stub", "spl", "uboot", "first_printk")  # of a boot without U-Boot's "Starting kernel"
_STAGES: Final = {"first_printk": "Kernel entry"}
_TITLES: Final = {"spl": "SPL", "uboot": "U-Boot", "tfa": "TF-A", "first_printk": "kernel"}
_KERNEL_STARTS: Final = r"Starting kernel \.\.\.|EFI stub: Booting Linux Kernel\.\.\."
# What names a medium on any board, of one source the first that the logs have; shipped types know more of theirs.
_EVIDENCE: Final = (
    MediumEvidence(
        "spl", r"Trying to boot from (?!BOOTROM)(\w+)", {}, reference="U-Boot common/spl/spl.c boot_from_devices"
    ),
    MediumEvidence(
        "uboot", r"\b(mmc\d)(?:\(part \d\))? is current device", {}, _KERNEL_STARTS, "U-Boot cmd/mmc.c do_mmc_dev"
    ),
    MediumEvidence(
        "uboot",
        r"Scanning ((?:mmc|usb|nvme|sata|scsi|virtio) \d):\w+\.\.\.",
        {},
        _KERNEL_STARTS,
        "U-Boot include/config_distro_bootcmd.h scan_dev_for_boot",
    ),
    MediumEvidence(
        "kernel",
        r"Kernel command line: .*\broot=(?:/dev/)?(mmcblk\d|sd[a-z]|vd[a-z]|nvme\d|ubi|mtd)",
        {},
        reference="Linux init/main.c start_kernel",
    ),
    MediumEvidence(
        "rootfs",
        r"\((mmcblk\d|sd[a-z]|vd[a-z]|nvme\d|ubi\d)\S*\): (?:mounted filesystem|UBIFS: mounted UBI device)",
        {},
        reference="Linux fs/ext4/super.c, fs/ubifs/super.c",
    ),
)


@frozen
class _Log:
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
        return [number for number, line in enumerate(self.lines) if regex.search(line)]

    def first(self, regex: re.Pattern[str]) -> re.Match[str] | None:
        """The first match in a line."""
        return next((match for line in self.lines if (match := regex.search(line))), None)


@frozen
class _MomentInLogs:
    """A moment that logs have, by the pattern of a shipped type.

    Attributes:
        counts: of its lines, by log.
        place: of its first line, by log.
    """

    pattern: MomentPattern
    counts: Mapping[str, int]
    place: Mapping[str, int]


def draft(name: str, logs: Sequence[tuple[str, Path]]) -> str:
    """A board type as TOML, from the logs of its boots.

    Args:
        logs: the medium of the boot, or an empty text, and its log.

    Raises:
        ConfigurationError: a log cannot be read, or holds no boot; or the name is no type's.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name of a board type: give small letters, digits, _ and -")
    if name in boards.names():
        raise ConfigurationError(f"there is a board type {name!r} already; give yours another name with --name")
    read = [_read(path, medium) for medium, path in logs]
    moments = _moments(read)
    for log in read:
        if not any(log.name in moment.counts for moment in moments):
            if any(map(_LOGIN.match, log.lines)):
                raise ConfigurationError(
                    f"{log.name}: its login prompt is its only moment, and a time needs one to count from (SPL, "
                    "U-Boot, the kernel's first line): let the kernel speak (no `quiet`, `console=` this UART), or "
                    "write the type by hand"
                )
            raise ConfigurationError(
                f"{log.name}: no moment of a boot is in it (SPL, U-Boot, the kernel's first line, a login prompt): is "
                "it the log of a boot, from power on, at the console's speed?"
            )
    usual = [
        log for log in read if any(moment.pattern.name == START and log.name in moment.counts for moment in moments)
    ]
    return "\n".join(
        [
            *_head(name, read),
            *_order(moments, usual, read),
            *_evidence(read),
            *_flow(moments, [log for log in read if log not in usual], usual),
            *_prompts(read),
            *_media(read),
            "",
        ]
    )


def _read(path: Path, medium: str) -> _Log:
    texts = [UNSEEN.sub("", line.decode("latin-1")) for line in bare_lines(path)]
    end = next((number + 1 for number, text in enumerate(texts) if _LOGIN.match(text)), len(texts))
    return _Log(str(path), tuple(texts[:end]), tuple(texts[end:]), medium or _MEDIUM, bool(medium))


def _variants() -> dict[str, list[MomentPattern]]:
    """The patterns of all shipped types, by moment."""
    by_name: dict[str, dict[str, MomentPattern]] = {}
    for name in boards.shipped():
        for moment in boards.load(name).markers:
            if moment.name not in ENDS:
                by_name.setdefault(moment.name, {}).setdefault(moment.regex, moment)
    return {name: list(variants.values()) for name, variants in by_name.items()}


def _moments(logs: Sequence[_Log]) -> list[_MomentInLogs]:
    """The moments that the logs have, in their order."""
    moments = []
    for variants in _variants().values():
        fitting = [_in_logs(pattern, logs) for pattern in variants]
        best = max(fitting, key=lambda each: len(each.counts))
        if best.counts:
            moments.append(best)
    return sorted(moments, key=lambda each: _place(each, moments))


def _in_logs(pattern: MomentPattern, logs: Sequence[_Log]) -> _MomentInLogs:
    regex = re.compile(pattern.regex)
    hits = {log.name: numbers for log in logs if (numbers := log.hits(regex))}
    return _MomentInLogs(
        pattern,
        {name: len(numbers) for name, numbers in hits.items()},
        {name: numbers[-1 if pattern.times == 0 else 0] for name, numbers in hits.items()},
    )


def _place(moment: _MomentInLogs, every: Sequence[_MomentInLogs]) -> tuple[int, int]:
    """Its place among the moments: how many precede it in some log."""
    before = sum(
        any(other.place[log] < line for log, line in moment.place.items() if log in other.place) for other in every
    )
    return before, min(moment.place.values())


def _order(moments: Sequence[_MomentInLogs], usual: Sequence[_Log], every: Sequence[_Log]) -> Iterator[str]:
    """The moments of the usual way, through U-Boot's "Starting kernel"."""
    names = [log.name for log in usual]
    own = [moment for moment in moments if any(name in moment.counts for name in names)]
    if not usual:
        yield f'# {UNSURE}no log has U-Boot\'s "Starting kernel ..."; the flow below has their moments.'
    yield "moments = ["
    titles: list[str] = []
    for moment in own:
        yield from _moment(moment, names, own, titles)
    kernel_line = _first_text(every, _KERNEL_BEGINS)
    if kernel_line and all(moment.pattern.name != "first_printk" for moment in moments):
        yield (
            f"    # {UNSURE}no shipped first_printk fits the kernel's first lines ({kernel_line}): give a "
            "pattern of yours"
        )
    if not usual:
        yield (
            f'    {{ name = "{START}", pattern = {_text(_pattern_of(START))}, line_start = true, required = true, '
            'stage = "Kernel load" },'
        )
    yield from _ends(every)
    yield "]"


def _moment(
    moment: _MomentInLogs, names: Sequence[str], own: Sequence[_MomentInLogs], titles: list[str]
) -> Iterator[str]:
    pattern = moment.pattern
    counts = {moment.counts[name] for name in names if name in moment.counts}
    times = pattern.times if pattern.times == 0 else counts.pop() if len(counts) == 1 else 0
    if len(counts) > 0 and times == 0 and pattern.times != 0:
        yield f"    # {UNSURE}{pattern.name} comes not as often in each log; `times = 0` takes any number"
    elif times > max(1, pattern.times):
        yield (
            f"    # {UNSURE}{pattern.name} comes {times} times: does one healthy boot print it so often, or does the "
            "log hold a reset or two boots? Cut one out then"
        )
    later = [other for other in own if other is not moment]
    lacks = [
        name
        for name in names
        if name not in moment.counts
        and any(other.place[name] > min(moment.place.values()) for other in later if name in other.place)
    ]
    required = pattern.name in _REQUIRED and not lacks
    if pattern.name in _REQUIRED and lacks:
        yield f"    # {UNSURE}{lacks[0]} has no {pattern.name}, so it is not required"
    stage = pattern.stage or _STAGES.get(pattern.name, "")
    if pattern.name in ("tfa", "uboot") and (earlier := own[: own.index(moment)]):
        # A shipped type's title names its own cores; what ran is what spoke before, and an SPL again behind TF-A.
        stage = _TITLES.get(earlier[-1].pattern.name, stage)
        if stage == "TF-A" and any(e.pattern.name == "spl" and max(e.counts.values()) > 1 for e in earlier):
            stage = "TF-A, SPL"
    if not titles:
        stage = f"Power on to {_TITLES.get(pattern.name, pattern.name)}"
    stage = "" if stage in titles else stage
    titles.append(stage)
    yield f"    {_inline(_keys(pattern, stage, times, required=required))},"


def _keys(pattern: MomentPattern, stage: str, times: int, *, required: bool) -> dict[str, object]:
    return {
        "name": pattern.name,
        "pattern": pattern.pattern,
        **({"line_start": True} if pattern.line_start else {}),
        **({"required": True} if required else {}),
        **({"stage": stage} if stage else {}),
        **({"times": times} if times != 1 else {}),
        "reference": pattern.reference or "a shipped type",
    }


def _pattern_of(name: str) -> str:
    return _variants()[name][0].pattern


def _ends(logs: Sequence[_Log]) -> Iterator[str]:
    host, mark = _host(logs)
    if mark:
        yield f"    # {mark}"
    keys = {"name": "login", "pattern": f"{host} login: ", "line_start": True, "stage": "User space"}
    yield f"    {_inline({**keys, 'reference': 'util-linux agetty' + (', assumed' if mark else '; the logs')})},"
    shell = r"(sh-\d[\d.]*|~ |/ )[#$] "  # a bare `# `, as dash has it, would fit each comment
    yield (
        f"    {_inline({'name': 'shell', 'pattern': shell, 'line_start': True, 'reference': 'assumed'})},     # "
        "init=/bin/sh"
    )


def _flow(moments: Sequence[_MomentInLogs], others: Sequence[_Log], usual: Sequence[_Log]) -> Iterator[str]:
    """The flow of logs without U-Boot's "Starting kernel"."""
    names = [log.name for log in others]
    own = [moment for moment in moments if any(name in moment.counts for name in names)]
    if not others or not own:
        return
    there = {moment.pattern.name for moment in own}
    start = next((name for name in _STARTS if name in there), own[0].pattern.name)
    in_usual = {moment.pattern.name for moment in moments if any(log.name in moment.counts for log in usual)}
    yield ""
    yield f"# {UNSURE}the name, the title, and the moment that the time counts from."
    yield "[flows.direct]"
    shown = ", ".join(Path(name).name for name in names)
    yield f"title = {_text(f'another loader than U-Boot starts Linux ({shown})')}"
    yield f'start = "{start}"'
    yield "moments = ["
    titles: list[str] = []
    for moment in own:
        lines = list(_moment(moment, names, own, titles))
        if moment.pattern.name in in_usual:
            lines = [
                re.sub(r" pattern = (?:'[^']*'|\"(?:[^\"\\]|\\.)*\"),(?: line_start = true,)?", "", line)
                for line in lines
            ]
            lines = [re.sub(r", reference = (?:'[^']*'|\"(?:[^\"\\]|\\.)*\")", "", line) for line in lines]
        yield from lines
    yield '    { name = "login", stage = "User space" },'
    yield '    { name = "shell", stage = "User space" },'
    yield "]"


def _evidence(logs: Sequence[_Log]) -> Iterator[str]:
    yield ""
    guessed = [Path(log.name).name for log in logs if not log.sure]
    if guessed:
        yield f"# {UNSURE}the medium of {plain(', '.join(guessed))}, called {_MEDIUM!r} here; say it with MEDIUM=LOG."
    yield "evidence = ["
    done: set[str] = set()
    for pattern in _EVIDENCE:
        if pattern.source in done:
            continue
        words: dict[str, set[str]] = {}
        for log in logs:
            for word in _words(pattern, log):
                words.setdefault(word, set()).add(log.medium)
        if not words:
            continue
        done.add(pattern.source)
        shared = next((word for word, media in words.items() if len(media) > 1), "")
        if shared:
            yield (
                f"    # {UNSURE}{pattern.source} says {shared!r} on {' and on '.join(sorted(words[shared]))}: left out"
            )
            continue
        yield f"    {_evidence_line(pattern, {word: media.pop() for word, media in words.items()})},"
    for source in ("kernel", "rootfs"):
        if source not in done:
            yield (
                f"    # {UNSURE}nothing names the medium as {source}: numbers may carry `medium_unverified` without it"
            )
    yield "]"


def _words(pattern: MediumEvidence, log: _Log) -> list[str]:
    """The words for the medium in a log that count: all, or the last where another line confirms it."""
    regex = re.compile(pattern.pattern)
    words = [match[1] for line in log.lines if (match := regex.search(line))]
    return words[-1:] if pattern.confirmed_by else words


def _evidence_line(pattern: MediumEvidence, media: Mapping[str, str]) -> str:
    keys: dict[str, object] = {"source": pattern.source, "pattern": pattern.pattern}
    if pattern.confirmed_by:
        keys["confirmed_by"] = pattern.confirmed_by
    line = _inline({**keys, "media": 0, "reference": f"{pattern.reference}; the logs"})
    return line.replace("media = 0", f"media = {_inline(dict(media))}")


def _head(name: str, logs: Sequence[_Log]) -> Iterator[str]:
    logs_text = plain(", ".join(Path(log.name).name for log in logs))
    yield (
        f"# Drafted from {len(logs)} log{'s' * (len(logs) > 1)}: {logs_text}. Check it: lab console check "
        f"{name}.toml LOG"
    )
    for what, regex in _VERSIONS.items():
        versions = dict.fromkeys(match[1] for log in logs if (match := log.first(regex)))
        if versions:
            yield f"# {what} {', '.join(versions)}"
    model = _first_text(logs, _MODEL)
    soc = _first_text(logs, _SOC)
    yield f'name = "{name}"'
    yield f"title = {_text(model or name)}" + ("" if model else f"    # {UNSURE}no log names the board")
    yield f"soc = {_text(soc or 'unknown')}" + ("" if soc else f"    # {UNSURE}no log names it")
    yield ""


def _first_text(logs: Sequence[_Log], regex: re.Pattern[str]) -> str:
    return next((match[1].strip()[:60] for log in logs if (match := log.first(regex))), "")


def _host(logs: Sequence[_Log]) -> tuple[str, str]:
    """The host's name as a pattern, and why it is not sure; empty: it is."""
    names = list(dict.fromkeys(match[1] for log in logs if log.lines and (match := _LOGIN.match(log.lines[-1]))))
    if not names:
        return r"[\w.-]+", f"{UNSURE}no log reaches a login prompt"
    if len(names) == 1:
        return re.escape(names[0]).replace(r"\-", "-"), ""
    return f"({'|'.join(re.escape(name).replace(chr(92) + '-', '-') for name in names)})", (
        f"{UNSURE}the host is called {', '.join(names)}: is a part of it a serial number?"
    )


def _prompts(logs: Sequence[_Log]) -> Iterator[str]:
    host, mark = _host(logs)
    shell = next((match[1] for log in logs for line in log.behind if (match := _SHELL.match(line))), "")
    typed = Counter(match[1] for log in logs for line in log.lines if (match := _UBOOT.match(line)))
    uboot = next((prompt for prompt, _ in typed.most_common() if prompt.strip()), "")
    yield "\n[prompts]"
    yield f"uboot = {_text(re.escape(uboot or '=> ').replace(chr(92) + ' ', ' ').replace(chr(92) + '>', '>'))}" + (
        "" if uboot else f"    # {UNSURE}no log stops at it; CONFIG_SYS_PROMPT"
    )
    yield f"login = {_text(f'{host} login: ')}" + (f"    # {mark}" if mark else "")
    yield f"shell = {_text(f'root@{host}:[^ ]*# ')}" + ("" if shell else f"    # {UNSURE}no log is logged in")
    console = _CONSOLE.search(_command_line(logs))
    speed = console[2] if console and console[2] else "115200"
    yield "\n[[uarts]]"
    yield 'name = "uart0"\nrole = "console"'
    yield (
        f'linux = "{console[1]}"'
        if console
        else f'linux = ""    # {UNSURE}no command line of a kernel names a console='
    )
    yield f"speed_bd = {speed}" + ("" if console and console[2] else f"    # {UNSURE}assumed")


def _command_line(logs: Sequence[_Log]) -> str:
    """The kernel's own, which a bootloader may print before it with other words."""
    return next((log.lines[numbers[-1]] for log in logs if (numbers := log.hits(_COMMAND_LINE))), "")


def _media(logs: Sequence[_Log]) -> Iterator[str]:
    yield f"\n# {UNSURE}the boot-mode straps; without them the medium is what the board is set to."
    yield "[media]"
    for medium in dict.fromkeys(log.medium for log in logs):
        roots = [m[1] for log in logs if log.medium == medium and (m := _ROOT.search(_command_line([log])))]
        keys: dict[str, object] = {"title": {"sd": "SD", "emmc": "eMMC", "ospi": "OSPI"}.get(medium, medium)}
        yield f"{medium} = {_inline(keys | ({'root': roots[0]} if roots else {}))}"
    times = [float(m[1]) for log in logs for line in log.lines if (m := _KERNEL_S.match(line))]
    silent = max(times, default=0.0)  # the latest time of a kernel's line, in seconds
    yield "\n[timeouts]"
    yield f"boot_s = {max(120, 4 * round(silent))}    # {UNSURE}the kernels' own clocks end at {silent:.0f} s"


_KERNEL_S: Final = re.compile(r"^(?:<\d+>)?\[ *(\d{1,5})\.\d{6}\]")


def _inline(keys: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{_key(key)} = {_value(value)}" for key, value in keys.items()) + " }"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else json.dumps(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """A literal string where it has a backslash, else a basic one."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return (
        f"'{printable}'" if "\\" in printable and "'" not in printable else json.dumps(printable, ensure_ascii=False)
    )
