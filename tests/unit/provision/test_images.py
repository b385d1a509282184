"""A release's files come as checked, unpacked streams, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import http.server
import lzma
import os
import random
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from attrs import evolve

from lab.errors import ConfigurationError
from lab.provision import bmap, image
from lab.provision.errors import ImageDamagedError, ImageUnreachableError
from lab.provision.image import Hosts, fetch
from lab.provision.release import File, Image

CONTENT = bytes(range(256)) * 5000 + b"\0" * 3_000_000 + b"end"
PACKED = {
    "": CONTENT,
    ".xz": lzma.compress(CONTENT[:900_000]) + lzma.compress(CONTENT[900_000:]),
    ".gz": gzip.compress(CONTENT),
    ".zst": zstandard.compress(CONTENT[:900_000]) + zstandard.compress(CONTENT[900_000:]),
}


def file_of(path: Path, data: bytes) -> File:
    path.write_bytes(data)
    return File(source=str(path), sha256=hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("ending", PACKED)
def test_a_file_is_unpacked_on_the_way_in_bounded_chunks(tmp_path: Path, ending: str) -> None:
    file = file_of(tmp_path / f"image{ending}", PACKED[ending])
    chunks = list(image.open_image(file))
    assert b"".join(chunks) == CONTENT
    assert max(map(len, chunks)) <= image.CHUNK_BYTES
    assert image.unpacked_bytes(file) == len(CONTENT)


@pytest.mark.parametrize("ending", [".xz", ".gz", ".zst"])
@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_a_file_that_the_build_cut_off_is_an_error_and_not_a_short_image(
    tmp_path: Path, ending: str, kept: float
) -> None:
    data = PACKED[ending]
    file = file_of(tmp_path / f"image{ending}", data[: int(len(data) * kept)])
    with pytest.raises(ImageDamagedError, match="cannot be unpacked"):
        list(image.open_image(file))


def greedy_xz(data: bytes) -> bytes:
    """A file of xz whose block header asks for a dictionary of 4 GiB (https://tukaani.org/xz/xz-file-format.txt, 3.1 and 5.3.1)."""
    packed = bytearray(lzma.compress(data, preset=0))
    header = packed[12 : 12 + (packed[12] + 1) * 4]
    assert header[1:4] == bytes([0, 0x21, 1]), "one filter, LZMA2"
    header[4] = 40
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    packed[12 : 12 + len(header)] = header
    return bytes(packed)


def test_a_file_that_takes_all_memory_to_unpack_is_refused(tmp_path: Path) -> None:
    for ending, data in ((".xz", greedy_xz(CONTENT)), (".zst", greedy_zst())):
        file = file_of(tmp_path / f"image{ending}", data)
        with pytest.raises(ImageDamagedError, match=r"more memory"):
            list(image.open_image(file))


def greedy_zst() -> bytes:
    """A file of zst with a window of 128 MiB."""
    settings = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return packer.compress(CONTENT) + packer.flush()


def test_padding_between_and_behind_the_streams_of_xz_is_no_content(tmp_path: Path) -> None:
    packed = lzma.compress(b"one") + b"\0" * 2_000_000 + lzma.compress(b"two") + b"\0" * 4
    assert b"".join(image.open_image(file_of(tmp_path / "image.xz", packed))) == b"onetwo"
    with pytest.raises(ImageDamagedError, match="cannot be unpacked"):
        list(image.open_image(file_of(tmp_path / "image.xz", packed + b"rest")))


@pytest.mark.parametrize("ending", [".xz", ".gz", ".zst"])
def test_a_file_that_unpacks_to_more_than_any_medium_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(image, "MOST_BYTES", len(CONTENT) - 1)
    file = file_of(tmp_path / f"image{ending}", PACKED[ending])
    for read in (image.inspect, lambda file: list(image.open_image(file))):
        with pytest.raises(ImageDamagedError, match="give its `size`"):
            read(file)
    assert image.inspect(evolve(file, size=len(CONTENT))).bytes == len(CONTENT)


def test_a_file_that_unpacks_for_hours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "MOST_UNPACKING_S", -1.0)
    with pytest.raises(ImageDamagedError, match=r"unpacking"):
        image.inspect(file_of(tmp_path / "image.xz", PACKED[".xz"]))


