"""A schedule with `every: release`: measures each new release file once."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from attrs import define, field

from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.farm.config import Farm, Schedule
from lab.farm.runner import BUSY, INTERRUPTED, UNCONFIRMED, USAGE, WORSE
from lab.host.process import ENDING, handling
from lab.provision import checks
from lab.provision.image import Hosts
from lab.provision.releasefile import files_in, load, settle
from lab.run.options import PROVISION, arguments

WAIT_S: Final = 14_400  # for a board in use
# Exit codes of `lab run` after which a release is not measured again, the worst last.
_MEASURED: Final = (0, UNCONFIRMED, WORSE, 1)


@define
class ReleaseWatch:
    """Releases of a schedule: measured ones and new ones.

    Attributes:
        state: the file that keeps it.
        say: tells a person a line.
    """

    farm: Farm
    schedule: Schedule
    state: Path
    say: Callable[[str], None]
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    @property
    def folder(self) -> Path:
        """Folder of the release files."""
        return Path(self.farm.directory) / self.schedule.releases

    def measure(self) -> int:
        """Measure new releases, oldest first; return the exit code.

        The first call only records the existing files. A wrong release is reported once and checked again the
        next time; the others go on.

        Raises:
            ConfigurationError: there is no such folder, or the environment is wrong. LabStableError: the state
            cannot be kept. KeyboardInterrupt: it was to end while a release was still written.
        """
        if not self.folder.is_dir():
            raise ConfigurationError(
                f"{self.folder} is no folder: make it, or correct `release` of {self.schedule.name}"
            )
        if not self.state.exists():
            names = [path.name for path in files_in(self.folder)]
            self._save(names, {})
            self.say(f"{len(names)} release files are in {self.folder}; those that come from now on are measured")
            return 0
        worst, reported = 0, dict[str, str]()
        with handling(dict.fromkeys(ENDING, self._stop)):
            while new := [path for path in files_in(self.folder) if path.name not in {*self._read()[0], *reported}]:
                wrong = self._problem(new[0])
                if wrong is not None:
                    reported[new[0].name] = wrong
                    continue
                code = self._run(new[0])
                if code not in _MEASURED:
                    return code if code in {BUSY, INTERRUPTED, USAGE} else 1
                worst = max(worst, code, key=_MEASURED.index)
        measured, before = self._read()
        self._save(measured, reported)
        new_problems = {name: why for name, why in reported.items() if before.get(name) != why}
        for name, why in new_problems.items():
            self.say(f"{name} is not measured before it is right: {why}")
        return (USAGE if new_problems else 0) or worst

    def _problem(self, path: Path) -> str | None:
        """Reason why a release cannot be measured; None: it can."""
        try:
            settle(path, self._rest)
            problems = list(checks.problems(load(path), Hosts.of_user()))
        except BoardlabError as error:
            problems = [str(error)]
        return "; ".join(problems) or None

    def _rest(self, seconds: float) -> None:
        """Sleep between two looks at a growing file; a signal ends it."""
        time.sleep(seconds)
        if self._stopping:
            raise KeyboardInterrupt

    def _run(self, path: Path) -> int:
        env = envfile.find(self.schedule.env, Path(self.farm.directory))
        if envfile.arguments_of(env, "BoardStrategy").get("board_type") not in load(path).boards:
            self._record(path)
            return 0
        self.say(f"{path.name} is new: {self.schedule.suite} on {self.schedule.board}")
        chosen_options = {**self.schedule.options, PROVISION: str(path)}
        order = ["--suite", self.schedule.suite, "--env", self.schedule.env, "--cycles", str(self.schedule.cycles)]
        command = [
            self.farm.program,
            "run",
            "--scheduled",
            "--continue",
            "--wait",
            str(WAIT_S),
            *order,
            *arguments(chosen_options),
        ]
        if self._stopping:
            return INTERRUPTED
        try:
            self._child = subprocess.Popen(command, cwd=self.farm.directory)
        except OSError as error:
            raise LabStableError(f"{self.farm.program}: {error.strerror}; correct `program` in farm.yaml") from error
        if self._stopping:
            self._child.terminate()
        code = self._child.wait()
        self._child = None
        if code in _MEASURED:
            self._record(path)
        return code

    def _record(self, path: Path) -> None:
        measured, reported = self._read()
        self._save([*measured, path.name], reported)

    def _read(self) -> tuple[list[str], dict[str, str]]:
        try:
            document = json.loads(self.state.read_text(encoding="utf-8"))
            return list(document["known"]), dict(document["told"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabStableError(
                f"{self.state}: {error}; delete it: then the releases in {self.folder} are known, and later ones are "
                "measured"
            ) from error

    def _save(self, measured: list[str], reported: dict[str, str]) -> None:
        draft = self.state.with_name(f"{self.state.name}.new")
        try:
            self.state.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps({"known": measured, "told": reported}, indent=1), encoding="utf-8")
            draft.replace(self.state)
        except OSError as error:
            raise LabStableError(f"{self.state}: {error.strerror}; name another folder with --state") from error

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Forward a signal to the running job, which ends cleanly."""
        self._stopping = True
        if self._child is not None:
            self._child.send_signal(number)


def of(farm: Farm, name: str, state: Path, say: Callable[[str], None]) -> ReleaseWatch:
    """The releases of a named schedule.

    Raises:
        ConfigurationError: there is no such schedule, or it is a timer's.
    """
    schedules = {schedule.name: schedule for schedule in farm.schedules if schedule.releases}
    if name not in schedules:
        raise ConfigurationError(
            f"no schedule {name!r} with `every: release`; there are: {', '.join(schedules) or 'none'}"
        )
    return ReleaseWatch(farm, schedules[name], state / f"{name}.json", say)
