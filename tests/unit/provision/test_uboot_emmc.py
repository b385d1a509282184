"""How an eMMC boots, told from U-Boot and read back: what the eMMC has decides, not what U-Boot believes."""

from __future__ import annotations

import pytest
from attrs import define, field

from lab.provision.errors import ExtCsdNotSetError, MediaWriteFailedError
from lab.provision.release import ExtCsd
from lab.provision.writers import ubootemmc
from lab.provision.writers.command import irreversible

WANTED = ExtCsd([1, 2, 0], [2, 0, 0])
SET_PARTITION, ASK_PARTITION = "mmc partconf 0 1 2 0", "mmc partconf 0"


@define
class PlayedEmmc:
    """The registers 179 and 177 of an eMMC, and a U-Boot of v2024.01 that keeps a copy of the first.

    Attributes:
        has_reg: it was built with CONFIG_CMD_MMC_REG. stuck: registers that keep what they have. mute: it shows no register.
    """

    has_reg: bool = True
    stuck: tuple[int, ...] = ()
    mute: bool = False
    registers: dict[int, int] = field(factory=lambda: {179: 0x48, 177: 0x01})
    copy: int = 0x48
    typed: list[str] = field(factory=list)

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        del timeout
        self.typed.append(cmd)
        return self._answer(cmd.split()), [], 0

    def _answer(self, words: list[str]) -> list[str]:  # noqa: PLR0911 - one case a command
        match words[1:]:
            case ["mmc"]:
                return ["mmc - MMC sub system", *(["mmc reg read <reg> <offset> [env]"] if self.has_reg else [])]
            case ["dev", "0", "0"]:
                return ["switch to partitions #0, OK", "mmc0(part 0) is current device"]
            case ["rescan"]:
                self.copy = self.registers[179]
                return []
            case ["bootbus", "0", width, reset, mode]:
                self._set(177, int(mode) << 3 | int(reset) << 2 | int(width))
                return [f"Set to BOOT_BUS_WIDTH = 0x{width}, RESET = 0x{reset}, BOOT_MODE = 0x{mode}"]
            case ["partconf", "0", ack, boot, access]:
                self.copy = int(ack) << 6 | int(boot) << 3 | int(access)
                self._set(179, self.copy)
                return []
            case ["partconf", "0"]:
                ack, boot = self.copy >> 6 & 1, self.copy >> 3 & 7
                return (
                    []
                    if self.mute
                    else [
                        "EXT_CSD[179], PARTITION_CONFIG:",
                        f"BOOT_ACK: {ack:#x}",
                        f"BOOT_PARTITION_ENABLE: {boot:#x}",
                    ]
                )
            case ["reg", "read", "extcsd", "all"] if self.has_reg:
                return [] if self.mute else ["EXT_CSD:", *map(self._row, range(0, 512, 10))]
        raise AssertionError(words)

    def _set(self, number: int, value: int) -> None:
        if number not in self.stuck:
            self.registers[number] = value

    def _row(self, first: int) -> str:
        values = (self.registers.get(number, 0) for number in range(first, min(first + 10, 512)))
        return f"{first:03}:  {' '.join(f'{value:02x}' for value in values)}"


def test_it_is_set_and_read_back_the_partition_last() -> None:
    emmc = PlayedEmmc()
    assert ubootemmc.set_extcsd(emmc, 0, WANTED) == ""
    assert emmc.registers == {179: 0x50, 177: 0x02}
    assert emmc.typed == [
        "mmc bootbus 0 2 0 0",
        "help mmc",
        "mmc dev 0 0",
        "mmc reg read extcsd all",
        SET_PARTITION,
        "mmc dev 0 0",
        "mmc rescan",
        ASK_PARTITION,
    ]
    assert not any(map(irreversible, emmc.typed))


def test_a_bus_that_is_not_taken_leaves_the_partition_as_it_was() -> None:
    emmc = PlayedEmmc(stuck=(177,))
    with pytest.raises(ExtCsdNotSetError, match=r"0x02.*0x01.*not changed"):
        ubootemmc.set_extcsd(emmc, 0, WANTED)
    assert (emmc.registers[179], SET_PARTITION in emmc.typed) == (0x48, False)
    with pytest.raises(ExtCsdNotSetError, match="U-Boot did not show it"):
        ubootemmc.set_extcsd(PlayedEmmc(mute=True), 0, WANTED)


def test_a_partition_that_is_not_taken_is_seen_though_u_boot_believes_it() -> None:
    emmc = PlayedEmmc(stuck=(179,))
    with pytest.raises(ExtCsdNotSetError, match=r"BOOT_ACK 1.*ENABLE: 0x1'"):
        ubootemmc.set_extcsd(emmc, 0, WANTED)


def test_what_this_u_boot_cannot_read_back_is_said() -> None:
    emmc = PlayedEmmc(has_reg=False)
    assert ubootemmc.set_extcsd(emmc, 0, WANTED) == ubootemmc.NOT_READ_BACK
    assert emmc.registers == {179: 0x50, 177: 0x02}
    assert ubootemmc.set_extcsd(emmc, 0, ExtCsd([1, 1, 0])) == ""


def test_how_it_boots_now_is_read() -> None:
    assert ubootemmc.read(PlayedEmmc(registers={179: 0x48, 177: 0x16}), 0) == ExtCsd([1, 1, 0], [2, 1, 2])
    assert ubootemmc.read(PlayedEmmc(has_reg=False), 0) == ExtCsd([1, 1, 0])
    with pytest.raises(MediaWriteFailedError):
        ubootemmc.read(PlayedEmmc(mute=True), 0)


@pytest.mark.parametrize(
    ("line", "heard"),
    [
        ("BOOT_ACK: 0x1", "BOOT_ACK: 0x"),
        ("BOOT_PARTITION_ENABLE: 0x1", "BOOT_PARTITON_ENABLE: 0x1"),
        ("BOOT_PARTITION_ENABLE: 0x1", "BOOT_PARTITION_ENABLE: 0xPARTITION_ACCESS: 0x0"),
        ("BOOT_PARTITION_ENABLE: 0x1", "BOOT_PARTITION_ENABLE: 0x5"),
        ("BOOT_PARTITION_ENABLE: 0x1", ""),
    ],
)
def test_a_line_that_was_damaged_on_the_way_says_nothing_of_what_boots(
    line: str, heard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emmc, really = PlayedEmmc(), PlayedEmmc.run

    def run(self: PlayedEmmc, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        lines, errors, status = really(self, cmd, timeout)
        return [heard if each == line else each for each in lines], errors, status

    monkeypatch.setattr(PlayedEmmc, "run", run)
    with pytest.raises(MediaWriteFailedError, match=f"does not say {line.partition(':')[0]}: .*nothing was written"):
        ubootemmc.read(emmc, 0)


def test_a_register_is_found_in_the_rows_that_u_boot_shows() -> None:
    rows = ["EXT_CSD:", "170:  00 00 00 00 00 00 00 02 00 48", "180:  00 01"]
    assert [ubootemmc.register(rows, number) for number in (177, 179, 181, 182)] == [2, 0x48, 1, None]