def test_a_file_is_unpacked_once_in_a_process_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, real = list[str](), image.open_image

    def counted(file: File, hosts: Hosts | None = None) -> Iterator[bytes]:
        opened.append(file.sha256)
        return real(file, hosts)

    monkeypatch.setattr(image, "open_image", counted)
    first = file_of(tmp_path / "image.xz", lzma.compress(b"first"))
    assert [image.inspect(first).bytes, image.unpacked_bytes(first)] == [5, 5]
    second = file_of(tmp_path / "image.xz", lzma.compress(b"the second"))
    assert image.inspect(second).bytes == 10
    assert opened == [first.sha256, second.sha256]
    with pytest.raises(ImageDamagedError, match="its SHA-256 is"):
        image.inspect(first)


def test_a_file_for_the_boards_memory_has_a_limit(tmp_path: Path) -> None:
    file = file_of(tmp_path / "Image.gz", gzip.compress(CONTENT))
    assert image.read_whole(file, len(CONTENT)) == CONTENT
    assert image.read_whole(file, len(CONTENT), unpack=False) == (tmp_path / "Image.gz").read_bytes()
    for unpack, most in ((True, len(CONTENT) - 1), (False, 100)):
        with pytest.raises(ImageDamagedError, match=r"too many.*memory"):
            image.read_whole(file, most, unpack=unpack)


def test_a_file_that_was_changed_gives_no_byte(tmp_path: Path) -> None:
    file = file_of(tmp_path / "image", CONTENT)
    (tmp_path / "image").write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(ImageDamagedError, match="its SHA-256 is"):
        next(image.open_image(file))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"image: .*No such file"):
        next(image.open_image(File(source=str(tmp_path / "image"), sha256="0" * 64)))


BLOCK = 4096
BLOCKS = [b"a" * BLOCK, b"\0" * BLOCK, b"b" * BLOCK, b"c" * BLOCK, b"\0" * BLOCK, b"d" * 100]


def a_map(
    ranges: list[tuple[int, int]], size: int, own: str = "", *, blocks: int = 0, mapped: int | None = None
) -> bytes:
    """A block map whose counts are those of its ranges, unless others are given."""
    whole = b"".join(BLOCKS)
    mapped = sum(last - first + 1 for first, last in ranges) if mapped is None else mapped
    lines = "".join(
        f'<Range chksum="{hashlib.sha256(whole[a * BLOCK : (b + 1) * BLOCK]).hexdigest()}"> {a}{f"-{b}" if a != b else ""} </Range>'
        for a, b in ranges
    )
    text = (
        f'<?xml version="1.0" ?><bmap version="2.0"><ImageSize> {size} </ImageSize><BlockSize> {BLOCK} </BlockSize>'
        f"<BlocksCount> {blocks or -(-size // BLOCK)} </BlocksCount><MappedBlocksCount> {mapped} </MappedBlocksCount>"
        f"<ChecksumType> sha256 </ChecksumType><BmapFileChecksum> {'0' * 64} </BmapFileChecksum>"
        f"<BlockMap>{lines}</BlockMap></bmap>"
    )
    digest = own or hashlib.sha256(text.encode()).hexdigest()
    return text.replace("0" * 64, digest, 1).encode()


def mapped(folder: Path, data: bytes) -> Image:
    whole = b"".join(BLOCKS)
    plain = file_of(folder / "all.wic", whole)
    (folder / "all.wic.bmap").write_bytes(data)
    return Image(source=plain.source, sha256=plain.sha256, bmap=str(folder / "all.wic.bmap"))


SIZE = sum(map(len, BLOCKS))


