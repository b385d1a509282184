"""farm.yaml, the configuration of a lab host (docs/farm/farm-yaml.md)."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import cattrs
from attrs import Factory, evolve, field, frozen, validators
from cattrs.gen import make_dict_structure_fn, override

from lab import package_data, yamlfile
from lab.errors import ConfigurationError, join_reasons
from lab.farm import job_request
from lab.farm import validators as farm_validators
from lab.health import DEFAULT_RULE, QuarantineRule
from lab.health.reservations import LONGEST_H
from lab.host.locks import LONGEST_GAP_S
from lab.host.tcp import is_loopback
from lab.jobs.records import HEALTH
from lab.judge.known_failures import KnownFailure
from lab.judge.text import RUN
from lab.provision.releasefile import NEWEST, folder_of
from lab.results.location import DATABASE_VARIABLE, SHARED_VARIABLE
from lab.results.records import Retention
from lab.run import options
from lab.tomlfile import reason


@frozen
class Exporter:
    """`lab exporter`. listen: address:port. web_config: path; needed beyond loopback."""

    listen: str = field(default="127.0.0.1:9870", validator=farm_validators.word)
    web_config: str = field(default="", validator=farm_validators.path_if_any)


@frozen
class TokenLimits:
    """Limits of each program with a token.

    Attributes:
        reservations: at once, with those that begin later.
        hours: of all of these together.
        jobs: that wait or measure.
    """

    reservations: int = field(default=2, validator=[validators.ge(0), validators.le(1000)])
    hours: float = field(default=24.0, validator=[validators.ge(0), validators.le(LONGEST_H)])
    jobs: int = field(default=8, validator=[validators.ge(0), validators.le(1000)])


@frozen
class Web:
    """`lab web`.

    Attributes:
        listen: address:port.
        web_config, users: paths; both needed beyond loopback.
        name: by which browsers elsewhere ask for it.
        tokens: limits of programs.
    """

    listen: str = field(default="127.0.0.1:9880", validator=farm_validators.word)
    web_config: str = field(default="", validator=farm_validators.path_if_any)
    users: str = field(default="", validator=farm_validators.path_if_any)
    name: str = field(default="", validator=farm_validators.word)
    tokens: TokenLimits = field(factory=TokenLimits)

    @property
    def address(self) -> str:
        """Site's address for other machines; empty: it has none."""
        machine, _, port = self.listen.rpartition(":")
        listens_at = machine.strip("[]")
        if not self.name and (is_loopback(listens_at) or listens_at in {"", "0.0.0.0", "::"}):  # noqa: S104
            return ""
        scheme, usual = ("https", "443") if self.web_config else ("http", "80")
        return f"{scheme}://{self.name or machine}" + (f":{port}" if port != usual else "")

    @property
    def words(self) -> list[str]:
        """Options of `lab web`."""
        values = {"--listen": self.listen, "--web-config": self.web_config, "--users": self.users, "--name": self.name}
        return [word for option, value in values.items() if value for word in (option, value)]


@frozen
class VirtualBoards:
    """Simulated boards that `lab farm up` starts.

    Attributes:
        types: of lab/boards.
        count: of each type.
        time_scale: as for `lab virtual up`.
    """

    types: list[str]
    count: int = field(default=1, validator=[validators.ge(1), validators.le(1000)])
    time_scale: float = field(default=1.0, validator=validators.gt(0))


@frozen
class PduDaemonConfig:
    """pdudaemon. program: empty: boardlab starts none. address: where it listens."""

    program: str = field(default="", validator=farm_validators.program)
    config: str = field(default="/etc/pdudaemon/pdudaemon.conf", validator=farm_validators.path)
    address: str = field(default="127.0.0.1:16421", validator=[farm_validators.word, farm_validators.private_address])


@frozen
class UsbEntry:
    """An expected USB device; see exporters.farm.host.

    Attributes:
        host: empty: the first one.
    """

    name: str
    id_path: str
    kind: str = "adapter"
    host: str = ""


GITHUB_API: Final = "https://api.github.com"
GITLAB: Final = "https://gitlab.com"
_USER: Final = re.compile(r"[\w.@-]{1,64}")
_REPOSITORY: Final = re.compile(r"[\w.-]+(/[\w.-]+)+")


