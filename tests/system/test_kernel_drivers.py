"""Adapters, a card reader and current monitors of the kernel's own drivers, in QEMU: after a reset, and refusing."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from support.driver_guest import DEADLINE_S, Guest, running
from support.facts import missing_facts

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3 * DEADLINE_S)]

CARD_BYTES = 64 << 20
FAULTS = 20  # of each kind
LONGEST_S = 0.5  # between two steps of a fault
HELPERS = """
import glob, subprocess, time
from pathlib import Path
from lab.errors import BoardlabError

def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, f'in vain: {condition.__code__.co_consts}'
        time.sleep(0.05)

def drained(client):
    data = b''
    while (event := client.read_event(0.05)) is not None:
        data += getattr(event, 'data', b'')
    return data

def type_at(client, data):
    def taken():
        failure = refusal(lambda: client.write(data))
        assert failure is None or failure[1] == 'port_lost' and 'ttyUSB' in failure[2], failure
        return failure is None
    until(taken)

def refusal(work):
    try:
        work()
    except BoardlabError as error:
        return [type(error).__name__, error.failure, str(error)]
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with tempfile.TemporaryDirectory(prefix="guest-") as name:
        folder = Path(name)
        with (folder / "card.img").open("wb") as card:
            card.truncate(CARD_BYTES)
        card_words = ("-blockdev", f"driver=file,node-name=card,filename={folder / 'card.img'}")
        with running(folder, *card_words) as guest:
            guest.run(HELPERS)
            yield guest


def test_after_a_reset_in_the_other_order_each_console_has_its_own_board(guest: Guest) -> None:
    guest.plug_adapter("a", "AB01", "1")
    guest.run("until(lambda: Path('/dev/ttyUSB0').exists())")
    guest.plug_adapter("b", "AB02", "2")
    guest.run("""
from lab.console.client import ConsoleClient, ensure_server
until(lambda: Path('/dev/ttyUSB1').exists())
server = ensure_server(Path('/tmp/run'))

def attached(device, board):
    client = ConsoleClient(server)
    client.attach(client.open(device, board=board).name, write=True)
    return client

def states():
    return {port.board: port.state for port in watcher.status().ports}

watcher = ConsoleClient(server)
a, b = attached('/dev/ttyUSB0', 'A'), attached('/dev/ttyUSB1', 'B')
a.write(b'to A')
b.write(b'to B')
""")
    assert (guest.heard("a", 4), guest.heard("b", 4)) == (b"to A", b"to B")

    guest.unplug("a")
    guest.unplug("b")
    guest.run("until(lambda: not glob.glob('/dev/ttyUSB*') and 'open' not in states().values())")
    guest.plug_adapter("b", "AB02", "2")
    kind, failure, text = guest.run("""
until(lambda: states()['B'] == 'open' and 'another device' in states()['A'])
answer = refusal(lambda: a.write(b'run mmc erase'))
""")
    assert (kind, failure) == ("LabTransientError", "port_lost")
    assert "/dev/ttyUSB0 is another device now: USB 0403:6001 serial number AB02, socket 2 of " in text
    guest.plug_adapter("a", "AB01", "1")
    devices = guest.run("""
until(lambda: set(states().values()) == {'open'})
a.write(b'again A')
b.write(b'again B')
answer = {port.board: port.info.meta.device for port in watcher.status().ports}
""")
    assert devices == {"A": "/dev/ttyUSB1", "B": "/dev/ttyUSB0"}
    assert (guest.heard("a", 7), guest.heard("b", 7)) == (b"again A", b"again B")
    guest.say("a", b"board A")
    read = guest.run("""
data = b''
while b'board A' not in data:
    data += getattr(a.read_event(5.0), 'data', b'')
answer = data.decode()
""")
    assert read == "board A"


