"""`lab web`: the lab and its results in a browser."""

from __future__ import annotations

import errno
import gc
import socket
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from lab.cli.exporter import address
from lab.cli.options import FarmFile, HostDatabase, Json, Runtime, WebConfigFile
from lab.errors import ConfigurationError, LabStableError
from lab.host import process, scheduling
from lab.http.server import LimitedServer, listening_socket
from lab.http.web_config import load
from lab.terminal import echo, echo_json, log_to, table
from lab.web.app import LOCAL_NAMES, create
from lab.web.auth import BROWSERS_LOOPBACK, ROLES, SCOPES, Role, User, Users, access_of, default_file
from lab.web.site import Site

user_app = typer.Typer(help="Users of the browser: viewers and operators.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name for the login.")]
UsersFile = Annotated[
    Path | None,
    typer.Option("--users", metavar="FILE", help="The file of users (default: ~/.config/boardlab/web-users.json)."),
]


@user_app.command()
def add(
    name: Name,
    *,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="viewer: looks; operator: reserves, switches, decides.")
    ] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="SCOPE", help="A program with a token for the API: read, reserve or run; repeatable."),
    ] = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="The person comes through a proxy only (--trust-proxy).")
    ] = False,
    users: UsersFile = None,
) -> None:
    """Add a user, or change role and password of one.

    The password is asked for, or read from standard input. A program's token is printed once.
    """
    book = of_file(users)
    if scope:
        if role or no_password:
            raise ConfigurationError("--scope is for a program: its token has no --role and no password")
        if wrong := sorted({*scope} - {*SCOPES}):
            raise ConfigurationError(f"--scope {wrong[0]!r:.40}: there are {', '.join(SCOPES)}")
        echo(book.add_token(name, [known_scope for known_scope in SCOPES if known_scope in scope]))
        return
    if role not in ROLES:
        raise ConfigurationError(f"--role {role or 'is missing'}: {' or '.join(ROLES)}; or --scope for a program")
    book.all()  # a wrong file is said before a password is asked for
    new = book.add(name, as_role(role), None if no_password else _password())
    echo(f"{name} is {'a new ' if new else 'now '}{role} in {book.path}")


@user_app.command("list")
def list_users(
    *,
    as_json: Json = False,
    users: UsersFile = None,
) -> None:
    """List the users with their roles."""
    book = of_file(users)
    entries = sorted(book.all().items())
    if as_json:
        echo_json(
            [
                {"name": name, "role": user.role, "password": bool(user.secret), "scope": sorted(user.scope)}
                for name, user in entries
            ]
        )
    elif not entries:
        echo(f"no users in {book.path}; make one: lab web user add NAME --role operator")
    else:
        rows = [[name, user.role, _comes_by(user)] for name, user in entries]
        echo(*table(["name", "role", "comes by"], rows, "<<<"))


def _comes_by(user: User) -> str:
    if user.token:
        return f"token: {', '.join(sorted(user.scope))}"
    return "password" if user.secret else "proxy only"


@user_app.command()
def remove(name: Name, *, users: UsersFile = None) -> None:
    """Remove a user and end their sessions."""
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
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    return sys.stdin.readline().rstrip("\n")


DEFAULT_LISTEN: Final = "127.0.0.1:9880"
_LAST_S: Final = 2  # for answers that are on their way when the site ends; live views would never end

app = typer.Typer(help="The lab and all results in a browser.")
app.add_typer(user_app, name="user")


@app.callback(invoke_without_command=True)
def web(
    context: typer.Context,
    *,
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Address to listen at.")] = DEFAULT_LISTEN,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which browsers on other machines ask for it; may be repeated."),
    ] = None,
    web_config: WebConfigFile = None,
    users: UsersFile = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A proxy that says who asks; with --user-header; may be repeated."),
    ] = None,
    user_header: Annotated[
        str | None, typer.Option(metavar="NAME", help="The header in which the proxy says it, e.g. X-Forwarded-User.")
    ] = None,
    db: HostDatabase = None,
    farm: FarmFile = None,
    runtime: Runtime = None,
) -> None:
    """Show the lab and its results in a browser.

    It has boards, live consoles, runs, releases and metrics, until SIGTERM or Ctrl-C; operators act there, too.
    """
    if context.invoked_subcommand is not None:
        return
    process.share_memory_of_threads()
    host, port = address(listen)
    protection = load(web_config) if web_config else None
    access = access_of(host, protection, of_file(users), trust_proxy or (), user_header)
    site = Site(db, farm, runtime)
    site.look()  # a wrong farm.yaml is said now
    log_to(sys.stderr)
    sockets = _sockets(host, port, both=bool(access.own_name))
    port = sockets[0].getsockname()[1]
    own = f"[{host}]" if ":" in host else host
    scheme = "https" if protection is not None and protection.tls_server_config is not None else "http"
    served = create(
        site, [*LOCAL_NAMES, own, *([access.own_name] if access.own_name else ()), *(name or ())], access, ahead=True
    )
    echo(f"serving {scheme}://{own}:{port}")
    if access.token:
        echo(f"to act: {scheme}://{access.own_name or own}:{port}/login?token={access.token}")
    proxies = access.proxy.addresses if access.proxy is not None else ()
    server = LimitedServer(served, protection, proxies=proxies, timeout_graceful_shutdown=_LAST_S)
    gc.collect()
    gc.freeze()  # modules stay: to look through them for garbage, again and again, made a page in ten wait 0.1 s
    scheduling.choose_slice(scheduling.SHORTEST_NS)  # no stamp waits long while many viewers are handed a line
    server.run(sockets)


def _sockets(host: str, port: int, *, both: bool) -> list[socket.socket]:
    """Listening sockets.

    `both`: also the same port of the other loopback address, where browsers look for NAME.localhost. No other program
    may listen there.

    Raises:
        LabStableError: another process listens there.
    """
    first = listening_socket(host, port)
    if not both:
        return [first]
    (other,) = set(BROWSERS_LOOPBACK) - {host}
    try:
        return [first, listening_socket(other, first.getsockname()[1])]
    except LabStableError as error:
        if getattr(error.__cause__, "errno", None) in {
            errno.EADDRNOTAVAIL,
            errno.EAFNOSUPPORT,
        }:  # the host has no such address
            return [first]
        first.close()
        raise
