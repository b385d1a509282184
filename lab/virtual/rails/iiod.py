"""iiod at the wire: libiio 0.x's line protocol over TCP.

Each rail is an IIO device as the kernel's ina2xx-adc.

The client asks for the context as XML, then reads attributes one at a time; numbers are lines of ASCII, negative ones
are errno (libiio 0.24: iiod-client.c).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Final
from xml.sax.saxutils import quoteattr

from lab.host.clock import Clock
from lab.virtual import ports
from lab.virtual.rails.ina231 import BUS, CONFIG, SHUNT
from lab.virtual.rails.sensors import Rails

_VERSION: Final = b"0.24.c4498c2\n"
_SHUNT_SCALE, _BUS_SCALE = "0.002500000", "1.250000000"  # millivolt
_AVERAGING: Final = 0x4000 | 4 << 9 | 0b111  # 128 conversions of 140 µs: 36 ms a sample
_DTD: Final = (
    '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE context [<!ELEMENT context (device | context-attribute)*>'
    "<!ELEMENT context-attribute EMPTY><!ELEMENT device (channel | attribute | debug-attribute | buffer-attribute)*>"
    "<!ELEMENT channel (scan-element?, attribute*)><!ELEMENT attribute EMPTY><!ELEMENT scan-element EMPTY>"
    "<!ELEMENT debug-attribute EMPTY><!ELEMENT buffer-attribute EMPTY>"
    "<!ATTLIST context name CDATA #REQUIRED description CDATA #IMPLIED>"
    "<!ATTLIST context-attribute name CDATA #REQUIRED value CDATA #REQUIRED>"
    "<!ATTLIST device id CDATA #REQUIRED name CDATA #IMPLIED label CDATA #IMPLIED>"
    "<!ATTLIST channel id CDATA #REQUIRED type (input|output) #REQUIRED name CDATA #IMPLIED>"
    "<!ATTLIST scan-element index CDATA #REQUIRED format CDATA #REQUIRED scale CDATA #IMPLIED>"
    "<!ATTLIST attribute name CDATA #REQUIRED filename CDATA #IMPLIED>"
    "<!ATTLIST debug-attribute name CDATA #REQUIRED><!ATTLIST buffer-attribute name CDATA #REQUIRED>]>"
)
_DEVICE: Final = (
    '<device id="iio:device{number}" name="ina231">'
    '<channel id="voltage0" type="input"><attribute name="raw" filename="in_voltage0_raw"/>'
    '<attribute name="scale" filename="in_voltage0_scale"/></channel>'
    '<channel id="voltage1" type="input"><attribute name="raw" filename="in_voltage1_raw"/>'
    '<attribute name="scale" filename="in_voltage1_scale"/></channel>'
    '<attribute name="in_shunt_resistor"/><attribute name="label"/></device>'
)


class Iiod:
    """Rails of one board as an IIO context.

    Its sensors are those of the I2C bus: only one of the two may use them.
    """

    def __init__(self, rails: Rails, name: str, clock: Clock) -> None:
        self._rails = rails
        self._name = name
        self._clock = clock

    def context(self) -> str:
        """The context as XML."""
        devices = "".join(_DEVICE.format(number=number) for number, _ in enumerate(self._rails.wired))
        return f'{_DTD}<context name="network" description={quoteattr(self._name)}>{devices}</context>'

    def answer(self, line: str) -> bytes:
        """The answer to one line of a client; empty: it leaves."""
        match line.split():
            case ["VERSION"]:
                return _VERSION
            case ["PRINT"]:
                text = self.context().encode()
                return b"%d\n%s\n" % (len(text), text)
            case ["TIMEOUT", _]:
                return b"0\n"
            case ["READ", device, *where, attribute]:
                return self._read(device, where[-1] if where else "", attribute)
            case ["EXIT"]:
                return b""
            case _:
                return b"%d\n" % -errno.EINVAL

    def _read(self, device: str, channel: str, attribute: str) -> bytes:
        number = device.removeprefix("iio:device")
        if not number.isdigit() or int(number) >= len(self._rails.wired):
            return b"%d\n" % -errno.ENODEV
        rail = self._rails.wired[int(number)]
        fixed = {
            ("", "in_shunt_resistor"): f"{rail.shunt_mohm / 1000:.9f}",
            ("", "label"): rail.rail,
            ("voltage0", "scale"): _SHUNT_SCALE,
            ("voltage1", "scale"): _BUS_SCALE,
        }
        value = fixed.get((channel, attribute))
        if value is None and attribute == "raw" and channel in {"voltage0", "voltage1"}:
            raw = self._register(rail.address, SHUNT if channel == "voltage0" else BUS)
            if raw is None:
                return b"%d\n" % -errno.EREMOTEIO
            value = str(raw)
        if value is None:
            return b"%d\n" % -errno.ENOENT
        data = value.encode() + b"\0"
        return b"%d\n%s\n" % (len(data), data)

    def _register(self, address: int, register: int) -> int | None:
        chip, now_ns = self._rails.chip_at(address), self._clock.now_ns()
        if chip is None:
            return None
        if chip.read(CONFIG, now_ns) != _AVERAGING:
            chip.write(CONFIG, _AVERAGING, now_ns)  # as the driver does when it is bound
        value = chip.read(register, now_ns) or 0
        return value - 0x10000 if register == SHUNT and value > 0x7FFF else value

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Serve clients of a socket that listens."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while line := await reader.readline():
                    answer = self.answer(line.decode("ascii", "replace").strip())
                    if not answer:
                        break
                    writer.write(answer)
                    await writer.drain()
            except (ConnectionError, ValueError):  # it left, or sent a line without an end
                pass
            finally:
                writer.close()

        return await ports.listen(connected, listening)
