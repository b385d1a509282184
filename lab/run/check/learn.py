"""A board type drafted from the logs of its boots.

Its patterns are those of the shipped types, and of further bootloaders, that fit the logs. What the logs leave open,
what only one line shows, and what one log says otherwise than the other is marked `UNSURE`. The draft is checked
against its own logs, and says where it does not fit them.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from lab import boards
from lab.benchmarks.boot import ENDS, START
from lab.boards import MediumEvidence, MomentPattern, load_file
from lab.errors import ConfigurationError
from lab.run.check import bare_log
from lab.run.check.bootloaders import BANNERS, TITLES
from lab.run.check.findings import examine
from lab.run.check.log_values import (
    ASKED,
    KERNEL_BEGINS,
    KERNEL_STARTS,
    LOGIN,
    MEDIUM,
    UNSURE,
    BootLog,
    bootloader_prompt,
    console,
    last_kernel_time_s,
    literal,
    login_prompt,
    model_of,
    read_log,
    root_device,
    shell_prompt,
    sightings,
    soc_of,
    toml_text,
    versions,
    waiting_shell,
)
from lab.run.check.verdict import Fit, LogVerdict, judge
from lab.terminal import plain

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_REQUIRED: Final = frozenset({"spl", "uboot", START})
_STARTS: Final = ("efi_stub", "spl", "uboot", "first_printk")  # of a boot without U-Boot's "Starting kernel"
_TOML_STRING: Final = r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\")"
_PATTERN_AND_REFERENCE: Final = re.compile(
    rf" pattern = {_TOML_STRING},(?: line_start = true,)?|, reference = {_TOML_STRING}"
)
_BEHIND_START: Final = frozenset({START, "efi_stub"})  # a kernel's first line ends its entry
# What names a medium on any board, of one source the first that the logs have; shipped types know more of theirs.
_EVIDENCE: Final = (
    MediumEvidence(
        "spl", r"Trying to boot from (?!BOOTROM)(\w+)", {}, reference="U-Boot common/spl/spl.c boot_from_devices"
    ),
    MediumEvidence(
        "uboot", r"\b(mmc\d)(?:\(part \d\))? is current device", {}, KERNEL_STARTS, "U-Boot cmd/mmc.c do_mmc_dev"
    ),
    MediumEvidence(
        "uboot",
        r"Scanning ((?:mmc|usb|nvme|sata|scsi|virtio) \d):\w+\.\.\.",
        {},
        KERNEL_STARTS,
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
class _MomentInLogs:
    """A moment that logs have, by the pattern of a shipped type.

    Attributes:
        counts: log -> number of its lines that fit.
        line: log -> number of the first of them; of a moment that may come any number of times, the last.
    """

    pattern: MomentPattern
    counts: Mapping[str, int]
    line: Mapping[str, int]


@frozen
class Draft:
    """A drafted board type.

    Attributes:
        text: its TOML.
        verdicts: log -> how the draft judges it.
    """

    text: str
    verdicts: dict[Path, LogVerdict]


def draft(name: str, logs: Sequence[tuple[str, Path]]) -> Draft:
    """A board type from the logs of its boots.

    Args:
        logs: the medium of the boot, or an empty text, and its log.

    Raises:
        ConfigurationError: a log cannot be read, or holds no boot; or the name is no type's.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name of a board type: give small letters, digits, _ and -")
    if name in boards.names():
        raise ConfigurationError(f"there is a board type {name!r} already; give yours another name with --name")
    read = [read_log(path, medium) for medium, path in logs]
    moments = _find_moments(read)
    for log in read:
        if not any(log.name in moment.counts for moment in moments):
            if any(map(LOGIN.match, log.lines)):
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
    head = list(_head_lines(name, read))
    body = [
        *_moment_lines(moments, usual, read),
        *_evidence_lines(read),
        *_flow_lines(moments, [log for log in read if log not in usual], usual),
        *_prompt_lines(read),
        *_media_lines(read),
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text("\n".join([*head, *body]), encoding="utf-8")
        board = load_file(file)
    verdicts, doubts = {}, []
    for _, path in logs:
        findings = examine(bare_log.read(path, board), board)
        verdicts[path] = judge(findings)
        if (fit := verdicts[path].fit) is not Fit.WHOLE:
            reasons = "; ".join(reason.why for reason in verdicts[path].reasons)
            doubts.append(f"# {UNSURE}{plain(f'{path.name} {fit}: {reasons}')}")
        if findings.flags:
            doubts.append(f"# {UNSURE}{plain(path.name)}: a run would flag its numbers: {', '.join(findings.flags)}")
    return Draft("\n".join([head[0], *doubts, *head[1:], *body]), verdicts)


def _variants() -> dict[str, list[MomentPattern]]:
    """The patterns of all shipped types and of further bootloaders, by moment."""
    by_name: dict[str, dict[str, MomentPattern]] = {}
    shipped = [moment for name in boards.shipped() for moment in boards.load(name).markers]
    for moment in [*shipped, *(banner.moment for banner in BANNERS)]:
        if moment.name not in ENDS:
            by_name.setdefault(moment.name, {}).setdefault(moment.regex, moment)
    return {name: list(variants.values()) for name, variants in by_name.items()}


def _find_moments(logs: Sequence[BootLog]) -> list[_MomentInLogs]:
    """The moments that the logs have, in their order.

    Of each moment the pattern counts that fits the most logs.
    """
    moments = []
    for variants in _variants().values():
        fitting = []
        for pattern in variants:
            regex = re.compile(pattern.regex)
            hits = {log.name: numbers for log in logs if (numbers := log.hits(regex))}
            counts = {log: len(numbers) for log, numbers in hits.items()}
            place = -1 if pattern.times == 0 else 0
            fitting.append(_MomentInLogs(pattern, counts, {log: numbers[place] for log, numbers in hits.items()}))
        best = max(fitting, key=lambda moment: len(moment.counts))
        if best.counts:
            moments.append(best)

    def place_of(moment: _MomentInLogs) -> tuple[int, int]:
        """Sort key: how many precede it in some log; its earliest line."""
        before = sum(
            any(other.line[log] < line for log, line in moment.line.items() if log in other.line) for other in moments
        )
        return before, min(moment.line.values())

    return sorted(moments, key=place_of)


def _moment_lines(
    moments: Sequence[_MomentInLogs], usual: Sequence[BootLog], every: Sequence[BootLog]
) -> Iterator[str]:
    """The key `moments`: those of the usual way, through U-Boot's "Starting kernel"."""
    names = [log.name for log in usual]
    own = [moment for moment in moments if any(name in moment.counts for name in names)]
    if not usual:
        yield f'# {UNSURE}no log has U-Boot\'s "Starting kernel ..."; the flow below has their moments.'
    if len(usual) == 1:
        yield f"# {UNSURE}one log: a line that only some boots print looks the same. Learn from several, if you can."
    yield "moments = ["
    yield from _marker_lines(own, names)
    kernel_line = next((text for _, text in sightings(every, KERNEL_BEGINS)), "")
    if kernel_line and all(moment.pattern.name != "first_printk" for moment in moments):
        yield (
            f"    # {UNSURE}no shipped first_printk fits the kernel's first lines ({kernel_line}): give a "
            "pattern of yours"
        )
    if not usual:
        pattern = toml_text(_variants()[START][0].pattern)
        yield (
            f'    {{ name = "{START}", pattern = {pattern}, line_start = true, required = true, '
            'stage = "Kernel load" },'
        )
    yield from _end_lines(every)
    yield "]"


def _marker_lines(own: Sequence[_MomentInLogs], names: Sequence[str]) -> Iterator[str]:
    """A line for each moment that all logs have.

    A moment that some lack is no marker.

    Args:
        own: the moments of these logs, in their order.
        names: the logs.
    """
    titles: list[str] = []
    markers: list[_MomentInLogs] = []
    for moment in own:
        without = _logs_without(moment, own, names)
        if without and moment.pattern.name not in _REQUIRED:
            log = plain(Path(without[0]).name)
            yield f"    # {UNSURE}{log} has no {moment.pattern.name}: no marker of each boot, left out"
            continue
        pattern = moment.pattern
        in_logs = [moment.counts[name] for name in names if name in moment.counts]
        times = pattern.times if pattern.times == 0 else in_logs[0] if len(set(in_logs)) == 1 else 0
        if len(set(in_logs)) > 1 and pattern.times != 0:
            yield f"    # {UNSURE}{pattern.name} comes not as often in each log; `times = 0` takes any number"
        elif times > 1 and len(in_logs) == 1:
            yield (
                f"    # {UNSURE}{pattern.name} comes {times} times: does one healthy boot print it so often, or does "
                "the log hold a reset or two boots? Cut one out then"
            )
        required = pattern.name in _REQUIRED and not without
        if without:
            yield f"    # {UNSURE}{plain(Path(without[0]).name)} has no {pattern.name}, so it is not required"
        stage = _stage(pattern, markers, titles)
        keys = {
            "name": pattern.name,
            "pattern": pattern.pattern,
            **({"line_start": True} if pattern.line_start else {}),
            **({"required": True} if required else {}),
            **({"stage": stage} if stage else {}),
            **({"times": times} if times != 1 else {}),
            "reference": pattern.reference or "a shipped type",
        }
        yield f"    {_inline_table(keys)},"
        markers.append(moment)


def _logs_without(moment: _MomentInLogs, own: Sequence[_MomentInLogs], names: Sequence[str]) -> list[str]:
    """The logs that lack a moment and have others around it.

    A log that begins late lacks the first ones, which says nothing; only a required one counts then, too.
    """
    place = own.index(moment)
    lacking = [name for name in names if name not in moment.counts]
    required = moment.pattern.name in _REQUIRED
    return [
        name
        for name in lacking
        if any(name in other.counts for other in own[place + 1 :])
        and (required or any(name in other.counts for other in own[:place]))
    ]


def _stage(pattern: MomentPattern, before: Sequence[_MomentInLogs], titles: list[str]) -> str:
    """The title of the stage that ends at a moment.

    The program that spoke before the moment ran until then. Empty: an earlier stage has that title.

    Args:
        before: the markers before it.
        titles: those given so far; this one is added.
    """
    name = pattern.name
    stage = pattern.stage
    if not titles:
        stage = f"Power on to {TITLES.get(name, name)}"
    elif name == "first_printk" and before[-1].pattern.name in _BEHIND_START:
        stage = "Kernel entry"
    elif name == "autoboot" and all(moment.pattern.name != "uboot" for moment in before):
        stage = f"{TITLES.get(before[-1].pattern.name, before[-1].pattern.name)} start-up"
    elif name in TITLES:
        earlier = before[-1].pattern.name
        stage = TITLES.get(earlier, stage)
        if earlier == "tfa" and any(m.pattern.name == "spl" and max(m.counts.values()) > 1 for m in before):
            stage = "TF-A, SPL"  # an SPL again behind TF-A
    stage = "" if stage in titles else stage
    titles.append(stage)
    return stage


def _end_lines(logs: Sequence[BootLog]) -> Iterator[str]:
    """The moments that end a boot: the login's and the shell's prompt."""
    login = login_prompt(logs)
    if login.doubt:
        yield f"    # {UNSURE}{login.doubt}"
    source = "BusyBox init, askfirst" if login.text == ASKED else "util-linux agetty"
    source += ", assumed" if login.doubt else "; the logs"
    keys = {
        "name": "login",
        "pattern": login.text,
        "line_start": True,
        "stage": "User space",
        "reference": source,
    }
    yield f"    {_inline_table(keys)},"
    shell = r"(sh-\d[\d.]*|~ |/ )[#$] "  # a bare `# `, as dash has it, would fit each comment
    waiting = waiting_shell(logs)
    if waiting.text:
        shell = f"{literal(waiting.text)}|{shell}"
        yield f"    # {UNSURE}a log ends at the shell's prompt {toml_text(waiting.text)}: without a login, let"
        yield "    # `login` have that pattern here and in [prompts], too; else such a boot is flow_unverified"
    elif any(log.lines[-1] == "# " for log in logs):
        yield f"    # {UNSURE}a log ends with '# ', which a comment begins with, too: let the prompt say more (PS1)"
    keys = {"name": "shell", "pattern": shell, "line_start": True, "reference": "assumed"}
    yield f"    {_inline_table(keys)},     # init=/bin/sh"


def _flow_lines(
    moments: Sequence[_MomentInLogs], others: Sequence[BootLog], usual: Sequence[BootLog]
) -> Iterator[str]:
    """The table `flows.direct`, of the logs without U-Boot's "Starting kernel"."""
    names = [log.name for log in others]
    own = [moment for moment in moments if any(name in moment.counts for name in names)]
    if not others or not own:
        return
    there = {moment.pattern.name for moment in own}
    start = next((name for name in _STARTS if name in there), own[0].pattern.name)
    in_usual = {moment.pattern.name for moment in moments if any(log.name in moment.counts for log in usual)}
    yield ""
    yield f"# {UNSURE}the name, the title, and the moment that the time counts from."
    if len(others) == 1:
        yield f"# {UNSURE}one log: a line that only some boots print looks the same. Learn from several, if you can."
    yield "[flows.direct]"
    shown = ", ".join(Path(name).name for name in names)
    yield f"title = {toml_text(f'another loader than U-Boot starts Linux ({shown})')}"
    yield f'start = "{start}"'
    yield "moments = ["
    for line in _marker_lines(own, names):
        # The pattern of a moment of the usual way stands there.
        name = re.match(r' *\{ name = "(\w+)"', line)
        yield _PATTERN_AND_REFERENCE.sub("", line) if name and name[1] in in_usual else line
    yield '    { name = "login", stage = "User space" },'
    yield '    { name = "shell", stage = "User space" },'
    yield "]"


def _evidence_lines(logs: Sequence[BootLog]) -> Iterator[str]:
    """The key `evidence`: what the logs call each medium."""
    yield ""
    guessed = [Path(log.name).name for log in logs if not log.sure]
    if guessed:
        yield f"# {UNSURE}the medium of {plain(', '.join(guessed))}, called {MEDIUM!r} here; say it with MEDIUM=LOG."
    if any(count == 1 for count in Counter(log.medium for log in logs).values()):
        yield f"# {UNSURE}one log of a medium: another boot from it may name it in other words."
    yield "evidence = ["
    done: set[str] = set()
    for pattern in _EVIDENCE:
        if pattern.source in done:
            continue
        media_of_word: dict[str, set[str]] = {}
        regex = re.compile(pattern.pattern)
        for log in logs:
            words = [match[1] for line in log.lines if (match := regex.search(line))]
            for word in words[-1:] if pattern.confirmed_by else words:  # the last one, which the other line confirms
                media_of_word.setdefault(word, set()).add(log.medium)
        if not media_of_word:
            continue
        done.add(pattern.source)
        shared = next((word for word, media in media_of_word.items() if len(media) > 1), "")
        if shared:
            media_text = " and on ".join(sorted(media_of_word[shared]))
            yield f"    # {UNSURE}{pattern.source} says {shared!r} on {media_text}: left out"
            continue
        keys = {
            "source": pattern.source,
            "pattern": pattern.pattern,
            **({"confirmed_by": pattern.confirmed_by} if pattern.confirmed_by else {}),
            "media": {word: media.pop() for word, media in media_of_word.items()},
            "reference": f"{pattern.reference}; the logs",
        }
        yield f"    {_inline_table(keys)},"
    for source in ("kernel", "rootfs"):
        if source not in done:
            yield (
                f"    # {UNSURE}nothing names the medium as {source}: numbers may carry `medium_unverified` without it"
            )
    yield "]"


def _head_lines(name: str, logs: Sequence[BootLog]) -> Iterator[str]:
    """The first comment, and the board's name, title and SoC."""
    logs_text = plain(", ".join(Path(log.name).name for log in logs))
    yield (
        f"# Drafted from {len(logs)} log{'s' * (len(logs) > 1)}: {logs_text}. Check it: lab console check "
        f"{name}.toml LOG"
    )
    yield from versions(logs)
    model, soc = model_of(logs), soc_of(logs)
    yield f'name = "{name}"'
    yield f"title = {toml_text(model.text or name)}{model.comment}"
    yield f"soc = {toml_text(soc.text or 'unknown')}{soc.comment}"
    yield ""


def _prompt_lines(logs: Sequence[BootLog]) -> Iterator[str]:
    """The tables `prompts` and `uarts`."""
    login = login_prompt(logs)
    uboot, shell = bootloader_prompt(logs), shell_prompt(logs)
    yield "\n[prompts]"
    yield f"uboot = {toml_text(literal(uboot.text or '=> '))}{uboot.comment}"
    yield f"login = {toml_text(login.text)}{login.comment}"
    yield f"shell = {toml_text(shell.text)}{shell.comment}"
    linux, speed = console(logs)
    yield "\n[[uarts]]"
    yield 'name = "uart0"\nrole = "console"'
    yield f"linux = {toml_text(linux.text)}{linux.comment}"
    yield f"speed_bd = {speed.text or 115200}{speed.comment}"


def _media_lines(logs: Sequence[BootLog]) -> Iterator[str]:
    """The tables `media` and `timeouts`."""
    yield f"\n# {UNSURE}the boot-mode straps; without them the medium is what the board is set to."
    yield "[media]"
    for medium in dict.fromkeys(log.medium for log in logs):
        keys: dict[str, object] = {"title": {"sd": "SD", "emmc": "eMMC", "ospi": "OSPI"}.get(medium, medium)}
        root = root_device([log for log in logs if log.medium == medium])
        if root.text:
            keys["root"] = root.text
        yield f"{medium} = {_inline_table(keys)}{root.comment}"
    last_s = last_kernel_time_s(logs)
    yield "\n[timeouts]"
    yield f"boot_s = {max(120, 4 * round(last_s))}    # {UNSURE}the kernels' own clocks end at {last_s:.0f} s"


def _inline_table(keys: Mapping[str, object]) -> str:
    """An inline table of TOML (v1.0.0, "Inline Table").

    A key that is not bare stands in quotes.
    """
    pairs = []
    for key, value in keys.items():
        match value:
            case bool():
                text = str(value).lower()
            case int():
                text = str(value)
            case Mapping():
                text = _inline_table(value)
            case _:
                text = toml_text(str(value))
        pairs.append(f"{key if re.fullmatch(r'[A-Za-z0-9_-]+', key) else json.dumps(key)} = {text}")
    return "{ " + ", ".join(pairs) + " }"