def _repository(_instance: object, attribute: Any, value: str) -> None:
    if not _REPOSITORY.fullmatch(value):
        raise ValueError(f"{attribute.name}: {value!r}: expected OWNER/NAME, e.g. example/releases")


def _user(_instance: object, _attribute: Any, value: str) -> None:
    if not _USER.fullmatch(value):
        raise ValueError(f"users: {value!r}: expected the name that this person has in the lab, e.g. lena")


@frozen
class GitHub:
    """GitHub repository that gets commit statuses.

    Attributes:
        repository: OWNER/NAME.
        url: of the API. The token is the secret `github`.
    """

    repository: str = field(validator=_repository)
    url: str = field(default=GITHUB_API, validator=farm_validators.site)


@frozen
class GitLab:
    """GitLab project that gets commit statuses.

    Attributes:
        repository: GROUP/NAME.
        url: of the server. The token is the secret `gitlab`.
    """

    repository: str = field(validator=_repository)
    url: str = field(default=GITLAB, validator=farm_validators.site)


@frozen
class Webhook:
    """Receiver of each build's result as JSON.

    Attributes:
        url: without passwords.
        token: the secret `webhook` is sent as a bearer token.
    """

    url: str = field(validator=farm_validators.site)
    token: bool = False


@frozen
class Buildbot:
    """Buildbot as the queue of runs.

    Attributes:
        program: `buildbot`; its `buildbot-worker` is beside it.
        www: address:port of its pages.
        workers: of the master for its workers; both know no TLS.
        parallel: builds at once on a host.
        attempts: how often a build is begun, when its worker or its master is lost or a person has the board.
        github, gitlab, webhook: receivers of build results; None: none.
        database: of the master's own state, an SQLAlchemy URL; its own file by default, PostgreSQL for a large lab.
        users: persons who start builds; each has a login, and measures as that person.
    """

    program: str = field(validator=farm_validators.program)
    www: str = field(default="127.0.0.1:8010", validator=farm_validators.loopback)
    workers: str = field(default="127.0.0.1:9989", validator=farm_validators.loopback)
    parallel: int = field(default=16, validator=validators.ge(1))
    attempts: int = field(default=6, validator=validators.ge(1))
    github: GitHub | None = None
    gitlab: GitLab | None = None
    webhook: Webhook | None = None
    database: str = field(default="sqlite:///state.sqlite", validator=[farm_validators.word, farm_validators.public])
    users: list[str] = field(factory=list, validator=validators.deep_iterable(_user))

    @property
    def secrets(self) -> list[str]:
        """Names of the required files of secrets."""
        names = [name for name, receiver in (("github", self.github), ("gitlab", self.gitlab)) if receiver is not None]
        return [*names, *(["webhook"] if self.webhook is not None and self.webhook.token else [])]


@frozen
class HostEntry:
    """A host with boards.

    Buildbot's worker and labgrid's exporter there have its name.

    Attributes:
        exporter: where its exporter for Prometheus listens, address:port; empty: as `exporter` says for all.
        scrape: host:port at which Prometheus, on the first host, reaches it; empty: there, or by a port on loopback
            that ssh forwards.
    """

    name: str = field(validator=farm_validators.name)
    exporter: str = field(default="", validator=farm_validators.word)
    scrape: str = field(default="", validator=farm_validators.word)


@frozen
class BoardEntry:
    """A board of the farm.

    Attributes:
        name: as its env names it.
        host: where it is plugged in; empty: the only one.
        hub: of its USB devices: boards of the same hub are provisioned one at a time.
    """

    name: str = field(validator=farm_validators.word)
    env: str = field(validator=farm_validators.quotable)
    host: str = field(default="", validator=farm_validators.word)
    hub: str = field(default="", validator=farm_validators.word)


BEFORE_ALL: Final = "01:30"  # half an hour before a schedule's own default


