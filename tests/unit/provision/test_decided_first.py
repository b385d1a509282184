"""What cannot be written or read back is refused before the first byte; what a later part overwrote is not read back."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from attrs import define, evolve
from support.facts import missing_facts
from support.playeduboot import TARGET, PlayedUBoot, content, image, part, writer

from lab.cli import main
from lab.errors import ConfigurationError
from lab.provision.errors import (
    ImageDamagedError,
    ImageTooLargeError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    TftpTimeoutError,
)
from lab.provision.release import Content, Image, Part, PartPlace
from lab.provision.writer import Writer
from lab.provision.writers.command import CommandPrompt, limit_s
from lab.provision.writers.sd_mux import CardWriter, Disk
from lab.provision.writers.ubootmedia import UbiVolume

MTD_LIST = """List of MTD devices:
* nor0
  - block size: 0x40000 bytes
  - 0x000000000000-0x000000400000 : "nor0"
  - 0x000000000000-0x000000080000 : "ospi.tiboot3\""""
SF = "SF: Detected x with page size 256 Bytes, erase size 256 KiB, total 4 MiB"
FLINFO = """
Bank # 1: CFI conformant flash (32 x 16)  Size: 4 MB in 16 Sectors
  Sector Start Addresses:
  04000000        04040000        04080000      """


def written(command: str) -> bool:
    return any(word in command for word in ("write", "update", "erase", "cp.b", "tftpboot"))


def refused(board: PlayedUBoot, chosen: Writer, what: Content, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        chosen.plan(what, TARGET)
    assert not list(filter(written, board.typed))


def with_parts(whole: Content, *parts: Part) -> Content:
    return evolve(whole, parts=list(parts))


@contextmanager
def there(disk: Disk) -> Iterator[Disk]:
    yield disk


@pytest.mark.parametrize("medium", ["nvme 0", "mmc 0"])
def test_an_image_with_parts_inside_it_is_written_and_all_that_is_left_of_it_is_read_back(
    tmp_path: Path, medium: str
) -> None:
    board, data = PlayedUBoot(tmp_path), content(3 << 20)[: 3 << 20]
    parts = [
        part(tmp_path, "tiboot3.bin", b"1" * 700, PartPlace(offset=0)),
        part(tmp_path, "u-boot.img", b"3" * 5000, PartPlace(offset=0x100000)),
        part(tmp_path, "tail", b"t" * 512, PartPlace(offset=3 << 20)),
    ]
    chosen = writer(board, medium)
    plan = chosen.plan(with_parts(image(tmp_path, data), *parts), TARGET)
    chosen.write(plan, lambda _progress: None)
    verified = chosen.verify(plan)
    assert verified.bytes == len(data) - 2 * 512 - 10 * 512 + 700 + 5000 + 512
    assert bytes(board.disk[:700]) == b"1" * 700
    assert bytes(board.disk[1024:0x100000]) == data[1024:0x100000]
    board.disk[0x100000 + 10 * 512] ^= 1  # the first byte of the image behind a part
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)


def test_a_card_with_an_image_and_parts_inside_it_is_read_back_to_the_byte(tmp_path: Path) -> None:
    card, data = tmp_path / "card", content(6 << 20)[: 6 << 20]
    card.write_bytes(bytes(6 << 20))
    chosen = CardWriter("sd-mux", lambda: there(Disk(str(card), 6 << 20)))
    whole = with_parts(image(tmp_path, data), part(tmp_path, "u-boot.img", b"3" * 5000, PartPlace(offset=0x3FFF00)))
    plan = chosen.plan(whole, TARGET)
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == len(data)
    with card.open("r+b") as file:
        file.seek(0x3FFF00 + 5000)
        file.write(bytes([data[0x3FFF00 + 5000] ^ 1]))
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)


def damaged(folder: Path, how: str) -> Content:
    """An image of 3 MiB whose digest is right, and of which only its end is wrong."""
    data = content(3 << 20)[: 3 << 20]
    packed, more = folder / "sdk.wic.xz", dict[str, str]()
    packed.write_bytes(lzma.compress(data, preset=0)[: -2000 if how == "archive" else None])
    if how == "map":
        blocks, another = len(data) // 4096, hashlib.sha256(b"another build").hexdigest()
        first = hashlib.sha256(data[: 4096 * (blocks - 1)]).hexdigest()
        (folder / "sdk.bmap").write_text(
            f'<bmap version="2.0"><ImageSize>{len(data)}</ImageSize><BlockSize>4096</BlockSize><BlocksCount>{blocks}</BlocksCount>'
            f"<MappedBlocksCount>{blocks}</MappedBlocksCount><ChecksumType>sha256</ChecksumType><BlockMap>"
            f'<Range chksum="{first}">0-{blocks - 2}</Range><Range chksum="{another}">{blocks - 1}</Range></BlockMap></bmap>'
        )
        more = {"bmap": str(folder / "sdk.bmap")}
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    return Content(Image(source=str(packed), sha256=digest, size=len(data), **more))


