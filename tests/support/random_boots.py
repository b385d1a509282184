"""Boots drawn at random whose truth is known, healthy or with what may mislead who times them.

A machine is a board with one software: its decompression D, its getty's delay Y and its manner are drawn once, and each of its boots differs
by their spread. A boot is a list of texts with their times on a line of 115200 Bd; the truth is when the last bytes of the kernel's start
and of the first prompt left the board's UART.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field, frozen

from lab import boards
from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.boot.crosscheck import (
    CrossCheck,
    LogFacts,
    read_facts,
    read_log,
    zero_of,
)
from lab.benchmarks.boot.timeline import NO_LINE
from lab.console.model import Chunk, Event, LineTiming
from lab.errors import BoardlabError
from lab.metrics import Flag, Moment, SampleRecord
from lab.metrics.catalogue import BOOT_TIME
from lab.run.boot import judge_boot
from lab.run.rewatch import PromptReply, Rewatcher

S: Final = 10**9
TYPE: Final = boards.load("qemu-virt")
TIMING: Final = LineTiming(115200)
ON: Final = PowerEdge(requested_ns=9 * S, acknowledged_ns=10 * S)
DOUBTS: Final = frozenset(
    {
        Flag.CLOCK_DISAGREES,
        Flag.CONSOLE_OVERRUN,
        Flag.FLOW_UNVERIFIED,
        Flag.NOT_CROSS_CHECKED,
        Flag.PROMPT_REPEATED,
        Flag.UNCERTAIN,
    }
)
START: Final = b"Starting kernel ..."
PROMPT: Final = b"qemu-virt login: "
WORDS: Final = (
    "usb",
    "mmc0",
    "clk: probed",
    "cpu0",
    "random: crng init done",
    "dma-pl330",
    "ttyAMA0",
    "scsi host0",
    "thermal",
    "rtc",
    "edac",
    "10 MiB",
)
BEHIND: Final = (
    b"[  OK  ] Reached target Multi-User System.\r\n",
    b"[  OK  ] Started Dispatch Password Requests.\r\n         Starting Record Runlevel Change...\r\n",
    b"\x1b]3008;start=4f2c;machineid=1;user=root;type=session\x1b\\",
    b"\x1bP+q6E616D65\x1b\\",
    b"\x1b[6n",
    "\r\n  ┏━┓╻ ╻  ▓▓▒▒░░ ürgent\r\n".encode(),
    b"[   12.345678] audit: type=1334 prog-id=3\r\n",
    b"my-app: ready\r\n",
)
LOGOS: Final = ("▓▓▒▒░░ ┏━━━━━━┓ ▓▓▒▒░░\r\n" * 12, "Ünïcödé ☃ welcome\r\n", "")


@frozen
class Said:
    """A text of the board.

    Attributes:
        at_s: since power on, when it is written.
        mark: bytes of it that end a moment, and the moment's name.
    """

    at_s: float
    data: bytes
    mark: tuple[bytes, str] | None = None


@define
class Machine:
    """A board with one software, drawn at random."""

    dice: random.Random
    d_s: float = field(init=False)
    y_s: float = field(init=False)
    spread_s: float = field(init=False)
    issue: bytes = field(init=False)
    lines: int = field(init=False)
    behind: Sequence[bytes] = field(init=False)
    logo: bytes = field(init=False)

    def __attrs_post_init__(self) -> None:
        dice = self.dice
        self.d_s = dice.uniform(0.02, 0.6)
        self.y_s = dice.choice([0.1, 1.0]) + dice.uniform(0.002, 0.05)
        self.spread_s = dice.choice([0.0005, 0.002, 0.004])
        self.issue = dice.choice(
            [b"", b"\r\n", b"\r\nArago Project qemu-virt ttyAMA0\r\n\r\n", b"\r\nVBoard Linux 1.0 6.1 ttyAMA0\r\n\r\n"]
        )
        self.lines = dice.choice([0, 4, 30, 80])
        self.behind = dice.sample(BEHIND, dice.choice([0, 0, 1, 2]))
        self.logo = dice.choice(LOGOS).encode()

    def near(self, value_s: float) -> float:
        """The value in one boot."""
        return max(0.001, self.dice.gauss(value_s, self.spread_s))

    def boot(self, *, late_s: float = 0.0) -> Boot:
        """A healthy boot, whose getty draws its prompt later than usual."""
        dice = self.dice
        start_s = dice.uniform(0.8, 1.2)
        boot = Boot(self, dice, zero_s=start_s + 0.002 + self.near(self.d_s))
        boot.said += [
            Said(0.4, b"U-Boot 2023.01 (x)\r\nHit any key to stop autoboot:  0 \r\nBoot mode pins: sd \r\n"),
            Said(start_s, START + b"\r\n\r\n", (START, "start")),
        ]
        boot.getty_s = boot.zero_s + dice.uniform(1.5, 3.0)
        boot.life(boot.zero_s, self.lines, until_s=boot.getty_s)
        boot.said.append(Said(boot.zero_s + 1.2, self.logo + b"Root file system of medium sd\r\n"))
        boot.prompt_s = boot.getty_s + self.near(self.y_s) + late_s
        boot.said.append(Said(boot.prompt_s, b"\r\n" + self.issue + PROMPT, (PROMPT, "prompt")))
        boot.said += [Said(boot.prompt_s + dice.uniform(0.001, 0.3), text) for text in self.behind]
        return boot

    def documents(self, count: int) -> list[Mapping[str, Any]]:
        """Time lines that a run keeps of so many good boots."""
        return [self._document() for _ in range(count)]

    def _document(self) -> Mapping[str, Any]:
        zero_s, getty_s = 2.0 + self.near(self.d_s), 5.0 + self.dice.uniform(0, 0.01)
        start, prompt = moment("start", 2.0), moment("prompt", getty_s + self.near(self.y_s))
        check = self.check(zero_s, getty_s, prompt.t_ns / S - 10 + 0.4, None)
        return check.time_line(start, prompt, evolve(NO_LINE, answer=self.dice.uniform(0.004, 0.006))).document()

    def check(self, zero_s: float, getty_s: float, asked_s: float, log: LogFacts | None) -> CrossCheck:
        """The board's answer to a question at this time."""
        read_s = asked_s + self.dice.uniform(0.001, 0.03)
        came_s = read_s + self.dice.uniform(0.0005, 0.003)
        up_s = int((read_s - zero_s) * 100) / 100
        ticks = int((getty_s - zero_s) * 100)
        shell, getty = "471 (sh) S 412 471 471 1088 999999", f"412 (login) S 1 412 412 1088 {ticks}"
        facts = read_facts([f"{up_s:.2f} 1.00", shell, getty])
        assert facts is not None
        zero_ns = zero_of(facts, 10 * S + round(asked_s * S), moment("uptime", came_s))
        assert zero_ns is not None
        return CrossCheck(facts, zero_ns, log or LogFacts())


