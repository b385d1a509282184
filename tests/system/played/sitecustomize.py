"""A board on USB for Snagboot's own programs: with this folder in PYTHONPATH, pyusb finds it in place of libusb's devices.

It is an AM62x at bus 3, port 1.2: its ROM takes tiboot3 by DFU and is gone; SPL takes tispl.bin and u-boot.img until it is detached; and
the next SPL takes u-boot.img once more. What came lies in the folder that BOARDLAB_PLAYED_USB names.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import usb.backend
import usb.backend.libusb1
import usb.core

_STAGES = (("bootloader",), ("tispl.bin", "u-boot.img"), ("u-boot.img",), ())
_IDLE, _DOWNLOADED, _MANIFEST_SYNC = 2, 5, 6  # of USB DFU 1.1
_DETACH, _DOWNLOAD, _STATUS, _DESCRIPTOR = 0, 1, 3, 6
_DFU_FUNCTIONAL = [9, 0x21, 0x0F, 0, 0, 0x00, 0x10, 0x10, 0x01]  # wTransferSize 4096


class PlayedBoard(usb.backend.IBackend):
    """A backend of pyusb with one device, as long as the board takes something."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stage, self.setting, self.state = folder, 0, 0, _IDLE
        self.got = bytearray()

    def enumerate_devices(self) -> Any:
        return iter([self.stage] if _STAGES[self.stage] else [])

    def get_parent(self, _dev: Any) -> None:
        return None

    def get_device_descriptor(self, _dev: Any) -> Any:
        return SimpleNamespace(
            bLength=18,
            bDescriptorType=1,
            bcdUSB=0x200,
            bDeviceClass=0,
            bDeviceSubClass=0,
            bDeviceProtocol=0,
            bMaxPacketSize0=64,
            idVendor=0x0451,
            idProduct=0x6165,
            bcdDevice=0x100,
            iManufacturer=0,
            iProduct=0,
            iSerialNumber=0,
            bNumConfigurations=1,
            address=7,
            bus=3,
            port_number=2,
            port_numbers=(1, 2),
            speed=3,
        )

    def get_configuration_descriptor(self, _dev: Any, config: int) -> Any:
        if config:
            raise IndexError(config)
        return SimpleNamespace(
            bLength=9,
            bDescriptorType=2,
            wTotalLength=0,
            bNumInterfaces=1,
            bConfigurationValue=1,
            iConfiguration=0,
            bmAttributes=0x80,
            bMaxPower=50,
            extra_descriptors=[],
        )

    def get_interface_descriptor(self, _dev: Any, intf: int, alt: int, _config: int) -> Any:
        if intf or alt >= len(_STAGES[self.stage]):
            raise IndexError(alt)
        return SimpleNamespace(
            bLength=9,
            bDescriptorType=4,
            bInterfaceNumber=0,
            bAlternateSetting=alt,
            bNumEndpoints=0,
            bInterfaceClass=0xFE,
            bInterfaceSubClass=1,
            bInterfaceProtocol=2,
            iInterface=alt + 1,
            extra_descriptors=_DFU_FUNCTIONAL,
        )

    def open_device(self, dev: Any) -> Any:
        return dev

    def close_device(self, _handle: Any) -> None:
        return None

    def set_configuration(self, _handle: Any, _value: int) -> None:
        return None

    def get_configuration(self, _handle: Any) -> int:
        return 1

    def claim_interface(self, _handle: Any, _intf: int) -> None:
        return None

    def release_interface(self, _handle: Any, _intf: int) -> None:
        return None

    def set_interface_altsetting(self, _handle: Any, _intf: int, altsetting: int) -> None:
        self.setting = altsetting

    def is_kernel_driver_active(self, _handle: Any, _intf: int) -> bool:
        return False

    def ctrl_transfer(
        self, handle: int, kind: int, request: int, value: int, _index: int, data: Any, _timeout: int
    ) -> int:
        if handle != self.stage:
            raise usb.core.USBError("No such device", None, errno.ENODEV)
        if (kind, request) == (0x80, _DESCRIPTOR):
            return self._answer(data, self._string(value & 0xFF))
        if request == _DOWNLOAD:
            self._take(bytes(data))
            return len(data)
        if request == _STATUS:
            return self._answer(data, self._status())
        if request == _DETACH:
            self.stage, self.state = self.stage + 1, _IDLE
        return 0

    def _take(self, data: bytes) -> None:
        if data:
            self.got += data
            self.state = _DOWNLOADED
            return
        name = _STAGES[self.stage][self.setting]
        (self.folder / f"{self.stage}-{name}").write_bytes(self.got)
        self.got.clear()
        self.state = _IDLE if self.stage else _MANIFEST_SYNC

    def _status(self) -> bytes:
        if self.state == _MANIFEST_SYNC and self.got == b"gone":  # the ROM starts what it got, and says nothing more
            self.got.clear()
            self.stage, self.state = 1, _IDLE
            raise usb.core.USBError("No such device", None, errno.ENODEV)
        if self.state == _MANIFEST_SYNC:
            self.got += b"gone"
        return bytes([0, 0, 0, 0, self.state, 0])

    def _string(self, number: int) -> bytes:
        text = "\x09\x04".encode("latin-1") if number == 0 else _STAGES[self.stage][number - 1].encode("utf-16-le")
        return bytes([len(text) + 2, 3]) + text

    @staticmethod
    def _answer(data: Any, answer: bytes) -> int:
        for at, byte in enumerate(answer[: len(data)]):
            data[at] = byte
        return min(len(data), len(answer))


if folder := os.environ.get("BOARDLAB_PLAYED_USB"):
    board = PlayedBoard(Path(folder))
    usb.backend.libusb1.get_backend = lambda find_library=None: board  # noqa: ARG005