@pytest.mark.parametrize("how", ["archive", "map"])
def test_a_damaged_archive_or_the_map_of_another_build_is_refused(tmp_path: Path, how: str) -> None:
    what, card, board = damaged(tmp_path, how), tmp_path / "card", PlayedUBoot(tmp_path)
    card.write_bytes(bytes(3 << 20))
    with pytest.raises(ImageDamagedError):
        CardWriter("sd-mux", lambda: there(Disk(str(card), 3 << 20))).plan(what, TARGET)
    assert card.read_bytes() == bytes(3 << 20)
    refused(board, writer(board), what, ImageDamagedError, "sdk.wic.xz")
    assert board.typed == [], "the board was left alone"


@pytest.mark.parametrize(
    ("medium", "listed"), [("sf", {"sf probe": SF}), ("mtd nor0", {"mtd list": MTD_LIST}), ("cfi 0x4000000", {})]
)
def test_a_flash_with_parts_inside_an_image_is_refused(tmp_path: Path, medium: str, listed: dict[str, str]) -> None:
    board = PlayedUBoot(tmp_path)
    board.lists = listed
    whole = image(tmp_path, content(1 << 20)[: 1 << 20])
    inner = part(tmp_path, "tiboot3.bin", b"1", PartPlace(offset=0x40000))
    refused(
        board,
        writer(board, medium),
        with_parts(whole, inner),
        ConfigurationError,
        "tiboot3.bin .* lies inside the image",
    )
    outer = part(tmp_path, "tiboot3.bin", b"1", PartPlace(offset=0x100000))
    assert writer(board, medium).plan(with_parts(whole, outer), TARGET)


def test_an_image_and_parts_inside_it_for_a_flash_are_wrong_in_the_file_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, inner = tmp_path / "all.img", tmp_path / "tiboot3.bin"
    whole.write_bytes(b"w" * 9000)
    inner.write_bytes(b"1")
    places = {"ospi": {"offset": 0}, "sd": {"offset": 512}, "emmc": {"mtd": "ospi.env"}}
    media = {}
    for medium, to in places.items():
        digest = hashlib.sha256(inner.read_bytes()).hexdigest()
        media[medium] = {
            "image": {"source": "all.img", "sha256": hashlib.sha256(whole.read_bytes()).hexdigest()},
            "parts": [{"name": "tiboot3.bin", "source": "tiboot3.bin", "sha256": digest, "to": to}],
        }
    document = {"boards": ["am62xx_sk"], "media": media, "identity": {"kernel": "x"}}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    assert main(["release", "check", str(tmp_path / "r.yaml")]) == 2
    said = capsys.readouterr().out
    assert said.count("lies inside the image") == 1
    assert not missing_facts(said, "media.ospi", "tiboot3.bin", "0x0", "inside the image")


@pytest.mark.parametrize(
    ("command", "answer", "error", "says"),
    [
        ("dhcp", ["BOOTP broadcast 1", "Retry time exceeded; starting again"], TftpTimeoutError, "board_address"),
        ("tftpboot", ["Loading: *T T T", "Retry count exceeded; starting again"], TftpTimeoutError, "probe"),
        ("crc32", ["crc32 for 0 ... 1 ==> 00000000"], MediaWriteFailedError, "another place or count"),
    ],
)
def test_a_board_that_nothing_reaches_is_refused(
    tmp_path: Path, command: str, answer: list[str], error: type[Exception], says: str
) -> None:
    board, ended = PlayedUBoot(tmp_path), list[str]()
    board.spoil = lambda typed, said: answer if typed.startswith(command) else said
    chosen = evolve(writer(board), end=lambda: ended.append("ended"))
    with pytest.raises(error, match=says):
        chosen.plan(image(tmp_path, content(4096)), TARGET)
    assert ended == ["ended"]
    assert not any("write" in typed for typed in board.typed)
    assert {path.name for path in tmp_path.iterdir()} == {"sdk.wic"}


