"""The console server and its ports."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyudev
import requests
from attrs import define, field, frozen
from prometheus_client import Metric

from exporters.farm.build import counter, gauge
from lab.console.client import ConsoleClient
from lab.console.status import ServerStatus
from lab.errors import LabTransientError
from lab.host import status_files
from lab.host.runtime import socket_path
from lab.host.status_files import OutletStatus, RailStatus
from lab.results import retention
from lab.results.snapshot import SnapshotReader

OPEN = "open"


@frozen
class ConsoleCollector:
    """The console server of a runtime folder."""

    runtime: Path

    def read(self) -> list[Metric]:
        """Families of the server's state.

        Raises:
            LabTransientError: it does not answer.
        """
        with ConsoleClient(socket_path(self.runtime)) as client:
            return families(client.status())


def families(status: ServerStatus) -> list[Metric]:
    """Families of a server's status."""
    ports = [(port.info.name, port) for port in status.ports]
    return [
        _gauge("open", "1: the port is open; 0: it is lost.", [(n, float(p.state == OPEN)) for n, p in ports]),
        _counter("received_bytes", "Bytes that came.", [(n, p.received_bytes) for n, p in ports]),
        _counter("reads", "Reads that brought bytes.", [(n, p.reads) for n, p in ports]),
        _counter("gaps", "Number of losses of the port.", [(n, p.gaps) for n, p in ports]),
        _counter("dropped_readers", "Readers that were too slow.", [(n, p.dropped) for n, p in ports]),
        _gauge("readers", "Programs that read the port.", [(n, p.readers) for n, p in ports]),
        _gauge("written", "1: a program may write.", [(n, float(p.writer is not None)) for n, p in ports]),
        _gauge(
            "last_byte_age_seconds",
            "Since the last byte; absent before the first.",
            [(n, p.last_byte_age_s) for n, p in ports if p.last_byte_age_s is not None],
        ),
        _gauge(
            "adapter_latency_seconds",
            "Latency timer of the adapter, which delays a byte by that at most.",
            [(n, p.info.meta.adapter_latency_ns / 1e9) for n, p in ports],
        ),
        _gauge(
            "lateness_max_seconds",
            "The largest evidence of a late stamp since the port was opened.",
            [(n, p.lateness_max_ns / 1e9) for n, p in ports],
        ),
        _gauge(
            "recording_broken",
            "1: nothing is recorded at the moment.",
            [(n, float(bool(p.recording_broken))) for n, p in ports],
        ),
        counter(
            "boardlab_console_line_errors",
            "The driver's counters of lost and damaged characters since its start.",
            ["port", "error"],
            [((n, error), count) for n, p in ports for error, count in (p.line_errors or {}).items()],
        ),
    ]


def _gauge(name: str, about: str, rows: list[tuple[str, float]]) -> Metric:
    return gauge(f"boardlab_console_{name}", about, ["port"], [((port,), value) for port, value in rows])


def _counter(name: str, about: str, rows: list[tuple[str, int]]) -> Metric:
    return counter(f"boardlab_console_{name}", about, ["port"], [((port,), value) for port, value in rows])


TIMEOUT_S = 5.0


@frozen
class Outlets:
    """The outlets that programs of this runtime folder switched."""

    runtime: Path

    def read(self) -> list[Metric]:
        """The last command to each outlet."""
        outlets = status_files.read_all(self.runtime / status_files.OUTLETS, OutletStatus)
        labels = ["server", "pdu", "outlet"]
        return [
            gauge(
                "boardlab_outlet_last_command_on",
                "Last command: on (1) or off (0).",
                labels,
                [((o.server, o.pdu, o.outlet), float(o.command == "on")) for o in outlets],
            ),
            gauge(
                "boardlab_outlet_last_command_timestamp_seconds",
                "When the last command was given.",
                labels,
                [((o.server, o.pdu, o.outlet), o.at) for o in outlets],
            ),
            gauge(
                "boardlab_outlet_last_command_duration_seconds",
                "Duration of the last command, or of the failed attempt.",
                labels,
                [((o.server, o.pdu, o.outlet), o.duration_s) for o in outlets],
            ),
            counter(
                "boardlab_outlet_commands",
                "Commands.",
                labels,
                [((o.server, o.pdu, o.outlet), o.commands) for o in outlets],
            ),
            counter(
                "boardlab_outlet_failures",
                "Commands that failed.",
                labels,
                [((o.server, o.pdu, o.outlet), o.failures) for o in outlets],
            ),
        ]