def test_only_the_blocks_of_the_map_are_given_each_at_its_offset(tmp_path: Path) -> None:
    found = mapped(tmp_path, a_map([(0, 0), (2, 3), (5, 5)], SIZE))
    target = bytearray(SIZE)
    count = 0
    for offset, data in image.open_ranges(found):
        target[offset : offset + len(data)] = data
        count += len(data)
    assert bytes(target) == b"".join(BLOCKS)
    parsed = image.block_map(found)
    assert parsed is not None
    assert count == parsed.mapped_bytes == 3 * BLOCK + 100
    assert image.unpacked_bytes(found) == SIZE


def test_ranges_hold_however_the_image_is_cut_into_chunks() -> None:
    parsed = bmap.parse(a_map([(0, 0), (2, 3), (5, 5)], SIZE), "map")
    whole = b"".join(BLOCKS)
    for size in (1000, BLOCK, 3 * BLOCK, 10 * BLOCK):
        chunks = [whole[at : at + size] for at in range(0, SIZE, size)]
        given = b"".join(data for _, data in bmap.ranges(chunks, parsed, "image"))
        assert given == BLOCKS[0] + BLOCKS[2] + BLOCKS[3] + BLOCKS[5]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (a_map([(0, 0)], SIZE + 1), "its block map is of an image of"),
        (a_map([(0, 9)], SIZE), "beyond the image"),
        (a_map([(2, 3), (0, 0)], SIZE), "out of order"),
        (a_map([(0, 0)], SIZE, own="1" * 64), "was changed after it was made"),
        (b"<bmap version='9.9'/>", "version '9.9'"),
        (b"not xml", "no block map"),
        (b"<!DOCTYPE a><bmap/>", "DOCTYPE"),
        (
            '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a [<!ENTITY b "c">]><bmap/>'.encode("utf-16"),
            "no block map",
        ),
        (
            b'<?xml version="1.0" encoding="cp037"?>' + '<!DOCTYPE a [<!ENTITY b "c">]><bmap/>'.encode("cp037"),
            "no block map",
        ),
    ],
)
def test_a_map_of_another_image_or_none_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(ImageDamagedError, match=says):
        list(image.open_ranges(mapped(tmp_path, data)))


@pytest.mark.parametrize("seed", range(20))
def test_a_map_that_has_other_blocks_than_it_counts_is_refused_as_bmaptool_does(tmp_path: Path, seed: int) -> None:
    """Whole ranges are lost, or blocks of one; the map's own digest is right."""
    dice = random.Random(seed)
    ranges = dice.choice([[(0, 0), (2, 3), (5, 5)], [(1, 4)], [(0, 5)], [(2, 2), (4, 5)]])
    blocks = sum(last - first + 1 for first, last in ranges)
    assert bmap.parse(a_map(ranges, SIZE), "map").mapped_blocks == blocks
    mapped_count = dice.choice([count for count in range(len(BLOCKS) + 2) if count != blocks])
    wrong = a_map(ranges, SIZE, mapped=mapped_count)
    with pytest.raises(ImageDamagedError, match=f"MappedBlocksCount says {mapped_count}, and the map has {blocks}"):
        list(image.open_ranges(mapped(tmp_path, wrong)))
    block_count = dice.choice([1, 2, 5, 7, 4096])
    with pytest.raises(ImageDamagedError, match=f"BlocksCount says {block_count}, and the map has 6"):
        bmap.parse(a_map(ranges, SIZE, blocks=block_count), "map")


def test_a_map_without_its_counts_is_none() -> None:
    whole = a_map([(0, 0)], SIZE)
    with pytest.raises(ImageDamagedError, match="no block map"):
        bmap.parse(whole.replace(b"MappedBlocksCount", b"Mapped"), "map")


