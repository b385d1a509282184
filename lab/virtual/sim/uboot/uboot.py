"""U-Boot from its banner to the kernel, or to its prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lab.virtual.sim import script
from lab.virtual.sim.computer import Computer
from lab.virtual.sim.editor import read_line
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, Program
from lab.virtual.sim.sh.interpreter import Interpreter, InterruptedCommandError, Runner, Streams, execute_line
from lab.virtual.sim.sh.words import IncompleteError
from lab.virtual.sim.storage import USER, FileContent, Space
from lab.virtual.sim.uboot import environment

PROMPT = "=> "
_POLL_NS = 10 * NS_PER_MS  # common/autoboot.c looks for a key this often
# A command gets U-Boot, its words and its streams, and returns its status.
Command: TypeAlias = Callable[["UBoot", Sequence[str], Streams], Program[int]]


class UBoot:
    """U-Boot, running on a computer.

    Attributes:
        shell: hush; its variables are the environment.
        memory: address -> what was last loaded there.
        ram: the bytes.
        mmc_device, mmc_partition: the MMC device that `mmc` works on, and its hardware partition.
        part_config: the eMMC's PARTITION_CONFIG as U-Boot has read or sent it; None: it has not found the eMMC yet.
        kernel_release: the release that the last loaded kernel is of.
        flash_probed: `sf probe` was run.
    """

    def __init__(self, computer: Computer, commands: Mapping[str, Command]) -> None:
        """`commands`: by name (`lab.virtual.sim.boot.COMMANDS`)."""
        self.computer = computer
        self._commands = commands
        defaults = self.defaults()
        saved = computer.storage.medium(computer.medium).environment
        self.shell = Interpreter(self, variables=dict(defaults if saved is None else {**defaults, **saved}))
        self.memory: dict[int, FileContent] = {}
        self.ram = Space("ram")
        self.kernel_release = ""
        self.mmc_partition = USER
        self.mmc_device = int(defaults.get("mmcdev", "0"))
        self.part_config: int | None = None
        self.flash_probed = False
        self.streams = Streams(self._write, self._write)

    def run(self) -> Program[None]:
        """Start up, count down, boot; or serve the prompt.

        Raises:
            StartKernelError: the kernel takes over.
            CpuResetError: `reset`.
        """
        computer = self.computer
        computer.enter("uboot", computer.durations.uboot_ns)
        lines = script.load(f"{computer.model.family.profile}-uboot", **computer.facts())
        computer.machine.forget_input()  # the driver empties the UART's FIFO
        yield from computer.play(lines, computer.durations.uboot_ns)
        yield from computer.at("uboot.autoboot")
        if (yield from self._countdown()):
            yield from computer.at("uboot.countdown")
            computer.enter("load")
            yield from self._line("run bootcmd")
        computer.enter("uboot-prompt")
        while True:
            yield from self._prompt()

    def defaults(self) -> dict[str, str]:
        """The environment as U-Boot was built with it."""
        return environment.default(self.computer.model, self.computer.medium, self.computer.setup)

    def content(self, address: int, size: int) -> FileContent:
        """Content of the memory at an address."""
        loaded = self.memory.get(address)
        kept = Space("file")
        kept.copy(0, self.ram, address, size)
        return FileContent(loaded.name if loaded else f"ram@{address:#x}", size, loaded.text if loaded else b"", kept)

    def put(self, address: int, content: FileContent) -> None:
        """A file is loaded to an address."""
        self.memory[address] = content
        self.ram.copy(address, content.bytes_space, 0, content.size)
        self.shell.variables |= {"filesize": f"{content.size:x}", "fileaddr": f"{address:x}"}

    def _countdown(self) -> Program[bool]:
        """Count down; returns False when a key stopped it."""
        delay = self.shell.variables.get("bootdelay", "2")
        if not delay.lstrip("-").isdigit() or int(delay) < 0:
            return delay == "-2"
        left = int(delay)
        if self.computer.setup.keyed:
            return (yield from self._keyed(left))
        yield from self.computer.say(f"Hit any key to stop autoboot: {left:2d} ")
        pressed = (yield from self.computer.hear(0)) is not None
        if pressed:
            yield from self.computer.say("\b\b\b 0 ")
        while left > 0 and not pressed:
            left -= 1
            due_ns = self.computer.now_ns + round(NS_PER_S * self.computer.time_scale)
            while self.computer.now_ns < due_ns and not pressed:
                if (yield from self.computer.hear(due_ns - self.computer.now_ns)) is not None:
                    pressed = True
                    yield from self.computer.pause(_POLL_NS / 2)
            yield from self.computer.say(f"\b\b\b{left:2d} ")
        yield from self.computer.say("\n")
        return not pressed

    def _keyed(self, seconds: int) -> Program[bool]:
        """Count down where only a space stops.

        Nothing is counted (common/autoboot.c, CONFIG_AUTOBOOT_KEYED).
        """
        yield from self.computer.say(f"Press SPACE to abort autoboot in {seconds} seconds\n")
        due_ns = self.computer.now_ns + round(seconds * NS_PER_S * self.computer.time_scale)
        while self.computer.now_ns < due_ns:
            typed = yield from self.computer.hear(due_ns - self.computer.now_ns)
            if typed is not None and typed.byte == ord(" "):
                return False
        return True

    def _prompt(self) -> Program[None]:
        yield from self.computer.at("uboot.prompt")
        yield from self.computer.say(PROMPT)
        try:
            line = yield from read_line(self.computer, interrupted="<INTERRUPT>\n")
            while True:
                try:
                    yield from self._line(line)
                except IncompleteError:
                    yield from self.computer.say("> ")
                    line += "\n" + (yield from read_line(self.computer, interrupted="<INTERRUPT>\n"))
                else:
                    return
        except InterruptedCommandError:
            self.shell.status = 1

    def _line(self, text: str) -> Program[None]:
        try:
            yield from execute_line(self.shell, text, self.streams, "syntax error")
        except InterruptedCommandError:
            yield from self.computer.say("<INTERRUPT>\n")
            self.shell.status = 1

    def _write(self, data: bytes) -> Program[None]:
        yield from self.computer.say(data.decode("latin-1"))

    def runner(self, name: str) -> Runner | None:
        """U-Boot's command of that name; unique beginnings do as well."""
        names = [name] if name in self._commands else [known for known in self._commands if known.startswith(name)]
        if len(names) != 1:
            return None
        command = self._commands[names[0]]
        return lambda arguments, streams, _shell: command(self, arguments, streams)

    def unknown(self, name: str) -> str:
        """Error text for an unknown command."""
        return f"Unknown command '{name}' - try 'help'"

    def read_file(self, path: str) -> Program[bytes | None]:
        """hush in U-Boot redirects nothing."""
        yield from ()
        return None

    def write_file(self, path: str, data: bytes, *, append: bool) -> Program[str]:
        """hush in U-Boot redirects nothing."""
        yield from ()
        return f"{path}: redirection is not supported"

    def matching(self, pattern: str) -> list[str]:
        """hush in U-Boot matches no files."""
        return []
