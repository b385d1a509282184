"""A folder of build outputs becomes a release file, and a wrong release file is told what is wrong with it."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.facts import missing_facts

from lab import boards
from lab.boards import Medium
from lab.cli import main
from lab.errors import ConfigurationError
from lab.provision import drafts
from lab.provision.history import NewProvision, ProvisionBook
from lab.provision.releasefile import load
from lab.results import open_store

BOARD = "am62xx_sk"
UBOOT = b"\0\1U-Boot 2025.01-ti-gdeadbeef (Nov 20 2026 - 10:00:00 +0000)\0"
LINUX = b"\0Linux version 6.12.34-ti-00895-g9167 (oe@host) (gcc) #1 SMP\n\0Linux version %s\0"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """As Yocto's deploy/images/MACHINE is laid out: dated files, and links to them."""
    folder = tmp_path / "deploy"
    folder.mkdir()
    dated = folder / "tisdk-default-image-am62xx-evm.rootfs-20261120.wic.xz"
    dated.write_bytes(lzma.compress(b"w" * 5000))
    (folder / "tisdk-default-image-am62xx-evm.rootfs.wic.xz").symlink_to(dated.name)
    for state in ("gp", "hs-fs", "hs"):
        (folder / f"tiboot3-am62x-{state}-evm.bin").write_bytes(state.encode())
    (folder / "tiboot3.bin").symlink_to("tiboot3-am62x-hs-fs-evm.bin")
    (folder / "tispl.bin").write_bytes(b"tispl")
    (folder / "tispl.bin_unsigned").write_bytes(b"tispl unsigned")
    (folder / "u-boot.img").write_bytes(b"x" * (drafts._BLOCK - 20) + UBOOT)
    (folder / "Image").write_bytes(LINUX)
    return folder


def drafted(deploy: Path, *words: str, name: str = "night") -> tuple[int, Path]:
    releases = deploy.parent / "releases"
    code = main(["release", "make", str(deploy), "--board", BOARD, "--name", name, "--output", str(releases), *words])
    return code, releases / f"{name}.yaml"


def test_a_folder_of_yocto_becomes_a_release_file_that_is_good(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, path = drafted(deploy, "--security", "hs-fs")
    assert code == 0
    found = load(path)
    assert (found.name, found.boards, found.security) == ("night", [BOARD], "hs-fs")
    assert set(found.media) == {"sd", "emmc", "ospi"}
    emmc = {part.name: (part.filename, part.to.label) for part in found.media["emmc"].parts}
    assert emmc == {
        "tiboot3.bin": ("tiboot3-am62x-hs-fs-evm.bin", "boot0 at 0x0"),
        "tispl.bin": ("tispl.bin", "boot0 at 0x80000"),
        "u-boot.img": ("u-boot.img", "boot0 at 0x280000"),
    }
    assert (found.media["emmc"].extcsd.partconf, found.media["emmc"].extcsd.bootbus) == ([1, 1, 1], [2, 0, 0])
    assert found.identity.kernel == r"Linux version 6\.12\.34-ti-00895-g9167 "
    assert found.identity.uboot.startswith(r"U-Boot 2025\.01-ti-gdeadbeef \(Nov 20 2026")
    assert [stage.name for stage in found.recovery.uart] == ["tiboot3.bin", "tispl.bin", "u-boot.img"]
    assert "comes up over UART only" in capsys.readouterr().out
    assert main(["release", "check", str(path)]) == 0
    other = deploy.parent / "env.yaml"
    other.write_text("targets: {main: {drivers: [{BoardStrategy: {board_type: am62axx_sk, board: b}}]}}\n")
    capsys.readouterr()
    assert main(["release", "check", str(path), "--env", str(other)]) == 2
    assert "am62axx_sk" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("security", "first", "second"),
    [("gp", b"gp", b"tispl unsigned"), ("hs-se", b"hs", b"tispl"), ("hs-fs", b"hs-fs", b"tispl")],
)
def test_each_state_of_the_devices_has_its_own_first_stage(
    deploy: Path, security: str, first: bytes, second: bytes
) -> None:
    parts = load(drafted(deploy, "--security", security)[1]).media["ospi"].parts
    assert [Path(part.source).read_bytes() for part in parts[:2]] == [first, second]


