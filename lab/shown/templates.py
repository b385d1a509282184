"""How pages, mails and comments are made from templates: one way to escape, and no text that turns the reading direction."""

from __future__ import annotations

import re
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from lab.shown import plain, plain_text

_MARKDOWN: Final = re.compile(r"([\\`*_\[\]<>#|~&$!{}])")  # a parenthesis means nothing where no bracket is before it
MOST_BYTES: Final = 65_000  # of a comment: GitHub takes 65,536
_MENTION: Final = re.compile(r"@(?=\w)")


def environment(*packages: str, escapes: bool = True) -> Environment:
    """The templates of these packages, the first one's before the others'.

    Args:
        escapes: every value is escaped for HTML; templates of Markdown use the filter `md`.
    """
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=escapes,  # noqa: S701 - see above
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_plain,
    )
    found.filters["md"] = markdown
    return found


def markdown(text: str) -> str:
    """One line of Markdown that shows the text as it is, in a table, too, and calls nobody."""
    one_line = " ".join(plain(part) for part in text.split())
    return _MENTION.sub("@<!-- -->", _MARKDOWN.sub(r"\\\1", one_line))


def cut(text: str, most: int) -> str:
    """At most so many characters of a text; an ellipsis says that there were more."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _plain(value: object) -> object:
    """What a template is given: texts of boards, guides and stores turn no reading direction in a page either."""
    return plain_text(value) if type(value) is str else value
