"""Patterns of a board's console and their order."""

from __future__ import annotations

import re

from attrs import field, frozen, validators

NORMAL = "normal"  # the usual way to boot
QUIET = "quiet"  # the same, with a kernel that prints its errors only
# Invisible bytes for a terminal: ECMA-48 control sequences (a colour), control strings (a title), two-byte escapes.
_TERMINAL = r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_78=>])"
LINE_START = rf"^(?:\r|{_TERMINAL})*"


def quiet_flow(way: str) -> str:
    """The name of a flow with a quiet kernel: "quiet", "falcon_quiet"."""
    return QUIET if way == NORMAL else f"{way}_{QUIET}"


def way_of(flow: str) -> str:
    """The flow's name without "quiet": "falcon" of "falcon_quiet"."""
    return NORMAL if flow == QUIET else flow.removesuffix(f"_{QUIET}")


def check_regex(_instance: object, attribute: object, value: str) -> None:
    """A validator of attrs: a regular expression.

    Raises:
        ValueError: it is none.
    """
    try:
        re.compile(value)
    except re.error as error:
        name = getattr(attribute, "name", "pattern")
        raise ValueError(f"{name}: not a regular expression ({error}): {value!r}") from error


@frozen
class MediumEvidence:
    """A console line that proves the medium of a boot.

    Attributes:
        source: program that prints it ("spl", "uboot", "kernel", "rootfs").
        pattern: regular expression with one group, the medium in the source's own words.
        media: the group's text -> boardlab's medium; a text that is missing here is no known medium.
        confirmed_by: regular expression of a later line that this one needs: of several the last one before it
            counts, and none after it. Empty: the line counts by itself.
        reference: source of the patterns; empty: assumed.
    """

    source: str
    pattern: str = field(validator=check_regex)
    media: dict[str, str]
    confirmed_by: str = field(default="", validator=check_regex)
    reference: str = ""

    def __attrs_post_init__(self) -> None:
        if re.compile(self.pattern).groups != 1:
            raise ValueError(f"pattern of evidence {self.source!r} needs exactly one group: {self.pattern!r}")


@frozen
class MomentPattern:
    """A marker on the console; its last byte's arrival is the moment.

    See docs/boot-time.md.

    Attributes:
        name: the moment's name, e.g. "starting_kernel".
        pattern: regular expression within one line; it must not end in a look-ahead.
        required: a boot without it did not succeed.
        stage: the title of the stage that ends here; empty: none.
        times: its count in a healthy boot (the K3 boards print two SPL banners); up to the kernel's first line one
            more is a reset, and with fewer the lost one is unknown. 0: any number.
        line_start: it stands at the start of its line; carriage returns and terminal sequences may stand before it.
        reference: source of the pattern; empty: assumed.
    """

    name: str
    pattern: str = field(default="", validator=check_regex)
    required: bool = False
    stage: str = ""
    times: int = field(default=1, validator=validators.ge(0))
    line_start: bool = False
    reference: str = ""

    @property
    def regex(self) -> str:
        """The regular expression to search for in a line."""
        return f"{self.before}(?:{self.pattern})" if self.line_start else self.pattern

    @property
    def before(self) -> str:
        """Regular expression of text before the marker that is no part of it."""
        return LINE_START if self.line_start else ""


@frozen
class OwnMoment:
    """A user's own line that each boot is timed to.

    It may come behind the prompt.

    Attributes:
        name: of its metric, in seconds, e.g. "app.ready".
        pattern: regular expression within one line.
        since: the moment of the board type that the time counts from; empty: power on.
        timeout_s: how long it is waited for behind the prompt.
    """

    name: str = field(validator=validators.matches_re(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+"))
    pattern: str = field(validator=check_regex)
    since: str = field(default="", validator=validators.instance_of(str))
    timeout_s: float = field(default=60.0, validator=[validators.instance_of((int, float)), validators.gt(0)])


@frozen
class Flow:
    """A way to boot other than the usual, e.g. falcon mode.

    Attributes:
        title: in a few words.
        moments: in the order of a healthy boot of this flow. A pattern that is left out is that of the board type's
            own moment of the same name.
        start: the moment that its headline number counts from.
        shown_by: a moment that tells it from another flow with lost characters, and of whose lines each comes
            once; empty: none is needed.
        unlike: regular expression of lines that it does not have before its `until`; empty: none are known.
        until: a moment.
        reference: source of `unlike`; empty: assumed.
    """

    title: str
    moments: list[MomentPattern]
    start: str = "starting_kernel"
    shown_by: str = ""
    unlike: str = field(default="", validator=check_regex)
    until: str = ""
    reference: str = ""


@frozen
class Sign:
    """The meaning of a text on the console.

    Attributes:
        means: a failure class, or a boot's flag.
        reference: source of the text; empty: assumed.
    """

    means: str
    reference: str = ""


def check_moments(where: str, moments: list[MomentPattern]) -> None:
    """Check that each moment has a pattern and its own name.

    Raises:
        ValueError: a moment lacks one of them.
    """
    names: set[str] = set()
    for moment in moments:
        if moment.name in names:
            raise ValueError(f"{where}: two moments are called {moment.name!r}")
        if not moment.pattern:
            raise ValueError(f"{where}: {moment.name!r} has no pattern")
        names.add(moment.name)
