"""The measurement options of pytest, `lab run` and farm.yaml, in one table.

A new option is one entry of TABLE. Its name is the key in farm.yaml and in a job. `lab run` writes it as `--NAME`,
pytest as `--lab-NAME`: there the short names belong to other plugins and to a lab's conftest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
DIAGNOSTIC_BOOTS: Final = 3  # the least number for each medium
CONFIRMS: Final = "confirms"  # option of a job: the number of the run that it measures again
MAX_CYCLES: Final = 100_000  # a year of boots
MAX_SLEEP_S: Final = 24 * 3600
MAX_RETRIES: Final = 1000
DEFAULT_RETRIES: Final = 2
_NAME: Final = re.compile(r"[\w][\w.+-]*")
_MAX_QUOTED: Final = 40  # characters of a wrong value in a message


@frozen
class RunOption:
    """One option of a measurement.

    Attributes:
        kinds: kinds of the runs that it affects.
        form: form of its value. A "flag" is given or not. "names" may be given several times, or with commas.
        metavar: name of the value in help texts.
        minimum, maximum: limits of a number.
        pattern: regular expression that a whole word must match.
        expected: description of such a word, for messages.
        plan: key in a run's plan that stores the value; empty: it is not stored, and a resumed run needs it again.
        default: pytest's default; None: no value.
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
        """The option on the command line of `lab run`, e.g. "--destructive"."""
        return f"--{self.name}"

    @property
    def pytest_flag(self) -> str:
        """The option on the command line of pytest, e.g. "--lab-destructive"."""
        return f"--lab-{self.name}"

    @property
    def dest(self) -> str:
        """The attribute of pytest's parsed options, e.g. "lab_destructive"."""
        return f"lab_{self.name}"

    def read(self, value: object, label: str) -> Value | None:
        """Check a value, and convert it for a job.

        Args:
            value: as the command line or YAML has it.
            label: name of the option in messages.

        Returns:
            The value; None: the option is not given, or is an empty list or false.

        Raises:
            ConfigurationError: the value has another form, or is out of its range.
        """
        if value is None or value is False or (isinstance(value, (list, tuple)) and not value):
            return None
        match self.form:
            case "flag":
                if value is True:
                    return True
                raise ConfigurationError(f"{label} {_cut(value)}: write true or false")
            case "number":
                if type(value) is int and self.minimum <= value <= self.maximum:
                    return value
                raise ConfigurationError(
                    f"{label} {_cut(value)}: write a whole number from {self.minimum} to {self.maximum}"
                )
            case "word":
                if isinstance(value, str) and re.fullmatch(self.pattern, value):
                    return value
                raise ConfigurationError(f"{label} {_cut(repr(value))}: write {self.expected}")
            case "names":
                parts = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [None]
                names = [name for part in parts for name in (part.split(",") if isinstance(part, str) else [""])]
                if all(map(_NAME.fullmatch, names)):
                    return list(dict.fromkeys(names))
                raise ConfigurationError(
                    f"{label} {_cut(repr(value))}: write a name, or several with commas between them"
                )


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
        expected="the path of a release file, or `newest in DIR`, without quotes, $, % and backslashes: systemd's "
        "unit files contain it",
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


def read(options: Mapping[str, object], *, flags: bool = True) -> dict[str, Value]:
    """Check options, and convert them for a job.

    Args:
        options: name -> value, as the command line or YAML has it.
        flags: True: messages name an option as "--NAME"; False: as a key of a file.

    Returns:
        Name -> value of the options that are given, in the order of the table.

    Raises:
        ConfigurationError: an option is unknown, or its value is wrong.
    """
    unknown = sorted(options.keys() - set(NAMES))
    if unknown:
        raise ConfigurationError(f"no option {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    values = {}
    for option in TABLE:
        value = option.read(options.get(option.name), option.flag if flags else f"{option.name}:")
        if value is not None:
            values[option.name] = value
    return values


def pytest_arguments(options: Mapping[str, Value], kind: str, *, resumed: bool) -> list[str]:
    """Return the options as arguments of pytest for a run of this kind.

    They are written with `=`: pytest takes a path that is an argument of its own for a folder of tests.

    Args:
        resumed: True: the run has a plan, so the options that a plan stores are left out.
    """
    return [
        _argument(option.pytest_flag, options[option.name])
        for option in TABLE
        if option.name in options and kind in option.kinds and not (resumed and option.plan)
    ]


def arguments(options: Mapping[str, Value]) -> list[str]:
    """Return the options as arguments of `lab run`."""
    return [_argument(option.flag, options[option.name]) for option in TABLE if option.name in options]


def without_effect(options: Mapping[str, Value], kinds: Iterable[str]) -> list[RunOption]:
    """Return the given options that affect no run of these kinds."""
    return [option for option in TABLE if option.name in options and not set(kinds) & set(option.kinds)]


def _argument(flag: str, value: Value) -> str:
    """Return a flag with its value as one argument of a command line."""
    if value is True:
        return flag
    return f"{flag}={','.join(value) if isinstance(value, list) else value}"


def _cut(value: object) -> str:
    """Return the start of a value's text, for a message."""
    text = str(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
