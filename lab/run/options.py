"""Measurement options of pytest, `lab run` and farm.yaml, in one table.

A new option is one entry of TABLE. Its name is the key in farm.yaml and in a job; `lab run` has it with `--`
before it, pytest with `--lab-`: the options of other plugins, and of a conftest, have the short names there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from attrs import frozen

from lab.errors import ConfigurationError
from lab.jobs.records import HEALTH

Value: TypeAlias = bool | int | str | list[str]
Form: TypeAlias = Literal["flag", "number", "word", "names"]

BOOT, LOW_POWER, SECTIONS = "boot", "low_power", "sections"  # kinds of runs
JUDGE: Final = "judge"
HOLD: Final = "hold"
PROVISION: Final = "provision"
WHERE: Final = "where"
DIAGNOSTIC_BOOTS: Final = 3  # of a medium at least
CONFIRMS: Final = "confirms"  # of a job: the run that it measures again
MAX_CYCLES: Final = 100_000  # a year of boots
MAX_SLEEP_S: Final = 24 * 3600
MAX_RETRIES: Final = 1000
DEFAULT_RETRIES: Final = 2
_NAME: Final = re.compile(r"[\w][\w.+-]*")
_LONGEST: Final = 40  # characters of a wrong value that a message repeats


@frozen
class RunOption:
    """An option.

    Attributes:
        kinds: of the runs that it affects.
        form: a flag is given or not; names may be given several times, or with commas between them.
        metavar: its value's name in help texts.
        minimum, maximum: of a number.
        pattern: of a word;
        expected: its description for a message.
        plan: its key in a run's plan; empty: a resumed run needs the option again.
        default: of pytest.
    """

    name: str
    kinds: tuple[str, ...]
    form: Form
    help: str
    metavar: str = ""
    minimum: int = 1
    maximum: int = 1
    pattern: str = ""
    expected: str = ""
    plan: str = ""
    default: int | None = None

    @property
    def flag(self) -> str:
        """Its flag of `lab run`, e.g. "--destructive"."""
        return f"--{self.name}"

    @property
    def pytest_flag(self) -> str:
        """Its flag of pytest, e.g. "--lab-destructive"."""
        return f"--lab-{self.name}"

    @property
    def dest(self) -> str:
        """The attribute of pytest's options."""
        return f"lab_{self.name}"

    def read(self, given: object, label: str) -> Value | None:
        """Check a value and convert it for a job; None: not given.

        Args:
            label: how a message calls the option.

        Raises:
            ConfigurationError: the value is of another kind, or out of its range.
        """
        if given is None or given is False or (isinstance(given, (list, tuple)) and not given):
            return None
        match self.form:
            case "flag":
                if given is True:
                    return True
                raise ConfigurationError(f"{label} {_cut(given)}: true or false")
            case "number":
                if type(given) is int and self.minimum <= given <= self.maximum:
                    return given
                raise ConfigurationError(
                    f"{label} {_cut(given)}: a whole number from {self.minimum} to {self.maximum}"
                )
            case "word":
                if isinstance(given, str) and re.fullmatch(self.pattern, given):
                    return given
                raise ConfigurationError(f"{label} {_cut(repr(given))}: {self.expected}")
            case "names":
                parts = [given] if isinstance(given, str) else given if isinstance(given, (list, tuple)) else [None]
                names = [name for part in parts for name in (part.split(",") if isinstance(part, str) else [""])]
                if all(map(_NAME.fullmatch, names)):
                    return list(dict.fromkeys(names))
                raise ConfigurationError(f"{label} {_cut(repr(given))}: a name, or several with commas between them")


