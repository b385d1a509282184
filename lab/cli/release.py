"""`lab release`: releases as files: draft them, check them, list them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Container, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
import yaml

from lab import boards
from lab.cli.options import Database, Json, OutputFolder, make_folder
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError, NoResultsError
from lab.provision import checks, drafts
from lab.provision.history import ProvisionBook
from lab.provision.image import Hosts
from lab.provision.release import SECURITY_STATES, SUFFIX, check_name
from lab.provision.releasefile import files_in, load, settle
from lab.results.store import open_store
from lab.terminal import bad, echo, echo_json, table
from lab.virtual.images import cache
from lab.virtual.ramlinux import image

app = typer.Typer(help="Releases as files: draft them, check them, list them.", no_args_is_help=True)

FOLDER = Path("releases")


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Release files.")],
    *,
    form: Annotated[
        bool, typer.Option("--form", help="Look at the file only, and not at the files that it names.")
    ] = False,
    settled: Annotated[
        bool, typer.Option("--settled", help="First wait until nobody writes a file any more, nor what it names.")
    ] = False,
    env: Annotated[
        str | None, typer.Option("--env", metavar="NAME", help="Also whether they are for its board.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check release files and every file that they name.

    It checks digest, unpacking, block map and size. URLs are fetched.
    """
    board_type = _board_type(env) if env else ""
    problems_of_file, fits = dict[str, list[str]](), dict[str, bool]()
    for path in files:
        try:
            if settled:
                settle(path)
            release = load(path)
            fits[str(path)] = not board_type or board_type in release.boards
            problems_of_file[str(path)] = list(checks.problems(release, Hosts.of_user(), files=not form))
        except ConfigurationError as error:
            problems_of_file[str(path)] = [str(error)]
    if as_json:
        echo_json(
            [
                {"file": name, "problems": file_problems, "fits": fits.get(name)}
                for name, file_problems in problems_of_file.items()
            ]
        )
    else:
        for name, is_for_board in fits.items():
            problems_of_file[name] += [f"{name}: it is not for {board_type}"] * (not is_for_board)
        good = "well formed; the files that it names were not looked at" if form else "good"
        for name, problems in problems_of_file.items():
            echo(*[f"{bad('wrong')}  {problem}" for problem in problems] or [f"{name}: {good}"])
    raise typer.Exit(2 if any(problems_of_file.values()) else 0)


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Build outputs, e.g. Yocto's deploy/images/MACHINE.")],
    *,
    board: Annotated[str, typer.Option(metavar="TYPE", help="The board type.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the release: the label of its runs.")],
    security: Annotated[
        str, typer.Option(metavar="STATE", help=f"Of the devices: {', '.join(SECURITY_STATES)}.")
    ] = "none",
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="[MEDIUM=]NAME", help="The *.wic image, where there are several; repeatable."),
    ] = None,
    kernel: Annotated[
        str, typer.Option(metavar="PATTERN", help="The kernel's version line, where no Image is there.")
    ] = "",
    build_id: Annotated[
        str, typer.Option(metavar="PATTERN", help="BUILD_ID of /etc/os-release, where it tells builds apart.")
    ] = "",
    output: OutputFolder = FOLDER,
) -> None:
    """Draft a release file from a folder of build outputs.

    Look through it, then: lab release check.
    """
    if security not in SECURITY_STATES:
        raise ConfigurationError(f"--security {security}: {', '.join(SECURITY_STATES)}")
    try:
        check_name(name)
    except ValueError as error:
        raise ConfigurationError(f"--name: {error}") from None
    path = output / f"{name}{SUFFIX}"
    if path.exists():
        raise ConfigurationError(
            f"{path} is there already: a release does not change. Give another --name, or delete it"
        )
    make_folder(output)
    media = boards.load(board).media
    drafted = drafts.draft(folder, board, media, security, output, _images(image or [], media), kernel, build_id)
    text = yaml.safe_dump(drafted.document, sort_keys=False, width=140, allow_unicode=True)
    with TemporaryDirectory(prefix=".draft-", dir=output) as draft:  # a night never finds one that is half or wrong
        part = Path(draft) / path.name
        part.write_text(
            f"# Drafted by `lab release make`; docs/releases.md explains every key.\n{text}", encoding="utf-8"
        )
        try:
            load(part)
        except ConfigurationError as error:
            problem = str(error).replace(str(part), str(path))
            raise ConfigurationError(f"no draft was written, as it would be wrong: {problem}") from None
        part.rename(path)
    echo(f"{path}: {', '.join(drafted.document['media'])}", *[f"look at: {remark}" for remark in drafted.remarks])
    echo(f"then: lab release check {path}")


