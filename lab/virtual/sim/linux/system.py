"""Commands about the system: uname, dmesg, date, reboot, rtcwake, sh."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.files import LOGIN_PID
from lab.virtual.sim.linux.session import LoginSession, Tool, complain, option, say, wait
from lab.virtual.sim.linux.starttimes import ANALYSES, analyzed, begun, unit_times
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, CpuResetError, Drain, Program
from lab.virtual.sim.sh.interpreter import ExitError, Interpreter, Streams, execute_line


def _uname(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    model = session.computer.model
    parts = {
        "s": "Linux",
        "n": model.identity.hostname,
        "r": model.release.kernel,
        "v": "#1 SMP PREEMPT",
        "m": model.family.machine,
    }
    wanted = "".join(a[1:] for a in arguments[1:] if a.startswith("-")) or "s"
    shown = [value for key, value in parts.items() if key in wanted or "a" in wanted]
    yield from say(streams, " ".join(shown + ["GNU/Linux"] * ("a" in wanted)))
    return 0


def _dmesg(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    kernel = session.kernel
    words = list(arguments[1:])
    if words[:1] == ["-n"]:
        if len(words) < 2 or not words[1].isdigit():
            return (yield from complain(streams, "dmesg: unknown level"))
        kernel.console_level = int(words[1])
        return 0
    letters = {letter for word in words if word.startswith("-") for letter in word[1:]}
    if "C" not in letters:
        shift = 3 if "S" in letters else 0  # util-linux before 2.40 forgets to shift the facility of /dev/kmsg
        lines = [
            (f"<{record.facility << shift | record.level}>" if "r" in letters else "") + record.line
            for record in kernel.shown()
        ]
        yield from streams.out("".join(line + "\n" for line in lines).encode())
    if letters & {"C", "c"}:
        kernel.clear()
    return 0


def _date(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    sleeper = session.files.sleeper
    for word in arguments[1:]:
        if seconds := re.fullmatch(r"@(\d+)", word):
            session.kernel.wall_offset_s += int(seconds[1]) - sleeper.wall_s
    now = dt.datetime.fromtimestamp(sleeper.wall_s, dt.UTC)
    form = next((word[1:] for word in arguments[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    form = form.replace("%s", str(int(sleeper.wall_s))).replace("%N", f"{now.microsecond * 1000:09d}")
    yield from say(streams, now.strftime(form))
    return 0


def _sleep(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    if len(arguments) != 2 or not re.fullmatch(r"\d+(\.\d+)?", arguments[1]):
        return (yield from complain(streams, "sleep: invalid time interval"))
    yield from wait(session, float(arguments[1]) * NS_PER_S)
    return 0


def _facts(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """Commands that print one fact."""
    identity, uptime_s = session.computer.model.identity, session.kernel.clock_ns / NS_PER_S
    facts = {
        "hostname": identity.hostname,
        "id": "uid=0(root) gid=0(root) groups=0(root)",
        "nproc": str(identity.cpus),
        "tty": f"/dev/{session.computer.model.board.console.linux}",
        "uptime": f" 00:00:00 up {int(uptime_s) // 60} min,  1 user,  load average: 0.08, 0.12, 0.05",
        "whoami": session.user,
    }
    yield from say(streams, facts[arguments[0]])
    return 0


def _systemctl(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    if "is-system-running" in arguments:
        yield from say(streams, "running")
    elif "is-active" in arguments:
        yield from say(streams, "active")
    elif "-pMainPID,NRestarts" in arguments:
        yield from say(streams, f"MainPID={LOGIN_PID}")
        yield from say(streams, "NRestarts=0")
    elif "show" in arguments:
        kernel = session.kernel
        for name, began_ns in begun(kernel.getty_ns - kernel.init_ns, _units(session)).items():
            began_us = (kernel.init_ns + began_ns) // 1000
            for line in (f"Id={name}", f"InactiveExitTimestampMonotonic={began_us}", ""):
                yield from say(streams, line)
    return 0


def _units(session: LoginSession) -> dict[str, int]:
    """Unit -> nanoseconds that it took in this start."""
    computer = session.computer
    dice = computer.dice("units", computer.starts)
    return unit_times(
        dice, lambda name: sum(trouble.unit_ns(name) for trouble in computer.troubles), computer.time_scale
    )


def _systemd_analyze(
    session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter
) -> Program[int]:
    """time, blame, critical-chain and plot."""
    kernel = session.kernel
    what = next((word for word in arguments[1:] if not word.startswith("-")), "time")
    if what not in ANALYSES:
        return (yield from complain(streams, f"Unknown command verb {what}."))
    for line in analyzed(what, kernel.init_ns, kernel.getty_ns - kernel.init_ns, _units(session)):
        yield from say(streams, line)
    return 0


def _sh(session: LoginSession, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    """`sh -c TEXT`, `sh FILE`, or text on standard input."""
    inner, folder = shell.subshell(), session.folder
    match list(arguments[1:]):
        case ["-c", text, *_]:
            pass
        case [name, *parameters]:
            content = session.files.read(session.path(name))
            if content is None:
                return (yield from complain(streams, f"sh: {name}: No such file or directory")) + 126
            text, inner.parameters = content.decode(errors="replace"), tuple(parameters)
        case _:
            text = (streams.stdin or b"").decode(errors="replace")
    try:
        return (yield from execute_line(inner, text, streams, "sh"))
    except ExitError as end:
        return end.status
    finally:
        session.folder = folder


def _read(_session: LoginSession, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    """`read [-r] NAME...`: a line's words; the last name takes the rest."""
    yield from ()
    names = [word for word in arguments[1:] if word != "-r"]
    line = (streams.stdin or b"").decode(errors="replace").partition("\n")[0]
    words = line.split(None, len(names) - 1)
    shell.variables |= dict(itertools.zip_longest(names, words[: len(names)], fillvalue=""))
    return int(not line)


