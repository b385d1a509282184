"""The options of `lab.run.options` as options of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final, get_type_hints

import typer

from lab.run import options
from lab.run.options import RunOption

_KINDS: Final[dict[options.Form, Any]] = {
    "flag": bool,
    "number": int | None,
    "word": str | None,
    "names": list[str] | None,
}


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes every option of the table, and hands those that are given to its parameter `options`."""
    hints = get_type_hints(command, include_extras=True)
    own = [p for name, p in inspect.signature(command).parameters.items() if name != "options"]
    added = [_parameter(option) for option in options.TABLE]

    @wraps(command)
    def run(**given: Any) -> None:
        chosen = {option.name: given.pop(_variable(option)) for option in options.TABLE}
        command(**given, options=options.read(chosen))

    parameters = [p.replace(annotation=hints[p.name]) for p in own] + added
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # whoever asks for the signature would look there
    return run


def _parameter(option: RunOption) -> inspect.Parameter:
    about = typer.Option(
        option.flag, metavar=option.metavar or None, help=f"{option.help[0].upper()}{option.help[1:]}."
    )
    default = False if option.form == "flag" else None
    annotation: Any = Annotated.__class_getitem__((_KINDS[option.form], about))  # type: ignore[attr-defined]
    return inspect.Parameter(_variable(option), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _variable(option: RunOption) -> str:
    return f"option_{option.name}"