def test_adapters_that_come_and_go_never_bring_another_board_s_bytes(guest: Guest) -> None:
    seed = random.randrange(1 << 32)
    chance, sockets = random.Random(seed), {"a": ("AB01", "1"), "b": ("AB02", "2")}
    swapped = {"a": ("AB01", "2"), "b": ("AB02", "1")}
    plugged = set(sockets)

    def talk() -> None:
        """Both boards print for a while; what an unplugged one prints is lost."""
        end_s = time.monotonic() + chance.uniform(0, LONGEST_S)
        while time.monotonic() < end_s:
            for name in plugged:
                guest.say(name, f"board {name}\r\n".encode())
            time.sleep(0.01)

    def come_and_go(names: Sequence[str], places: Mapping[str, tuple[str, str]]) -> None:
        for name in chance.sample(names, len(names)):
            guest.unplug(name)
            plugged.remove(name)
            talk()
        for name in chance.sample(names, len(names)):
            guest.plug_adapter(name, *places[name])
            plugged.add(name)
            talk()

    faults = [["unplug"], ["reset"], ["swap", "reset"]] * FAULTS
    chance.shuffle(faults)
    for number, steps in enumerate(faults):
        talk()
        for step in steps:
            come_and_go(["a"] if step == "unplug" else ["a", "b"], swapped if step == "swap" else sockets)
        heard = dict.fromkeys(sockets, b"")
        while not all(heard.values()):  # a byte that was taken just before the adapter went is lost
            for name in (name for name in heard if not heard[name]):
                guest.run(f"type_at({name}, b'to {name} {number:02};')")
                heard[name] = guest.heard_within(name, 1.0)
        for name, typed in heard.items():
            assert set(typed.split(b";")) == {b"to %s %02d" % (name.encode(), number), b""}, (seed, steps)
        printed = guest.run("answer = [drained(client).decode('latin-1') for client in (a, b)]")
        assert ("board b" in printed[0], "board a" in printed[1]) == (False, False), (seed, steps, printed)
        assert all("board" in text for text in printed), (seed, steps, printed)


def test_a_speed_that_an_ft232b_lacks_is_refused_with_the_one_that_the_driver_set(guest: Guest) -> None:
    _, _, text = guest.run("""
answer = refusal(lambda: watcher.open('/dev/ttyUSB0', speed_bd=4000000))
""")
    assert not missing_facts(text, "no 4000000 Bd", "9600 Bd")
    assert guest.run("answer = [port.info.meta.speed_bd for port in watcher.status().ports]") == [115200, 115200]


def test_monitors_of_the_kernel_s_driver_have_the_environment_s_shunt_whatever_their_order(guest: Guest) -> None:
    guest.run("""
from smbus2 import SMBus
from lab.rails.config import RailConfig, RailsConfig
from lab.rails.hwmon import HwmonSensor
from lab.rails.model import AdcRange
(bus,) = [path for path in Path('/sys/bus/i2c/devices').glob('i2c-*') if 'stub' in (path / 'name').read_text()]
number = bus.name.removeprefix('i2c-')

def registers(address, **values):
    with SMBus(int(number)) as wire:
        for register, value in values.items():
            wire.write_word_data(address, int(register[1:]), value >> 8 | (value & 0xFF) << 8)

def probe(*addresses):
    for address in addresses:
        (bus / 'new_device').write_text(f'ina231 {address:#x}')
    return [(path / 'device').resolve().name for path in sorted(Path('/sys/class/hwmon').glob('hwmon*'))]

def amperes(shunt_mohm):
    rails = [RailConfig(name, 0.85, shunt_mohm=shunt_mohm, channel=f'{number}-00{name}') for name in ('40', '41')]
    sensor = HwmonSensor(RailsConfig('b', 'hwmon', '/sys/class/hwmon', tuple(rails)))
    channels = sensor.start(AdcRange.ACTIVE).channels
    return [
        reading.shunt_nv * 1e-6 / channel.shunt_mohm for channel, reading in zip(channels, sensor.read(), strict=True)
    ]

registers(0x40, r2=680, r4=320)  # 850 mV; 80 mA through the 10 mOhm that the driver assumes
registers(0x41, r2=680, r4=1200)
""")
    first = guest.run("answer = probe(0x40, 0x41)")
    assert guest.run("answer = amperes(10.0)") == pytest.approx([0.08, 0.3])
    assert guest.run("answer = amperes(2.0)") == pytest.approx([0.4, 1.5])
    second = guest.run("""
for address in ('0x40', '0x41'):
    (bus / 'delete_device').write_text(address)
answer = probe(0x41, 0x40)
""")
    assert second == first[::-1], "the numbers follow the order of probing"
    assert guest.run("answer = amperes(2.0)") == pytest.approx([0.4, 1.5])