def test_a_lab_host_that_lacks_what_sends_is_refused_and_what_it_began_ends(tmp_path: Path) -> None:
    @define
    class Lacking:
        rate: float = 1.0
        note: str = ""
        rested: bool = False

        def prepare(self, _prompt: CommandPrompt) -> None:
            raise ConfigurationError("UDP port 69: this user may not open a port below 1024")

        def load(self, _prompt: CommandPrompt, _address: int, _data: bytes, _name: str) -> None:
            pytest.fail("nothing can be loaded")

        def rest(self) -> None:
            self.rested = True

    board, loader = PlayedUBoot(tmp_path), Lacking()
    chosen = evolve(writer(board), loader=loader)
    refused(board, chosen, image(tmp_path, content(4096)), ConfigurationError, "UDP port 69")
    assert loader.rested


@pytest.mark.parametrize("medium", ["nvme 1", "virtio 1"])
@pytest.mark.parametrize("place", [PartPlace(offset=0), PartPlace(partition=2)])
def test_a_device_whose_blocks_are_not_of_512_bytes_is_refused(tmp_path: Path, medium: str, place: PartPlace) -> None:
    board = PlayedUBoot(tmp_path)
    board.lists[f"{medium.split(maxsplit=1)[0]} info"] = (
        "Device 0: Vendor: 0x1 Rev: 1 Prod: a\n            Type: Hard Disk\n            Capacity: 20.0 MB = 0.0 GB (40960 x 512)\n"
        "Device 1: Vendor: 0x1 Rev: 1 Prod: b\n            Type: Hard Disk\n            Capacity: 476940.0 MB = 465.7 GB (122096646 x 4096)"
    )
    board.lists[f"{medium.split(maxsplit=1)[0]} device 1"] = "... is now current device"
    boot = Content(None, [part(tmp_path, "u-boot.img", b"1" * 700, place)])
    refused(board, writer(board, medium), boot, ConfigurationError, "device 1: its blocks have 4096 bytes")
    assert not any(command.startswith("part ") for command in board.typed)


@pytest.mark.parametrize(("count", "fits"), [((7 << 20) + (100 << 10), True), ((7 << 20) + (103 << 10), False)])
def test_an_emmc_that_says_its_size_rounded_takes_what_fits_to_the_block(
    tmp_path: Path, count: int, fits: bool
) -> None:
    board = PlayedUBoot(tmp_path, size=(7 << 20) + (101 << 10))
    board.lists["mmc info"] = "Capacity: 7.1 MiB"  # 7.1 MiB are 102.4 KiB more than 7 MiB
    whole = image(tmp_path, content(count)[:count])
    if fits:
        assert writer(board, "mmc 0").plan(whole, TARGET).total_bytes == count
    else:
        refused(board, writer(board, "mmc 0"), whole, ImageTooLargeError, "exceeds max")


@pytest.mark.parametrize(("offset", "fits"), [(0x100000 - 4096, True), (0x100000 - 512, False), (0x100000, False)])
def test_parts_by_partition_and_by_offset_that_meet_are_refused(tmp_path: Path, offset: int, fits: bool) -> None:
    board = PlayedUBoot(tmp_path)  # whose partition 2 begins at 0x100000
    root = part(tmp_path, "rootfs", content(4096)[:4096], PartPlace(partition=2))
    both = Content(None, [part(tmp_path, "u-boot.img", b"u" * 4096, PartPlace(offset=offset)), root])
    if fits:
        assert writer(board).plan(both, TARGET).total_bytes == 8192
    else:
        refused(board, writer(board), both, ImageTooLargeError, "one would overwrite the other")


