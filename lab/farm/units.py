"""systemd units from farm.yaml: the exporter, the site, the console server, pdudaemon, and a service and a timer per schedule; and who tells that one failed."""

from __future__ import annotations

from importlib import resources
from typing import Final

import jinja2

from lab.farm.config import Farm
from lab.run.options import words

_TEMPLATES: Final = "lab.farm"


def units(farm: Farm, path: str) -> dict[str, str]:
    """File name -> text.

    Args:
        path: where the host keeps its farm.yaml.
    """
    found = {"boardlab-exporter.service": _text("boardlab-exporter.service", farm=farm, path=path)}
    found["boardlab-web.service"] = _text("boardlab-web.service", farm=farm, path=path)
    found["boardlab-console.service"] = _text("boardlab-console.service", farm=farm)
    found["boardlab-notify@.service"] = _text("boardlab-notify@.service", farm=farm, path=path)
    if farm.pdudaemon.program:
        found["boardlab-pdudaemon.service"] = _text("boardlab-pdudaemon.service", farm=farm)
    for schedule in farm.schedules:
        for kind in ("service", "timer"):
            found[f"boardlab-{schedule.name}.{kind}"] = _text(
                f"boardlab-run.{kind}", farm=farm, schedule=schedule, words=words
            )
    return found


def _text(name: str, **values: object) -> str:
    folder = str(resources.files(_TEMPLATES) / "templates")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - unit files, and every value is checked in lab.farm.config
    )
    environment.filters["word"] = _word
    return environment.get_template(f"{name}.j2").render(**values).strip() + "\n"


def _word(path: str) -> str:
    """A path as one word of ExecStart= (systemd.service(5), "Command lines")."""
    return f'"{path}"' if " " in path else path