def test_each_current_of_a_monitor_of_three_is_a_rail_s(guest: Guest) -> None:
    """An INA3221: 40 µV and 8 mV a step, in the upper bits of its registers (TI SBOS576)."""
    channels, readings = guest.run("""
registers(0x44, r0=0x7127, r15=1, r1=800 << 1, r2=1800, r3=4000 << 1, r4=3304, r5=80 << 1, r6=5000)
(bus / 'new_device').write_text('ina3221 0x44')
name = f'{number}-0044'
rails = [RailConfig(f'r{at}', volts, channel=f'{name}/{at}') for at, volts in ((1, 1.8), (2, 3.3), (3, 5.0))]
sensor = HwmonSensor(RailsConfig('b', 'hwmon', '/sys/class/hwmon', tuple(rails)))
channels = sensor.start(AdcRange.ACTIVE).channels
answer = [[channel.shunt_lsb_nv, channel.shunt_mohm] for channel in channels], [
    [reading.bus_uv, reading.shunt_nv * 1e-6 / channel.shunt_mohm]
    for channel, reading in zip(channels, sensor.read(), strict=True)
]
(bus / 'delete_device').write_text('0x44')
""")
    assert channels == [[40_000.0, 10.0]] * 3
    assert [bus_uv for bus_uv, _ in readings] == [1_800_000, 3_304_000, 5_000_000]
    assert [amperes for _, amperes in readings] == pytest.approx([0.8, 4.0, 0.08])


def test_an_adapter_for_smbus_alone_is_sampled_and_says_its_rate(guest: Guest) -> None:
    text, volts = guest.run("""
from lab.rails.ina import InaSensor
from lab.rails.ina_chips import CHIPS
from lab.rails.sensors import open_bus
config = RailsConfig('b', 'ina231', f'/dev/i2c-{number}', (RailConfig('core', 0.85, 0x44, 2.0),))
registers(0x44, r1=320, r2=680, r6=0x8)  # a sample is ready
sensor = InaSensor(config, CHIPS['ina231'], open_bus(config))
text = sensor.start(AdcRange.ACTIVE).text
(reading,) = sensor.read()
sensor.close()
answer = [text, reading.bus_uv / 1e6]
""")
    assert not missing_facts(text, "SMBus", "one register")
    assert text.endswith("samples/s")
    assert volts == pytest.approx(0.85)
    _, _, text = guest.run("""
from attrs import evolve
config = evolve(config, rails=(RailConfig('core', 0.85, 0x40, 2.0),))
answer = refusal(lambda: InaSensor(config, CHIPS['ina231'], open_bus(config)).start(AdcRange.ACTIVE))
""")
    assert not missing_facts(text, "driver", "`backend: hwmon`")


def test_a_reader_that_is_pulled_out_is_missing_and_another_in_its_place_is_refused(guest: Guest) -> None:
    guest.plug("reader", "usb-storage", drive="card", removable=True, serial="READER1", port="3")
    guest.run("""
from lab.provision.writer import Meter
from lab.provision.writers.sd_mux import disk_here, expect_same, opener_here

def node():
    return next(iter(glob.glob('/dev/sd?')), None)

def disk():
    until(node)
    subprocess.run(['udevadm', 'settle'], check=True)
    return disk_here(node())

card, written = disk(), []
meter = Meter(2 << 20, lambda progress: written.append(progress.done), time.monotonic_ns)
opened = opener_here(card)(card.path, meter, writable=True)
block = opened.__enter__()
block.write(0, bytes(1 << 20))
block.finish()
until(lambda: written and written[-1])

def write_more():
    block.write(1 << 20, bytes(1 << 20))
    block.finish()
""")
    guest.unplug("reader")
    kind, failure, text = guest.run("until(lambda: not node())\nanswer = refusal(write_more)")
    assert (kind, failure) == ("MediaMissingError", "media_missing"), text
    guest.plug("reader", "usb-storage", drive="card", removable=True, serial="READER2", port="3")
    kind, _, text = guest.run("""
opened.__exit__(None, None, None)
answer = refusal(lambda: expect_same(disk(), card.identity, card.size_bytes))
""")
    assert kind == "TargetRefusedError"
    assert not missing_facts(text, r"another disk")