@frozen
class PduDaemonProbe:
    """pdudaemon at host:port."""

    address: str

    def read(self) -> list[Metric]:
        """Ask for any HTTP answer; no outlet is touched.

        Raises:
            LabTransientError: it does not answer.
        """
        try:
            with requests.Session() as session:
                session.trust_env = False  # a lab's pdudaemon is not behind the proxy that $http_proxy names
                session.get(f"http://{self.address}/", timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise LabTransientError(
                f"pdudaemon at {self.address} does not answer ({type(error).__name__}); start it, or mend `pdudaemon:` "
                "in farm.yaml",
                failure="pdu_unreachable",
            ) from error
        return []


@frozen
class UsbDevice:
    """A USB device that shall be there: udev finds it by where it is plugged in.

    Attributes:
        kind: "adapter", "sdmux", "hub" ….
        id_path: as `udevadm info` has it.
    """

    name: str
    kind: str
    id_path: str


class RealUdev:
    """udev of this host."""

    def __init__(self) -> None:
        self._context = pyudev.Context()
        # Of udev's own events: the kernel's have no ID_PATH.
        self._monitor = pyudev.Monitor.from_netlink(self._context)
        self._monitor.filter_by("usb", "usb_device")
        self._monitor.start()

    def present(self, id_path: str) -> bool:
        """True while a device is plugged in there."""
        return any(True for _ in self._context.list_devices(ID_PATH=id_path))

    def new_id_paths(self) -> Sequence[str]:
        """The ID_PATH of devices that were plugged in since the last question."""
        id_paths = []
        while (device := self._monitor.poll(timeout=0)) is not None:
            with contextlib.suppress(KeyError):
                if device.action == "add":
                    id_paths.append(str(device.properties["ID_PATH"]))
        return id_paths


@define
class Usb:
    """The devices that shall be there."""

    devices: Sequence[UsbDevice]
    udev: RealUdev
    _added: Counter[str] = field(factory=Counter, init=False)

    def read(self) -> list[Metric]:
        """Presence of the devices, and how often each was plugged in."""
        id_paths = {device.id_path for device in self.devices}
        self._added.update(id_path for id_path in self.udev.new_id_paths() if id_path in id_paths)
        labels = ["device", "kind", "id_path"]
        return [
            gauge(
                "boardlab_usb_device_present",
                "1: the device is plugged in at its place.",
                labels,
                [((d.name, d.kind, d.id_path), float(self.udev.present(d.id_path))) for d in self.devices],
            ),
            counter(
                "boardlab_usb_device_enumerations",
                "Count of the device's appearances since the exporter started.",
                labels,
                [((d.name, d.kind, d.id_path), self._added[d.id_path]) for d in self.devices],
            ),
        ]


@frozen
class Disks:
    """The file systems of some folders, e.g. of results and recordings; one series for each disk.

    Attributes:
        folders: by their content.
    """

    folders: Mapping[str, Path]

    def read(self) -> list[Metric]:
        """Families of the disks' size and free space.

        Raises:
            LabTransientError: a folder is not there.
        """
        on_disk: dict[int, list[str]] = {}
        usage: dict[int, tuple[int, int]] = {}  # size and free bytes
        for what, folder in sorted(self.folders.items()):
            try:
                device = folder.stat().st_dev
                total, _, free = shutil.disk_usage(folder)
            except OSError as error:
                raise LabTransientError(f"{folder} ({what}): {error.strerror}; is its disk mounted?") from error
            usage[device] = total, free
            on_disk.setdefault(device, []).append(what)
        rows = [(", ".join(whats), usage[device]) for device, whats in on_disk.items()]
        return [
            gauge(
                "boardlab_disk_size_bytes",
                "Size of the file system.",
                ["what"],
                [((what,), size) for what, (size, _) in rows],
            ),
            gauge(
                "boardlab_disk_free_bytes",
                "Free for this user.",
                ["what"],
                [((what,), free) for what, (_, free) in rows],
            ),
        ]


@frozen
class Sizes:
    """The sizes of the results."""

    watcher: SnapshotReader

    def read(self) -> list[Metric]:
        """Bytes of each part, and those of the last week.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            sizes = snapshot.read(lambda session: retention.sizes(session, self.watcher.location))
        return [
            gauge(
                "boardlab_results_size_bytes",
                "Size of the results' database and artifacts.",
                ["part"],
                [((part,), size) for part, size in sizes.parts.items()],
            ),
            gauge(
                "boardlab_results_week_bytes",
                "What the runs of the last seven days have added to it.",
                ["part"],
                [((part,), size) for part, size in sizes.week.items()],
            ),
        ]


@frozen
class RailsCollector:
    """The rails that samplers of this runtime folder read."""

    runtime: Path

    def read(self) -> list[Metric]:
        """The last status of each rail."""
        rails = [((r.board, r.rail), r) for r in status_files.read_all(self.runtime / status_files.RAILS, RailStatus)]
        labels = ["board", "rail"]
        return [
            gauge("boardlab_rail_rate_hertz", "Samples per second.", labels, [(k, r.rate_hz) for k, r in rails]),
            counter("boardlab_rail_samples", "Samples.", labels, [(k, r.samples) for k, r in rails]),
            counter("boardlab_rail_gaps", "Gaps between samples.", labels, [(k, r.gaps) for k, r in rails]),
            gauge(
                "boardlab_rail_told_timestamp_seconds",
                "When the sampler told this.",
                labels,
                [(k, r.at) for k, r in rails],
            ),
        ]
