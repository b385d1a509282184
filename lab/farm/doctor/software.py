"""Checks of software, environments, results, clocks and serial ports."""

from __future__ import annotations

import contextlib
import ctypes
import grp
import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from attrs import frozen
from sqlalchemy import select

from lab import package_data
from lab.console.holders import holders
from lab.errors import BoardlabError, ConfigurationError, NoResultsError
from lab.farm.config import Farm
from lab.host import process
from lab.host.clock import utc_now
from lab.host.process import user_name
from lab.host.scheduling import DEVICE, PRIORITY
from lab.jobs.records import BY_WEB, seems_dead
from lab.results import backup, database, schema
from lab.results.audit import last_done
from lab.results.location import locate
from lab.results.models import JobRow
from lab.results.store import BUSY_TIMEOUT_S, Store, guarded, open_store
from lab.virtual import pdudaemon

VERSIONS: Final = "versions"
STORE: Final = "results"
ENVIRONMENTS: Final = "environments"
_PROGRAMS: Final = {"setpriv": "sudo apt install util-linux"}  # name -> how it is installed; `lab run` calls it
_KERNEL: Final = (5, 10)  # of the oldest distribution that is tested


def versions(version: Callable[[str], str] = metadata.version) -> Iterator[DoctorFinding]:
    """Check boardlab, Python, labgrid, `serial`, pdudaemon, kernel and called programs."""
    python = platform.python_version()
    yield DoctorFinding(VERSIONS, "boardlab", "ok", f"{version('boardlab')}, Python {python}, in {sys.prefix}")
    pinned = next(
        filter(None, (re.fullmatch(r"labgrid==([\w.]+)", each) for each in metadata.requires("boardlab") or [])), None
    )
    try:
        labgrid = version("labgrid")
    except metadata.PackageNotFoundError:
        labgrid = "none"
    if pinned is not None and labgrid != pinned[1]:
        text = f"{labgrid}, and boardlab is made for {pinned[1]}: its console drivers' interface differs"
        yield DoctorFinding(VERSIONS, "labgrid", "bad", text, f"{sys.executable} -m pip install labgrid=={pinned[1]}")
    else:
        yield DoctorFinding(VERSIONS, "labgrid", "ok", labgrid)
    yield from _serial(version)
    try:
        yield DoctorFinding(VERSIONS, "pdudaemon", "ok", str(pdudaemon.find()))
    except BoardlabError as error:
        text = "is not installed; boards that it does not switch need none"
        yield DoctorFinding(VERSIONS, "pdudaemon", "doubtful", text, str(error))
    for program, hint in _PROGRAMS.items():
        if shutil.which(program) is None:
            yield DoctorFinding(VERSIONS, program, "bad", "is not installed, and `lab run` needs it", hint)
    release = platform.release()
    numbers = tuple(map(int, re.findall(r"\d+", release)[:2]))
    level, hint = ("ok", "") if numbers >= _KERNEL else ("doubtful", "boardlab is tested with Linux 5.10 and later")
    yield DoctorFinding(VERSIONS, "Linux", "ok" if level == "ok" else "doubtful", release, hint)


def _serial(version: Callable[[str], str]) -> Iterator[DoctorFinding]:
    try:
        stranger = version("pyserial")
    except metadata.PackageNotFoundError:
        return
    yield DoctorFinding(
        VERSIONS,
        "pyserial",
        "bad",
        f"{stranger} is installed beside pyserial-labgrid: both are the module `serial`, and labgrid needs its own",
        f"{sys.executable} -m pip uninstall -y pyserial && {sys.executable} -m pip install --force-reinstall --no-deps pyserial-labgrid",
    )