def test_a_boot_partition_is_as_large_as_it_is(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    boot = part(tmp_path, "u-boot.img", content(1 << 20)[: 1 << 20], PartPlace(offset=0x380000, hardware="boot0"))
    refused(board, writer(board, "mmc 0"), Content(None, [boot]), ImageTooLargeError, "exceeds max")


@pytest.mark.parametrize("hardware", ["user", "boot0"])
def test_an_offset_within_a_block_is_refused_in_every_area(tmp_path: Path, hardware: str) -> None:
    board = PlayedUBoot(tmp_path)
    odd = part(tmp_path, "tiboot3.bin", b"1", PartPlace(offset=100, hardware=hardware))
    refused(board, writer(board, "mmc 0"), Content(None, [odd]), ConfigurationError, "multiple of 0x200")


@pytest.mark.parametrize(
    ("medium", "place", "error", "says"),
    [
        ("sf", PartPlace(offset=0x3FFF00), ImageTooLargeError, "has room for 256"),
        ("cfi 0x4000000", PartPlace(offset=0x3C0000), ImageTooLargeError, "has room for 262144"),
        ("mtd nor0", PartPlace(offset=0x3C0000), ImageTooLargeError, "has room for 262144"),
        ("mtd nor0", PartPlace(mtd="ospi.tiboot3"), ImageTooLargeError, "MTD ospi.tiboot3 has 524288"),
        ("mtd nor0", PartPlace(mtd="ospi.tispl"), MediaMissingError, "MTD ospi.tispl: this U-Boot has no such"),
    ],
)
def test_what_does_not_fit_a_flash_is_refused(
    tmp_path: Path, medium: str, place: PartPlace, error: type[Exception], says: str
) -> None:
    board = PlayedUBoot(tmp_path)
    board.lists = {"sf probe": SF, "mtd list": MTD_LIST, "flinfo": FLINFO}
    large = part(tmp_path, "rootfs", content(600_000)[:600_000], place)
    refused(board, writer(board, medium), Content(None, [large]), error, says)


def test_an_erase_block_that_the_env_says_smaller_is_refused(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    board.lists = {"mtd list": MTD_LIST.replace("0x40000", "0x100000")}
    small = part(tmp_path, "rootfs", b"1", PartPlace(offset=0))
    refused(board, writer(board, "mtd nor0"), Content(None, [small]), ConfigurationError, "set erase_kib to 1024")


def test_a_block_map_that_begins_within_an_erase_block_is_refused(tmp_path: Path) -> None:
    board, block = PlayedUBoot(tmp_path), 4096
    board.lists = {"flinfo": FLINFO}
    data = bytes(block) + b"d" * block
    (tmp_path / "x.wic").write_bytes(data)
    (tmp_path / "x.bmap").write_text(
        f'<bmap version="2.0"><ImageSize>{len(data)}</ImageSize><BlockSize>{block}</BlockSize><BlocksCount>2</BlocksCount>'
        "<MappedBlocksCount>1</MappedBlocksCount><ChecksumType>sha256</ChecksumType><BlockMap>"
        f'<Range chksum="{hashlib.sha256(data[block:]).hexdigest()}">1</Range></BlockMap></bmap>'
    )
    mapped = Image(
        source=str(tmp_path / "x.wic"), sha256=hashlib.sha256(data).hexdigest(), bmap=str(tmp_path / "x.bmap")
    )
    refused(board, writer(board, "cfi 0x4000000"), Content(mapped), ConfigurationError, "leave the key bmap out")
    assert writer(board, "nvme 0").plan(Content(mapped), TARGET).total_bytes == block


def volume(folder: Path, count: int, name: str = "rootfs") -> Content:
    return Content(
        None, [part(folder, "root.ubifs", content(count)[:count], PartPlace(mtd="ospi.rootfs", volume=name))]
    )


def test_a_ubi_volume_is_written_and_read_back(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    board.lists = {"mtd list": MTD_LIST}
    chosen = writer(board, "mtd nor0")
    plan = chosen.plan(volume(tmp_path, 600_000), TARGET)
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == 600_000
    board.volumes["rootfs"][599_999] ^= 1
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)


def test_a_ubi_volume_that_does_not_fit_itself_or_the_boards_memory_is_refused(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    board.lists = {"mtd list": MTD_LIST}
    refused(board, writer(board, "mtd nor0"), volume(tmp_path, 2 << 20), ImageTooLargeError, "it has room for")
    board.volumes["rootfs"] = bytearray(64 << 20)
    refused(
        board,
        writer(board, "mtd nor0"),
        volume(tmp_path, 48 << 20),
        ConfigurationError,
        "reads a volume only from its start",
    )
    refused(board, writer(board, "mtd nor0"), volume(tmp_path, 1, "home"), MediaMissingError, "home")


def test_a_read_of_a_volume_may_take_as_long_as_all_that_it_reads() -> None:
    (command,) = UbiVolume("ospi.rootfs", "rootfs", 64 << 20).read(0x80000000, 48 << 20, 16 << 20)
    assert command.limit_s == limit_s(64 << 20)
