"""A file -> a guide."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from lab.errors import ConfigurationError
from lab.guide import assemble, flattened
from lab.guide.document import Document
from lab.guide.model import Guide, Unread, release_of

LARGEST_BYTES = 512 * 1024  # the largest guide of the family has 90 KB; docutils needs a second for 50 KB of the worst

_SEPARATORS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))  # would count as line ends
_RST = re.compile(
    r"^\s*\.\. [\w:-]+::|^(={4,}|-{4,}|\^{4,}|~{4,}|#{4,}|\*{4,})\s*$|^\s*\+[-=+]{3,}\+\s*$", re.MULTILINE
)


def read(path: Path) -> Guide:
    """Read one performance guide, in reStructuredText or as rendered text; the content tells which.

    Raises:
        ConfigurationError: the file cannot be read, is too large, is not text, or holds nothing of a guide. What is
            lost in parts is no error: `Guide.unread` says where and why.
    """
    return parse(str(path), _text(path))


def parse(name: str, text: str) -> Guide:
    """Read a guide from its text.

    Raises:
        ConfigurationError: it holds nothing of a guide.
    """
    if not _RST.search(text) and flattened.announces_tables(text):
        document, form = flattened.read(text), "text"
    elif _RST.search(text):
        from lab.guide import rst  # noqa: PLC0415 - docutils takes a while to import

        document, form = rst.read(name, text), "rst"
    else:
        document, form = Document(), "text"
    if not document.tables and not document.modules:
        raise ConfigurationError(
            f"{name}: holds no table of a performance guide; expected reStructuredText with `.. csv-table::` or rendered "
            f"text with lines such as 'Table 2.1 LMBench Benchmarks'{_lost(document)}; check that this is the right file"
        )
    return Guide(
        path=name,
        format=form,
        title=document.title,
        release=release_of(document.title) or release_of(Path(name).stem),
        modules=tuple(document.modules),
        tables=assemble.tables(document.tables),
        conditions=tuple(document.conditions),
        unread=tuple(sorted(document.unread, key=lambda part: part.line)),
    )


def _lost(document: Document) -> str:
    first: Unread | None = next(iter(document.unread), None)
    return f" (line {first.line}: {first.reason})" if first else ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    if len(data) > LARGEST_BYTES:
        raise ConfigurationError(
            f"{path}: is larger than {LARGEST_BYTES // 1024} KiB, and a performance guide has some 50; check that this is "
            "the right file"
        )
    return _decoded(path, data).replace("\r\n", "\n").replace("\r", "\n").translate(_SEPARATORS)


def _decoded(path: Path, data: bytes) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is no {encoding.removesuffix('-sig').upper()} text "
            f"({error.reason}); if the file is text in another encoding, convert it: iconv -f WINDOWS-1252 -t UTF-8"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ConfigurationError(
            f"{path}:{line}: holds a zero byte, so this is no text; check that this is the right file"
        )
    return text
