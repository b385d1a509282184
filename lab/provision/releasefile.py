"""Reader of release files; errors name file, line and remedy."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import cattrs
import yaml
from attrs import evolve
from cattrs.cols import is_sequence, list_structure_factory
from cattrs.v import format_exception

from lab import yamlfile
from lab.errors import ConfigurationError
from lab.provision.release import SUFFIX, URLS, Content, Image, Release
from lab.redaction import redact
from lab.terminal import plain

_DOCUMENTED: Final = "docs/releases.md explains every key"
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_STEP: Final = re.compile(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")
_NAMED: Final = re.compile(r"'?(\w+)(?:: |' must be )")  # how a validator begins
_EXTRA: Final = re.compile(r"extra fields found \(([^,)]+)")


def load(path: Path) -> Release:
    """Read a release file without opening the files that it names.

    Its paths are relative to it, and absolute in the result.

    Raises:
        ConfigurationError: it cannot be read, has an unknown key or a wrong value, or its `name` is not the file's.
    """
    text = yamlfile.text_of(path, f"`lab release make DIR` drafts one; {_DOCUMENTED}", unique=True)
    data = yamlfile.load(path)
    _refuse_other_keys(path, yaml.compose(text, Loader=yaml.SafeLoader))
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}:1: expected keys and values; {_DOCUMENTED}")
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook(int, _number)
    converter.register_structure_hook(bool, _yes_or_no)
    converter.register_structure_hook_factory(is_sequence, _lists)
    try:
        release = converter.structure({"name": path.name.removesuffix(SUFFIX), **data, "path": None}, Release)
    except cattrs.BaseValidationError as error:
        reasons = cattrs.transform_error(error, path="$", format_exception=_reason)
        # A wrong key before the one that is missing.
        reason = min(reasons, key=lambda reason: not _EXTRA.search(reason))
        problem, _, where = reason.rpartition(" @ $")
        line, key = _locate(text, where, problem)
        raise ConfigurationError(
            f"{path}:{line}: {key}{redact(plain(problem.removeprefix(key.rpartition('.')[2])))}; "
            f"mend it: {_DOCUMENTED}"
        ) from None
    if f"{release.name}{SUFFIX}" != path.name:
        raise ConfigurationError(
            f"{path}:{_locate(text, '.name', '')[0]}: name: {release.name!r} is not the file's; the name of the file "
            f"is the label of its runs: delete the key, or call the file {release.name}{SUFFIX}"
        )
    return _absolute(release, path.absolute())


def _absolute(release: Release, path: Path) -> Release:
    folder = path.parent

    def of(source: str) -> str:
        return source if not source or source.startswith(URLS) else str(folder / source)

    def make_absolute(file: Any) -> Any:
        more = {"bmap": of(file.bmap)} if isinstance(file, Image) else {}
        return evolve(file, source=of(file.source), **more)

    media = {
        name: Content(
            make_absolute(content.image) if content.image else None,
            list(map(make_absolute, content.parts)),
            content.extcsd,
        )
        for name, content in release.media.items()
    }
    stages = release.recovery
    recovery = evolve(
        stages,
        usb=list(map(make_absolute, stages.usb)),
        uart=list(map(make_absolute, stages.uart)),
        ram=list(map(make_absolute, stages.ram)),
    )
    return evolve(release, media=media, recovery=recovery, path=path)


def _refuse_other_keys(path: Path, node: Any) -> None:
    """YAML's reader takes some words for no text, e.g. `on`."""
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_other_keys(path, child)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag != _TEXT_TAG:
                raise ConfigurationError(
                    f"{path}:{key.start_mark.line + 1}: {plain(str(key.value))[:60]}: this key is no text to YAML; is "
                    f"it a key of a release? {_DOCUMENTED}"
                )
            _refuse_other_keys(path, value)


def _locate(text: str, where: str, problem: str) -> tuple[int, str]:
    """Line of cattrs' error, and its key as a message's prefix."""
    steps = [name or key or int(index) for name, key, index in _STEP.findall(where)]
    if inner := _EXTRA.search(problem) or _NAMED.match(problem):
        steps.append(inner[1])
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    line = node.start_mark.line + 1
    key_parts: list[str] = []
    for step in steps:
        child = None
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(step)), None)
            if pair is not None:
                line, child = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            child = node.value[step]
            line = child.start_mark.line + 1
        if child is None:
            break
        key_parts.append(f"[{step}]" if isinstance(step, int) else f"{'.' if key_parts else ''}{step}")
        node = child
    return line, f"{''.join(key_parts)}: " if key_parts else ""