def results(db: str | None) -> Iterator[DoctorFinding]:
    """Check the store and the jobs of dead processes in it."""
    try:
        with open_store(db, create=False) as store:
            runs = len(store.runs(1))
            yield DoctorFinding(STORE, "store", "ok", f"{store.url}{'' if runs else ', no runs yet'}")
            path = store.location.path
            if path is not None and path.stat().st_mode & 0o007:
                text = "every user of this host may read it: an older boardlab made it, or a person"
                yield DoctorFinding(STORE, "store", "doubtful", text, f"chmod o= {path}* {store.artifacts.root}")
            if left := store.artifacts.marked():
                text = f"{len(left)} are not yet in {store.artifacts.shared or 'where they were to be shared'}"
                yield DoctorFinding(STORE, "artifacts", "doubtful", text, "lab results upload; it names the obstacle")
            yield from server_clock(store)
            wanted = select(JobRow).where(JobRow.state == "running").order_by(JobRow.id)
            now = store.now()
            with store._read() as session:
                dead = [
                    (row.id, row.board, row.program)
                    for row in session.scalars(wanted)
                    if seems_dead(row, now, process.has_died)
                ]
    except NoResultsError:
        yield DoctorFinding(STORE, "store", "ok", "none yet; the first measurement makes it")
        return
    except BoardlabError as error:
        yield DoctorFinding(STORE, "store", "bad", str(error).partition("; ")[0], str(error).partition("; ")[2])
        return
    for job, board, program in dead:
        if program == BY_WEB:  # the site's process lives on after the switch of the board failed
            text = f"holds {board} for a power switch of `lab web`, and gives no sign of life"
            hint = "look whether the board is off or on; any other job of that board ends it"
        else:
            text = f"holds {board}, and its process is gone"
            hint = f"lab run --resume {job}; any other job of that board ends it, too"
        yield DoctorFinding(STORE, f"job {job}", "doubtful", text, hint)


def backed_up(db: str | None) -> Iterator[DoctorFinding]:
    """Check the age of the last backup; without results there is nothing to back up."""
    hint = "systemctl start boardlab-backup; journalctl -u boardlab-backup says what is in the way"
    try:
        with open_store(db, create=False) as store, store._read() as session:
            at, now = last_done(session, backup.ACTION), store.now()
    except BoardlabError:
        return
    if at is None:
        yield DoctorFinding(STORE, "backup", "bad", "none was ever made", hint)
        return
    old = (now - at).total_seconds() > backup.OLD_S
    yield DoctorFinding(STORE, "backup", "bad" if old else "ok", f"of {at:%Y-%m-%d %H:%M} UTC", hint if old else "")


UPGRADE: Final = "upgrade"


def upgrade(db: str | None, folder: Path) -> Iterator[DoctorFinding]:
    """Find what the installed boardlab changes in a store and a lab's folder of an older one.

    Args:
        folder: of the lab.
    """
    yield from _schema_change(db)
    strategy = package_data.strategy_file()
    copies = {folder / package_data.STRATEGIES / strategy.name: strategy}
    copies |= {
        folder / package_data.TESTS / path.name: path
        for path in sorted(package_data.folder(package_data.TESTS).glob("*.py"))
    }
    there = {own: ours for own, ours in copies.items() if own.is_file() and own.resolve() != ours.resolve()}
    other = [own for own, ours in there.items() if own.read_bytes() != ours.read_bytes()]
    for own in other:
        text = "is another than this boardlab's: of an older one, or edited here; it stays as it is"
        yield DoctorFinding(UPGRADE, str(own.relative_to(folder)), "doubtful", text, f"diff -u {own} {there[own]}")
    if there and not other:
        yield DoctorFinding(UPGRADE, "copies", "ok", f"{len(there)} files are as this boardlab has them")
    missing = [
        own.name
        for own, ours in copies.items()
        if own.parent.is_dir() and ours.parent.name == package_data.TESTS and own not in there and own != ours
    ]
    if missing:
        text = f"lacks what this boardlab has: {', '.join(missing)}"
        hint = f"cp {package_data.folder(package_data.TESTS)}/NAME {folder / package_data.TESTS}"
        yield DoctorFinding(UPGRADE, package_data.TESTS, "doubtful", text, hint)


