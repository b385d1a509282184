"""Boots drawn at random whose truth is known, healthy or with what may mislead who times them.

A machine is a board with one software: its decompression D, its getty's delay Y and its manner are drawn once, and each of its boots differs
by their spread. A boot is a list of texts with their times on a line of 115200 Bd; the truth is when the last bytes of the kernel's start
and of the first prompt left the board's UART.
"""

from __future__ import annotations

import itertools
import math
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
    whole_text,
    with_digest,
    zero_of,
)
from lab.benchmarks.boot.timeline import KERNEL, TimeLine, place_in
from lab.console.model import Chunk, Event, LineTiming
from lab.errors import BoardlabError
from lab.metrics import Flag, Moment, SampleRecord
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
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
BOOT_ID: Final = "7321cb29-9e53-485f-9524-8bd73eba1e38"
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
MARKS: Final = {
    "uboot": b"U-Boot 2023.01",
    "autoboot": b"Hit any key to stop autoboot",
    "kernel_load": b"Boot mode pins: sd ",
    "starting_kernel": START,
    "first_printk": b"Booting Linux on physical CPU",
    "init": b"Run /init as init process",
    "login": PROMPT,
}
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
        marks: moment -> offset of its end.
        came: what the host receives of it; None: all.
    """

    at_s: float
    data: bytes
    marks: Mapping[str, int] = field(factory=dict)
    came: bytes | None = None

    @classmethod
    def of(cls, at_s: float, data: bytes) -> Said:
        """A text with the moments that end in it."""
        ends = {name: data.rfind(mark) + len(mark) for name, mark in MARKS.items() if mark in data}
        return cls(at_s, data, ends)


@define
class Machine:
    """A board with one software, drawn at random."""

    dice: random.Random
    load_s: float = field(init=False)
    console_s: float = field(init=False)  # of the kernel's console, on its clock
    init_s: float = field(init=False)
    d_s: float = field(init=False)
    y_s: float = field(init=False)
    spread_s: float = field(init=False)
    read_s: float = field(default=0.0, init=False)  # when its clock was read for the last answer
    late_s: float = field(default=0.0, init=False)  # by how much that answer came later than usual
    idle_s: float = field(default=0.0, init=False)  # for how long its getty may wait for other jobs
    issue: bytes = field(init=False)
    lines: int = field(init=False)
    behind: Sequence[bytes] = field(init=False)
    logo: bytes = field(init=False)
    lost_s: float = field(init=False)  # of the kernel's clock, whose ticks are lost while it prints its first lines
    manner: float = field(init=False)  # of its image, drawn once
    unit: Sequence[str] = field(init=False)  # of its getty, as systemd answers
    step_s: float = field(default=0.0, init=False)  # of its kernel's clock; 0: µs

    def __attrs_post_init__(self) -> None:
        dice = self.dice
        self.load_s = dice.uniform(0.8, 1.2)
        self.console_s = dice.choice([0.0, dice.uniform(0.1, 0.6)])
        self.init_s = 0.9 + dice.uniform(0, 0.2)
        self.d_s = dice.uniform(0.02, 0.6)
        self.y_s = dice.choice([0.1, 1.0]) + dice.uniform(0.002, 0.05)
        self.spread_s = dice.choice([0.0005, 0.002, 0.004])
        self.issue = dice.choice(
            [b"", b"\r\n", b"\r\nArago Project qemu-virt ttyAMA0\r\n\r\n", b"\r\nVBoard Linux 1.0 6.1 ttyAMA0\r\n\r\n"]
        )
        self.lines = dice.choice([0, 4, 30, 80])
        self.behind = dice.sample(BEHIND, dice.choice([0, 0, 1, 2]))
        self.logo = dice.choice(LOGOS).encode()
        self.lost_s = dice.choice([0.0, 0.0, dice.uniform(0.05, 0.5)])
        self.manner = random.Random(self.load_s).random()
        self.unit = ["MainPID=412", "NRestarts=0"] if self.manner < 0.5 else []

    def near(self, value_s: float) -> float:
        """The value in one boot."""
        return max(0.001, self.dice.gauss(value_s, self.spread_s))

    def boot(self, *, late_s: float = 0.0) -> Boot:
        """A healthy boot, whose getty draws its prompt later than usual."""
        dice = self.dice
        start_s = self.near(self.load_s)
        boot = Boot(self, dice, zero_s=start_s + 0.002 + self.near(self.d_s))
        boot.said += [
            Said.of(self.near(0.4), b"U-Boot 2023.01 (x)\r\n"),
            Said.of(self.near(0.45), b"Hit any key to stop autoboot:  0 \r\n"),
            Said.of(self.near(0.6), b"Boot mode pins: sd \r\n"),
            Said.of(start_s, START + b"\r\n\r\n"),
        ]
        boot.getty_s = boot.zero_s + dice.uniform(1.5, 3.0)
        boot.life(boot.zero_s, self.lines, until_s=boot.getty_s)
        boot.said.append(Said(boot.zero_s + 1.2, self.logo + b"Root file system of medium sd\r\n"))
        late_s += dice.uniform(0, self.idle_s) if self.idle_s else 0.0
        boot.prompt_s = boot.getty_s + self.near(self.y_s) + late_s
        boot.said.append(Said.of(boot.prompt_s, b"\r\n" + self.issue + PROMPT))
        boot.said += [Said(boot.prompt_s + dice.uniform(0.001, 0.3), text) for text in self.behind]
        return boot

    def documents(self, count: int) -> list[Mapping[str, Any]]:
        """Time lines that a run keeps of so many good boots."""
        return [self._document() for _ in range(count)]

    def _document(self) -> Mapping[str, Any]:
        boot = self.boot()
        lines = [said for said in boot.said if said.data[:1] == b"[" and said.at_s < boot.getty_s]
        line = min((said for said in lines if float(said.data[1:13])), key=lambda said: said.at_s)
        boot.said[boot.said.index(line)] = evolve(line, marks={**line.marks, "line": len(line.data)})
        true_ns = boot.events()[1]
        start, prompt = (Moment(name, true_ns[name], 0, 0, name) for name in ("starting_kernel", "login"))
        asked_s = prompt.t_ns / S - 10 + 0.4
        check = self.check(self.answer(boot, asked_s, ()), asked_s, LogFacts(is_first=True))
        times_s = {"on": 10.0, **{name: true_ns[name] / S for name in MARKS if name in true_ns}}
        stages_s = {f"{one} {two}": times_s[two] - times_s[one] for one, two in itertools.pairwise(times_s)}
        kernel_s = float(boot.said[boot.find("init")].data[1:13])
        both = "first_printk init"
        stages_s = {name + KERNEL * (name == both): s - kernel_s * (name == both) for name, s in stages_s.items()}
        begun = true_ns["line"] / S - times_s["starting_kernel"] - float(line.data[1:13])
        console = TimeLine(answer=self.dice.uniform(0.004, 0.006), begun=begun, stages=stages_s, places=boot.places())
        return check.time_line(start, prompt, console).document()

    def answer(self, boot: Boot, asked_s: float, logged: Sequence[str]) -> list[str]:
        """The board's answer to a question at this time, perhaps damaged."""
        self.read_s, self.late_s = asked_s + self.dice.uniform(0.001, 0.03), boot.late_s
        zero_s = boot.zero_s + self.lost_s + boot.lost_s
        up_s, ticks = int((self.read_s - zero_s) * 100) / 100, int((boot.getty_s - zero_s) * 100)
        shell, getty = "471 (sh) S 412 471 471 1088 999999", f"412 (login) S 1 412 412 1088 {ticks}"
        lines = with_digest([f"{up_s:.2f} 1.00", shell, getty, BOOT_ID, "0", "running", *self.unit, *logged])
        if self.dice.random() >= boot.answer_damage:
            return lines
        return damaged(self.dice, "\n".join(lines).encode()).decode("latin-1").split("\n")

    def check(self, lines: Sequence[str], asked_s: float, log: LogFacts) -> CrossCheck:
        """The whole answer of the last question."""
        facts = read_facts(lines)
        assert facts is not None
        came_s = self.read_s + self.dice.uniform(0.0005, 0.003) + self.late_s
        zero_ns = zero_of(facts, 10 * S + round(asked_s * S), moment("uptime", came_s))
        assert zero_ns is not None
        return CrossCheck(facts, zero_ns, log)