@frozen
class HealthConfig:
    """Boards' health.

    Attributes:
        faults, window_h, age_h: of lab.health.QuarantineRule.
        reference: a board of `schedules` or `boards` that is checked first each night; empty: there is none.
        at: when.
    """

    faults: int = field(default=DEFAULT_RULE.faults, validator=validators.ge(1))
    window_h: float = field(default=DEFAULT_RULE.window_h, validator=validators.gt(0))
    age_h: float = field(default=DEFAULT_RULE.age_h, validator=validators.gt(0))
    reference: str = field(default="", validator=farm_validators.word)
    at: str = field(default=BEFORE_ALL, validator=farm_validators.time)

    @property
    def rule(self) -> QuarantineRule:
        """Rule of quarantines and checks."""
        return QuarantineRule(self.faults, self.window_h, self.age_h)


@frozen
class BackupConfig:
    """Daily backups by `lab backup`.

    Attributes:
        to: path of the folder, on another disk.
        at: time of day.
        keep: number of backups.
    """

    to: str = field(validator=farm_validators.path)
    at: str = field(default="05:30", validator=farm_validators.time)
    keep: int = field(default=7, validator=validators.ge(1))


LATE_MS: Final = 5.0  # a hundredth of the stage that boards boot fastest through, and above what one busy core does


@frozen
class Limits:
    """Limits of a host, see docs/farm/load.md.

    A scheduled run waits while `max_boards` or `late_ms` is exceeded.

    Attributes:
        power_on_gap: seconds between two power-ons at the same switch, at least.
        max_boards: that measure at once; 0: as many as there are.
        late_ms: no further board while the console server's stamps are later than this, in 1 of 100; 0: however late.
    """

    power_on_gap: float = field(default=0.0, validator=[validators.ge(0), validators.le(LONGEST_GAP_S)])
    max_boards: int = field(default=0, validator=validators.ge(0))
    late_ms: float = field(default=LATE_MS, validator=validators.ge(0))


_EXAMPLE: Final = package_data.folder(package_data.FARM) / "farm.yaml"
DOCUMENTS: Final = "http://127.0.0.1:8000"  # where `mkdocs serve` has them; as in farm/prometheus and farm/grafana
SSH_VARIABLE: Final = "BOARDLAB_SSH_CONFIG"  # as lab.host.ssh reads it
HERE: Final = "local"  # the host of a farm that names none
ELSEWHERE: Final = "elsewhere"  # `coordinator_host`: a machine outside `hosts`
_PASSFILE: Final = re.compile(r"([?&]passfile=)([^&]+)")
PERIODS_S: Final = {"day": 86_400.0, "week": 604_800.0}
RELEASE: Final = "release"  # `every: release`: whenever a new release file is in the folder
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@frozen
class Schedule:
    """A run on a timer.

    Attributes:
        env: of the board.
        board: as the env names it.
        release: of the software; `newest in DIR`: the option `provision`.
        suite: e.g. "boot" or "boot,low_power".
        every: "day", "week", or "release": each new file of the folder that `newest in DIR` names.
        at: time of day.
        day: of the week, for `every: week`.
        spread_s: starts up to so much later, so that boards of many hosts do not start at once.
        options: how, see `lab.run.options`; each is a key of its own in the file.
    """

    name: str = field(validator=farm_validators.name)
    env: str = field(validator=farm_validators.quotable)
    board: str = field(validator=farm_validators.word)
    suite: str = field(default="boot", validator=farm_validators.word)
    release: str = field(default="", validator=farm_validators.word)
    cycles: int = field(default=20, validator=validators.ge(1))
    every: str = field(default="day", validator=validators.in_((*PERIODS_S, RELEASE)))
    at: str = field(default="02:00", validator=farm_validators.time)
    day: str = field(default="Sun", validator=validators.in_(DAYS))
    spread_s: int = field(default=300, validator=validators.ge(0))
    options: Mapping[str, options.Value] = {}

    @property
    def releases(self) -> str:
        """Folder of release files to measure; empty: a timer starts it."""
        return folder_of(str(self.options.get(options.PROVISION, ""))) if self.every == RELEASE else ""

    @property
    def calendar(self) -> str:
        """Value of systemd's OnCalendar=."""
        return f"*-*-* {self.at}:00" if self.every == "day" else f"{self.day} *-*-* {self.at}:00"

    @property
    def interval_s(self) -> float:
        """Time between two runs."""
        return PERIODS_S[self.every]

    def last_start(self, now: dt.datetime) -> dt.datetime:
        """Last due time of the timer, in the host's time zone."""
        local = now.astimezone()
        hour, minute = map(int, self.at.split(":"))
        start = local.replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
        if self.every == "week":
            start -= dt.timedelta(days=(start.weekday() - DAYS.index(self.day)) % len(DAYS))
        if start.astimezone() > local:
            start -= dt.timedelta(seconds=self.interval_s)
        return start.astimezone()

    @property
    def suites(self) -> tuple[str, ...]:
        """Suites to measure."""
        return tuple(self.suite.split(","))