def _schema_change(db: str | None) -> Iterator[DoctorFinding]:
    where = locate(db)
    if where.path is not None and not where.path.exists():
        yield DoctorFinding(UPGRADE, "results", "ok", "none yet")
        return
    engine = database.create(where, BUSY_TIMEOUT_S)
    try:
        with guarded(where), database.reader(engine).connect() as connection:
            found = schema.revision(connection)
    except BoardlabError as error:
        yield DoctorFinding(UPGRADE, "results", "bad", str(error).partition("; ")[0], str(error).partition("; ")[2])
        return
    finally:
        engine.dispose()
    if found in {schema.NEWEST, None}:
        yield DoctorFinding(UPGRADE, "results", "ok", f"{where.name} has this boardlab's schema, {schema.NEWEST}")
    elif found in schema.known():
        copy = "a copy is left beside it" if where.path is not None else "no copy is made"
        text = f"the next measurement migrates {where.name} from schema {found} to {schema.NEWEST} ({copy}); older hosts are refused then"
        yield DoctorFinding(
            UPGRADE,
            "results",
            "doubtful",
            text,
            f"lab backup DIR with the older boardlab; {schema.how_to_migrate(where)}",
        )
    else:
        text = f"{where.name} has schema {found} of a newer boardlab"
        yield DoctorFinding(UPGRADE, "results", "bad", text, "install that boardlab here, or a newer one")


def server_clock(store: Store) -> Iterator[DoctorFinding]:
    """Compare this host's clock with the database server's.

    Reservations begin and end by the server's.
    """
    if store.location.path is not None:
        return
    asked = utc_now()
    there = store.now()
    behind_s, ahead_s = (there - utc_now()).total_seconds(), (asked - there).total_seconds()
    if (off_s := max(behind_s, ahead_s)) > APART_S:
        text = f"is {off_s:.0f} s {'ahead of' if ahead_s > behind_s else 'behind'} that of the database's server"
        yield DoctorFinding(CLOCKS, "wall clock", "doubtful", text, SAME_SERVERS)


def environments(folder: Path, farm: Farm | None = None, host: str = "") -> Iterator[DoctorFinding]:
    """The environments of a lab's folder, and those that farm.yaml names.

    What a run would refuse is bad in those of farm.yaml; others may be templates.

    Args:
        host: this one's name in farm.yaml.
    """
    from lab.env import envfile, power_state  # noqa: PLC0415 - they load labgrid

    of_farm = set()
    if farm is not None:
        for env in farm.environments_at(host).values():
            with contextlib.suppress(ConfigurationError):  # `lab farm check` names what is not there
                of_farm.add(envfile.find(env, Path(farm.directory)).absolute())
    paths = sorted({*(folder / package_data.ENVS).absolute().glob("*.yaml"), *of_farm})
    if not paths:
        text = f"none in {folder / package_data.ENVS}"
        yield DoctorFinding(
            ENVIRONMENTS, package_data.ENVS, "doubtful", text, "run this in a lab's folder; `lab init DIR` writes one"
        )
        return
    wrong = {
        path: power_state.run_problems(path) if path in of_farm else list(envfile.problems(path)) for path in paths
    }
    for path, problems in wrong.items():
        if problems:
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            text = problems[0].removeprefix(f"{path}: ") + more
            yield DoctorFinding(ENVIRONMENTS, path.name, "bad", text, f"lab env check --env {path}")
    templates = [path.name for path in paths if not (wrong[path] or path in of_farm) and any(envfile.refusals(path))]
    if templates:
        text = f"a run would refuse {len(templates)} that farm.yaml does not name: {', '.join(templates)}"
        yield DoctorFinding(ENVIRONMENTS, package_data.ENVS, "doubtful", text, "lab env check --env NAME")
    good = sum(not problems for problems in wrong.values()) - len(templates)
    if good:
        yield DoctorFinding(ENVIRONMENTS, package_data.ENVS, "ok", f"{good} of {len(paths)} have nothing wrong")


# --- Findings ---


Level = Literal["ok", "doubtful", "bad"]


