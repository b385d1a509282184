"""Reading release files: one clear error that names the file, the line and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cattrs
import yaml
from attrs import evolve
from cattrs.cols import is_sequence, list_structure_factory
from cattrs.v import format_exception

from lab import yamlfile
from lab.errors import ConfigurationError
from lab.provision.release import SUFFIX, Content, Image, Release
from lab.provision.values import URLS
from lab.redaction import redacted
from lab.shown import plain

_DOCUMENTED: Final = "docs/releases.md explains every key"
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_STEP: Final = re.compile(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")
_NAMED: Final = re.compile(r"'?(\w+)(?:: |' must be )")  # how a validator begins
_EXTRA: Final = re.compile(r"extra fields found \(([^,)]+)")


def load(path: Path) -> Release:
    """Read a release file. Paths in it are relative to it, and absolute in what is returned. No file that it names is opened.

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
        found = converter.structure({"name": path.name.removesuffix(SUFFIX), **data, "path": None}, Release)
    except cattrs.BaseValidationError as error:
        reasons = cattrs.transform_error(error, path="$", format_exception=_reason)
        reason = min(reasons, key=lambda each: not _EXTRA.search(each))  # a wrong key before the one that is missing
        said, _, where = reason.rpartition(" @ $")
        line, key = _located(text, where, said)
        raise ConfigurationError(
            f"{path}:{line}: {key}{redacted(plain(said.removeprefix(key.rpartition('.')[2])))}; mend it: {_DOCUMENTED}"
        ) from None
    if f"{found.name}{SUFFIX}" != path.name:
        raise ConfigurationError(
            f"{path}:{_located(text, '.name', '')[0]}: name: {found.name!r} is not the file's; the name of the file is the "
            f"label of its runs: delete the key, or call the file {found.name}{SUFFIX}"
        )
    return _absolute(found, path.absolute())


def _absolute(release: Release, path: Path) -> Release:
    folder = path.parent

    def of(source: str) -> str:
        return source if not source or source.startswith(URLS) else str(folder / source)

    def moved(file: Any) -> Any:
        more = {"bmap": of(file.bmap)} if isinstance(file, Image) else {}
        return evolve(file, source=of(file.source), **more)

    media = {
        name: Content(moved(each.image) if each.image else None, list(map(moved, each.parts)), each.extcsd)
        for name, each in release.media.items()
    }
    given = release.recovery
    recovery = evolve(
        given, usb=list(map(moved, given.usb)), uart=list(map(moved, given.uart)), ram=list(map(moved, given.ram))
    )
    return evolve(release, media=media, recovery=recovery, path=path)


def _refuse_other_keys(path: Path, node: Any) -> None:
    """YAML's reader takes some words for no text, e.g. `on`."""
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _refuse_other_keys(path, each)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag != _TEXT_TAG:
                raise ConfigurationError(
                    f"{path}:{key.start_mark.line + 1}: {plain(str(key.value))[:60]}: this key is no text to YAML; is it a key of a release? "
                    f"{_DOCUMENTED}"
                )
            _refuse_other_keys(path, value)


def _located(text: str, where: str, said: str) -> tuple[int, str]:
    """The line of what cattrs found wrong, and its key as a prefix of a message."""
    steps = [name or key or int(index) for name, key, index in _STEP.findall(where)]
    if inner := _EXTRA.search(said) or _NAMED.match(said):
        steps.append(inner[1])
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    line = node.start_mark.line + 1
    known: list[str] = []
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
        known.append(f"[{step}]" if isinstance(step, int) else f"{'.' if known else ''}{step}")
        node = child
    return line, f"{''.join(known)}: " if known else ""


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

    def structured(value: Any, of: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected a list{_instead(value)}")  # noqa: TRY004 - as all wrong values
        return usual(value, of)

    return structured


def _instead(value: object) -> str:
    if isinstance(value, str):
        return f", e.g. [{value}]"
    return (
        ", got nothing"
        if value is None
        else ", got keys and values"
        if isinstance(value, dict)
        else f", got {value!r:.60}"
    )


def _reason(error: BaseException, kind: type | None) -> str:
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    if isinstance(error, ValueError) and str(error):
        return str(error.args[0])  # attrs gives its own three more
    if isinstance(error, AttributeError | TypeError):  # of what has no keys
        return "expected keys and values"
    return format_exception(error, kind)