def test_a_range_that_is_not_the_images_is_an_error(tmp_path: Path) -> None:
    good = bmap.parse(a_map([(0, 0), (2, 2)], SIZE), "map")
    other = b"".join(BLOCKS).replace(b"b", b"x")
    with pytest.raises(ImageDamagedError, match="blocks 2 to 2"):
        list(bmap.ranges([other], good, "image"))


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with CONTENT, or with a redirect to where the path says."""

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
        elif self.path.startswith("/endless"):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the other side has seen enough
                while True:
                    self.wfile.write(b"x")
        elif self.path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000])
        else:
            self.send_response(200 if self.path == "/image" else 404)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # who has seen enough hangs up
                self.wfile.write(CONTENT)

    def log_message(self, *_args: object) -> None:
        """Nothing."""


@pytest.fixture
def served() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def remote(url: str, content: bytes = CONTENT) -> File:
    return File(source=url, sha256=hashlib.sha256(content).hexdigest())


def test_a_url_is_fetched_once_and_kept_by_its_digest(tmp_path: Path, served: str) -> None:
    hosts = Hosts(frozenset({served}), tmp_path / "cache")
    file = remote(f"http://{served}/to/http://{served}/image")
    assert b"".join(image.open_image(file, hosts)) == CONTENT
    assert [path.name for path in hosts.cache.iterdir()] == [file.sha256]
    gone = remote("http://127.0.0.1:1/image")
    assert b"".join(image.open_image(gone, Hosts(frozenset({"127.0.0.1:1"}), hosts.cache))) == CONTENT


@pytest.mark.parametrize(
    "url",
    [
        "http://elsewhere.lan/image",
        "http://{served}/to/http://elsewhere.lan/image",
        "http://{served}/to/ftp://{served}/a",
    ],
)
def test_a_host_that_nobody_allowed_is_not_asked_not_even_after_a_redirect(
    tmp_path: Path, served: str, url: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"not one that releases"):
        fetch(remote(url.format(served=served)), Hosts(frozenset({served}), tmp_path))


@pytest.mark.parametrize("path", ["missing", "short"])
def test_no_password_is_told_when_a_file_cannot_be_fetched(tmp_path: Path, served: str, path: str) -> None:
    with pytest.raises(ImageUnreachableError) as caught:
        next(image.open_image(remote(f"http://me:hush@{served}/{path}"), Hosts(frozenset({served}), tmp_path)))
    assert "hush" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "value", "error", "says"),
    [
        ("MOST_FETCHED_BYTES", 5000, ImageDamagedError, "more than 5000 bytes"),
        ("MOST_S", 0.0, ImageUnreachableError, "not fetched within 0 hours"),
        ("FREE_BYTES", 1 << 62, ConfigurationError, "make room"),
    ],
)
def test_a_download_that_never_ends_is_ended_and_not_kept(
    tmp_path: Path,
    served: str,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: float,
    error: type[Exception],
    says: str,
) -> None:
    monkeypatch.setattr(image, limit, value)
    with pytest.raises(error, match=says):
        fetch(remote(f"http://{served}/endless"), Hosts(frozenset({served}), tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "most"), [("image", 5000), ("image.xz", 5000 + 5000 // 64 + 65536)])
def test_a_download_is_bounded_by_the_size_of_the_file(tmp_path: Path, served: str, name: str, most: int) -> None:
    file = evolve(remote(f"http://{served}/endless/{name}"), size=5000)
    with pytest.raises(ImageDamagedError, match=f"more than {most} bytes"):
        fetch(file, Hosts(frozenset({served}), tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_trickles_is_ended(tmp_path: Path, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "LEAST_BYTES", 1 << 40)
    monkeypatch.setattr(image, "LEAST_S", 0.0)
    with pytest.raises(ImageUnreachableError, match=r"gave \d+ bytes in 0 s"):
        fetch(remote(f"http://{served}/endless"), Hosts(frozenset({served}), tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_part_of_a_killed_download_goes_with_the_next_one(tmp_path: Path, served: str) -> None:
    left, running = tmp_path / ".part-left", tmp_path / ".part-running"
    for path in (left, running):
        path.write_bytes(b"half")
        os.utime(path, (1, 1))
    with running.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = remote(f"http://{served}/image")
        fetch(file, Hosts(frozenset({served}), tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {running.name, file.sha256}


def test_a_file_that_was_replaced_there_is_not_kept(tmp_path: Path, served: str) -> None:
    hosts = Hosts(frozenset({served}), tmp_path)
    with pytest.raises(ImageDamagedError, match="was replaced"):
        next(image.open_image(remote(f"http://{served}/image", b"another"), hosts))
    assert list(tmp_path.iterdir()) == []