def moment(name: str, at_s: float) -> Moment:
    """A moment since power on."""
    return Moment(name, 10 * S + round(at_s * S), 0, 0, name)


@define
class Boot:
    """A boot: what it says, and what is true of it.

    Attributes:
        zero_s, getty_s, prompt_s: of the kernel that runs in the end: its time 0, its getty's start and first prompt.
        log: the times of its lines.
        is_true: False: no number of it is right, but a boot time whose ± covers `first_s`.
        first_s: by which the life of a first kernel lengthens the boot.
        answer_damage: probability that an answer of the cross-check is damaged.
        lost_s: ticks that this kernel lost beyond its usual ones.
        late_s: by how much the answer comes later than usual.
    """

    machine: Machine
    dice: random.Random
    zero_s: float
    getty_s: float = 0.0
    prompt_s: float = 0.0
    said: list[Said] = field(factory=list)
    log: set[str] = field(factory=set)
    is_true: bool = True
    first_s: float = math.inf
    answer_damage: float = 0.0
    lost_s: float = 0.0
    late_s: float = 0.0

    def life(self, zero_s: float, lines: int, *, until_s: float) -> None:
        """A kernel's lines: from its console's registration on, or from its start."""
        dice = self.dice
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
        init_s = self.machine.near(self.machine.init_s)
        texts += [(round(init_s, 6), "Run /init as init process")] if until_s - zero_s > init_s else []
        console_s = zero_s + min(self.machine.console_s, until_s - zero_s)
        if step_s := self.machine.step_s:
            texts = [(math.floor(at / step_s) * step_s, text) for at, text in texts]
        self.log = {f"{at:.6f}" for at, _ in texts}
        said_s = console_s
        for at, text in sorted(texts, key=lambda one: one[0]):
            said_s = max(said_s, zero_s + at + dice.uniform(0.0001, 0.0005))
            self.said.append(Said.of(said_s, f"[{at:12.6f}] {text}\r\n".encode()))

    def find(self, mark: str) -> int:
        """The number of the text with a mark."""
        return next(number for number, said in enumerate(self.said) if mark in said.marks)

    def change(self, mark: str, **changes: Any) -> Said:
        """Change the text with a mark; return it as it was."""
        number = self.find(mark)
        said = self.said[number]
        self.said[number] = evolve(said, **changes)
        return said

    def delay(self, since_s: float, by_s: float) -> None:
        """Delay all that comes behind an instant."""
        self.said = [evolve(said, at_s=said.at_s + by_s * (said.at_s > since_s)) for said in self.said]
        instants_s = (self.zero_s, self.getty_s, self.prompt_s)
        self.zero_s, self.getty_s, self.prompt_s = (at_s + by_s * (at_s > since_s) for at_s in instants_s)

    def places(self) -> dict[str, str]:
        """The places of a healthy boot's moments until the kernel's first line."""
        text = b"".join(said.data for said in sorted(self.said, key=lambda said: said.at_s)).decode("latin-1")
        lines = [line.rstrip("\r") for line in text.split("\n")]
        marks = {name: mark.decode() for name, mark in itertools.islice(MARKS.items(), 5)}
        return {
            name: place_in(lines, next(at for at, line in enumerate(lines) if mark in line))
            for name, mark in marks.items()
        }

    def events(self) -> tuple[list[Event], dict[str, int]]:
        """The reads of the console, and when each mark's last byte left the board."""
        truth: dict[str, int] = {}
        events: list[Event] = []
        position, free_ns = 0, 0
        for said in sorted(self.said, key=lambda said: said.at_s):
            begin_ns = max(free_ns, 10 * S + round(said.at_s * S))
            free_ns = begin_ns + TIMING.bytes_ns(len(said.data))
            truth |= {name: begin_ns + TIMING.bytes_ns(end) for name, end in said.marks.items()}
            came = said.data if said.came is None else said.came
            for at in range(0, len(came), 32):
                piece = came[at : at + 32]
                is_last = at + 32 >= len(came)
                now_ns = free_ns if is_last else begin_ns + TIMING.bytes_ns(at + 32)
                events.append(Chunk(now_ns, position, piece))
                position += len(piece)
        return events, truth


