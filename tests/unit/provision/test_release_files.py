"""Release files are read whole or refused with one error that says where and what to do."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from lab.cli import main
from lab.errors import BoardlabError, ConfigurationError
from lab.provision import image
from lab.provision.checks import problems
from lab.provision.image import Hosts, open_image, unpacked_bytes
from lab.provision.provisioning import content_digest
from lab.provision.release import Content, Expected, Image, Part, PartPlace, Release
from lab.provision.releasefile import load
from lab.provision.writer import order, rooms
from lab.provision.writers import planning

DIGEST = "ab" * 32
GOOD = f"""\
boards: [some_board]
security: hs-fs
media:
  sd:
    image: {{source: images/all.wic.xz, sha256: {DIGEST}, bmap: images/all.wic.bmap}}
  emmc:
    extcsd: {{partconf: [1, 1, 1], bootbus: [2, 0, 0]}}
    parts:
      - {{name: tiboot3.bin, source: tiboot3.bin, sha256: {DIGEST}, to: {{hardware: boot0, offset: 0}}}}
      - {{name: rootfs.ext4, source: "https://user:secret@builds.lan/rootfs.ext4", sha256: {DIGEST}, to: {{partition: 2}}}}
      - {{name: tispl.bin, source: tispl.bin, sha256: {DIGEST}, to: {{hardware: boot0, offset: 0x80000}}}}
      - {{name: u-boot.img, source: u-boot.img, sha256: {DIGEST}, to: {{hardware: boot0, offset: 0x280000}}}}
identity:
  kernel: Linux version 6\\.12
