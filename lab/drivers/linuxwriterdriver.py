"""Writer of media by a Linux on the board."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attr
from attrs import frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.drivers import guarded_calls
from lab.drivers.boardservers import BoardServer
from lab.drivers.consoleport import ConsoleLine
from lab.drivers.guarded_calls import SHELL, UBOOT
from lab.drivers.prompt import Prompt as GuardedPrompt
from lab.drivers.prompt import type_line, uboot_prompt
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.provision import ramlinux
from lab.provision.errors import TargetRefusedError, TftpTimeoutError
from lab.provision.ramlinux import RamLinux, Start
from lab.provision.release import RecoveryStage
from lab.provision.writer import ProvisionProtocol, Writer
from lab.provision.writers import emmc_boot_partitions, linuxemmc
from lab.provision.writers.command import SHORT_S, Command, CommandPrompt, carry_out, limit_s
from lab.provision.writers.file_server import LOOPBACK, TFTP_PORT
from lab.provision.writers.linux import Carrier, LinuxWriter, OverHttp, OverSsh
from lab.provision.writers.linuxanswers import refuse
from lab.provision.writers.uboot import Loader
from lab.provision.writers.ubootsession import Session

RAM: Final = "ram"
HTTP: Final = "http"
SSH: Final = "ssh"
_NAMES: Final = {"kernel": "Image", "device_tree": "board.dtb", "initramfs": "initramfs.cpio"}
_PREPARED: Final = "/run/boardlab-prepared"  # in the board's memory, so it is gone with the next boot
_PREPARE_S: Final = 120.0  # DHCP on a network that is slow to come up
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MORE: Final = ("arguments", "prompt")


@target_factory.reg_driver
@attr.s(eq=False)
class LinuxWriterDriver(Driver, ProvisionProtocol):
    """LinuxWriterDriver - writes media from a Linux on the board

    The board fetches over HTTP from a server of this driver, or takes files over ssh.

    An eMMC's boot partition that the board boots from is kept (`lab.provision.writers.emmc_boot_partitions`).

    Args:
        media (dict): medium -> its name in that Linux, e.g. /dev/mmcblk0, /dev/mtd0, or mtd
        boot_from (str): the medium that Linux is booted from, never one of `media`; "ram": it runs in memory, from
            U-Boot over TFTP
        listen (str): this host's address where the board can reach it; "auto": as its routes say
        server (str): the same as the board sees it; empty: `listen`
        over (str): "http"; or "ssh": commands and files go by the SSHDriver of the environment
        prepare (str): a command at its prompt once in each boot before anything else, e.g. to load drivers and bring
            the network up; empty: none
        ram (dict): for "ram": the files `kernel`, `device_tree` and `initramfs`, in place of the release's `recovery:
            ram:`; more `arguments` for the kernel; the `prompt` of its shell, where it is not that of `lab release
            ram-linux`
        uboot_from (str): for "ram": the medium whose U-Boot loads it; empty: the one that is selected
        port (int): for "ram": of the TFTP server; 0: a free one, which takes CONFIG_TFTP_PORT in U-Boot
        folder (str): for "ram": the folder of a running TFTP server at `server`; empty: one is started
        board_address (str): for "ram": the board's own address; empty: from DHCP
    """

    bindings = {"ssh": {"SSHDriver", None}}

    media: dict[str, str] = attr.ib(validator=attr.validators.instance_of(dict))
    boot_from: str = attr.ib(validator=attr.validators.instance_of(str))
    listen: str = attr.ib(default=LOOPBACK, validator=attr.validators.instance_of(str))
    server: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    over: str = attr.ib(default=HTTP, validator=attr.validators.in_((HTTP, SSH)))
    prepare: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    ram: dict[str, str] = attr.ib(factory=dict, validator=attr.validators.instance_of(dict))
    uboot_from: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    port: int = attr.ib(default=TFTP_PORT, validator=attr.validators.instance_of(int))
    folder: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    board_address: str = attr.ib(default="", validator=attr.validators.instance_of(str))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._server = BoardServer(self.listen, self.server, self.port, self.board_address, self.folder)
        if unknown := set(self.ram) - {*_NAMES, *_MORE}:
            raise ConfigurationError(
                f"LinuxWriterDriver: ram: {', '.join(sorted(unknown))}: expected some of {', '.join((*_NAMES, *_MORE))}"
            )

    def writers(self, strategy: Any) -> Mapping[str, Writer]:
        if self.boot_from in self.media:
            raise ConfigurationError(
                f"LinuxWriterDriver: {self.boot_from} is what Linux runs from (boot_from), and it is in media: a "
                "medium is not written by the Linux on it. Boot from another one, run a Linux in memory (boot_from: "
                "ram), or write it from U-Boot"
            )
        return {name: self._writer(strategy, device) for name, device in self.media.items()}

    def _writer(self, strategy: Any, device: str) -> Writer:
        def begin() -> CommandPrompt:
            if self.over == HTTP or self.boot_from == RAM:
                self._server.check_reached(getattr(strategy.console, "board_host", ""))
            if self.boot_from == RAM:
                self._in_memory(strategy)
            else:
                strategy.select_medium(self.boot_from)
                strategy.transition("linux")
            prompt: CommandPrompt = strategy.linux
            if self.prepare:
                once = f"[ -e {_PREPARED} ] || {{ ( {self.prepare} ) && : > {_PREPARED}; }}"
                carry_out(prompt, Command(once, partial(refuse, what=self.prepare), _PREPARE_S))
            return self._over_ssh(strategy, prompt) if self.over == SSH else _Watched(prompt, strategy)

        def end() -> None:
            self._server.close()
            if self.over == SSH:
                with contextlib.suppress(BoardlabError):  # a board that has no power any more does not say goodbye
                    guarded_calls.deactivate(self.ssh, SHELL)
            strategy.status = type(strategy.status).unknown

        if self.over == SSH and self.ssh is None:
            raise ConfigurationError(
                "LinuxWriterDriver: over: ssh, and the env has no SSHDriver: add one, and "
                "a NetworkService with the board's address"
            )
        carrier: Carrier = OverSsh(self._put) if self.over == SSH else OverHttp(self._server)
        kind = "ram-linux" if self.boot_from == RAM else "linux"
        writer = LinuxWriter(f"{kind}-{carrier.name}", device, carrier, begin, end)
        return emmc_boot_partitions.from_linux(writer) if linuxemmc.DEVICE.fullmatch(device) else writer

    def _over_ssh(self, strategy: Any, console: CommandPrompt) -> CommandPrompt:
        """Prompt over ssh, of the console's own running Linux.

        Raises:
            TargetRefusedError: another machine answers at the address, or the machine is unknown.
        """
        boot = _boot_id(console)
        late = f"{strategy.board} does not answer over ssh"
        strategy.activate(self.ssh, SHELL, BoardTransientError(late, failure="login_failed"))
        prompt = GuardedPrompt(self.ssh, SHELL)
        if not boot or _boot_id(prompt) != boot:
            raise TargetRefusedError(
                f"over: ssh: the machine at the address of the NetworkService is not {strategy.board}, whose console "
                f"is in the env (the two have not one {_BOOT_ID}); nothing was written. Give that board's own address "
                "in the env; `ip address` on its console shows it"
            )
        return prompt

    def _put(self, source: str, target: str, count: int) -> None:
        def work() -> None:
            self.ssh.put(source, target)

        try:
            guarded_calls.call(self.ssh, SHELL, "copy a piece to the board", work, limit_s(count))
        except BoardlabError as error:
            raise TftpTimeoutError(f"a piece of {count} bytes did not come to the board over ssh: {error}") from error

    def _in_memory(self, strategy: Any) -> None:
        if strategy.status.name == "ram_linux":
            return
        if self.uboot_from:
            strategy.select_medium(self.uboot_from)
        strategy.ram_linux = RamBoot(
            lambda: self._files(strategy.recovery.ram),
            self._server,
            self.board_address,
            self.ram.get("arguments", ""),
            self.ram.get("prompt", ramlinux.PROMPT),
        )
        strategy.transition("ram_linux")

    def _files(self, released: Sequence[RecoveryStage]) -> RamLinux:
        own = [_stage(name, self.ram[name]) for name in _NAMES if name in self.ram]
        if not own and not released:
            raise ConfigurationError(
                "LinuxWriterDriver: boot_from: ram, and neither the release has `recovery: ram:` nor the env `ram: "
                "{kernel: ..., initramfs: ...}`; `lab release ram-linux` makes an initramfs (docs/releases.md)"
            )
        return ramlinux.read(own or released)