@frozen
class Outcome:
    """Outcome of a boot.

    Attributes:
        failure: its class; empty: it has a number. flags: of its boot time.
        wrong_s: by how much a number is beyond its ±, without a flag; 0: all are right.
        wrong: that number's metric and stage.
    """

    failure: str
    flags: frozenset[Flag] = frozenset()
    wrong_s: float = 0.0
    wrong: str = ""


def measured(boot: Boot, documents: list[Mapping[str, Any]]) -> Outcome:
    """Watch a boot, ask its board, judge it beside other boots of its machine, and add it to them."""
    events, true_ns = boot.events()
    try:
        watch = Rewatcher(TYPE, "sd", ON, TIMING).watch(events, PromptReply(b"\r\n" + PROMPT, true_ns["login"]))
        samples = judged(boot, watch, events, documents)
    except BoardlabError as error:
        return Outcome(error.failure)
    time = next(sample for sample in samples if sample.metric == BOOT_TIME.name)
    wrong = max((_wrong_s(sample, true_ns, boot), _name(sample)) for sample in samples)
    return Outcome("", frozenset(map(Flag, time.flags)) & DOUBTS, *(wrong if wrong[0] else ()))


def _name(sample: SampleRecord) -> str:
    return " ".join([sample.metric, *(sample.params.get(name, "") for name in ("stage",))])


