"""A fork server for tests: our programs start with everything imported.

A start then costs a tenth of a second of a core instead of one to three. The child is a process of its own, with its own
streams, folder, environment, signals, command line and limit of open files; its parent is the server. It starts programs the
same way. A start that a fork would change is as usual: a terminal as a stream, `preexec_fn`, another process group, another
locale, other settings of Python or of the dynamic linker.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from _pytest.assertion import install_importhook
from _pytest.config import get_config

ROOT = Path(__file__).parents[2]
PACKAGES = ("lab", "exporters")
SCRIPTS = {
    str(Path(sys.executable).with_name(name)): module
    for name, module in (
        ("lab", "lab.cli"),
        ("labgrid-client", "labgrid.remote.client"),
        ("labgrid-coordinator", "labgrid.remote.coordinator"),
        ("labgrid-exporter", "labgrid.remote.exporter"),
    )
}
ADDRESS = "BOARDLAB_TESTS_WARM_START"  # environment variable: the server's socket
SETTINGS = f"{ADDRESS}_SETTINGS"  # environment variable: what Python read of the server's environment
_READ_ONCE = ("PYTHON", "LC_", "LANG", "LD_", "TZ")  # prefixes of variables that Python reads when it starts
_OPTIONS = ("-P", "-Wignore::RuntimeWarning:runpy")  # of Python, which a fork obeys
_MODULES = ("pytest", "lab.console.server", "lab.rails.sampler", "lab.virtual.bench")
_BOUND = ("setpriv", "--pdeathsig", "TERM")  # before a program that SIGTERM ends with its starter
_MAIN = "import sys; from lab.cli import main; sys.exit(main())"
_MESSAGE_BYTES = 1 << 18
_FDS = 64
_HELD = (signal.SIGINT, signal.SIGTERM)  # until a child can obey them
_TITLE_BYTES = 1 << 14  # room for the command line of a child


# --- the test's side -------------------------------------------------------------------------------------------------


class WarmPopen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen` that asks the fork server for what that can start."""

    address = ""
    group = 0
    settings: ClassVar[dict[str, str]] = {}
    _server: socket.socket | None = None

    @classmethod
    def install(cls) -> None:
        """From now on programs start warm; the environment names the server."""
        cls.address, cls.group = os.environ[ADDRESS], os.getpgrp()
        cls.settings = json.loads(os.environ[SETTINGS])
        subprocess.Popen = cls  # type: ignore[misc]

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        (
            pass_fds,
            cwd,
            env,
            _info,
            _flags,
            shell,
            p2cread,
            _,
            _,
            c2pwrite,
            _,
            errwrite,
            _,
            *identity,
            session,
            group,
        ) = rest
        streams = [own if fd == -1 else fd for own, fd in enumerate((p2cread, c2pwrite, errwrite))]
        environ = {
            os.fsdecode(name): os.fsdecode(value) for name, value in (os.environ if env is None else env).items()
        }
        words = [] if isinstance(args, str | bytes | os.PathLike) else [os.fsdecode(word) for word in args]
        bound = tuple(words[: len(_BOUND)]) == _BOUND
        words = words[len(_BOUND) :] if bound else words
        folder = Path.cwd() if cwd is None else Path(os.fsdecode(cwd))
        plain = (executable, preexec_fn, shell, group, *identity) == (None, None, False, -1, None, None, None, -1)
        ours = _is_ours(words) and _same_settings(environ) and _has_our_packages(folder)
        same_group = session or os.getpgrp() == self.group
        if not (plain and close_fds and ours and same_group) or any(map(os.isatty, streams)):
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]
            return
        request = {
            "argv": words,
            "bound": bound,
            "cwd": str(folder),
            "environ": {name: value for name, value in environ.items() if name not in (ADDRESS, SETTINGS)},
            "session": bool(session),
            "passed": list(pass_fds),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.connect(self.address)
        socket.send_fds(self._server, [json.dumps(request).encode()], [*streams, *pass_fds])
        answer = self._server.recv(_MESSAGE_BYTES)
        if not answer:
            raise ConnectionResetError("the fork server of the tests has ended")
        self.pid = int(answer)
        self._child_created = True
        self._close_pipe_fds(*rest[6:12])  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None, **more: Any) -> int | None:
        if self._server is None:
            return super()._internal_poll(_deadstate, **more)  # type: ignore[misc, no-any-return]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._server is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            # Nothing comes once the server has ended. `__del__` asks too, and must not raise: within a collection
            # during `ast.parse`, Python 3.11 would end with a SystemError.
            status = b""
            with contextlib.suppress(ConnectionResetError):
                status = self._server.recv(_MESSAGE_BYTES)
            self.returncode = os.waitstatus_to_exitcode(int(status or signal.SIGKILL))
            self._server.close()
        return self.returncode


def _is_ours(words: list[str]) -> bool:
    words = _without_options(words) or [""]
    return (
        words[0] in SCRIPTS
        or words[:3] == [sys.executable, "-c", _MAIN]
        or (words[:2] == [sys.executable, "-m"] and words[2] in _MODULES)
    )


def _without_options(words: list[str]) -> list[str]:
    """A command line without those options of Python that a fork obeys."""
    after = next((at for at, word in enumerate(words) if at and word not in _OPTIONS), len(words))
    return words[:1] + words[after:]


def _settings(environ: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(environ.items()) if name.startswith(_READ_ONCE)}


