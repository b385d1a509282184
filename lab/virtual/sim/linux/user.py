"""User space: services, getty, login, shell."""

from __future__ import annotations

from collections.abc import Mapping

from lab.virtual.sim import script
from lab.virtual.sim.editor import EndOfInputError, read_line
from lab.virtual.sim.linux.files import Files
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.linux.session import LoginSession, Tool
from lab.virtual.sim.program import NS_PER_S, Drain, Program
from lab.virtual.sim.sh.interpreter import InterruptedCommandError

_SHELLS = {"/bin/sh", "/bin/bash"}
_STATUS = ("[  OK  ]", "         ", "Welcome to")
_GETTY_NS = 1_000_000_000  # agetty's sleep on a serial line before its first prompt (util-linux term-utils/agetty.c)
_REFUSAL_S = 2.0  # pam_unix' pause after a failure


class UserSpace:
    """User space on a kernel.

    Attributes:
        tools: its commands by name.
        passwords: user -> password; other users cannot log in. The images' root has none.
    """

    def __init__(self, kernel: Kernel, tools: Mapping[str, Tool]) -> None:
        self.kernel = kernel
        self.tools = tools
        self.computer = kernel.computer
        self.files = Files(kernel)
        self.passwords = {self.computer.model.board.prompts.username: self.computer.model.board.prompts.password}

    def run(self) -> Program[None]:
        """From init on, for ever."""
        init = self.kernel.parameters.get("init", "/sbin/init")
        if init in _SHELLS:
            yield from self._bare_shell()
        yield from self._services()
        self.kernel.getty_ns = max(0, self.kernel.clock_ns - _GETTY_NS)
        while True:
            yield Drain(self.computer.console)  # the output before the prompt has left when the stage begins
            self.computer.enter("login")
            user = yield from self._login()
            if user:
                self.computer.enter("shell")
                yield from LoginSession(self.kernel, self.files, user, self.tools).run()
                self.kernel.getty_ns = self.kernel.clock_ns
            yield from self.computer.say("\n")

    def _services(self) -> Program[None]:
        computer, planned = self.computer, self.computer.durations
        prompt_ns = script.printed_ns(
            [script.ScriptLine(0, self._prompt())], computer.machine.speed_bd[computer.console]
        )
        total_ns = planned.boot_ns - planned.kernel_ns - prompt_ns
        computer.enter("user", total_ns + prompt_ns)
        lines = script.load("user", **self.kernel.facts())
        if self.kernel.facts()["quiet"]:  # systemd shows no status then, unless something fails
            lines = [line for line in lines if line.kernel or not line.text.startswith(_STATUS)]
        yield from computer.play(lines, total_ns, self.kernel)

    def _bare_shell(self) -> Program[None]:
        """init=/bin/sh: no services, no login."""
        planned = self.computer.durations
        self.computer.enter("bare-shell", planned.shell_boot_ns - planned.kernel_ns)
        yield from self.computer.pause(max(0, planned.shell_boot_ns - planned.kernel_ns))
        yield from self.computer.say("sh: cannot set terminal process group (-1): Inappropriate ioctl for device\n")
        yield from self.computer.say("sh: no job control in this shell\n")
        session = LoginSession(self.kernel, self.files, "root", self.tools, prompt="sh-5.2# ")
        while True:
            yield from session.run()

    def _prompt(self) -> str:
        return f"{self.computer.model.identity.hostname} login: "

    def _login(self) -> Program[str]:
        """Log a user in and return his name; empty after a failure."""
        yield from self.computer.write(self._prompt().encode())
        try:
            yield from self.computer.at("login.prompt")
            user = yield from read_line(self.computer, interrupted="\n", ends=True)
            if not user:
                return ""
            yield from self.computer.at("login.password")
            expected = self.passwords.get(user)
            if expected == "" and not self.computer.locked:
                yield from self.computer.pause(0.15 * NS_PER_S)
                return user
            yield from self.computer.write(b"Password: ")
            given = yield from read_line(self.computer, interrupted="\n", secret=True, ends=True)
        except (InterruptedCommandError, EndOfInputError):
            return ""
        if expected is not None and given == expected and not self.computer.locked:
            return user
        yield from self.computer.pause(_REFUSAL_S * NS_PER_S)
        yield from self.computer.write(b"\nLogin incorrect\n")
        return ""