def _wrong_s(sample: SampleRecord, true_ns: Mapping[str, int], boot: Boot) -> float:
    """By how much a number is beyond its ±; 0: it is not, or it has a flag."""
    if frozenset(map(Flag, sample.flags)) & DOUBTS:
        return 0.0
    staged = [(pattern.stage, pattern.name) for pattern in TYPE.moments if pattern.stage and pattern.name != "shell"]
    ends = {stage: (begin, end) for (_, begin), (stage, end) in itertools.pairwise([("", "on"), *staged])}
    ends |= {"time": ("starting_kernel", "login"), "on": ("on", "login")}
    headline = {BOOT_TIME.name: "time", BOOT_POWER_ON.name: "on"}
    begin, end = ends[headline.get(sample.metric) or sample.params["stage"]]
    times_ns = {"on": 10 * S, **true_ns}
    if not boot.is_true:
        is_covered = sample.metric != BOOT_TIME.name or boot.first_s <= sample.uncertainty
        return 0.0 if is_covered else min(boot.first_s, sample.value)
    right_s = (times_ns[end] - times_ns[begin]) / S
    return max(0.0, abs(sample.value - right_s) - sample.uncertainty - 2e-6)


def judged(
    boot: Boot, watch: BootWatch, events: Sequence[Event], documents: list[Mapping[str, Any]]
) -> list[SampleRecord]:
    """The samples of a watched boot as a run keeps them, beside these others, to which it is added."""
    machine = boot.machine
    text = b"".join(event.data for event in events if isinstance(event, Chunk)).decode("latin-1")
    marks = watch.log.marks
    logged = ["40 <6>[    0", *(f"1 {mark[mark.index('.') :]}]" for mark in marks if mark in boot.log)]
    asked_s = max((watch.prompt.t_ns / S - 10 if watch.prompt else 0), boot.prompt_s) + 0.4
    answers = (machine.answer(boot, asked_s, logged) for _ in range(2))  # a damaged one is asked for once more
    lines = next((lines for answer in answers if (lines := whole_text(answer)) is not None), None)
    check = None
    if lines is not None:
        check = machine.check(lines, asked_s, read_log(lines, text, 0, marks))
    once = check is not None and check.is_first(watch.split_ns)
    bare = watch.finish(check.flags if check else frozenset(), started_once=once, judged=True)
    judgement = judge_boot(watch, check, bare[0].flags, documents)
    documents.append(judgement.document(bare))
    return judgement.covered(bare, watch.moments, watch.prompt.position if watch.prompt else 0)