def _variables(_session: LoginSession, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    """export, unset and set."""
    if arguments[0] == "set" and len(arguments) == 1:
        for name in sorted(shell.variables):
            yield from say(streams, f"{name}={shell.variables[name]}")
    for word in arguments[1:]:
        name, equals, value = word.partition("=")
        if arguments[0] == "unset":
            shell.variables.pop(name, None)
        elif equals and arguments[0] == "export":
            shell.variables[name] = value
    return 0


def _exit(_session: LoginSession, arguments: Sequence[str], _streams: Streams, shell: Interpreter) -> Program[int]:
    yield from ()
    raise ExitError(int(arguments[1]) if len(arguments) > 1 and arguments[1].isdigit() else shell.status)


def _which(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """which, type and command -v."""
    names = [word for word in arguments[1:] if not word.startswith("-")]
    for name in names:
        if session.runner(name) is None:
            return 1
        yield from say(streams, f"/usr/bin/{name}")
    return 0


def _nothing(_session: LoginSession, arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    """Commands that succeed and change nothing that anyone could see."""
    yield from ()
    return int(arguments[0] == "false")


# --- Commands for sleep, power-off and reset ---


_STOPPING = (
    "Stopped target Multi-User System",
    "Stopped Serial Getty",
    "Unmounted /var/volatile",
    "Reached target Shutdown",
)


def _rtcwake(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])
    seconds, mode = option(words, "-s"), option(words, "-m", "standby")
    if not seconds.isdigit():
        return (yield from complain(streams, "rtcwake: must provide wake time (see --seconds and --time options)"))
    sleeper = session.files.sleeper
    if mode not in {"mem", "freeze", "no"}:
        return (yield from complain(streams, f"rtcwake: unrecognized suspend state '{mode}'"))
    yield from sleeper.set_alarm(f"+{seconds}")
    yield from say(streams, f'rtcwake: wakeup from "{mode}" using /dev/rtc0 at Thu Jan  1 00:01:02 1970')
    if mode == "no":
        return 0
    problem = yield from session.files.write("/sys/power/state", mode.encode())
    return (yield from complain(streams, "rtcwake: write error")) if problem else 0


def _ethtool(session: LoginSession, arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    """`ethtool -s mcu_mcan0 wol p` arms the CAN pins, a wake-up source; `-C eth0 rx-usecs N` paces interrupts.

    All else succeeds and changes nothing.
    """
    yield from ()
    if "rx-usecs" in arguments:
        session.kernel.settings["rx_usecs"] = option(arguments, "rx-usecs", "0")
    if [word for word in arguments[1:] if word.startswith("mcu_mcan")] and "wol" in arguments[:-1]:
        armed = arguments[arguments.index("wol") + 1] == "p"
        session.kernel.settings["can_wakeup"] = "enabled" if armed else "disabled"
    return 0


def _devmem2(session: LoginSession, arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    """A write to a pin's register, which may arm it."""
    yield from ()
    if len(arguments) == 4:
        session.kernel.settings[f"devmem2 {arguments[1]}"] = arguments[3]
    return 0


def _reboot(session: LoginSession, _arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    yield from _stop_services(session)
    yield from session.kernel.printk("reboot: Restarting system", 0)  # pr_emerg: kernel/reboot.c kernel_restart
    yield Drain(session.computer.console)  # printk(9) returns when the line is out
    raise CpuResetError


def _poweroff(
    session: LoginSession, _arguments: Sequence[str], _streams: Streams, _shell: Interpreter
) -> Program[int]:
    yield from _stop_services(session)
    yield from session.files.sleeper.power_off()
    return 0


def _stop_services(session: LoginSession) -> Program[None]:
    for line in _STOPPING:
        yield from session.computer.pause(30 * NS_PER_MS)
        yield from session.computer.write(f"[  OK  ] {line}.\n".encode())


TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(("hostname", "id", "nproc", "tty", "uptime", "whoami"), _facts),
    **dict.fromkeys((":", "true", "false", "sync", "modprobe", "stty", "mount", "umount", "chmod"), _nothing),
    **dict.fromkeys(("export", "unset", "set"), _variables),
    **dict.fromkeys(("which", "type", "command"), _which),
    **dict.fromkeys(("sh", "bash"), _sh),
    "date": _date,
    "devmem2": _devmem2,
    "i2cset": _nothing,
    "dmesg": _dmesg,
    "ethtool": _ethtool,
    "exit": _exit,
    "halt": _poweroff,
    "poweroff": _poweroff,
    "read": _read,
    "reboot": _reboot,
    "rtcwake": _rtcwake,
    "sleep": _sleep,
    "systemctl": _systemctl,
    "systemd-analyze": _systemd_analyze,
    "uname": _uname,
    "usleep": _sleep,
}
