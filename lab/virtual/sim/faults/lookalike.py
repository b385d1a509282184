"""Lines that look like a moment of the boot; unusual lines.

The texts are made up unless a source is named; each line has the form in which such a program prints.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import AfterPrompt, Fault, FaultOutcome
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, Pause, Program
from lab.virtual.sim.uboot import environment

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer

_REPEATED = "prompt_repeated"
_SIZE_QUERY = (
    "\x1b7\x1b[r\x1b[999;999H\x1b[6n\x1b8"  # U-Boot, lib/efi_loader/efi_console.c: asks a terminal for its size
)
_TERMINAL_RESET = "\x1b[!p\x1b]104\x07\x1b[?7h"  # systemd, src/basic/terminal-util.c (256 and later)
_STAMP = re.compile(r"^\[ *(\d+)\.(\d{6})\]")
_BOOTED_AT = dt.datetime(2025, 1, 8, 18, 22, 53, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@define(kw_only=True, eq=False)
class EnvironmentEchoed(Fault):
    """U-Boot prints its environment before it boots.

    It has boot commands, "Starting kernel ..." and its own version in it.
    """

    name: ClassVar[str] = "environment_echoed"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point != "uboot.countdown":
            return
        model = computer.model
        variables = {
            **environment.default(model, computer.medium, computer.setup),
            "announce": "echo; echo Starting kernel ...; echo",
            "ver": f"U-Boot {model.release.uboot}",  # U-Boot sets it by itself with CONFIG_VERSION_VARIABLE
        }
        size = sum(len(name) + len(value) + 2 for name, value in variables.items())
        for name in sorted(variables):
            yield from computer.say(f"{name}={variables[name]}\n")
        yield from computer.say(f"\nEnvironment size: {size}/131067 bytes\n")


@define(kw_only=True, eq=False)
class TerminalQuery(Fault):
    """U-Boot asks for the terminal's size; systemd resets the terminal.

    The reset comes just before the prompt.
    """

    name: ClassVar[str] = "terminal_query"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "uboot.countdown":
            yield from computer.say(_SIZE_QUERY)
        elif point == "login":
            yield from computer.say(_TERMINAL_RESET)


@define(kw_only=True, eq=False)
class PromptInLog(Fault):
    """Log lines hold the prompt's text, long before the prompt."""

    name: ClassVar[str] = "prompt_in_log"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            prompt = f"{computer.model.identity.hostname} login: "
            yield from computer.printk(f"systemd[1]: serial-getty.slice: expecting '{prompt}' on the console")
            yield from computer.say(f"         Starting a watch for {prompt}\n")


@define(kw_only=True, eq=False)
class PromptInIssue(Fault):
    """/etc/issue begins with a line like the prompt.

    The rest of it takes a while (its domain name is looked up).
    """

    name: ClassVar[str] = "prompt_in_issue"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=(_REPEATED,))
    pause_ms: float = field(default=400.0, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "login":
            yield from computer.say(f"{computer.model.identity.hostname} login: \n")
            yield Pause(round(self.pause_ms * NS_PER_MS))  # agetty's \O asks the resolver (agetty(8))
            yield from computer.say("is what you see when this board is up. Log in as root.\n\n")


@define(kw_only=True, eq=False)
class PromptWithText(Fault):
    """A daemon logs a line that begins like the prompt."""

    name: ClassVar[str] = "prompt_with_text"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(may_carry=(_REPEATED,))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            yield from computer.say(f"{computer.model.identity.hostname} login: session opened for root\n")


@define(kw_only=True, eq=False)
class EarlyPrompt(Fault):
    """A program prints the prompt and waits, before there is a getty."""

    name: ClassVar[str] = "early_prompt"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("prompt_not_real",), "test")
    pause_ms: float = field(default=1500.0, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "login":
            yield from computer.say(f"{computer.model.identity.hostname} login: ")
            yield Pause(round(self.pause_ms * NS_PER_MS))
            yield from computer.say("\n")


@define(kw_only=True, eq=False)
class BannerInUserSpace(Fault):
    """A script prints the bootloader's version, and the kernel's start."""

    name: ClassVar[str] = "banner_in_user_space"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            banner = f"U-Boot {computer.model.release.uboot}"
            text = self.dice.choice(
                [f"board-info: bootloader {banner}\n", f"{banner}\n", "Starting kernel ... 3 s ago\n"]
            )
            yield from computer.say(text)


@define(kw_only=True, eq=False)
class PanicQuoted(Fault):
    """A program prints the panic of the boot before (pstore)."""

    name: ClassVar[str] = "panic_quoted"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=("kernel_errors",))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            panic = self.dice.choice(["sysrq triggered crash", "Attempted to kill init! exitcode=0x0000000b"])
            yield from computer.say(f"pstore-reader: <4>[   88.100000] Kernel panic - not syncing: {panic}\n")


@define(kw_only=True, eq=False)
class FirstImageRefused(Fault):
    """U-Boot finds no kernel in one place, and boots from the next."""

    name: ClassVar[str] = "first_image_refused"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "uboot.countdown":
            # U-Boot boot/bootm.c
            yield from computer.say("Wrong Image Format for bootm command\nERROR -2: can't get kernel image!\n")


@define(kw_only=True, eq=False)
class OtherMediumErrors(Fault):
    """A flash that the board does not boot from cannot be read."""

    name: ClassVar[str] = "other_medium_errors"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=("kernel_errors",))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":  # block/blk-core.c, fs/buffer.c
            flash = f"mtdblock{self.dice.randrange(3, 7)}"
            yield from computer.printk(
                f"I/O error, dev {flash}, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
                f"Buffer I/O error on dev {flash}, logical block 0, async page read",
                level=3,
            )


@define(kw_only=True, eq=False)
class PromptWithKernelText(AfterPrompt):
    """The kernel logs a line on the prompt's own line."""

    name: ClassVar[str] = "prompt_with_kernel_text"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    # kernel/audit.c; the record is one of kernel/bpf/syscall.c
    lines: ClassVar[tuple[str, ...]] = ("audit: type=1334 audit(1736360589.123:14): prog-id=9 op=UNLOAD",)
    after_ms: float = field(default=500.0, validator=validators.ge(0.0))


@define(kw_only=True, eq=False)
class PrintkCaller(Fault):
    """The kernel names the caller of each line behind its time (CONFIG_PRINTK_CALLER)."""

    name: ClassVar[str] = "printk_caller"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def printk(self, line: str) -> str:
        """Add the caller: the task, or the processor in an interrupt.

        Source: kernel/printk/printk.c, print_caller.
        """
        found = _STAMP.match(line)
        if found is None:
            return line
        caller = "T0" if int(found[1]) == int(found[2]) == 0 else self.dice.choice(("T1", "T1", "C0", "T84", "T112"))
        return f"{found[0]}[{caller:>6}]{line[found.end() :]}"


@define(kw_only=True, eq=False)
class PrintkDated(Fault):
    """A log daemon adds date and host to kernel lines."""

    name: ClassVar[str] = "printk_dated"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def printk(self, line: str) -> str:
        """Add a prefix in rsyslog's RSYSLOG_FileFormat (RFC 3339)."""
        found = _STAMP.match(line)
        if found is None:
            return line
        at = _BOOTED_AT + dt.timedelta(microseconds=(int(found[1]) * NS_PER_S // 1000 + int(found[2])))
        return f"{at.isoformat(timespec='microseconds')} am62xx-evm kernel: {line}"
