"""Two releases on the QEMU boards with a boot ROM and SPL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from support import board_releases, qemu_boards
from support.board_releases import said
from support.facts import was_provisioned
from support.measuring_lab import Lab, running_lab

from lab import boards
from lab.results import open_store

OLD, NEW = "1.0", "1.1"
CYCLES = 2
BPIM2U = "bpim2u"
SLOT = "/dev/mmcblk1"  # as its Linux calls the eMMC slot
FOUND = "read back at"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]  # the images are built when they are not there


@frozen
class Put:
    """A board and its releases. by_linux: medium -> its name there; boot_from: what that Linux is booted from."""

    lab: Lab
    type: str
    files: dict[str, Path]
    by_linux: tuple[str, str]
    boot_from: str

    @property
    def media(self) -> list[str]:
        """All of its board type."""
        return list(boards.load(self.type).media)

    def words(self, name: str, *media: str) -> list[str | Path]:
        """Of a command that puts a release on some media."""
        return ["provision", "--release", self.files[name], *(w for medium in media for w in ("--medium", medium))]


def releases(folder: Path, board_type: str) -> dict[str, Path]:
    return {name: board_releases.release(folder, board_type, name, other=name == NEW) for name in (OLD, NEW)}


@pytest.fixture(params=qemu_boards.TYPES)
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Put]:
    files = releases(tmp_path, request.param)
    linux = {BPIM2U: (("emmc", SLOT), "sd")}.get(request.param, (("sd", "/dev/mmcblk0"), "spi_nor"))
    with running_lab(tmp_path, *qemu_boards.up_words(request.param), "--network") as lab:
        yield Put(lab, request.param, files, *linux)


def test_two_releases_are_put_on_all_media_booted_and_judged(put: Put) -> None:
    for name in (OLD, NEW):
        text = said(put.lab, *put.words(name, *put.media))
        for medium in put.media:
            assert was_provisioned(text, medium, name)
        said(put.lab, "run", "--cycles", str(CYCLES))
        with open_store(put.lab.environ["LAB_DB"]) as store:
            run = store.runs(1)[0]
            assert run.release == name
            found = [sample.params["medium"] for sample in store.samples(run.id, "boot.time")]
        assert sorted(found) == sorted(put.media * CYCLES)
    text = said(put.lab, "judge", "compare", "latest", "--against", OLD, "--all", "--json", code=None)
    numbers = json.loads(text[text.index("{") :])["numbers"]
    judged = {each["params"]["medium"]: each["verdict"] for each in numbers if each["metric"] == "boot.time"}
    assert set(judged) == set(put.media)
    assert set(judged.values()) <= {"noise", "regression", "improvement"}  # a busy host is slower


def test_a_medium_that_was_damaged_is_found_and_mended_by_the_next_try(put: Put) -> None:
    said(put.lab, *put.words(NEW, *put.media))
    assert "read back" in said(put.lab, *put.words(NEW, *put.media), "--verify-only")
    for medium in put.media:
        board_releases.damage(board_releases.image(put.lab, medium))
        found = said(put.lab, *put.words(NEW, medium), "--verify-only", code=1)
        assert FOUND in found or "it has not what was written" in found
        assert was_provisioned(said(put.lab, *put.words(NEW, medium)), medium, NEW)


@pytest.mark.skipif(not board_releases.may_serve_tftp(), reason="this user may not open port 69")
def test_u_boot_loads_from_a_tftp_server_of_boardlab_s_own(put: Put) -> None:
    env, medium = board_releases.own_server_environment(put.lab), put.media[-1]
    assert was_provisioned(said(put.lab, *put.words(NEW, medium), env=env), medium, NEW)


def test_linux_writes_a_medium_that_it_does_not_run_from(put: Put) -> None:
    medium, device = put.by_linux
    env = board_releases.linux_environment(put.lab, medium, device, put.boot_from)
    text = said(put.lab, *put.words(NEW, medium), env=env)
    assert was_provisioned(text, medium, NEW)


def test_what_the_stock_device_tree_makes_of_a_write_by_linux_is_found_and_mended_from_u_boot(tmp_path: Path) -> None:
    files = releases(tmp_path, BPIM2U)
    with running_lab(tmp_path, *qemu_boards.up_words(BPIM2U), "--network", "--stock") as lab:
        board = Put(lab, BPIM2U, files, ("emmc", SLOT), "sd")
        env = board_releases.linux_environment(lab, "emmc", SLOT, "sd")
        text = said(lab, *board.words(NEW, "emmc"), env=env, code=1)
        # Everything was written, nobody complained; and it was not taken for good: read back differs, or reading ends Linux.
        assert "100 %" in text
        assert "read back and the same" not in text
        # Another driver, that of U-Boot, says what is there.
        assert FOUND in said(lab, *board.words(NEW, "emmc"), "--verify-only", code=1)
        assert was_provisioned(said(lab, *board.words(NEW, "emmc")), "emmc", NEW)