@frozen
class Farm:
    """Configuration of a lab host, with absolute paths.

    Attributes:
        user: of the services.
        directory: of the runs and of relative paths: a folder with `envs/` and, unless boardlab's own are meant,
            `tests_perf/`.
        program: the command `lab`.
        database: as `--db`.
        artifacts: where hosts share them, see lab.results.location; empty: nowhere.
        state, runtime: names of folders under /var/lib and /run.
        coordinator: labgrid's, host:port.
        alertmanager: where it listens, host:port; empty: there is none.
        coordinator_host: which of the hosts runs the coordinator; empty: the first; `elsewhere`: none of them.
        ssh_config: path of ssh's configuration for the services, on each host; empty: the user's own.
        exports: path of labgrid's exporter configuration of this host; empty: none.
        reports: address of a run's page, with {run}, for links in mails; empty: the site's, see `run_page`.
        documents: address of the documents' site, to which alerts and dashboards link.
        limits: of a host's load.
        virtual: boards that are simulated on this host; None: it has real ones.
        health: when boards are checked and kept out.
        known: failures that are mailed only when they come back.
        backup: None: there are no backups.
        retention: what a day's backup removes afterwards.
        buildbot: None: runs are systemd's timers'.
        hosts, boards: what Buildbot knows of; no hosts: only this one.
    """

    user: str = field(default="boardlab", validator=farm_validators.word)
    directory: str = field(default=".", validator=farm_validators.path)
    program: str = field(default="/srv/boardlab/.venv/bin/lab", validator=farm_validators.path)
    database: str = field(
        default="sqlite:////var/lib/boardlab/results.db", validator=[farm_validators.word, farm_validators.public]
    )
    artifacts: str = field(default="", validator=[farm_validators.word, farm_validators.shared])
    state: str = field(default="boardlab", validator=farm_validators.name)
    runtime: str = field(default="boardlab", validator=farm_validators.name)
    coordinator: str = field(default="", validator=[farm_validators.word, farm_validators.private_address])
    coordinator_host: str = field(default="", validator=farm_validators.word)
    exports: str = field(default="", validator=farm_validators.path_if_any)
    ssh_config: str = field(default="", validator=farm_validators.path_if_any)
    alertmanager: str = field(default="", validator=farm_validators.word)
    reports: str = field(default="", validator=farm_validators.reports)
    documents: str = field(default=DOCUMENTS, validator=farm_validators.site)
    exporter: Exporter = field(factory=Exporter)
    web: Web = field(factory=Web)
    virtual: VirtualBoards | None = None
    pdudaemon: PduDaemonConfig = field(factory=PduDaemonConfig)
    usb: list[UsbEntry] = Factory(list)
    limits: Limits = field(factory=Limits)
    health: HealthConfig = field(factory=HealthConfig)
    known: list[KnownFailure] = Factory(list)
    backup: BackupConfig | None = None
    retention: Retention = field(factory=Retention)
    buildbot: Buildbot | None = None
    hosts: list[HostEntry] = Factory(list)
    boards: list[BoardEntry] = Factory(list)
    schedules: list[Schedule] = Factory(list)

    def __attrs_post_init__(self) -> None:
        for key, entries in (("schedules", self.schedules), ("hosts", self.hosts), ("boards", self.boards)):
            names = [entry.name for entry in entries]
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"{key}: two are called {name!r}")
        hosts = [host.name for host in self.hosts] or [HERE]
        for board in self.boards:
            if board.host not in {*hosts, *([""] if len(hosts) == 1 else [])}:
                raise ValueError(f"boards: {board.name}: host {board.host!r}: name one of {', '.join(hosts)}")
        env_of_board = {board.name: board.env for board in self.boards}
        for schedule in self.schedules if env_of_board else ():
            if env_of_board.get(schedule.board) != schedule.env:
                raise ValueError(
                    f"schedules: {schedule.name}: board {schedule.board!r} with env {schedule.env!r} is not one of "
                    "`boards`"
                )
        self._check_hosts(hosts)
        measured = {*env_of_board, *(schedule.board for schedule in self.schedules)}
        if self.health.reference and self.health.reference not in measured:
            raise ValueError(
                f"health: reference {self.health.reference!r} is a board of neither `schedules` nor `boards`"
            )
        if self.retention != Retention(hold=self.retention.hold) and self.backup is None:
            raise ValueError("retention: it removes after each backup, and `backup` names no folder for one")
        if self.buildbot is not None and not self.boards:
            raise ValueError("buildbot: `boards` lists none, so it has nothing to run on")

    def _check_hosts(self, hosts: list[str]) -> None:
        for device in self.usb:
            if device.host and device.host not in hosts:
                raise ValueError(f"usb: {device.name}: host {device.host!r}: name one of {', '.join(hosts)}")
        if self.coordinator_host not in {"", ELSEWHERE, *hosts}:
            raise ValueError(
                f"coordinator_host: {self.coordinator_host!r}: name one of {', '.join((*hosts, ELSEWHERE))}"
            )
        if self.exports and not self.coordinator:
            raise ValueError("exports: `coordinator` names no coordinator to export to")

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables with the farm's database, artifacts and ssh configuration."""
        variables = {DATABASE_VARIABLE: self.database, SHARED_VARIABLE: self.artifacts, SSH_VARIABLE: self.ssh_config}
        return {name: value for name, value in variables.items() if value}

    @property
    def run_page(self) -> str:
        """URL template of a run's page, with {run}; empty: none."""
        return self.reports or (f"{self.web.address}/runs/{RUN}" if self.web.address else "")

    @property
    def own_pdudaemon(self) -> str:
        """Address of boardlab's own pdudaemon on each host; empty: none."""
        return self.pdudaemon.address if self.pdudaemon.program or self.virtual is not None else ""

    @property
    def coordinator_at(self) -> str:
        """Host of labgrid's coordinator; empty: none of them."""
        if not self.coordinator or self.coordinator_host == ELSEWHERE:
            return ""
        return self.coordinator_host or self.first_host

    @property
    def first_host(self) -> str:
        """Host with the results."""
        return self.hosts[0].name if self.hosts else HERE

    @property
    def reference_host(self) -> str:
        """Host that the reference board is plugged into."""
        reference = next((board for board in self.boards if board.name == self.health.reference), None)
        return self.first_host if reference is None else self.host_of(reference)

    def exporter_of(self, host: str) -> str:
        """Address of a host's exporter; an empty name: the first host's."""
        listens = (entry.exporter for entry in self.hosts if entry.name == (host or self.first_host))
        return next(listens, "") or self.exporter.listen

    @property
    def environments(self) -> dict[str, str]:
        """Environment of each named board."""
        return {schedule.board: schedule.env for schedule in self.schedules} | {
            board.name: board.env for board in self.boards
        }

    def environments_at(self, host: str) -> dict[str, str]:
        """Environment of each named board that is not another host's."""
        others = {board.name for board in self.boards if self.host_of(board) != host}
        return {board: env for board, env in self.environments.items() if board not in others}

    @property
    def timed(self) -> list[Schedule]:
        """Schedules with a time of day."""
        return [schedule for schedule in self.schedules if not schedule.releases]

    def host_of(self, board: BoardEntry) -> str:
        """Host that a board is plugged into."""
        return board.host or self.first_host