# --- What may mislead ---


def damaged(dice: random.Random, text: bytes) -> bytes:
    """A text with flipped bits, missing bytes, or a kernel's line in it."""
    data, at, size = bytearray(text), dice.randrange(1, len(text)), dice.randint(1, 8)
    match dice.randrange(5):
        case 0:
            data[at] ^= 1 << dice.randrange(7)
        case 1:
            data[at : at + size] = dice.randbytes(min(size, len(data) - at))
        case 2:
            del data[at : at + size]
        case 3:
            data[at:at] = b"[  OK  ] Reached target Multi-User System.\r\n"
        case _:
            data[at:at] = b"[   %2d.%06d] usb 1-1: new device\r\n" % (dice.randrange(3, 6), dice.randrange(10**6))
    return bytes(data) if bytes(data) != text else text[:-3]


def healthy(machine: Machine) -> Boot:
    """A good boot."""
    return machine.boot()


def early_warning(machine: Machine) -> Boot:
    """The kernel warns while it starts, and its clock stands still for as long as the trace takes."""
    dice, boot = machine.dice, machine.boot()
    at_s = dice.uniform(0.0002, 0.3)
    texts = [f"{dice.choice(WORDS)}+0x{dice.randrange(999):x}/0x{dice.randrange(9999):x} {n}" for n in range(45)]
    times = [f"{at_s + number * 1e-6:.6f}" for number in range(len(texts))]
    data = b"".join(f"[{at:>12}] {text}\r\n".encode() for at, text in zip(times, texts, strict=True))
    said_s = boot.zero_s + max(at_s, machine.console_s)
    boot.lost_s = TIMING.bytes_ns(len(data)) / S * dice.uniform(0.5, 1.0)
    boot.delay(said_s, boot.lost_s)
    boot.said.append(Said(said_s, data))
    boot.log |= set(times)
    return boot


def busy_line(machine: Machine) -> Boot:
    """The kernel finds USB devices while the prompt is drawn, or just behind it."""
    dice, boot = machine.dice, machine.boot()
    for _ in range(dice.randint(1, 3)):
        burst_s = boot.prompt_s + dice.uniform(-0.08, 0.03)
        text = b"[%12.6f] usb 1-1.%d: New USB device found, idVendor=0424, idProduct=%04x, bcdDevice= b.b3\r\n"
        lines = (text % (burst_s - boot.zero_s, number, dice.randrange(9999)) for number in range(dice.randint(2, 8)))
        boot.said.append(Said(burst_s, b"".join(lines)))
        boot.log.add(f"{burst_s - boot.zero_s:.6f}")
    return boot


def slow_answer(machine: Machine) -> Boot:
    """The board is busy, and answers late."""
    boot = machine.boot()
    boot.late_s = machine.dice.uniform(0.02, 0.5)
    return boot


def two_gettys(machine: Machine) -> Boot:
    """Two gettys of one terminal prompt one behind the other."""
    boot = machine.boot()
    text = b"\r\n" + machine.issue + PROMPT
    boot.said.append(Said(boot.prompt_s + machine.near(0.02 + 0.2 * machine.manner), text))
    return boot


def shown_before(machine: Machine) -> Boot:
    """A program shows the prompt's text before the getty starts."""
    boot = machine.boot()
    boot.said.append(Said(boot.getty_s - machine.near(0.1 + 0.4 * machine.manner), b"\r\n" + PROMPT + b"\r\n"))
    return boot