"""


def written(folder: Path, text: str, name: str = "11.01-some.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_release_is_called_like_its_file_and_its_paths_start_there(tmp_path: Path) -> None:
    found = load(written(tmp_path, GOOD))
    assert found.name == "11.01-some"
    image = found.media["sd"].image
    assert image is not None
    assert image.source == str(tmp_path / "images/all.wic.xz")
    assert image.bmap == str(tmp_path / "images/all.wic.bmap")
    assert [file.filename for file in found.media["emmc"].files] == [
        "tiboot3.bin",
        "rootfs.ext4",
        "tispl.bin",
        "u-boot.img",
    ]


def test_a_part_that_stays_packed_is_written_as_it_lies_there(tmp_path: Path) -> None:
    packed = gzip.compress(b"kernel" * 999)
    (tmp_path / "Image.gz").write_bytes(packed)
    entry = (
        f"{{name: Image.gz, source: Image.gz, sha256: {hashlib.sha256(packed).hexdigest()}, to: {{offset: 0x800000}}"
    )
    text = f"boards: [some_board]\nmedia:\n  ospi: {{parts: [{entry}MORE}}]}}\nidentity: {{kernel: x}}\n"
    whole = load(written(tmp_path, text.replace("MORE", ""))).media["ospi"]
    (stays,) = load(written(tmp_path, text.replace("MORE", ", packed: true"))).media["ospi"].parts
    assert b"".join(open_image(whole.parts[0])) == b"kernel" * 999
    assert b"".join(open_image(stays)) == packed
    assert unpacked_bytes(stays) == len(packed)
    same = load(written(tmp_path, text.replace("MORE", ", packed: false"))).media["ospi"]
    assert content_digest(same) == content_digest(whole) != content_digest(evolve(whole, parts=[stays]))
    with pytest.raises(ConfigurationError, match=r"packed: .*true or false"):
        load(written(tmp_path, text.replace("MORE", ", packed: 'no'")))


def test_the_digest_of_a_content_without_packed_parts_is_that_of_older_records(tmp_path: Path) -> None:
    found = content_digest(load(written(tmp_path, GOOD)).media["emmc"])
    assert found == "747397a1faa853548ac4f4c6d1e6708522f549ee866b3648e9e356bc9c8e10fd"


def test_a_password_in_a_source_is_not_in_what_is_shown(tmp_path: Path) -> None:
    found = load(written(tmp_path, GOOD))
    assert "secret" not in repr(found)
    assert found.media["emmc"].parts[1].label == "https://user:***@builds.lan/rootfs.ext4"


def test_what_the_board_starts_from_is_written_last_and_its_first_stage_at_the_end(tmp_path: Path) -> None:
    parts = load(written(tmp_path, GOOD)).media["emmc"].parts
    assert [part.name for part in order(parts)] == ["rootfs.ext4", "u-boot.img", "tispl.bin", "tiboot3.bin"]


def test_a_part_may_reach_as_far_as_the_next_of_its_hardware_partition(tmp_path: Path) -> None:
    found = rooms(load(written(tmp_path, GOOD)).media["emmc"])
    assert found == {"tiboot3.bin": 0x80000, "tispl.bin": 0x200000, "u-boot.img": None, "rootfs.ext4": None}


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("security: hs-fs", "security: hs", 2, "security"),
        ("boards: [some_board]", "boards: []", 1, "boards: expected at least one"),
        ("boards: [some_board]", "board: [some_board]", 1, "board: extra fields found"),
        ("security: hs-fs", "security: hs-fs\nsecurity: gp", 3, "stands here twice"),
        ("boards: [some_board]", "", 2, "the key boards is missing"),
        ("bmap: images/all", "bmpa: images/all", 5, "bmpa"),
        (f"all.wic.xz, sha256: {DIGEST}", "all.wic.xz, sha256: 12", 5, "sha256"),
        (f"all.wic.xz, sha256: {DIGEST}", "all.wic.xz, sha256: '12'", 5, "64 small hexadecimal"),
        ("{partition: 2}", "{partition: 2, offset: 7}", 10, "one of partition, offset and mtd"),
        ("{partition: 2}", "{hardware: boot1, partition: 2}", 10, "hardware goes with offset"),
        ("{partition: 2}", "{mtd: 'a; reboot'}", 10, "letters, digits"),
        ("0x80000}", "0}", 6, "same place"),
        ("name: tispl.bin", "name: tiboot3.bin", 6, "two parts are called"),
        ("[1, 1, 1]", "[1, 1]", 7, "three numbers"),
        ("kernel: Linux version 6\\.12", "kernel: '('", 14, "not a regular expression"),
        ("kernel: Linux version 6\\.12", "kernel: ''", 13, "one of uboot, kernel"),
        ("kernel: Linux version 6\\.12", "build_id: 11.01", 14, "in quotes"),
        ("boards: [some_board]", "boards: [some_board]\nname: 11.02", 2, "in quotes"),
        ("boards: [some_board]", "boards: [some_board]\nname: '11.02'", 2, "is not the file's"),
    ],
)
def test_a_wrong_one_is_one_error_with_line_and_mend(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ConfigurationError, match=re.escape(says)) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)
    assert "docs/releases.md" in str(caught.value) or "delete " in str(caught.value)


def test_a_list_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected keys and values"):
        load(written(tmp_path, "- a\n"))


def test_a_place_is_shown_as_a_person_reads_it() -> None:
    places = [
        PartPlace(hardware="boot0", offset=0x80000),
        PartPlace(mtd="ospi.env", volume="a"),
        PartPlace(partition=1),
    ]
    assert [place.label for place in places] == [
        "boot0 at 0x80000",
        "MTD ospi.env, volume a",
        "partition 1",
    ]
    assert Part(name="x", source="x", sha256=DIGEST, to=places[0]).is_boot


def test_the_example_has_the_form_of_a_release_and_no_file_is_made_up() -> None:
    folder = Path(__file__).resolve().parents[3] / "releases"
    found = [load(path) for path in folder.glob("*.yaml")]
    assert [release.name for release in found] == ["11.01-am62x"]
    for release in found:
        assert list(problems(release, Hosts(frozenset(), folder), files=False)) == []
        assert {file.sha256 for file in release.files} == {"0" * 64}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("boards: [some_board]", "boards: some_board", ":1: boards: expected a list, e.g. [some_board]"),
        ("boards: [some_board]", "boards:", ":1: boards: expected a list, got nothing"),
        ("boards: [some_board]", "boards: [some_board]\n1: x", ":2: 1: this key is no text to YAML"),
        ("boards: [some_board]", "boards: [some_board]\nyes: x", ":2: yes: this key is no text to YAML"),
        ("identity:\n  kernel: Linux version 6\\.12\n", "identity: [x]\n", "identity: expected keys and values"),
        ("offset: 0x80000", "offset: 0x1000000000000", "to.offset: 'offset' must be in range"),
        ("{partition: 2}", "{mtd: tispl; reset}", "letters, digits"),
        ("{partition: 2}", "{mtd: ospi.ü}", "letters, digits"),
        ("source: tispl.bin", "source: ftp://joe:hunter2@builds.lan/a", "'ftp' is fetched by nothing"),
        ("source: tispl.bin", "source: HTTPS://joe:hunter2@builds.lan/a", "'HTTPS' is fetched by nothing"),
        ("source: tispl.bin", "source: ['https://joe:hunter2@builds.lan/a']", "expected text"),
        ("bmap: images/all.wic.bmap", "bmap: 'https://joe:hunter2@builds.lan/a'", "bmap_sha256 is missing"),
        ("bmap: images/all.wic.bmap", "bmap: 'ftp://joe:hunter2@builds.lan/a'", "'ftp' is fetched by nothing"),
    ],
)
def test_a_wrong_shape_or_source_is_one_error_without_a_password(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in GOOD
    with pytest.raises(ConfigurationError, match=re.escape(says)) as caught:
        load(written(tmp_path, GOOD.replace(old, new, 1)))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["uboot", "kernel", "build_id", "buildinfo"])
@pytest.mark.parametrize(
    "pattern",
    [
        ".*",
        ".",
        ".+",
        "^",
        "$",
        "^$",
        r"\b|",
        r"(6\.12)?",
        "[^x]*",
        "(?s:.)",
        "[0-9]",
        r"\d+\.\d+",
        r"\w",
        r"^\d+$",
        r"\s*",
    ],
)
def test_an_identity_that_any_software_has_is_refused(tmp_path: Path, key: str, pattern: str) -> None:
    path = written(tmp_path, GOOD.replace("kernel: Linux version 6\\.12", f"{key}: '{pattern}'"))
    with pytest.raises(ConfigurationError, match=r"any software") as caught:
        load(path)
    assert f": identity.{key}: {pattern!r} is found in any text" in str(caught.value)


@pytest.mark.parametrize("key", ["uboot", "kernel", "build_id", "buildinfo"])
def test_the_check_of_a_form_refuses_an_identity_that_any_software_has(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, GOOD.replace("kernel: Linux version 6\\.12", f"{key}: '.*'"))
    assert main(["release", "check", "--form", str(path)]) == 2
    load(written(tmp_path, GOOD.replace("kernel: Linux version 6\\.12", f"{key}: '^11\\.01|6\\.12'")))


def test_a_packed_file_is_read_to_one_byte_beyond_its_size_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bomb(*_given: object) -> Iterator[bytes]:
        yield b"\0" * 100
        yield b"\0"
        raise AssertionError("it was read on")

    packed = gzip.compress(b"\0" * 100_000)
    (tmp_path / "a.wic.gz").write_bytes(packed)
    bombed = Image(source=str(tmp_path / "a.wic.gz"), sha256=hashlib.sha256(packed).hexdigest(), size=100)
    monkeypatch.setattr(image, "_unpack", bomb)
    with pytest.raises(ConfigurationError, match=r"100 bytes.*says 100"):
        image.inspect(bombed)


def test_a_partition_is_written_whole_or_has_volumes(tmp_path: Path) -> None:
    volumes = GOOD.replace("{partition: 2}", "{mtd: rootfs, volume: a}").replace(
        "{hardware: boot0, offset: 0x80000}", "{mtd: rootfs, volume: b}"
    )
    load(written(tmp_path, volumes))
    with pytest.raises(ConfigurationError, match=r"MTD rootfs .*one part"):
        load(written(tmp_path, volumes.replace("rootfs, volume: a", "rootfs")))


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("a.wic", 50, "it has 100 bytes unpacked, the release file says 50"),
        ("a.wic", 200, "it has 100 bytes unpacked, the release file says 200"),
        ("empty.wic", None, "nothing in it is to be written"),
        (".", None, "expected a file"),
        ("pipe", None, "expected a file"),
        ("/proc/self/mem", None, "cannot be read to its end: Input/output error"),
    ],
)
def test_a_file_that_cannot_be_what_the_release_says_is_refused_before_the_board_is_touched(
    tmp_path: Path, name: str, size: int | None, says: str
) -> None:
    (tmp_path / "a.wic").write_bytes(b"x" * 100)
    (tmp_path / "empty.wic").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    data = {"a.wic": b"x" * 100}.get(name, b"")
    image = Image(source=str(tmp_path / name), sha256=hashlib.sha256(data).hexdigest(), size=size)
    release = Release("r", ["am62xx_sk"], {"sd": Content(image)}, Expected(kernel="x"))
    (problem,) = problems(release, Hosts.of_user())
    assert says in problem
    with pytest.raises(BoardlabError, match=re.escape(says)):
        planning.steps(Content(image))


@pytest.mark.parametrize(("size", "found"), [(50, "more than 50"), (200, "100")])
def test_a_packed_file_of_another_size_never_runs_over_what_lies_behind(tmp_path: Path, size: int, found: str) -> None:
    path = tmp_path / "a.wic.gz"
    path.write_bytes(gzip.compress(b"x" * 100))
    image = Image(source=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest(), size=size)
    came = bytearray()

    def take() -> None:
        for chunk in open_image(image):
            came.extend(chunk)

    with pytest.raises(ConfigurationError, match=f"it has {found} bytes unpacked"):
        take()
    assert len(came) <= size