def moment(name: str, at_s: float) -> Moment:
    """A moment since power on."""
    return Moment(name, 10 * S + round(at_s * S), 0, 0, name)


@define
class Boot:
    """A boot: what it says, and what is true of it.

    Attributes:
        zero_s, getty_s, prompt_s: of the kernel that runs in the end: its time 0, its getty's start and first prompt.
        log: the times of its lines.
        is_true: False: no number of it is right. truth_s: when the last bytes of marks came that did not come.
    """

    machine: Machine
    dice: random.Random
    zero_s: float
    getty_s: float = 0.0
    prompt_s: float = 0.0
    said: list[Said] = field(factory=list)
    log: set[str] = field(factory=set)
    is_true: bool = True
    truth_s: dict[str, float] = field(factory=dict)

    def life(self, zero_s: float, lines: int, *, until_s: float) -> None:
        """A kernel's lines: from its console's registration on, or from its start."""
        dice, early = self.dice, self.dice.random() < 0.4
        texts = [
            (0.0, "Booting Linux on physical CPU 0x0"),
            (0.0, "Linux version 6.1.0 (x@y)"),
            (0.0, "Kernel command line: x bootmedia=sd"),
        ]
        texts += [
            (
                round(dice.uniform(0.0005, max(0.001, until_s - zero_s)), 6),
                f"{dice.choice(WORDS)} {dice.randrange(9999)}",
            )
            for _ in range(lines)
        ]
        init_s = 0.9 + dice.uniform(0, 0.2)
        texts += [(round(init_s, 6), "Run /init as init process")] if until_s - zero_s > init_s else []
        console_s = zero_s if early else zero_s + min(dice.uniform(0.1, 0.6), until_s - zero_s)
        self.log = {f"{at:.6f}" for at, _ in texts}
        for at, text in sorted(texts, key=lambda one: one[0]):
            self.said.append(
                Said(max(console_s, zero_s + at + dice.uniform(0.0001, 0.0005)), f"[{at:12.6f}] {text}\r\n".encode())
            )

    def find(self, mark: str) -> int:
        """The number of the text with a mark."""
        return next(number for number, said in enumerate(self.said) if said.mark and said.mark[1] == mark)

    def events(self) -> tuple[list[Event], dict[str, int]]:
        """The reads of the console, and when each mark's last byte came."""
        truth: dict[str, int] = {}
        events: list[Event] = []
        position, free_ns = 0, 0
        for said in sorted(self.said, key=lambda said: said.at_s):
            now_ns = max(free_ns, 10 * S + round(said.at_s * S))
            if said.mark is not None:
                end = said.data.rfind(said.mark[0]) + len(said.mark[0])
                truth[said.mark[1]] = now_ns + TIMING.bytes_ns(end)
            for at in range(0, len(said.data), 32):
                piece = said.data[at : at + 32]
                now_ns += TIMING.bytes_ns(len(piece))
                events.append(Chunk(now_ns, position, piece))
                position += len(piece)
            free_ns = now_ns
        return events, truth


