"""Boot of a Linux in memory, from U-Boot's prompt to login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from lab.drivers import calls
from lab.drivers.calls import SHELL, UBOOT
from lab.drivers.consoleport import ConsoleLine
from lab.drivers.prompt import uboot_prompt
from lab.errors import BoardTransientError, ConfigurationError
from lab.provision import ramlinux
from lab.provision.ramlinux import RamLinux, Start
from lab.provision.writers.command import Command, carry_out
from lab.provision.writers.uboot import Loader
from lab.provision.writers.ubootsession import Session

_POLL_S: Final = 0.2
_ASKED_S: Final = 10.0  # for a prompt that was asked for
_SILENT_S: Final = 60.0  # a kernel that unpacks itself, a PHY that negotiates, DHCP that tries again


@frozen
class RamBoot:
    """Boot of a Linux in a board's memory.

    Attributes:
        files: read when the board is booted. loader: gets them there. address: the board's own; empty: DHCP.
        arguments: more words for the kernel. prompt: regular expression of its shell's.
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
            BoardlabError: it could not be loaded; or it did not start, with the class of what it said. The media are untouched.
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
            for each in placed:
                self.loader.load(session.prompt, each.address, each.data, each.name.replace(" ", "-"))
                session.compare(each.data, f"{each.name} of the Linux in memory", each.address)
        finally:
            self.loader.rest()
        carry_out(session.prompt, Command(f"setenv bootargs '{arguments}'", _nothing))
        calls.deactivate(board.uboot, UBOOT)
        board.console.sendline(ramlinux.start(linux, placed))
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
                why = watch.late(whole_s)
            elif now_ns - heard_ns > _SILENT_S * 1e9:
                why = watch.ended(_SILENT_S)
            if why is not None and not asked_ns:
                line.write(b"\r")  # a line of the kernel's may have torn the prompt
                asked_ns = now_ns
        board.lives = True


def _nothing(_lines: object, _status: int) -> None:
    """`setenv` says nothing."""