def log_again(machine: Machine) -> Boot:
    """A service prints the kernel's log, which may keep its last lines only."""
    boot = machine.boot()
    at_s = boot.getty_s - 0.6
    lines = [said for said in boot.said if said.data[:1] == b"[" and said.at_s < at_s]
    boot.said.append(Said(at_s, b"".join(said.data for said in sorted(lines, key=lambda said: said.at_s))))
    if machine.manner > 0.7:
        boot.log = set(sorted(boot.log)[-3:])
    return boot


def uboot_menu(machine: Machine) -> Boot:
    """U-Boot draws its menu, and its countdown each second."""
    boot = machine.boot()
    boot.delay(0.5, 3.0)
    said = boot.said[boot.find("autoboot")]
    ends = b"\r\n" if machine.manner < 0.5 else b""
    draws = [b"\x1b[8;3H%s: %2d %s" % (MARKS["autoboot"], 3 - second, ends) for second in range(3)]
    boot.said.append(
        Said(said.at_s - 0.01, b"\x1b[2J\x1b[1;1H  *** U-Boot Boot Menu ***\r\n\x1b[3;1H     U-Boot console")
    )
    boot.change("autoboot", data=draws[0], marks={"autoboot": draws[0].rfind(b":")})
    boot.said += [Said(said.at_s + second, draws[second]) for second in (1, 2)]
    boot.said.append(Said(said.at_s + 3, b"\x1b[8;3H\r\n"))
    return boot


def prompt_again(machine: Machine) -> Boot:
    """The first prompt is lost, damaged or interleaved, and drawn again."""
    dice, boot = machine.dice, machine.boot()
    said = boot.said[boot.find("login")]
    before = said.data[: -len(PROMPT)]
    boot.change("login", came=dice.choice([b"", before, before + damaged(dice, PROMPT)]))
    at_s = boot.prompt_s + len(said.data) * 87e-6 + dice.uniform(0.05, 3)
    boot.said.append(Said(at_s, dice.choice([b"\r\n", b"\r\n" + machine.issue]) + PROMPT))
    return boot


def lost_in_answer(machine: Machine) -> Boot:
    """The first prompt is lost, and the answer that tells so is late by as much."""
    boot, again_s = machine.boot(), machine.dice.uniform(0.05, 0.5)
    said = boot.change("login", came=b"\r\n")
    boot.said.append(Said(boot.prompt_s + len(said.data) * 87e-6 + again_s, b"\r\n" + machine.issue + PROMPT))
    boot.late_s = max(0.0, again_s + machine.dice.uniform(-0.03, 0.03))
    return boot


def lost_in_spread(machine: Machine) -> Boot:
    """The first prompt is lost, and drawn again before others may have come: the getty waits for other jobs."""
    machine.idle_s = machine.dice.uniform(0.2, 1.0)
    boot = machine.boot()
    said = boot.change("login", came=b"\r\n")
    at_s = boot.prompt_s + len(said.data) * 87e-6 + machine.dice.uniform(0.05, 0.5)
    boot.said.append(Said(at_s, b"\r\n" + machine.issue + PROMPT))
    return boot


def interleaved(machine: Machine) -> Boot:
    """The kernel writes into the prompt, which may be drawn again."""
    dice, boot = machine.dice, machine.boot()
    said = boot.said[boot.find("login")]
    line = b"[%12.6f] usb 1-1: new device %d\r\n" % (boot.prompt_s - boot.zero_s, dice.randrange(10**6))
    at = said.marks["login"] - dice.randrange(1, len(PROMPT))
    ends = {"login": said.marks["login"] + len(line)}
    boot.change("login", data=said.data[:at] + line + said.data[at:], marks=ends)
    if dice.random() < 0.5:
        at_s = boot.prompt_s + len(said.data + line) * 87e-6 + dice.uniform(0.05, 3)
        boot.said.append(Said(at_s, b"\r\n" + PROMPT))
    return boot