TABLE: Final = (
    RunOption(
        "medium",
        (BOOT, LOW_POWER),
        "names",
        "boot medium; repeatable (default: all of the board)",
        metavar="NAME",
        plan="media",
    ),
    RunOption(
        "init",
        (BOOT,),
        "word",
        "boot time with init=PROGRAM, e.g. /bin/sh, to its prompt",
        metavar="PROGRAM",
        pattern=r"/[\w./+-]+",
        expected="the path of a program on the board, e.g. /bin/sh",
        plan="init",
    ),
    RunOption(
        WHERE,
        (BOOT,),
        "flag",
        f"then find where the boot time goes, by {DIAGNOSTIC_BOOTS} further boots of each medium outside the numbers, "
        "or up to three times as many where they vary",
    ),
    RunOption(
        "mode",
        (LOW_POWER,),
        "names",
        "low-power mode; repeatable (default: all that can be measured)",
        metavar="NAME",
        plan="modes",
    ),
    RunOption(
        "wake",
        (LOW_POWER,),
        "word",
        "wake source of the board: uart (default), rtc, mcu, gpio; partial I/O: can",
        metavar="SOURCE",
        pattern=_NAME.pattern,
        expected="the name of a source, e.g. rtc",
        plan="wake",
    ),
    RunOption(
        "sleep",
        (LOW_POWER,),
        "number",
        "seconds that the board sleeps in each cycle (default 5)",
        metavar="S",
        maximum=MAX_SLEEP_S,
        plan="sleep_s",
    ),
    RunOption(
        "energy",
        (LOW_POWER,),
        "flag",
        "also the energy of each suspend and resume; its rails are sampled fast",
        plan="energy",
    ),
    RunOption(
        "shuffle",
        (LOW_POWER,),
        "flag",
        "the cycles of all modes in one random order, and a failed cycle does not end the run",
        plan="shuffle",
    ),
    RunOption(
        "sections",
        (SECTIONS,),
        "names",
        "only these sections of the guide, e.g. sd-fio; repeatable (default: all that fit the board)",
        metavar="NAME",
    ),
    RunOption(
        "repeats",
        (SECTIONS,),
        "number",
        "cycles of each section (default: as the section says, 3)",
        metavar="N",
        maximum=MAX_CYCLES,
        plan="repeats",
    ),
    RunOption(
        "destructive",
        (SECTIONS,),
        "flag",
        "also measure what overwrites the scratch media that the env names",
        plan="destructive",
    ),
    RunOption(
        "retries",
        (BOOT, LOW_POWER, SECTIONS),
        "number",
        f"further attempts per cycle, or per row of a section (default {DEFAULT_RETRIES})",
        metavar="N",
        minimum=0,
        maximum=MAX_RETRIES,
        default=DEFAULT_RETRIES,
    ),
    RunOption(
        HOLD,
        (BOOT, LOW_POWER, SECTIONS),
        "flag",
        "keep the board as it is at its first failure: no retry, no power off, and in maintenance for a person",
    ),
    RunOption(
        PROVISION,
        (BOOT, LOW_POWER, SECTIONS),
        "word",
        "put this release file on the media first; or `newest in DIR`",
        metavar="FILE",
        pattern=r"[^\x00-\x1f\x7f\"'$%\\]+",
        expected="the path of a release file, or `newest in DIR`; without quotes, $, % and backslashes, as it "
        "stands in "
        "unit files",
    ),
    RunOption(
        HEALTH,
        (BOOT, LOW_POWER, SECTIONS),
        "flag",
        "check the board first, if its last check is old or failed, or the lab failed since",
    ),
    RunOption(
        JUDGE,
        (BOOT, LOW_POWER, SECTIONS),
        "flag",
        "judge what was measured; `lab run` measures again where the judge asks",
    ),
)
NAMES: Final = tuple(option.name for option in TABLE)


def read(given: Mapping[str, object], *, flags: bool = True) -> dict[str, Value]:
    """Check given options and convert them for a job, by name.

    Args:
        flags: messages name them as flags, else as keys of a file.

    Raises:
        ConfigurationError: an option is unknown, or its value is wrong.
    """
    unknown = sorted(given.keys() - set(NAMES))
    if unknown:
        raise ConfigurationError(f"no option {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    values = {}
    for option in TABLE:
        value = option.read(given.get(option.name), option.flag if flags else f"{option.name}:")
        if value is not None:
            values[option.name] = value
    return values


def pytest_words(options: Mapping[str, Value], kind: str, *, resumed: bool) -> list[str]:
    """The options as arguments of pytest for a run of this kind.

    They have `=`: pytest takes a separate path for a folder of tests when it looks for its settings.

    Args:
        resumed: the run has a plan, which contains most of them.
    """
    options_of_kind = [option for option in TABLE if kind in option.kinds and not (resumed and option.plan)]
    return [
        word
        for option in options_of_kind
        if option.name in options
        for word in _words(option.pytest_flag, options[option.name])
    ]


def words(options: Mapping[str, Value]) -> list[str]:
    """The options as arguments of `lab run`."""
    return [word for option in TABLE if option.name in options for word in _words(option.flag, options[option.name])]


def idle(options: Mapping[str, Value], kinds: Iterable[str]) -> Iterator[RunOption]:
    """The options without effect on runs of these kinds."""
    wanted_kinds = set(kinds)
    for option in TABLE:
        if option.name in options and not wanted_kinds & set(option.kinds):
            yield option


def _words(flag: str, value: Value) -> Iterator[str]:
    if value is True:
        yield flag
    else:
        yield f"{flag}={','.join(value) if isinstance(value, list) else value}"


def _cut(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
