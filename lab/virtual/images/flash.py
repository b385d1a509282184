"""CFI flash images with U-Boot's environment, and texts of environments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.errors import ConfigurationError
from lab.virtual.images import tools


def environment(text: str, values: Mapping[str, str] | None = None) -> dict[str, str]:
    """Parse U-Boot variables from lines `name=value`.

    An indented line continues the one above it.

    Lines that begin with # are comments. `@name@` is replaced from `values`.

    Raises:
        ConfigurationError: a line is no assignment, a name comes twice, or a placeholder has no value.
    """
    variables: dict[str, str] = {}
    name = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _filled(raw, values or {}, number)
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not name:
                raise ConfigurationError(f"line {number}: expected name=value before the first indented line")
            variables[name] += " " + line.strip()
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"\w+", name):
            raise ConfigurationError(f"line {number}: expected name=value, found {line!r}")
        if name in variables:
            raise ConfigurationError(f"line {number}: {name} is set twice")
        variables[name] = value.strip()
    return variables


def _filled(line: str, values: Mapping[str, str], number: int) -> str:
    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in values:
            raise ConfigurationError(f"line {number}: no value for @{name}@; there are: {', '.join(sorted(values))}")
        return values[name]

    return re.sub(r"@(\w+)@", value, line)


def environment_image(variables: Mapping[str, str], size_bytes: int) -> bytes:
    """The environment as U-Boot stores it, with its checksum.

    Raises:
        ConfigurationError: mkenvimage is not installed.
        LabStableError: the variables do not fit.
    """
    text = "".join(f"{name}={value}\n" for name, value in sorted(variables.items()))
    with tempfile.TemporaryDirectory(prefix="boardlab-env-") as folder:
        target = Path(folder) / "env.bin"
        tools.run(["mkenvimage", "-s", str(size_bytes), "-o", target, "-"], stdin=text.encode())
        return target.read_bytes()


def build(path: Path, parts: Mapping[int, bytes], *, size_bytes: int) -> None:
    """Write a flash image: parts at offsets, zeros elsewhere (sparse).

    Raises:
        ConfigurationError: two parts overlap, or one does not fit.
    """
    end = 0
    for offset, content in sorted(parts.items()):
        if offset < end:
            raise ConfigurationError(f"the part at {offset:#x} overlaps the one before it, which ends at {end:#x}")
        end = offset + len(content)
    if end > size_bytes:
        raise ConfigurationError(f"the parts end at {end:#x}, the flash at {size_bytes:#x}")
    with path.open("wb") as image:
        image.truncate(size_bytes)
        for offset, content in sorted(parts.items()):
            image.seek(offset)
            image.write(content)