@frozen
class DoctorFinding:
    """One thing that was looked at.

    Attributes:
        area: e.g. "ports". subject: what of it, e.g. "/dev/ttyUSB0".
        level: "bad": measuring fails, or its numbers are wrong; "doubtful": it works, and could be better.
        said: the state. hint: its remedy; empty: none.
    """

    area: str
    subject: str
    level: Level
    said: str
    hint: str = ""


# --- The machine: its clocks, its priorities, its disks ---


CLOCKS: Final = "clocks"
APART_S: Final = 5.0  # between two hosts' wall clocks; NTP keeps them within milliseconds
SAME_SERVERS: Final = "sudo timedatectl set-ntp true, or install chrony, with the same servers on all hosts; then look at `timedatectl status`"
TIMING: Final = "timing"
DISKS: Final = "disks"
GIB: Final = 1 << 30
_FULL_BYTES: Final = GIB  # a run of 60 cycles keeps some 50 MB
_SCARCE_BYTES: Final = 10 * GIB
_TIME_ERROR: Final = 5  # the clock is not synchronised, adjtimex(2)
_TIMEX_BYTES: Final = 512  # more than a struct timex has on any architecture; modes, its first field, 0: only ask
_GOOD_SOURCES: Final = frozenset({"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"})
_LIMITS: Final = "/etc/security/limits.d/boardlab.conf"


def clock_state() -> int:
    """State of the kernel's clock by adjtimex(2); -1: unknown."""
    return ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))  # type: ignore[no-any-return]


def clocks(sys: Path, state: Callable[[], int] = clock_state) -> Iterator[DoctorFinding]:
    """Check the wall clock and the clock source.

    The first labels results, the second stamps them.
    """
    found = state()
    if found == _TIME_ERROR:
        hint = "sudo timedatectl set-ntp true, or install chrony; `timedatectl status` says what it waits for"
        text = "is not synchronised: runs would be labelled with a wrong time, and hosts could not be compared"
        yield DoctorFinding(CLOCKS, "wall clock", "doubtful", text, hint)
    elif found >= 0:
        yield DoctorFinding(CLOCKS, "wall clock", "ok", "synchronised")
    try:
        source = (sys / "devices/system/clocksource/clocksource0/current_clocksource").read_text("ascii").strip()
    except OSError:
        return
    if source in _GOOD_SOURCES:
        yield DoctorFinding(CLOCKS, "clock source", "ok", source)
    else:
        hint = "look for `tsc` in `dmesg`: the kernel says why it does not use it; a BIOS update or `tsc=reliable` may help"
        yield DoctorFinding(CLOCKS, "clock source", "doubtful", f"{source}, which is slow to read", hint)


def timing(
    device: Path = DEVICE, limit: Callable[[int], tuple[int, int]] = resource.getrlimit
) -> Iterator[DoctorFinding]:
    """Check the console server's priority and processor wake-ups."""
    me = user_name(os.getuid())
    if os.geteuid() == 0 or limit(resource.RLIMIT_RTPRIO)[0] in {resource.RLIM_INFINITY, *range(PRIORITY, 100)}:
        yield DoctorFinding(TIMING, "real-time priority", "ok", f"SCHED_FIFO {PRIORITY} is permitted")
    else:
        yield DoctorFinding(
            TIMING,
            "real-time priority",
            "doubtful",
            "is not permitted: on a busy host stamps are late, and their ± is larger",
            f"echo '{me} - rtprio {PRIORITY}' | sudo tee -a {_LIMITS}, then log in again and `lab console stop`",
        )
    if not device.exists() or os.access(device, os.W_OK):
        return
    text = "may not be opened: processors sleep deeply while measuring, and wake late"
    hint = f'echo \'KERNEL=="{device.name}", GROUP="dialout", MODE="0660"\' | sudo tee /etc/udev/rules.d/99-boardlab-idle.rules'
    yield DoctorFinding(TIMING, str(device), "doubtful", text, hint)