def torn_stage(machine: Machine) -> Boot:
    """The text of a stage is lost, damaged or torn, and a program may quote it."""
    dice, boot = machine.dice, machine.boot()
    mark = dice.choice([name for said in boot.said for name in said.marks if name != "login"])
    said, text = boot.said[boot.find(mark)], MARKS[mark]
    begin = said.marks[mark] - len(text)
    match dice.randrange(4):
        case 0:
            boot.change(mark, came=said.data.replace(text, b""))
        case 1:
            boot.change(mark, came=said.data.replace(text, damaged(dice, text)))
        case 2:
            cut = begin + dice.randrange(1, len(text))
            pause_s = cut * 87e-6 + dice.choice([0.0005, 0.01, 0.1, 0.5])
            boot.change(mark, data=said.data[:cut], marks={})
            boot.delay(said.at_s, pause_s)
            boot.said.append(Said(said.at_s + pause_s, said.data[cut:], {mark: said.marks[mark] - cut}))
        case _:
            boot.change(mark, came=said.data.replace(text, text[: -dice.randint(1, 6)]))
    if dice.random() < 0.7:
        at_s = dice.uniform(0.3, boot.prompt_s)
        quote = dice.choice([text, said.data.strip(), b"log: " + said.data.strip(), said.data[begin:].strip()])
        boot.said.append(Said(at_s, b"\r\n" + quote + b"\r\n"))
    return boot


def damaged_answer(machine: Machine) -> Boot:
    """The board's answer is damaged, perhaps the second one, too."""
    boot = machine.boot()
    boot.answer_damage = machine.dice.choice([0.5, 1.0])
    return boot


def start_again(machine: Machine) -> Boot:
    """The text of the kernel's start is lost or damaged, and comes again before the kernel's first line."""
    dice, boot = machine.dice, machine.boot()
    came = dice.choice([b"", damaged(dice, START) + b"\r\n\r\n"])
    said = boot.change("starting_kernel", came=came)
    boot.said.append(Said(said.at_s + dice.uniform(0.05, 0.3), START + b"\r\n\r\n"))
    return boot


def respawned(machine: Machine) -> Boot:
    """The first prompt is lost, and its program ends: systemd starts it once more."""
    boot, later_s = machine.boot(), machine.dice.uniform(0.05, 3)
    boot.change("login", came=b"\r\n")
    boot.said.append(Said(boot.prompt_s + later_s, b"\r\n" + machine.issue + PROMPT))
    boot.getty_s += later_s
    machine.unit = ["MainPID=412", "NRestarts=1"]
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


def lookalike_alone(machine: Machine) -> Boot:
    """A text like the prompt behind the getty's start, whose own prompt is late, and damaged."""
    dice = machine.dice
    boot = machine.boot(late_s=dice.uniform(0.05, 3))
    said = boot.said[boot.find("login")]
    cut = dice.randint(1, 3)
    boot.change("login", came=said.data[: -len(PROMPT)] + dice.choice([PROMPT[cut:], PROMPT[: -1 - cut]]))
    ends = dice.choice([b"", b"\r", b"\r\n", b"root (automatic login)\r\n"])
    boot.said.append(Said(dice.uniform(boot.getty_s, boot.prompt_s - 0.03), b"\r\n" + PROMPT + ends))
    return boot


def shell_in_place(machine: Machine) -> Boot:
    """The initial RAM disk's shell, or a rescue shell, comes in place of the login."""
    dice, boot = machine.dice, machine.boot()
    why = dice.choice(["", "sh: can't access tty; job control turned off\r\n", "ALERT! /dev/vda2 does not exist.\r\n"])
    text = f"\r\n{why}{dice.choice('~/')} # ".encode()
    boot.change("login", data=text, marks={"login": len(text)})
    boot.said = [said for said in boot.said if said.at_s <= boot.prompt_s]
    boot.is_true = False
    return boot