def load(path: Path) -> Farm:
    """Read a farm.yaml; its relative paths begin at `directory`.

    Raises:
        ConfigurationError: it cannot be read, or has an unknown key or a wrong value.
    """
    data = yamlfile.load(path, f"`lab init` writes one, as {_EXAMPLE}", unique=True) or {}
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: expected keys and values, as in {_EXAMPLE}; got {type(data).__name__}")
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook(Schedule, _schedule(converter))
    try:
        return _make_absolute(converter.structure(data, Farm), path.absolute().parent)
    except cattrs.BaseValidationError as error:
        reasons = cattrs.transform_error(
            error, path=path.name, format_exception=partial(reason, keys_of={"options": options.NAMES})
        )
        raise ConfigurationError(f"{path}: {join_reasons(reasons)}") from error
    except ValueError as error:  # of a path that cannot stand in a unit file since the folder's cannot
        raise ConfigurationError(f"{path}: {error}") from error


def _make_absolute(farm: Farm, folder: Path) -> Farm:
    """Copy of a farm with absolute paths."""
    base = folder / farm.directory

    def at(text: str) -> str:
        return str(base / text) if text else ""

    def program(text: str) -> str:
        return at(text) if "/" in text else text

    def env(text: str) -> str:
        may_be = package_data.environments(text, base)
        # Not Path.is_file, which raises an error for a name that is too long.
        there = (path for path in may_be if os.path.isfile(path))  # noqa: PTH113
        return str(next(there, may_be[-1]))

    def absolute_release(chosen_options: Mapping[str, options.Value]) -> Mapping[str, options.Value]:
        release = str(chosen_options.get(options.PROVISION, ""))
        if not release or "://" in release:
            return chosen_options
        releases = folder_of(release)
        return {**chosen_options, options.PROVISION: f"{NEWEST}{at(releases)}" if releases else at(release)}

    return evolve(
        farm,
        directory=str(base),
        program=at(farm.program),
        database=_database(farm.database, base),
        exports=at(farm.exports),
        ssh_config=at(farm.ssh_config),
        exporter=evolve(farm.exporter, web_config=at(farm.exporter.web_config)),
        web=evolve(farm.web, web_config=at(farm.web.web_config), users=at(farm.web.users)),
        pdudaemon=evolve(farm.pdudaemon, program=program(farm.pdudaemon.program), config=at(farm.pdudaemon.config)),
        backup=farm.backup and evolve(farm.backup, to=at(farm.backup.to)),
        buildbot=farm.buildbot and evolve(farm.buildbot, program=program(farm.buildbot.program)),
        boards=[evolve(board, env=env(board.env)) for board in farm.boards],
        schedules=[
            evolve(schedule, env=env(schedule.env), options=absolute_release(schedule.options))
            for schedule in farm.schedules
        ],
    )