def test_firmware_of_a_board_that_has_it_and_a_recovery_set_are_taken(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (deploy / "sysfw.itb").write_bytes(b"of SR2.0")
    (deploy / "sysfw-am65x-gp-evm.itb").write_bytes(b"of SR1.0")
    (deploy / "recovery").mkdir()
    for name in ("tiboot3.bin", "tispl.bin", "u-boot.img", "sysfw.itb"):
        (deploy / "recovery" / name).write_bytes(b"dfu")
    found = load(drafted(deploy, "--security", "gp")[1])
    (firmware,) = [part for part in found.media["emmc"].parts if part.name == "sysfw.itb"]
    assert (firmware.to.offset, firmware.filename) == (0x6C0000, "sysfw.itb")
    assert found.media["emmc"].extcsd.bootbus == [1, 0, 0]
    assert len(found.recovery.usb) == 4
    assert found.recovery.uart == []  # its ROM listens at another UART than the console
    said = capsys.readouterr().out
    assert "snagrecover --list-socs" in said


@pytest.mark.parametrize(
    ("security", "names", "link", "chosen"),
    [
        ("gp", ("am65x-gp", "am65x_sr2-gp", "am65x_sr2-hs"), "am65x_sr2-gp", "am65x_sr2-gp"),
        ("hs-se", ("am65x-gp", "am65x_sr2-gp", "am65x_sr2-hs"), "am65x_sr2-gp", "am65x_sr2-hs"),
        ("gp", ("am65x-gp", "am65x_sr2-gp"), "", ""),
        ("gp", ("am65x-gp",), "", "am65x-gp"),
    ],
)
def test_of_several_firmware_files_that_of_the_plain_name_is_taken_or_none(
    deploy: Path, capsys: pytest.CaptureFixture[str], security: str, names: tuple[str, ...], link: str, chosen: str
) -> None:
    for name in names:
        (deploy / f"sysfw-{name}-evm.itb").write_bytes(name.encode())
    if link:
        (deploy / "sysfw.itb").symlink_to(f"sysfw-{link}-evm.itb")
    code, path = drafted(deploy, "--security", security)
    if not chosen:
        assert code == 2
        assert not missing_facts(
            capsys.readouterr().err, "sysfw.itb", "(sysfw-am65x-gp-evm.itb", "sysfw-am65x_sr2-gp-evm"
        )
        return
    (firmware,) = [part for part in load(path).media["emmc"].parts if part.name == "sysfw.itb"]
    assert firmware.filename == f"sysfw-{chosen}-evm.itb"


def test_of_first_stages_of_two_revisions_the_one_of_the_plain_name_is_taken_or_none(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = deploy / "tiboot3-am62x_sr2-hs-fs-evm.bin"
    other.write_bytes(b"hs-fs of SR2")
    first = load(drafted(deploy, "--security", "hs-fs")[1]).media["ospi"].parts[0]
    assert first.filename == "tiboot3-am62x-hs-fs-evm.bin"  # it is what tiboot3.bin is a link to
    (deploy / "tiboot3.bin").unlink()
    assert drafted(deploy, "--security", "hs-fs", name="again")[0] == 2
    assert not missing_facts(capsys.readouterr().err, "tiboot3.bin", "tiboot3-am62x-hs-fs-evm.bin", other.name)


def test_what_cannot_be_known_is_asked_for(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deploy / "Image").unlink()
    (deploy / "u-boot.img").write_bytes(b"no banner")
    assert drafted(deploy)[0] == 2
    assert "--kernel" in capsys.readouterr().err
    assert load(drafted(deploy, "--kernel", r"Linux version 6\.12")[1]).identity.kernel == r"Linux version 6\.12"
    (deploy / "other.wic").write_bytes(b"other")
    assert drafted(deploy, "--kernel", "x", name="again")[0] == 2
    assert "--image NAME" in capsys.readouterr().err
    again = load(drafted(deploy, "--kernel", "x", "--image", "other.wic", name="again")[1])
    assert again.media["sd"].image is not None
    assert again.media["sd"].image.filename == "other.wic"


def test_links_to_nothing_and_folders_are_no_images(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deploy / "tiboot3.bin").unlink()
    (deploy / "tiboot3.bin").symlink_to("tiboot3.bin")
    (deploy / "core.wic").symlink_to("core-20261120.wic")
    (deploy / "a.wic").mkdir()
    code, _ = drafted(deploy, "--security", "hs-fs")
    assert code == 0
    said = capsys.readouterr().out
    assert not missing_facts(said, "core.wic", "link", "core-20261120.wic", "not there")
    assert not missing_facts(said, "tiboot3.bin", "link", "tiboot3.bin", "not there")
    for path in deploy.glob("tisdk*"):
        path.unlink()
    for path in deploy.glob("tiboot3-*"):
        path.unlink()
    assert drafted(deploy, "--security", "hs-fs", name="other")[0] == 2
    said = capsys.readouterr().err
    assert not missing_facts(said, "no *.wic", "no tiboot3.bin")
    assert not missing_facts(said, "core.wic", "link", "core-20261120.wic")


@pytest.mark.parametrize("name", ["tispl.bin", "tiboot3-am62x-hs-fs-evm.bin"])
def test_a_file_that_is_empty_makes_no_draft(deploy: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (deploy / name).write_bytes(b"")
    code, path = drafted(deploy, "--security", "hs-fs")
    assert (code, path.exists()) == (2, False)
    assert f"{name}: it is empty" in capsys.readouterr().err


def test_a_first_stage_for_devices_of_a_state_that_nobody_gave_is_said(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drafted(deploy)[0] == 0
    assert not missing_facts(capsys.readouterr().out, "tiboot3-am62x-hs-fs-evm", ".bin is for hs-fs")
    assert drafted(deploy, "--security", "hs-fs", name="said")[0] == 0
    assert "is for hs-fs devices" not in capsys.readouterr().out


def test_a_release_does_not_change(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drafted(deploy)
    assert drafted(deploy)[0] == 2
    assert not missing_facts(capsys.readouterr().err, "release", "not change")


def test_a_draft_that_would_be_wrong_is_not_left_behind(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, path = drafted(deploy, "--kernel", "Linux version (6")
    assert code == 2
    assert list(path.parent.iterdir()) == []
    said = capsys.readouterr().err
    assert "no draft was written" in said
    assert f"{path}:" in said
    assert drafted(deploy)[0] == 0


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "x y"])
def test_a_release_cannot_have_the_name_of_a_folder(
    deploy: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = sorted(deploy.parent.rglob("*"))
    assert drafted(deploy, name=name)[0] == 2
    assert "--name" in capsys.readouterr().err
    assert sorted(deploy.parent.rglob("*")) == before


@pytest.fixture
def two_images(tmp_path: Path) -> Path:
    """For a board type that says what goes where on its media."""
    folder = tmp_path / "deploy"
    folder.mkdir()
    for medium in ("sd", "emmc"):
        (folder / f"x-{medium}.wic").write_bytes(medium.encode())
    for name in ("u-boot.env", "kernel", "initrd", "board.dtb"):
        (folder / name).write_bytes(name.encode())
    (folder / "u-boot.itb").write_bytes(UBOOT)
    return folder


def test_each_medium_can_have_an_image_of_its_own(two_images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--board", "bpim2u", "--kernel", "Linux", "--build-id", "^1$")
    assert drafted(two_images, *words)[0] == 2
    assert "--image MEDIUM=NAME" in capsys.readouterr().err
    found = load(drafted(two_images, *words, "--image", "sd=x-sd.wic", "--image", "emmc=x-emmc.wic")[1])
    assert {name: content.image and content.image.filename for name, content in found.media.items()} == {
        "sd": "x-sd.wic",
        "emmc": "x-emmc.wic",
    }
    assert (found.identity.build_id, found.identity.kernel) == ("^1$", "Linux")
    assert drafted(two_images, *words, "--image", "tape=x-sd.wic", name="no")[0] == 2
    assert "no medium 'tape'" in capsys.readouterr().err


def test_parts_go_where_the_board_type_says(two_images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = load(drafted(two_images, "--board", "sifive_u", "--image", "x-sd.wic")[1])
    places = {part.name: part.to.offset for part in found.media["spi_nor"].parts}
    assert places == boards.load("sifive_u").media["spi_nor"].parts
    assert found.identity.uboot.startswith(r"U-Boot 2025\.01-ti-gdeadbeef")
    assert not found.recovery.files
    (two_images / "initrd").unlink()
    capsys.readouterr()
    path = drafted(two_images, "--board", "sifive_u", "--image", "x-sd.wic", name="less")[1]
    assert not missing_facts(capsys.readouterr().out, "no initrd", "sifive_u", "spi_nor")
    assert "initrd" not in {part.name for part in load(path).media["spi_nor"].parts}


def test_an_empty_folder_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing to put on sd"):
        drafts.draft(tmp_path, BOARD, {"sd": Medium("SD")}, "none", tmp_path)
    with pytest.raises(ConfigurationError, match=r"sifive_u.*\.wic, board"):
        drafts.draft(tmp_path, "sifive_u", boards.load("sifive_u").media, "none", tmp_path)


def changed(path: Path, change: Any) -> Path:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def wrongs(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    code = main(["release", "check", str(path), "--json", *words])
    (found,) = json.loads(capsys.readouterr().out)
    assert code == (2 if found["problems"] else 0)
    return list(found["problems"])


def test_a_file_that_was_replaced_is_found_unless_only_the_form_is_looked_at(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = drafted(deploy)[1]
    (deploy / "tispl.bin").write_bytes(b"another")
    assert any("its SHA-256 is" in problem for problem in wrongs(path, capsys))
    assert wrongs(path, capsys, "--form") == []


def test_a_part_that_runs_into_the_next_is_found(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deploy / "tiboot3-am62x-gp-evm.bin").write_bytes(b"t" * 0x80001)
    found = wrongs(drafted(deploy, "--security", "gp")[1], capsys)
    assert [problem.partition(":")[0] for problem in found] == ["media.emmc", "media.ospi"]
    assert "only 524288" in found[0]


def test_a_wrong_size_state_board_or_medium_is_found(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = drafted(deploy, "--security", "hs-fs")[1]
    changed(path, lambda d: d["media"]["sd"]["image"].update(size=1))
    assert any("more than 1 bytes" in problem for problem in wrongs(path, capsys))
    changed(path, lambda d: d.update(security="gp"))
    assert any(not missing_facts(problem, "for hs-fs", "for gp") for problem in wrongs(path, capsys, "--form"))
    changed(path, lambda d: d.update(boards=["no-such-board"]))
    assert any("no-such-board" in problem for problem in wrongs(path, capsys, "--form"))
    changed(path, lambda d: d.update(boards=[BOARD], media={"tape": d["media"]["sd"]}))
    assert any("media.tape" in problem for problem in wrongs(path, capsys, "--form"))


def test_an_image_that_cannot_be_unpacked_is_found(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = deploy / "tisdk-default-image-am62xx-evm.rootfs-20261120.wic.xz"
    image.write_bytes(gzip.compress(b"not xz"))
    assert any("cannot be unpacked as xz" in problem for problem in wrongs(drafted(deploy)[1], capsys))


def test_the_list_says_which_boards_have_a_release(
    deploy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = drafted(deploy)[1]
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        book.note_booted(book.begin(NewProvision(BOARD, "sk-1", "sd", "night", "c", "way")), {})
        book.note_written(book.begin(NewProvision(BOARD, "sk-3", "sd", "night", "c", "way")), "d", "full", 1)
        book.begin(NewProvision(BOARD, "sk-2", "sd", "night", "c", "way"))
    (path.parent / "broken.yaml").write_text("boards: 7\n")
    capsys.readouterr()
    assert main(["release", "list", str(path.parent), "--json", "--db", str(tmp_path / "r.db")]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["night"]["on"] == ["sk-1 sd"]
    assert "broken.yaml:1" in found["broken"]["wrong"]
