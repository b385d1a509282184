"""Board types from their TOML files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeGuard

import cattrs
from attrs import frozen
from cattrs.gen import make_dict_structure_fn

from lab import tomlfile
from lab.boards.markers import Sign
from lab.boards.model import BoardType
from lab.errors import ConfigurationError

COMMON = "common"
OWN_TYPES = "BOARDLAB_BOARD_TYPES"  # environment variable: folder of a lab's own types, or several


def shipped() -> list[str]:
    """The board types that come with boardlab, sorted."""
    return sorted(path.stem for path in _types().glob("*.toml") if path.stem != COMMON)


def names() -> list[str]:
    """All board types, sorted: shipped ones and the lab's own (`OWN_TYPES`).

    Raises:
        ConfigurationError: the lab's folder is missing, or a file in it has the name of another type.
    """
    return sorted(_files())


def load(name: str) -> BoardType:
    """The board type of that name, read once.

    Raises:
        ConfigurationError: no such type, or its file is wrong.
    """
    files = _files()
    if name not in files:
        raise ConfigurationError(
            f"no board type {name!r}; there are: {', '.join(sorted(files))}. Types of your own are looked for in the "
            f"folder that the environment variable {OWN_TYPES} names"
        )
    return _load(files[name])


@cache
def _load(path: Path) -> BoardType:
    board = load_file(path)
    if board.name != path.stem:
        raise ConfigurationError(
            f"{path}: name = {board.name!r}: a type is called as its file; rename the file {board.name}.toml, "
            "or the type"
        )
    return board


def _files() -> dict[str, Path]:
    """Name -> file."""
    files = {name: _types() / f"{name}.toml" for name in shipped()}
    for folder in filter(None, os.environ.get(OWN_TYPES, "").split(os.pathsep)):
        if not Path(folder).is_dir():
            raise ConfigurationError(f"{OWN_TYPES} names {folder}, which is no folder; make it, or mend the variable")
        for path in sorted(Path(folder).absolute().glob("*.toml")):
            if path.stem in files:
                raise ConfigurationError(
                    f"{path}: there is a board type {path.stem!r} already, {files[path.stem]}; give yours another name"
                )
            files[path.stem] = path
    return files


def load_file(path: Path) -> BoardType:
    """A board type from a TOML file, merged with its shared parts.

    Parts common to all boards are in `types/common.toml`; `based_on` names further parts, in `types/parts`, or shipped
    types. Tables are merged key by key, and a table over a list of named tables goes by their names
    (`[moments.login]`); anything else that a later file names replaces the earlier value. A failure or a trouble may
    be a word alone, without its reference; an empty one takes an earlier one out.

    Raises:
        ConfigurationError: not readable, not TOML, no such part, an unknown key, a wrong type or value.
    """
    own = tomlfile.read(path)
    merged = tomlfile.read(_types() / f"{COMMON}.toml")
    for part in _parts(path, own.pop("based_on", [])):
        merged = _merge(merged, part)
    merged = _merge(merged, own)
    if "evidence" not in own:
        merged["evidence"] = _of_media(merged.get("evidence", []), merged.get("media", {}))
    for table in ("failures", "troubles"):
        if isinstance(signs := merged.get(table), dict):
            merged[table] = {text: sign for text, sign in signs.items() if sign != ""}
    return tomlfile.structure(merged, BoardType, path, _signs)


def _signs(converter: cattrs.Converter) -> None:
    """A failure or a trouble may be a word alone."""
    structure_sign = make_dict_structure_fn(Sign, converter)
    converter.register_structure_hook(
        Sign, lambda value, kind: Sign(value) if isinstance(value, str) else structure_sign(value, kind)
    )


def _types() -> Path:
    return Path(str(resources.files("lab.boards") / "types"))


def _parts(path: Path, names: object) -> Iterator[dict[str, Any]]:
    """The parts of these names, each behind its bases."""
    parts = {part.stem: part for part in sorted((_types() / "parts").glob("*.toml"))}
    available = parts | {name: _types() / f"{name}.toml" for name in shipped()}
    if not isinstance(names, list) or not all(name in available for name in names):
        raise ConfigurationError(
            f"{path}: based_on = {names!r}: expected a list of parts ({', '.join(parts)}) or shipped types "
            f"({', '.join(shipped())})"
        )
    for name in names:
        part = tomlfile.read(available[name])
        yield from _parts(available[name], part.pop("based_on", []))
        yield part


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merge(below, value)
        elif (
            _has_names(below) and isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values())
        ):
            named = {name: {"name": name} for name in value} | {entry["name"]: entry for entry in below}
            order = dict.fromkeys([*(entry["name"] for entry in below), *value])
            merged[key] = [_merge(named[name], value.get(name, {})) for name in order]
        else:
            merged[key] = value
    return merged


def _of_media(evidence: Any, media: Any) -> Any:
    """A part's evidence without the media that the type lacks."""
    if not isinstance(evidence, list) or not all(isinstance(entry, dict) for entry in evidence):
        return evidence
    return [
        {**entry, "media": {text: medium for text, medium in named.items() if medium in media}}
        if isinstance(named := entry.get("media"), dict)
        else entry
        for entry in evidence
    ]


