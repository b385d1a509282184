"""Commands that put the board to sleep, off, or through a reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool
from lab.virtual.sim.linux.tool import complain, say
from lab.virtual.sim.program import NS_PER_MS, CpuResetError, Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams

_STOPPING = (
    "Stopped target Multi-User System",
    "Stopped Serial Getty",
    "Unmounted /var/volatile",
    "Reached target Shutdown",
)


def _rtcwake(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])

    def option(name: str, default: str) -> str:
        return words[words.index(name) + 1] if name in words[:-1] else default

    seconds, mode = option("-s", ""), option("-m", "standby")
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
    """`ethtool -s mcu_mcan0 wol p` arms the CAN pins as a wake-up source; all else succeeds and changes nothing."""
    yield from ()
    if [word for word in arguments[1:] if word.startswith("mcu_mcan")] and "wol" in arguments[:-1]:
        armed = arguments[arguments.index("wol") + 1] == "p"
        session.kernel.settings["can_wakeup"] = "enabled" if armed else "disabled"
    return 0


def _reboot(session: LoginSession, _arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    yield from _stop_services(session)
    yield from session.kernel.printk("reboot: Restarting system")
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
    "ethtool": _ethtool,
    "halt": _poweroff,
    "poweroff": _poweroff,
    "reboot": _reboot,
    "rtcwake": _rtcwake,
}
