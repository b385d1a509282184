"""U-Boot's commands that load files over network and console."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from lab.virtual.sim.editor import interruptible_pause
from lab.virtual.sim.network import TFTP_PORT
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, Program
from lab.virtual.sim.serialload import receive
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.storage import FileContent
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.media import KIB, MIB, speed
from lab.virtual.sim.uboot.uboot import Command, UBoot

_RATE: Final = 20.0 * MIB  # bytes per second that TFTP reaches on Gigabit Ethernet; assumed
_LINK_NS: Final = 1.2 * NS_PER_S  # until the PHY has a link; assumed
_LOOKS_NS: Final = 5 * NS_PER_MS
_TIMEOUT_NS: Final = 5 * NS_PER_S  # net/tftp.c: TIMEOUT
_TIMEOUTS: Final = 10  # TIMEOUT_COUNT
_MARK_BYTES: Final = 64 * KIB
_MARKS_OF_LINE: Final = 65  # HASHES_PER_LINE
_DEFAULT_FILE: Final = "C0A80102.img"  # net/tftp.c: of the board's address
_SERIAL_ASKS: Final = 90  # common/xyzModem.c gives up after about as many


def _dhcp(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`dhcp [ADDRESS] [FILE]`: what one argument is, its form says (cmd/net.c: netboot_common)."""
    if len(arguments) > 3 or (len(arguments) == 3 and not is_number(arguments[1])):
        return USAGE
    yield from _link_up(uboot, streams)
    yield from line(streams, "BOOTP broadcast 1\nDHCP client bound to address 192.168.1.2 (3 ms)")
    variables = uboot.shell.variables
    variables |= {"ipaddr": "192.168.1.2", "netmask": "255.255.255.0"}
    if len(arguments) == 1:
        return 0
    address, name = variables.get("loadaddr", "0"), variables.get("bootfile", _DEFAULT_FILE)
    for given in arguments[1:]:
        address, name = (given, name) if is_number(given) and given is arguments[1] else (address, given)
    return (yield from _fetch(uboot, number(address), name, streams))


def _tftp(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`tftpboot ADDRESS FILE`."""
    if len(arguments) != 3 or not is_number(arguments[1]):
        return USAGE
    yield from _link_up(uboot, streams)
    return (yield from _fetch(uboot, number(arguments[1]), arguments[2], streams))


def _link_up(uboot: UBoot, streams: Streams) -> Program[None]:
    yield from interruptible_pause(uboot.computer, _LINK_NS)
    yield from line(streams, "link up on port 1, speed 1000, full duplex")


def _port(text: str) -> int:
    """Port of the variable `tftpdstp`, parsed as by net/tftp.c.

    It has the digits at its beginning, and 16 bits.
    """
    digits = re.match(r"[0-9]*", text.strip())
    return int(digits[0] if digits and digits[0] else "0") & 0xFFFF


def _fetch(uboot: UBoot, address: int, path: str, streams: Streams) -> Program[int]:
    computer, variables = uboot.computer, uboot.shell.variables
    server, _, name = path.rpartition(":")
    server = server or variables.get("serverip", "")
    if not server:
        yield from line(streams, "*** ERROR: `serverip' not set")
        return FAILED
    yield from line(
        streams,
        f"Using ethernet@8000000port@1 device\nTFTP from server {server}; our IP address is "
        f"{variables.get('ipaddr', '192.168.1.2')}\nFilename '{name}'.\nLoad address: 0x{address:x}",
    )
    yield from streams.out(b"Loading: *\b")
    yield from computer.at("uboot.fetch")
    answers = all(trouble.fetches(name) for trouble in computer.troubles)
    port = _port(variables.get("tftpdstp", str(TFTP_PORT)))
    fetch = computer.network.fetch(server, port, name) if answers else None
    waited_ns, timeouts = 0, 0
    while fetch is None or not fetch.done:
        yield from interruptible_pause(computer, _LOOKS_NS if fetch is not None else _TIMEOUT_NS)
        waited_ns += round(_LOOKS_NS if fetch is not None else _TIMEOUT_NS)
        if waited_ns >= (timeouts + 1) * _TIMEOUT_NS:
            timeouts += 1
            yield from streams.out(b"T ")
        if timeouts >= _TIMEOUTS:
            yield from line(streams, "\nRetry count exceeded; starting again")
            return FAILED
    if fetch.data is None:
        yield from line(streams, f"\nTFTP error: '{fetch.error}' (1)\nNot retrying...")
        return FAILED
    return (yield from _arrived(uboot, address, name, fetch.data, streams))


def _arrived(uboot: UBoot, address: int, name: str, data: bytes, streams: Streams) -> Program[int]:
    computer, rate = uboot.computer, _RATE
    for trouble in computer.troubles:
        data, rate = trouble.fetched(name, data), trouble.network_rate(rate)
    for start in range(0, len(data), _MARK_BYTES):
        yield from interruptible_pause(computer, min(_MARK_BYTES, len(data) - start) / rate * NS_PER_S)
        last_of_line = (start // _MARK_BYTES + 1) % _MARKS_OF_LINE == 0
        yield from streams.out(b"#\n\t " if last_of_line else b"#")
    ms = max(1, round(len(data) / rate * 1000))
    yield from line(streams, f"\n\t {speed(len(data), ms)}\ndone")
    yield from line(streams, f"Bytes transferred = {len(data)} ({len(data):x} hex)")
    uboot.put(address, FileContent(name, len(data), data))
    return 0


def _loady(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`loady [ADDRESS]`."""
    text = arguments[1] if len(arguments) > 1 else uboot.shell.variables.get("loadaddr", "")
    if len(arguments) > 2 or not is_number(text):
        return USAGE
    address = number(text)
    speed_bd = uboot.computer.machine.speed_bd[uboot.computer.console]
    yield from line(streams, f"## Ready for binary (ymodem) download to 0x{address:08X} at {speed_bd} bps...")
    received = yield from receive(uboot.computer, batch=True, asks=_SERIAL_ASKS)
    if received is None:
        yield from line(streams, "\n## Binary (ymodem) download aborted")
        return FAILED
    yield from line(
        streams,
        f"xyzModem - CRC mode, {received.blocks}(SOH)/0(STX)/0(CAN) packets, {received.retries} retries\n"
        f"## Total Size      = 0x{len(received.data):08x} = {len(received.data)} Bytes",
    )
    uboot.put(address, FileContent("ymodem", len(received.data), received.data))
    return 0


COMMANDS: Mapping[str, Command] = {"dhcp": _dhcp, "loady": _loady, "tftpboot": _tftp}
