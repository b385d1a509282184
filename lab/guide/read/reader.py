"""A file -> a guide."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import Path

from lab.errors import ConfigurationError
from lab.guide.model import Guide, release_of, split_boards
from lab.guide.read import assemble, html, mending, plain_text, rendered_text
from lab.guide.read.document import Document

LARGEST_BYTES = 512 * 1024  # the largest guide of the family has 90 KB; docutils needs a second for 50 KB of the worst
LARGEST_PAGE_BYTES = 8 * 1024 * 1024  # of HTML and of drawn tables, which are read in one pass

_SEPARATORS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))  # would count as line ends
_RST = re.compile(
    r"^[^\S\n]*\.\. [\w:-]+::|^(={4,}|-{4,}|\^{4,}|~{4,}|#{4,}|\*{4,})[^\S\n]*$|^[^\S\n]*\+[-=+]{3,}\+[^\S\n]*$",
    re.MULTILINE,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*\.\. [\w:-]+::", re.MULTILINE)
_DEFINED = re.compile(r"^[^\S\n]*\.\. \|([^|]+)\| replace:: +(\S.*)$", re.MULTILINE)
_TOP_CHARACTERS = 20_000
_TITLE_IN_TEXT = re.compile(
    r"^.{0,60}\b(?:performance guide|processor sdk|release)\b.{0,60}$", re.MULTILINE | re.IGNORECASE
)


def read(path: Path, defines: Mapping[str, str] | None = None) -> Guide:
    """Read one performance guide; the content tells its form.

    Args:
        defines: values of `|NAME|`, and of the names that choose between branches of a guide for several devices.

    Raises:
        ConfigurationError: the file cannot be read, is too large, is not text, or holds nothing of a guide. Lost parts
            are no error: `Guide.unread` has their places and reasons, `Guide.repairs` the malformed parts that were
            read.
    """
    return parse(str(path), _text(path), defines)


def parse(name: str, text: str, defines: Mapping[str, str] | None = None) -> Guide:
    """Read a guide from its text.

    Raises:
        ConfigurationError: it holds nothing of a guide.
    """
    document, form = _document(name, text, defines or {})
    if not document.tables and not document.modules:
        lost = "".join(f" (line {part.line}: {part.reason})" for part in document.unread[:1])
        raise ConfigurationError(
            f"{name}: holds no table of a performance guide; expected reStructuredText with `.. csv-table::`, HTML, "
            "Markdown, text with drawn or tab-separated tables, or rendered text with lines such as 'Table 2.1 LMBench "
            f"Benchmarks'{lost}; check that this is the right file"
        )
    values = {match[1].strip(): match[2].strip() for match in _DEFINED.finditer(text)} | dict(defines or {})
    document.tables = [mending.substitute(table, values) for table in document.tables]
    release, source = _release(document.title, Path(name).stem, text)
    return assemble_guide(name, form, document, release, source)


def assemble_guide(name: str, form: str, document: Document, release: str | None, source: str) -> Guide:
    """Assemble a guide from its document, and repair its tables.

    Args:
        name: its path.
        form, source: `Guide.format` and `Guide.release_source`.
    """
    tables = document.tables
    raw, repairs = mending.mend_tables(tables if form in {"rst", "text"} else map(mending.unpad, tables))
    assembled = assemble.tables(raw)
    boards = frozenset(column.board for table in assembled for column in table.columns if column.board)
    unclear = assemble.unclear_cells(assembled, {part.line for part in document.unread})
    return Guide(
        path=name,
        format=form,
        title=document.title,
        release=release,
        modules=tuple(document.modules),
        tables=assembled,
        conditions=tuple(split_boards(condition, boards) for condition in document.conditions),
        unread=tuple(sorted([*document.unread, *unclear], key=lambda part: part.line)),
        repairs=tuple(sorted([*document.repairs, *repairs], key=lambda part: part.line)),
        release_source=source,
    )


def _document(name: str, text: str, defines: Mapping[str, str]) -> tuple[Document, str]:
    """Read the text with the reader of its form."""
    if html.looks_like(text):
        return html.read(text), "html"
    if not _DIRECTIVE.search(text) and (form := plain_text.form(text)) is not None:
        return plain_text.read(text), form
    if _RST.search(text):
        if len(text) > LARGEST_BYTES:
            raise _too_large(name, LARGEST_BYTES)
        from lab.guide.read import rst  # noqa: PLC0415 - docutils takes a while to import

        return rst.read(name, text, defines), "rst"
    if rendered_text.announces_tables(text):
        return rendered_text.read(text), "text"
    return Document(), "text"


def _release(title: str, stem: str, text: str) -> tuple[str | None, str]:
    """Find the release and its place: title, file name, or text."""
    for release, source in ((release_of(title), "title"), (release_of(stem), "file name")):
        if release:
            return release, source
    for line in _TITLE_IN_TEXT.finditer(text[:_TOP_CHARACTERS]):
        if release := release_of(re.sub(r"<[^>]*>", " ", line[0])):
            return release, "text"
    return None, ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_PAGE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    if len(data) > LARGEST_PAGE_BYTES:
        raise _too_large(str(path), LARGEST_PAGE_BYTES)
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
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_SEPARATORS)


def _too_large(name: str, limit: int) -> ConfigurationError:
    return ConfigurationError(
        f"{name}: is larger than {limit // 1024} KiB, and a performance guide has some 50; check that this is the "
        "right file"
    )