def _same_settings(environ: dict[str, str]) -> bool:
    return Path(WarmPopen.address).exists() and _settings(environ) == WarmPopen.settings


def _has_our_packages(folder: Path) -> bool:
    """True where this folder hides none of our packages."""
    return folder == ROOT or (folder.is_dir() and not any((folder / name).exists() for name in PACKAGES))


class WarmStarts:
    """The server of a session with workers; until it listens, programs start as usual."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        os.environ[ADDRESS] = str(Path(self._folder.name) / "socket")
        os.environ[SETTINGS] = json.dumps(_settings(dict(os.environ)))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "support.warm_start", os.environ[ADDRESS], " " * _TITLE_BYTES],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    @property
    def is_alive(self) -> bool:
        """True until the server ends."""
        return self._server.poll() is None

    def close(self) -> None:
        """End the server, which ends with its input."""
        self._server.communicate()
        self._folder.cleanup()
        del os.environ[ADDRESS], os.environ[SETTINGS]


# --- the server ------------------------------------------------------------------------------------------------------


def _import_everything() -> None:
    """Import what `lab` and its sessions of pytest use, by pytest's own loader, as a session does."""
    config = get_config()
    hook = install_importhook(config)
    config._mark_plugins_for_rewrite(hook, False)  # pytest warns of a plugin that it imports and did not rewrite
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if ".migrations." not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for script in SCRIPTS.values():
        importlib.import_module(script)
    sys.meta_path.remove(hook)
    boards = importlib.import_module("lab.boards")
    for board_type in boards.names():
        boards.load(board_type)  # which keeps them
    gc.collect()
    gc.freeze()


def _serve(path: Path) -> dict[str, Any]:
    """Fork for each request; returns it in the child, which has its streams."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path.with_suffix(".new")))
    listener.listen(64)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(woken)
    path.with_suffix(".new").rename(path)
    asking: set[socket.socket] = set()  # a client may be stopped or killed before its request
    clients: dict[int, socket.socket] = {}
    bound: dict[int, socket.socket] = {}  # of clients whose end ends the program
    while True:
        sources: list[int | socket.socket] = [0, listener, wake, *asking, *bound.values()]
        ready, _, _ = select.select(sources, [], [])
        if 0 in ready:
            os._exit(0)
        if wake in ready:
            os.read(wake, 4096)
            _report(clients)
            bound = {pid: client for pid, client in bound.items() if pid in clients}
        for pid in [pid for pid, client in bound.items() if client in ready]:
            os.kill(pid, signal.SIGTERM)
            del bound[pid]
        if listener in ready:
            asking.add(listener.accept()[0])
        for client in asking.intersection(ready):
            asking.remove(client)
            message, fds, _, _ = socket.recv_fds(client, _MESSAGE_BYTES, _FDS)
            if not message:
                client.close()
                continue
            request: dict[str, Any] = json.loads(message)
            signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
            if (pid := os.fork()) == 0:
                _take(fds, [0, 1, 2, *request["passed"]])
                return request
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
            for fd in fds:
                os.close(fd)
            clients[pid] = client
            if request["bound"]:
                bound[pid] = client
            with contextlib.suppress(OSError):  # the client was killed: its program runs on, as after a fork
                client.send(b"%d" % pid)


def _report(clients: dict[int, socket.socket]) -> None:
    """Tell each client whose process has ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with contextlib.suppress(OSError), clients.pop(ended[0]) as client:
                client.send(b"%d" % ended[1])


def _take(fds: list[int], numbers: list[int]) -> None:
    """Have these open files, by these numbers, and no others."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    above = max(numbers) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, above + len(fds)) for fd in fds]
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)
    for listed in list(Path("/proc/self/fd").iterdir()):
        if (fd := int(listed.name)) not in numbers:
            with contextlib.suppress(OSError):
                os.close(fd)


def _run(request: dict[str, Any]) -> None:
    """Be the program of a request."""
    WarmPopen.install()
    if request["session"]:
        os.setsid()
    resource.setrlimit(resource.RLIMIT_NOFILE, request["files"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # noqa: SIM115
    for name, fd in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        stream = open(fd, "w", encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=fd == 2, write_through=unbuffered)
        setattr(sys, name, stream)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[assignment, misc]
    _rename(request["argv"])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    words = _without_options(request["argv"])
    sys.orig_argv[:] = [*([sys.executable] if words[0] in SCRIPTS else []), *request["argv"]]
    if words[0] in SCRIPTS or words[1] == "-c":
        sys.argv = words if words[0] in SCRIPTS else words[1:2] + words[3:]
        sys.path[0] = str(Path(sys.executable).parent)
        sys.exit(importlib.import_module(SCRIPTS.get(words[0], "lab.cli")).main())
    sys.argv = words[2:]
    sys.path[:1] = [] if "-P" in request["argv"] else [request["cwd"]]
    if words[2] != "pytest":
        del sys.modules[words[2]]  # the program is a module of its own
    runpy.run_module(words[2], run_name="__main__", alter_sys=True)


def _rename(argv: list[str]) -> None:
    """Have this command line in /proc."""
    start, end = (int(number) for number in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    title = b"".join(os.fsencode(word) + b"\0" for word in argv)
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(title[: end - start - 1].ljust(end - start, b"\0"))


if __name__ == "__main__":
    _import_everything()
    _run(_serve(Path(sys.argv[1])))
