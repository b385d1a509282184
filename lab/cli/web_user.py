"""`lab web user`: who may look and who may act in the browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json
from lab.errors import ConfigurationError
from lab.shown import echo, echo_json, table
from lab.web.auth import ROLES, Role, Users, default_file

app = typer.Typer(help="Who may look and who may act in the browser.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As the person logs in.")]
UsersFile = Annotated[
    Path | None,
    typer.Option("--users", metavar="FILE", help="The file of users (default: ~/.config/boardlab/web-users.json)."),
]


@app.command()
def add(
    name: Name,
    *,
    role: Annotated[str, typer.Option(metavar="ROLE", help="viewer: looks; operator: reserves, switches, decides.")],
    no_password: Annotated[
        bool, typer.Option("--no-password", help="The person comes through a proxy only (--trust-proxy).")
    ] = False,
    users: UsersFile = None,
) -> None:
    """Add a user, or change role and password of one. The password is asked for, or read from standard input."""
    if role not in ROLES:
        raise ConfigurationError(f"--role {role}: {' or '.join(ROLES)}")
    book = of_file(users)
    book.all()  # a wrong file is said before a password is asked for
    new = book.add(name, as_role(role), None if no_password else _password())
    echo(f"{name} is {'a new ' if new else 'now '}{role} in {book.path}")


@app.command("list")
def list_users(
    *,
    as_json: Json = False,
    users: UsersFile = None,
) -> None:
    """List the users with their roles."""
    book = of_file(users)
    found = sorted(book.all().items())
    if as_json:
        echo_json([{"name": name, "role": user.role, "password": bool(user.secret)} for name, user in found])
    elif not found:
        echo(f"no users in {book.path}; make one: lab web user add NAME --role operator")
    else:
        rows = [[name, user.role, "password" if user.secret else "proxy only"] for name, user in found]
        echo(*table(["name", "role", "comes by"], rows, "<<<"))


@app.command()
def remove(name: Name, *, users: UsersFile = None) -> None:
    """Remove a user; who is logged in by that name is logged out at once."""
    book = of_file(users)
    book.remove(name)
    echo(f"{name} is no user any more")


def of_file(path: Path | None) -> Users:
    """The users of a file, or of the default one."""
    return Users(path or default_file())


def as_role(text: str) -> Role:
    """A role by its name."""
    return "operator" if text == "operator" else "viewer"


def _password() -> str:
    if sys.stdin.isatty():
        given: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return given
    return sys.stdin.readline().rstrip("\n")