def _has_names(value: object) -> TypeGuard[list[dict[str, Any]]]:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(entry, dict) and "name" in entry for entry in value)
    )


ASSUMED = "assumed"


@frozen
class Pattern:
    """A pattern.

    Attributes:
        where: its place, e.g. "moments.spl".
        reference: its source, with `ASSUMED` parts marked; empty: none.
    """

    where: str
    text: str
    reference: str

    @property
    def assumed(self) -> bool:
        """True if it, or a part of it, has no source."""
        return not self.reference or ASSUMED in self.reference


def patterns(board: BoardType) -> list[Pattern]:
    """Every pattern of a board type, shared ones included."""
    return [pattern for pattern in (*_with_their_own(board), *_in_the_table(board)) if pattern.text]


def _with_their_own(board: BoardType) -> Iterator[Pattern]:
    for moment in board.moments:
        yield Pattern(f"moments.{moment.name}", moment.pattern, moment.reference)
    for name, flow in board.flows.items():
        yield Pattern(f"flows.{name}.unlike", flow.unlike, flow.reference)
        for moment in flow.moments:
            yield Pattern(f"flows.{name}.moments.{moment.name}", moment.pattern, moment.reference)
    for evidence in board.evidence:
        for text in (evidence.pattern, evidence.confirmed_by):
            yield Pattern(f"evidence.{evidence.source}", text, evidence.reference)
    for name in board.sleep:
        mode = board.low_power.modes[name]
        for key, text in (("entered", mode.entered), ("signature", mode.signature)):
            yield Pattern(f"low_power.modes.{name}.{key}", text, mode.reference)
    for table, signs in (("failures", board.failures), ("troubles", board.troubles)):
        for text, sign in signs.items():
            yield Pattern(table, text, sign.reference)


def _in_the_table(board: BoardType) -> Iterator[Pattern]:
    """The patterns with references in the table `references`."""
    prompts = board.prompts
    of_prompts = [("uboot", prompts.uboot), ("login", prompts.login), ("shell", prompts.shell)]
    texts_by_place = {
        "rom": [board.rom],
        "planned_reset": [board.planned_reset],
        **{f"prompts.{name}": [text] for name, text in (*of_prompts, ("autoboot", prompts.autoboot))},
        "low_power.resume_start": board.low_power.resume_start if board.sleep else [],
    }
    for where, texts in texts_by_place.items():
        for text in texts:
            yield Pattern(where, text, board.references.get(where, ""))


def assumptions(board: BoardType) -> list[str]:
    """Sorted places of values without a public source, e.g. "media.emmc.boot_mode"."""
    places = [*board.assumed]
    places += [f"identity.{field}" for field in (board.identity.assumed if board.identity else ())]
    places += [f"releases.{name}.{field}" for name, release in board.releases.items() for field in release.assumed]
    for name in board.sleep:
        places += [f"low_power.modes.{name}.{field}" for field in board.low_power.modes[name].assumed]
    places += [pattern.where for pattern in patterns(board) if pattern.assumed]
    places += [f"links.{link.name}" for link in board.links if not link.reference or ASSUMED in link.reference]
    places += [key for key, source in board.references.items() if ASSUMED in source]
    return sorted(set(places))