@frozen
class Outcome:
    """Outcome of a boot.

    Attributes:
        failure: its class; empty: it has a number. wrong_s: by how much the number is beyond its ±, without a flag; 0: it is right.
    """

    failure: str
    flags: frozenset[Flag]
    wrong_s: float
    sample: SampleRecord | None = None


def measured(boot: Boot, others: int) -> Outcome:
    """Watch a boot, ask its board, and judge it beside other boots of its machine."""
    events, true_ns = boot.events()
    true_ns |= {name: 10 * S + round(at_s * S) for name, at_s in boot.truth_s.items()}
    since_ns = true_ns["prompt"]
    try:
        watch = Rewatcher(TYPE, "sd", ON, TIMING).watch(events, PromptReply(b"\r\n" + PROMPT, since_ns))
        samples = judged(boot, watch, events, others)
    except BoardlabError as error:
        return Outcome(error.failure, frozenset(), 0.0)
    sample = next(sample for sample in samples if sample.metric == BOOT_TIME.name)
    flags = frozenset(map(Flag, sample.flags)) & DOUBTS
    right_s = (true_ns["prompt"] - true_ns["start"]) / S
    off_s = abs(sample.value - right_s) - sample.uncertainty - 2e-6 if boot.is_true else sample.value
    return Outcome("", flags, 0.0 if flags else max(0.0, off_s), sample)


def judged(boot: Boot, watch: BootWatch, events: Sequence[Event], others: int) -> list[SampleRecord]:
    """The samples of a watched boot as a run keeps them."""
    machine = boot.machine
    text = b"".join(event.data for event in events if isinstance(event, Chunk)).decode("latin-1")
    marks = watch.log.marks
    found = [f"1 {mark[mark.index('.') :]}]" for mark in marks if mark in boot.log]
    log = read_log(["40 <6>[    0", *found], text, 0, marks)
    asked_s = (watch.prompt.t_ns / S - 10 if watch.prompt else 0) + 0.4
    check = machine.check(boot.zero_s, boot.getty_s, max(asked_s, boot.prompt_s + 0.4), log)
    bare = watch.finish(started_once=check.is_first(watch.split_ns), judged=True)
    judgement = judge_boot(watch, check, bare[0].flags, machine.documents(others))
    return judgement.covered(bare, watch.start, watch.prompt.position if watch.prompt else 0)


# --- What may mislead ---


def damaged(dice: random.Random, text: bytes) -> bytes:
    """A text with flipped bits, missing bytes, or a kernel's line in it."""
    data, at, size = bytearray(text), dice.randrange(1, len(text)), dice.randint(1, 8)
    match dice.randrange(4):
        case 0:
            data[at] ^= 1 << dice.randrange(7)
        case 1:
            data[at : at + size] = dice.randbytes(min(size, len(data) - at))
        case 2:
            del data[at : at + size]
        case _:
            data[at:at] = b"[   %2d.%06d] usb 1-1: new device\r\n" % (dice.randrange(3, 6), dice.randrange(10**6))
    return bytes(data) if bytes(data) != text else text[:-3]