def _text(value: object, _type: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected text, got {str(value)[:60]}; put it in quotes")


def _number(value: object, _type: object) -> int:
    if type(value) is int:
        return value
    raise ValueError(f"expected a whole number, got {str(value)[:60]!r}")


def _yes_or_no(value: object, _type: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"expected true or false, got {str(value)[:60]!r}")


def _lists(kind: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    """Of text, cattrs would take the characters; of a mapping, the keys."""
    usual = list_structure_factory(kind, converter)

    def structure_list(value: Any, of: Any) -> Any:
        if not isinstance(value, list):
            match value:
                case str():
                    hint = f", e.g. [{value}]"
                case None:
                    hint = ", got nothing"
                case dict():
                    hint = ", got keys and values"
                case _:
                    hint = f", got {value!r:.60}"
            raise ValueError(f"expected a list{hint}")  # noqa: TRY004 - as all wrong values
        return usual(value, of)

    return structure_list


def _reason(error: BaseException, kind: type | None) -> str:
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    if isinstance(error, ValueError) and str(error):
        return str(error.args[0])  # attrs gives its own three more
    if isinstance(error, AttributeError | TypeError):  # of what has no keys
        return "expected keys and values"
    return format_exception(error, kind)


NEWEST: Final = "newest in "


def folder_of(text: str) -> str:
    """The folder of "newest in FOLDER"; empty: it is a path."""
    return text.removeprefix(NEWEST).strip() if text.startswith(NEWEST) else ""


def files_in(folder: Path) -> list[Path]:
    """Release files of a folder in the order of their writing.

    Hidden ones are left out (an editor's locks, a draft), and those that cannot be looked at: deleted in this moment,
    links to nothing.
    """
    dated_paths = []
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            if not path.name.startswith("."):
                dated_paths.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(dated_paths)]


def find(text: str, board_type: str, base: Path) -> Release:
    """The release that an option means.

    Args:
        text: a path, or "newest in FOLDER": of the release files there that are for the board type, the one that was
            written last.
        base: where relative paths begin.

    Raises:
        ConfigurationError: there is no such file or folder, or the file is wrong.
    """
    if "://" in text:
        raise ConfigurationError(
            f"{redact(text)}: a release file lies on the lab host; fetch it, and give its "
            "path. The files that it names may be URLs"
        )
    folder = folder_of(text)
    if not folder:
        return load(base / text)
    place = base / folder
    if not place.is_dir():
        raise ConfigurationError(
            f"{text}: there is no folder {place}; `lab release make` writes release files into one"
        )
    files = files_in(place)
    for path in reversed(files):
        # A newest one that is wrong is an error: an older one would be measured in its place, unnoticed
        release = load(path)
        if board_type in release.boards:
            return release
    raise ConfigurationError(
        f"{text}: no release file there is for {board_type}" + (f" ({len(files)} are for others)" if files else "")
    )


APART_S: Final = 2.0  # between two looks: a copy that goes on has grown, on a slow network, too
PATIENCE_S: Final = 3600.0  # an image of 16 GB at 10 MB/s takes half of it
_State = dict[str, tuple[int, ...] | None]


def settle(path: Path, sleep: Callable[[float], None] = time.sleep, patience_s: float = PATIENCE_S) -> None:
    """Wait until a release file and its local files stop changing.

    Two looks must find the same sizes and times.

    A stalled copy looks like a whole one; the digests find it (`lab.provision.checks`).

    Raises:
        ConfigurationError: it was still written after `patience_s`.
    """
    before, waited_s = _look(path), 0.0
    while True:
        sleep(APART_S)
        waited_s += APART_S
        now = _look(path)
        if now == before:
            return
        if waited_s >= patience_s:
            changed = ", ".join(name for name in now if now[name] != before.get(name))
            raise ConfigurationError(f"{path}: still written after {waited_s:.0f} s ({changed}): look who writes it")
        before = now


def _look(path: Path) -> _State:
    states = {str(path): _state(path)}
    try:
        release = load(path)
    except ConfigurationError:  # wrong, or half of it: its own state says when that changes
        return states
    named = [file.source for file in release.files]
    named += [file.bmap for file in release.files if isinstance(file, Image) and file.bmap]
    return states | {name: _state(Path(name)) for name in named if not name.startswith(("http://", "https://"))}


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