@app.command("ram-linux")
def ram_linux(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the file, e.g. the release's build outputs.")
    ],
    *,
    architecture: Annotated[
        str, typer.Option(metavar="NAME", help=f"Debian's, of the board's kernel: {', '.join(image.ARCHITECTURES)}.")
    ] = "arm64",
) -> None:
    """Make the initramfs of a Linux that writes media.

    It runs in a board's memory, with busybox and mtd-utils of Debian.
    """
    path = make_folder(folder) / image.FILE.format(architecture)
    folder_of_image = image.obtain(cache.default_root(), architecture, lambda line: echo(line, err=True))
    shutil.copyfile(folder_of_image / path.name, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    echo(
        f"{path}: {path.stat().st_size} bytes",
        "in the release file, beside the board's own kernel and device tree, under `recovery: ram:`:",
        f"  - {{name: {path.name}, source: {path}, sha256: {digest}}}",
    )


@app.command("list")
def list_releases(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the release files.")] = FOLDER,
    *,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List release files, the latest first, and the boards that have them."""
    paths = files_in(folder)[::-1]
    if not paths:
        raise ConfigurationError(
            f"{folder}: no release files there; `lab release make` drafts one, or name another folder"
        )
    on = _boards(db)
    rows: list[dict[str, Any]] = []
    for path in paths:
        try:
            release = load(path)
            rows.append(
                {
                    "name": release.name,
                    "boards": release.boards,
                    "security": release.security,
                    "media": list(release.media),
                    "on": on.get(release.name, []),
                    "wrong": "",
                }
            )
        except BoardlabError as error:
            rows.append({"name": path.stem, "boards": [], "security": "", "media": [], "on": [], "wrong": str(error)})
    if as_json:
        echo_json(rows)
        return
    cells = [
        [
            str(r["name"]),
            ", ".join(r["boards"]),
            str(r["security"]),
            ", ".join(r["media"]),
            ", ".join(r["on"]) or str(r["wrong"]),
        ]
        for r in rows
    ]
    echo(*table(["release", "board types", "security", "media", "is on"], cells, "<<<<<"))


def _board_type(env: str) -> str:
    """Of an environment's board."""
    path = envfile.find(env, Path.cwd())
    board_type = envfile.arguments_of(path, "BoardStrategy").get("board_type")
    if not board_type:
        raise ConfigurationError(
            f"{path} has no BoardStrategy with a board_type, so no release can be compared with it"
        )
    return str(board_type)


def _images(arguments: Iterable[str], media: Container[str]) -> dict[str, str]:
    """Map each medium to its image; "" stands for the others."""
    image_of_medium: dict[str, str] = {}
    for text in arguments:
        medium, equals, name = text.rpartition("=")
        if equals and medium not in media:
            raise ConfigurationError(f"--image {text}: the board type has no medium {medium!r}")
        image_of_medium[medium] = name
    return image_of_medium


def _boards(db: str | None) -> dict[str, list[str]]:
    """Map each release to its boards and media, by the store."""
    boards_of_release: dict[str, list[str]] = {}
    try:
        with open_store(db, create=False) as store:
            for provision in ProvisionBook(store).latest():
                if provision.is_on_it:
                    boards_of_release.setdefault(provision.release, []).append(f"{provision.board} {provision.medium}")
    except NoResultsError:
        if db is not None:
            raise
    return boards_of_release