def _database(text: str, base: Path) -> str:
    """Database URL with absolute paths of SQLite's file and libpq's password file."""
    if "://" not in text:
        return text if text.startswith("~") else str(base / text)
    kind, _, rest = text.partition(":///")
    if kind == "sqlite":
        return f"{kind}:///{base / rest}"
    return _PASSFILE.sub(lambda match: f"{match[1]}{base / match[2]}", text)


def _schedule(converter: cattrs.Converter) -> Callable[[Any, type], Schedule]:
    """Structure hook of a schedule, whose keys include options."""
    plain = make_dict_structure_fn(Schedule, converter, _cattrs_forbid_extra_keys=True, options=override(omit=True))

    def structure_schedule(data: Any, _type: type) -> Schedule:
        if not isinstance(data, Mapping):
            raise ValueError(f"expected keys and values, got {data!r:.60}")  # noqa: TRY004 - cattrs tells its place
        data = _newest(data)
        own = {key: value for key, value in data.items() if key not in options.NAMES}
        try:
            chosen_options = options.read(
                {key: value for key, value in data.items() if key in options.NAMES}, flags=False
            )
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        # Without a judge a night raises no alert; without a health check it may measure a broken lab.
        chosen_options = {**{name: True for name in (options.JUDGE, HEALTH) if name not in data}, **chosen_options}
        if options.SECTIONS in chosen_options:
            own.setdefault("suite", job_request.SECTIONS)
        schedule = evolve(plain(own, Schedule), options=chosen_options)
        if schedule.every == RELEASE and not schedule.releases:
            raise ValueError(f"every: {RELEASE}: say which folder: `release: newest in DIR`")
        return schedule

    return structure_schedule


def _newest(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Turn `release: newest in DIR` into the option `provision`."""
    release = data.get("release")
    if not (isinstance(release, str) and release.startswith(NEWEST)):
        return data
    if options.PROVISION in data:
        raise ValueError(f"release: {release!r} and {options.PROVISION} say the same in two ways: leave one out")
    return {**{key: value for key, value in data.items() if key != "release"}, options.PROVISION: release}


def _text(value: object, _type: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected text, got {value!r}; put it in quotes")
