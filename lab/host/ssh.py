"""Unix sockets of another host, through one ssh connection to it.

OpenSSH multiplexes: one master per host, with which every forward is asked for (ssh(1), -O forward). A forward takes
no session, so that sshd's MaxSessions does not count, and the local end is a socket in a folder of this user's alone,
where a TCP port would be everybody's.

A master may hang: it or its target is stopped. Its own ServerAlive ends it when the other host is silent; the next
request to a stopped master kills it, and makes a new one. No call here waits for it without a limit.
"""

from __future__ import annotations

import hashlib
import logging
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.host import locks
from lab.host.process import PROC
from lab.host.runtime import MAX_SOCKET_PATH_BYTES, check_owner, socket_path

_PID_BYTES: Final = 20


@contextmanager
def hold_lock(path: Path, host: str, limit_s: float) -> Iterator[None]:
    """Hold the lock of a host's connection for this block.

    Args:
        path: of the lock, which names its holder.
        limit_s: maximum wait for another process.

    Raises:
        LabTransientError: another process has held it longer.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        noted_ns = os.fstat(fd).st_mtime_ns
        if not locks.take(fd, limit_s):
            raise LabTransientError(f"ssh to {host}: {_hold_reason(fd, noted_ns, limit_s)}", failure="console_link")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _hold_reason(fd: int, noted_ns: int, limit_s: float) -> str:
    """The reason and remedy for a lock that stays held.

    Args:
        noted_ns: the lock's last note of a holder when we began to wait.
    """
    if os.fstat(fd).st_mtime_ns != noted_ns:
        return (
            f"others have taken turns at making the connection for more than {limit_s:g} s, and none has it: is "
            "the host up, and the network?"
        )
    holder = os.pread(fd, _PID_BYTES, 0).decode(errors="replace").strip()
    return (
        f"process {holder} has been making or ending the connection for more than {limit_s:g} s. Is it stopped? Let "
        f"it go on (kill -CONT {holder}), or end it"
    )


# A master that is stopped, or hangs in the kernel, answers no `ssh -O exit`, and its own time-outs do not run.


GONE_S: Final = 5.0  # for the kernel to end what it has been told to kill


def kill(control: Path, proc: Path = PROC) -> list[int]:
    """Kill this user's masters of a control socket; return their pids.

    Masters in a container may be invisible to this process.
    """
    killed = []
    for entry in proc.iterdir():
        if not entry.name.isdecimal() or not _is_master(entry.name, control, proc):
            continue
        with suppress(OSError), _open_process(int(entry.name)) as process:
            if _is_master(entry.name, control, proc):  # still: another process may have got its number
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], GONE_S)
                killed.append(int(entry.name))
    return killed


def _is_master(pid: int | str, control: Path, proc: Path) -> bool:
    """True for a master of the socket, not for its sessions.

    By its command line, or its title (ssh.c, where ControlPersist makes it one).
    """
    entry = proc / str(pid)
    try:
        if entry.stat().st_uid != os.getuid():
            return False
        argv = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it ended just now
        return False
    path = os.fsencode(control)
    if argv[0].startswith(b"ssh: " + path + b" [mux]"):
        return True
    return b"-M" in argv and (b"-S", path) in pairwise(argv)


@contextmanager
def _open_process(pid: int) -> Iterator[int]:
    process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        os.close(process)


CONNECT_S: Final = 15
ANSWER_S: Final = 10.0  # of a master on this host, which answers in milliseconds; the rest is for a host under load
_LIMIT_S: Final = 3.0 * CONNECT_S  # of a connection: ConnectTimeout bounds neither its key exchange nor its login
_LOCK_S: Final = 2 * _LIMIT_S  # longer than a process with the lock can take
_SSH_FAILED: Final = 255  # ssh(1): its exit status where it is none of the program's
_TIMED_OUT: Final = (124, 137)  # timeout(1): it was told to end; it had to be killed
_KILL_S: Final = 1
_DRAFT_BYTES: Final = 17  # ".XXXXXXXXXXXXXXXX", which ssh appends to a control socket's name until it listens (mux.c)
_IDLE_S: Final = 60  # lifetime of an unused master
_OPTIONS: Final = (
    *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", "-o", f"ControlPersist={_IDLE_S}"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ExitOnForwardFailure=yes"),
    *("-o", "StreamLocalBindUnlink=yes", "-o", "StreamLocalBindMask=0177"),
)
_log = logging.getLogger(__name__)


@frozen
class SshLink:
    """The connection to one host.

    Attributes:
        host: as ssh(1) takes it; keys and users are in its configuration.
        folder: of this user alone, for the sockets.
        config: of ssh; empty: the user's own.
        answer_s: limit for an answer of this host's master; a slower one hangs, and is killed.
        lock_s: limit for another process to make or end the connection.
    """

    host: str
    folder: Path
    config: str = ""
    answer_s: float = ANSWER_S
    lock_s: float = _LOCK_S

    @classmethod
    def to(cls, host: str, runtime: Path, environ: Mapping[str, str] = os.environ) -> SshLink:
        """The link shared by all processes with this runtime folder.

        `BOARDLAB_SSH_CONFIG` names another configuration.

        Raises:
            ConfigurationError: not a host's name.
        """
        if not host or host.startswith("-") or not host.isprintable():
            raise ConfigurationError(f"{host!r} is no name of a host for ssh")
        return cls(host, runtime / "ssh", environ.get("BOARDLAB_SSH_CONFIG", ""))

    def forward(self, remote: str) -> Path:
        """A local socket that leads to a socket of the host.

        Raises:
            LabTransientError: the host does not answer, or refuses.
        """
        local = self.local(remote)
        with self._hold_lock():
            local.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_up():
                self._connect()
            if not local.exists():
                self._forward(local, remote)
                if not local.exists():  # the master has it from before, and its socket is gone
                    self._ask_master("cancel", "-L", f"{local}:{remote}")
                    self._forward(local, remote)
                if not local.exists():
                    raise LabTransientError(
                        f"ssh to {self.host} does not make {local}: end its connection (ssh -S {self._control} -O "
                        f"exit {self.host}), and look at the folder",
                        failure="console_link",
                    )
        return local

    def needs_s(self, timeout_s: float) -> float:
        """Maximum duration of `ran` with a reconnect."""
        return self.answer_s + GONE_S + _LIMIT_S + timeout_s + _KILL_S + CONNECT_S

    def ran(self, argv: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a program on the host over the shared connection.

        No shell interprets its arguments.

        Raises:
            LabTransientError: ssh fails, or the connection hangs: the host has not confirmed the program's end.
            subprocess.TimeoutExpired: the program was too slow, and the host has ended it (timeout(1), which is
                required there).
        """
        session = self._session(["timeout", f"--kill-after={_KILL_S}", f"{timeout_s:g}", *argv])
        began_s = time.monotonic()
        limit_s = timeout_s + _KILL_S + CONNECT_S
        try:
            done = subprocess.run(
                session,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"ssh to {self.host}: {argv[0]}, which had {timeout_s:g} s, has not ended after {limit_s:g} s; the "
                "connection hangs, or that host does. Is it up, and the network?",
                failure="console_link",
            ) from error
        if done.returncode in _TIMED_OUT and time.monotonic() - began_s >= timeout_s:
            raise subprocess.TimeoutExpired(list(argv), timeout_s)
        if done.returncode == _SSH_FAILED:
            raise LabTransientError(
                f"ssh to {self.host} does not run {argv[0]}: {done.stderr.strip() or 'it said nothing'}",
                failure="console_link",
            )
        return done

    def started(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program on the host with pipes.

        Its standard input ends with this process.

        Raises:
            LabTransientError: ssh fails.
        """
        return subprocess.Popen(
            self._session(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def _session(self, argv: Sequence[str]) -> list[str]:
        with self._hold_lock():
            if not self._is_up():
                self._connect()
        config = ["-F", self.config] if self.config else []
        return ["ssh", *config, *_OPTIONS, "-S", str(self._control), self.host, "--", shlex.join(argv)]

    def generation(self) -> str:
        """The identity of the current connection, for `reset`; empty: none."""
        try:
            status = self._control.stat()
        except OSError:
            return ""
        return f"{status.st_ino}.{status.st_mtime_ns}"

    def local(self, remote: str) -> Path:
        """The local socket of a remote one, alone in its folder."""
        return socket_path(self._sockets / self._name(remote))

    def reset(self, generation: str = "") -> None:
        """End a connection that does not answer; other hosts' stay.

        Args:
            generation: the connection that did not answer; a newer one stays. Empty: any.

        Raises:
            LabTransientError: another process has made or ended it for too long.
        """
        with self._hold_lock():
            if generation in {"", self.generation()}:
                if self._control.exists():
                    self._ask_master("exit")
                kill(self._control)  # it says goodbye first, and waits until the other host takes that
                self._forget()

    def _forget(self) -> None:
        """Remove the sockets of an ended connection."""
        self._control.unlink(missing_ok=True)
        for forwarded in self._sockets.glob("*/console.sock"):
            forwarded.unlink(missing_ok=True)

    @property
    def _sockets(self) -> Path:
        return self.folder / self._name(self.host)

    @property
    def _control(self) -> Path:
        return self.folder / f"{self._name(self.host)}.ctl"

    @staticmethod
    def _name(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def _is_up(self) -> bool:
        if not self._control.exists():
            return False
        answer = self._ask_master("check")
        return answer is not None and answer.returncode == 0

    def _ask_master(self, *words: str) -> subprocess.CompletedProcess[str] | None:
        """The master's answer (ssh(1), -O); None: it hung and was killed."""
        try:
            return self._ssh(self.answer_s, "-O", *words)
        except subprocess.TimeoutExpired:
            killed = kill(self._control)
            self._forget()
            which = (
                f"process {', '.join(map(str, killed))}, was killed"
                if killed
                else "which is not seen from here, is left alone"
            )
            _log.warning(
                "ssh to %s: the connection's master did not answer within %g s; it, %s. A new one is made",
                self.host,
                self.answer_s,
                which,
            )
            return None

    def _forward(self, local: Path, remote: str) -> None:
        done = self._ask_master("forward", "-L", f"{local}:{remote}")
        if done is None:
            raise LabTransientError(
                f"ssh to {self.host} hung when it should forward {remote}, and was ended; the next try makes a new "
                "connection",
                failure="console_link",
            )
        self._check(done, local, 0, f"forward {remote}")

    def _connect(self) -> None:
        self._forget()
        try:
            done = self._ssh(_LIMIT_S, "-f", "-N", "-M")
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"ssh to {self.host} did not end within {_LIMIT_S:g} s; is the host up, and the network?",
                failure="console_link",
            ) from error
        self._check(done, self._control, _DRAFT_BYTES, "connect")

    def _check(self, done: subprocess.CompletedProcess[str], makes: Path, draft_bytes: int, doing: str) -> None:
        """Check that ssh made a socket.

        `draft_bytes`: by how much its name is longer at first.
        """
        if done.returncode and len(os.fsencode(makes)) + draft_bytes > MAX_SOCKET_PATH_BYTES:  # whatever else is wrong
            raise ConfigurationError(
                f"{makes}: longer than the path of a socket that ssh makes may be; set BOARDLAB_RUNTIME to a folder "
                "with a shorter path"
            )
        if done.returncode:
            reason = done.stderr.strip().replace("\n", "; ") or f"exit status {done.returncode}"
            raise LabTransientError(
                f"ssh to {self.host} cannot {doing}: {reason}. `ssh {self.host} true` must work without a password "
                "for this user, and the console server there must run as the user that ssh logs in as",
                failure="console_link",
            )

    def _ssh(self, limit_s: float, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ssh; raises (among others) subprocess.TimeoutExpired."""
        config = ["-F", self.config] if self.config else []
        log = self.folder / f"{self._name(self.host)}.log"
        with log.open("w", encoding="utf-8") as output:  # a pipe would stay open in the master
            try:
                done = subprocess.run(
                    ["ssh", *config, *_OPTIONS, "-S", str(self._control), *words, self.host],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    timeout=limit_s,
                    check=False,
                    start_new_session=True,  # Ctrl-C in a terminal is not for it
                )
            except FileNotFoundError as error:
                raise ConfigurationError("ssh is not installed: apt-get install openssh-client") from error
        text = log.read_text(encoding="utf-8", errors="replace")
        return subprocess.CompletedProcess(done.args, done.returncode, "", text)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Lock making or ending the connection; raises as `hold_lock`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(self.folder)
        with hold_lock(self.folder / f"{self._name(self.host)}.lock", self.host, self.lock_s):
            yield