def healthy(machine: Machine) -> Boot:
    """A good boot."""
    return machine.boot()


def prompt_again(machine: Machine) -> Boot:
    """The first prompt is lost, damaged or interleaved, and drawn again."""
    dice, boot = machine.dice, machine.boot()
    number = boot.find("prompt")
    said = boot.said[number]
    text = dice.choice([b"", said.data[: -len(PROMPT)], said.data[: -len(PROMPT)] + damaged(dice, PROMPT)])
    boot.said[number] = evolve(said, data=text, mark=None)
    boot.truth_s["prompt"] = said.at_s + len(said.data) * TIMING.bytes_ns(1) / S
    at_s = boot.prompt_s + len(said.data) * 87e-6 + dice.uniform(0.05, 3)
    boot.said.append(Said(at_s, dice.choice([b"\r\n", b"\r\n" + machine.issue]) + PROMPT, (PROMPT, "again")))
    return boot


def lookalike(machine: Machine) -> Boot:
    """A text like the prompt, while the getty is slower than usual."""
    dice = machine.dice
    boot = machine.boot(late_s=dice.uniform(0.05, 3))
    at_s = dice.uniform(max(boot.zero_s + 1.3, boot.getty_s - 0.5), boot.prompt_s - 0.03)
    boot.said.append(Said(at_s, b"\r\n" + PROMPT))
    if dice.random() < 0.5:
        boot.said.append(Said(dice.uniform(at_s, boot.prompt_s), b"\r\n" + dice.choice([b"", b"my-app: up\r\n"])))
    return boot


def start_before(machine: Machine) -> Boot:
    """A script says the kernel's start before, and the real text is damaged."""
    dice, boot = machine.dice, machine.boot()
    number = boot.find("start")
    said = boot.said[number]
    boot.said[number] = evolve(said, data=dice.choice([b"\r\n\r\n", damaged(dice, START) + b"\r\n\r\n"]), mark=None)
    boot.truth_s["start"] = said.at_s + len(START) * TIMING.bytes_ns(1) / S
    boot.said.append(Said(max(0.45, said.at_s - dice.uniform(0.05, 2.5)), START + b"\r\n"))
    return boot


def second_kernel(machine: Machine) -> Boot:
    """A kernel dies and another one starts, without a bootloader."""
    return _again(machine, [])


def kexec(machine: Machine) -> Boot:
    """A kernel starts another one, and says so."""
    return _again(machine, [b"kexec_core: Starting new kernel", b"Bye!"])


def _again(machine: Machine, words: Sequence[bytes]) -> Boot:
    dice, boot = machine.dice, machine.boot()
    lived_s = dice.uniform(0.01, 5)
    first, last_s = Boot(machine, dice, boot.zero_s), boot.zero_s + lived_s
    first.life(first.zero_s, machine.lines, until_s=last_s)
    texts = [said for said in first.said if said.at_s < last_s]
    texts += [
        Said(last_s, b"[%12.6f] %s\r\n" % (lived_s, word) if word[:1] == b"k" else word + b"\r\n") for word in words
    ]
    shift_s = lived_s + dice.uniform(0.005, 0.5)
    start = boot.find("start")
    moved = [
        evolve(said, at_s=said.at_s + (shift_s if said.at_s > boot.said[start].at_s else 0)) for said in boot.said
    ]
    boot.said = [*moved, *texts]
    boot.zero_s, boot.getty_s, boot.prompt_s = (at + shift_s for at in (boot.zero_s, boot.getty_s, boot.prompt_s))
    boot.is_true = False
    return boot


SICK: Final[Mapping[str, Callable[[Machine], Boot]]] = {
    "prompt_again": prompt_again,
    "lookalike": lookalike,
    "start_before": start_before,
    "second_kernel": second_kernel,
    "kexec": kexec,
}


def case(kind: str, seed: int, others: int) -> Outcome:
    """A boot of this kind beside so many good ones."""
    machine = Machine(random.Random(f"{kind}:{seed}"))
    return measured(SICK.get(kind, healthy)(machine), others)