@frozen
class _Watched:
    """A console prompt that reports a kernel's end.

    The report replaces the time-out of the command.
    """

    prompt: CommandPrompt
    board: Any

    def run(self, cmd: str, timeout: float = SHORT_S) -> tuple[list[str], list[str], int]:
        before = len(self.board.console.captured())
        try:
            return self.prompt.run(cmd, timeout=timeout)
        except BoardTransientError as error:
            if not error.failure.endswith("_timeout"):
                raise
            for line in self.board.console.captured()[before:].decode("latin-1").splitlines():
                for pattern, sign in self.board.type.failures.items():
                    if re.search(pattern, line):
                        raise BoardTransientError(
                            f"the board's Linux ended while `{cmd}` ran: it printed {line.strip()!r}. The console's "
                            "log shows what led to it. The next try switches the board off and on, and writes anew",
                            failure=sign.means,
                        ) from error
            raise


def _boot_id(prompt: CommandPrompt) -> str:
    """Identifier of the running boot (proc_sys_kernel(5)); empty: none.

    No two boots of any machines have the same.
    """
    lines = carry_out(prompt, Command(f"cat {_BOOT_ID}", lambda _lines, _status: None))
    return next((match[0] for line in lines if (match := _UUID.search(line))), "")


def _stage(kind: str, path: str) -> RecoveryStage:
    """A stage from a file of this host.

    Its key gives the kind, not its name.
    """
    try:
        with Path(path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigurationError(f"LinuxWriterDriver: ram: {kind}: {path}: {error.strerror}") from error
    return RecoveryStage(name=_NAMES[kind], source=path, sha256=digest)


_POLL_S: Final = 0.2
_ASKED_S: Final = 10.0  # for a prompt that was asked for
_SILENT_S: Final = 60.0  # a kernel that unpacks itself, a PHY that negotiates, DHCP that tries again


@frozen
class RamBoot:
    """Boot of a Linux in a board's memory.

    Attributes:
        files: read when the board is booted.
        loader: gets them there.
        address: the board's own; empty: DHCP.
        arguments: more words for the kernel.
        prompt: regular expression of its shell's.
    """

    files: Callable[[], RamLinux]
    loader: Loader
    address: str = ""
    arguments: str = ""
    prompt: str = ramlinux.PROMPT

    def __call__(self, board: Any) -> None:
        """Load it, start it, and log in.

        Args:
            board: a `BoardStrategy` at U-Boot's prompt.

        Raises:
            BoardlabError: it could not be loaded; or it did not start, with the class of what it said. The media are
                untouched.
        """
        linux, shell = self.files(), board.bound("shell", "ShellDriver")
        console = board.type.console
        if not console.linux:
            raise ConfigurationError(
                f"board type {board.type.name} does not say how Linux calls its console (`linux` of its uarts)"
            )
        arguments = ramlinux.arguments(console.linux, console.speed_bd, self.address, self.arguments)
        session = Session.begin(uboot_prompt(board.uboot))
        placed = ramlinux.place(linux, session.memory)
        try:
            self.loader.prepare(session.prompt)
            for file in placed:
                self.loader.load(session.prompt, file.address, file.data, file.name.replace(" ", "-"))
                session.compare(file.data, f"{file.name} of the Linux in memory", file.address)
        finally:
            self.loader.rest()
        carry_out(session.prompt, Command(f"setenv bootargs '{arguments}'", lambda _lines, _status: None))
        guarded_calls.deactivate(board.uboot, UBOOT)
        type_line(board.console, UBOOT, ramlinux.start(linux, placed))
        self._wait(board)
        if self.prompt not in shell.prompt:
            shell.prompt = f"(?:{shell.prompt}|{self.prompt})"
        failed = f"{board.board} started a Linux in its memory, but its shell did not answer"
        board.activate(shell, SHELL, BoardTransientError(failed, failure="login_failed"))

    def _wait(self, board: Any) -> None:
        line = ConsoleLine(board.console, board.power.clock)
        watch = Start(self.prompt, {pattern: sign.means for pattern, sign in board.type.failures.items()})
        whole_s = board.type.timeouts.boot_s + _SILENT_S
        heard_ns = began_ns = line.now_ns()
        why, asked_ns = None, 0
        while not watch.up:
            if data := line.read(_POLL_S):
                heard_ns = line.now_ns()
                watch.feed(data)
            now_ns = line.now_ns()
            if why is not None:
                if not watch.up and now_ns - asked_ns > _ASKED_S * 1e9:
                    raise why
            elif now_ns - began_ns > whole_s * 1e9:
                why = watch.late_error(whole_s)
            elif now_ns - heard_ns > _SILENT_S * 1e9:
                why = watch.silence_error(_SILENT_S)
            if why is not None and not asked_ns:
                line.write(b"\r")  # a line of the kernel's may have torn the prompt
                asked_ns = now_ns
        board.lives = True