def disks(folders: Mapping[str, Path]) -> Iterator[DoctorFinding]:
    """Check the free space of the folders.

    Args:
        folders: by their content; a missing one counts as its parent.
    """
    for what, folder in folders.items():
        there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
        try:
            usage = shutil.disk_usage(there)
        except OSError as error:
            yield DoctorFinding(DISKS, what, "bad", f"{there}: {error.strerror}", "is its disk mounted?")
            continue
        text = f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f} in {folder}"
        if not os.access(there, os.W_OK):
            owner = user_name(there.stat().st_uid)
            yield DoctorFinding(
                DISKS, what, "bad", f"{there}: {user_name(os.getuid())} may not write there", f"it is {owner}'s"
            )
        elif usage.free < _FULL_BYTES:
            yield DoctorFinding(
                DISKS, what, "bad", text, f"make room: du -xh {there} | sort -h | tail; or keep it elsewhere ($LAB_DB)"
            )
        elif usage.free < _SCARCE_BYTES:
            yield DoctorFinding(DISKS, what, "doubtful", text, f"make room soon: du -xh {there} | sort -h | tail")
        else:
            yield DoctorFinding(DISKS, what, "ok", text)


# --- Serial ports: access, other readers, latency ---


AREA: Final = "ports"
_KINDS: Final = ("ttyUSB", "ttyACM")
_LATENCY_MS: Final = 1
_UDEV: Final = "/etc/udev/rules.d/99-boardlab.rules"


def check(open_devices: Collection[str], servers: Collection[int], dev: Path, sys: Path) -> Iterator[DoctorFinding]:
    """USB serial adapters of this host.

    Args:
        open_devices: real paths of the console server's devices. servers: process ids of console servers.
        dev, sys: where devices and sysfs are.
    """
    found = sorted(path for kind in _KINDS for path in dev.glob(f"{kind}*"))
    if not found:
        yield DoctorFinding(AREA, "USB adapters", "ok", "none is plugged in")
    for device in found:
        wrong = [*_permission(device), *_strangers(device, servers)]
        yield from wrong
        latency = _latency_ms(device, sys)
        is_open = os.fspath(device) in open_devices
        if latency is not None and latency > _LATENCY_MS and is_open:
            yield DoctorFinding(
                AREA,
                os.fspath(device),
                "bad",
                f"holds bytes back for up to {latency} ms (latency_timer), though the console server asked for less",
                f"echo 1 | sudo tee {_timer(device, sys)}; for good: a line in {_UDEV}: "
                'ACTION=="add", SUBSYSTEM=="usb-serial", DRIVER=="ftdi_sio", ATTR{latency_timer}="1"',
            )
        elif not wrong:
            state = "open in the console server" if is_open else "free"
            timer = "no latency timer" if latency is None else f"latency timer {latency} ms"
            later = ", which the console server sets to 1 when it opens it" if (latency or 0) > _LATENCY_MS else ""
            yield DoctorFinding(AREA, os.fspath(device), "ok", f"{state}, {timer}{later}")


def _permission(device: Path) -> Iterator[DoctorFinding]:
    if os.access(device, os.R_OK | os.W_OK):
        return
    status = device.stat()
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    me = user_name(os.getuid())
    yield DoctorFinding(
        AREA,
        os.fspath(device),
        "bad",
        f"{me} may not open it: it belongs to {user_name(status.st_uid)}:{group}, mode {status.st_mode & 0o777:o}",
        f"sudo usermod -aG {group} {me}, then log in again",
    )


def _strangers(device: Path, servers: Collection[int]) -> Iterator[DoctorFinding]:
    for holder in holders(device, servers):
        if holder.reads:
            yield DoctorFinding(
                AREA,
                os.fspath(device),
                "bad",
                f"another program reads it and takes bytes away: {holder}",
                f"kill {holder.pid}, or stop the service that starts it (ModemManager, ser2net, a getty); read along with "
                "`lab console tail`",
            )


def _timer(device: Path, sys: Path) -> Path:
    return sys / "bus/usb-serial/devices" / device.name / "latency_timer"


def _latency_ms(device: Path, sys: Path) -> int | None:
    """Latency timer of the adapter in ms; None: it has none."""
    try:
        return int(_timer(device, sys).read_text("ascii"))
    except (OSError, ValueError):
        return None
