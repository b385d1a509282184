"""A medium written from a U-Boot that is a fastboot device for each piece; `snagflash` is played at its packets."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.simprovision import NEW, provisioning

from lab.errors import ConfigurationError
from lab.provision.errors import MediaVerifyFailedError, RecoveryFailedError
from lab.provision.snagboot import ProgramEnd


@pytest.mark.parametrize("medium", ["ospi", "emmc"])
def test_a_release_comes_over_usb_and_boots(tmp_path: Path, medium: str) -> None:
    with provisioning(tmp_path, medium, "usb") as made:
        before = made.elsewhere()
        assert made.provision().bytes > 0
        assert made.elsewhere() == before
        assert "tftpboot" not in made.lab.said()
        assert made.lab.said().count("fastboot -l 0x") == 1 + 3  # the plan's probe, and the parts


def test_what_arrived_its_digest_says_and_not_the_program(tmp_path: Path) -> None:
    with provisioning(tmp_path, "ospi", "usb") as made:
        writer = made.writer()
        plan = writer.plan(made.release_content(), made.target())
        writer = evolve(
            writer, loader=evolve(writer.loader, run=lambda _arguments, _timeout_s: ProgramEnd(("Done",), 0))
        )
        before = made.lab.board.storage.medium("ospi").digests(())
        with pytest.raises(MediaVerifyFailedError, match="what was loaded"):
            made.carry_out(writer, plan, NEW)
        assert made.lab.board.storage.medium("ospi").digests(()) == before
        assert made.told(tries=1)[0].outcome == "ok"


def test_a_program_that_fails_leaves_a_board_at_its_prompt(tmp_path: Path) -> None:
    with provisioning(tmp_path, "ospi", "usb") as made:
        writer = made.writer()
        plan = writer.plan(made.release_content(), made.target())
        failed = ProgramEnd(("Fastboot error: Fastboot fail with message: data too large",), 1)
        writer = evolve(writer, loader=evolve(writer.loader, run=lambda _arguments, _timeout_s: failed))
        with pytest.raises(RecoveryFailedError, match="data too large"):
            writer.write(plan, made.reached)
        assert made.lab.command("echo here", "=> ") == "here\n"


def test_a_host_without_snagflash_is_told_before_anything_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with provisioning(tmp_path, "ospi", "usb") as made:
        writer = made.writer()
        loader = evolve(writer.loader, program=type(writer.loader).__attrs_attrs__.program.default)
        with pytest.raises(ConfigurationError, match=r"snagflash is not"):
            evolve(writer, loader=loader).plan(made.release_content(), made.target())
        assert "fastboot -l" not in made.lab.said()
