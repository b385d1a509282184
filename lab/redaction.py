"""URLs without their passwords, for messages."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN: Final = "***"
# Of a query: `private_token` of GitLab and `X-Amz-Signature` of a signed link give access, too.
_SECRET: Final = re.compile(
    r"(?:.*[-_.])?(?:(?:ssl)?password|pass|passwd|pwd|secret|token|signature|sig|api[-_]?key|access[-_]?key)",
    re.IGNORECASE,
)
_WEB: Final = ("http://", "https://")  # a name alone in front of such a host is a token, e.g. GitHub's
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(\S+)")
_FIELD: Final = re.compile(r"(^|[?&;\s])([^=&;?#\s]+)=([^&;#\s]*)")  # of a query, or of libpq's KEY=VALUE form
_SPACE: Final = re.compile(r"\s")


def redact(text: str) -> str:
    """Replace every password of URLs in a text by `***`.

    A URL that is written wrong is cut rather than believed: a password that holds an unescaped `/`, `?` or `@` is
    hidden as far as the last `@`, and one with spaces to its end where the text is nothing but the URL.
    """
    if match := _URL.match(text):
        return match[1] + _hidden(match[1], _SPACE.sub("%20", text[len(match[1]) :]))
    return _fields_hidden(_URL.sub(lambda found: found[1] + _hidden(found[1], found[2]), text))


def scrub(text: str, url: str) -> str:
    """Remove a URL's passwords from a foreign text, e.g. driver's error.

    The text may repeat them with the URL's escapes, without, or with other ones.
    """
    scheme, _, rest = url.partition("://")
    user, colon, password = rest.rpartition("@")[0].partition(":")
    secrets = {password if colon or not _is_web(f"{scheme}://") or "/" in user else user}
    secrets |= {value for _, field, value in _FIELD.findall(rest) if _is_secret(field)}
    secrets |= {decoded(secret) for secret in secrets for decoded in (unquote, unquote_plus)}
    secrets |= {encoded(secret, safe="") for secret in secrets for encoded in (quote, quote_plus)}
    for secret in sorted(secrets - {""}, key=len, reverse=True):  # the longest first: one may be a part of another
        text = text.replace(secret, HIDDEN)
    return redact(text)


def _hidden(scheme: str, rest: str) -> str:
    """Hide the passwords in a URL's part after `://`."""
    login, at, location = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    if at and not colon and _is_web(scheme) and "/" not in login:
        return f"{HIDDEN}@{_fields_hidden(location)}"
    if not at or not colon:
        return _fields_hidden(rest)
    return f"{_fields_hidden(user)}:{HIDDEN}@{_fields_hidden(location)}"


def _fields_hidden(text: str) -> str:
    return _FIELD.sub(lambda found: f"{found[1]}{found[2]}={HIDDEN}" if _is_secret(found[2]) else found[0], text)


def _is_secret(field: str) -> bool:
    return _SECRET.fullmatch(unquote_plus(field)) is not None


def _is_web(scheme: str) -> bool:
    return scheme.lower() in _WEB