def start_before(machine: Machine) -> Boot:
    """A script says the kernel's start before, and the real text is damaged."""
    dice, boot = machine.dice, machine.boot()
    came = dice.choice([b"\r\n\r\n", damaged(dice, START) + b"\r\n\r\n"])
    said = boot.change("starting_kernel", came=came)
    boot.said.append(Said(max(0.45, said.at_s - dice.uniform(0.05, 2.5)), START + b"\r\n"))
    return boot


def second_kernel(machine: Machine) -> Boot:
    """A kernel dies and another one starts, without a bootloader."""
    return _again(machine, [])


def second_kernel_without_times(machine: Machine) -> Boot:
    """The same, and no line has the kernel's time."""
    boot = _again(machine, [])
    size = len("[    0.000000] ")
    boot.said = [
        Said(said.at_s, said.data[size:], {name: end - size for name, end in said.marks.items()})
        if said.data[:1] == b"["
        else said
        for said in boot.said
    ]
    boot.log = set()
    return boot


def second_kernel_in_steps(machine: Machine) -> Boot:
    """The same, and the kernel's clock goes on in ticks, so lines of both kernels have the same times."""
    machine.step_s, machine.lines = machine.dice.choice([0.004, 0.01]), 200
    return _again(machine, [])


def then_quiet(machine: Machine) -> Boot:
    """A kernel dies that talks, and the one behind it is quiet."""
    dice, boot = machine.dice, machine.boot()
    lived_s = dice.uniform(0.01, 5)
    first = Boot(machine, dice, boot.zero_s)
    first.life(boot.zero_s, machine.lines, until_s=boot.zero_s + lived_s)
    boot.said = [said for said in boot.said if said.data[:1] != b"["]
    texts = [said for said in first.said if said.at_s < boot.zero_s + lived_s]
    boot.first_s = lived_s + dice.uniform(0.005, 0.5)
    boot.delay(boot.said[boot.find("starting_kernel")].at_s, boot.first_s)
    boot.said += texts
    boot.is_true = False
    return boot


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
    boot.first_s = lived_s + dice.uniform(0.005, 0.5)
    boot.delay(boot.said[boot.find("starting_kernel")].at_s, boot.first_s)
    boot.said += texts
    boot.is_true = False
    return boot


HEALTHY: Final[Mapping[str, Callable[[Machine], Boot]]] = {
    "healthy": healthy,
    "early_warning": early_warning,
    "busy_line": busy_line,
    "slow_answer": slow_answer,
    "shown_before": shown_before,
}
# What an image does in each of its boots
MANNERS: Final[Mapping[str, Callable[[Machine], Boot]]] = {
    "two_gettys": two_gettys,
    "log_again": log_again,
    "uboot_menu": uboot_menu,
}
SICK: Final[Mapping[str, Callable[[Machine], Boot]]] = {
    "damaged_answer": damaged_answer,
    "torn_stage": torn_stage,
    "prompt_again": prompt_again,
    "lost_in_answer": lost_in_answer,
    "lost_in_spread": lost_in_spread,
    "interleaved": interleaved,
    "lookalike": lookalike,
    "lookalike_alone": lookalike_alone,
    "shell_in_place": shell_in_place,
    "start_before": start_before,
    "start_again": start_again,
    "respawned": respawned,
    "second_kernel": second_kernel,
    "second_kernel_without_times": second_kernel_without_times,
    "second_kernel_in_steps": second_kernel_in_steps,
    "then_quiet": then_quiet,
    "kexec": kexec,
}


def case(kind: str, seed: int, others: int) -> Outcome:
    """A boot of this kind beside so many good ones."""
    machine = Machine(random.Random(f"{kind}:{seed}"))
    if kind in MANNERS:
        return run_of(kind, seed, others + 1)[-1]
    return measured({**HEALTHY, **SICK}[kind](machine), list(machine.documents(others)))


def run_of(kind: str, seed: int, cycles: int) -> list[Outcome]:
    """A run of which every boot is of this kind."""
    machine, documents = Machine(random.Random(f"{kind}:{seed}")), list[Mapping[str, Any]]()
    return [measured({**HEALTHY, **MANNERS, **SICK}[kind](machine), documents) for _ in range(cycles)]
