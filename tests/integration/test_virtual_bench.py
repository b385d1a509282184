"""Bringing a bench up and down, and what is left when one of its processes is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.prometheus_server import until
from support.virtual_bench import BenchProcess, all_end, children, lab_virtual, running_bench, watched

from lab.cli import main
from lab.virtual.images import cache
from lab.virtual.ports import free_port
from lab.virtual.qemu import recipe


def test_up_is_idempotent_and_down_leaves_no_process(tmp_path: Path) -> None:
    with running_bench(tmp_path) as bench:
        assert bench.power("on") == 200
        again = lab_virtual("up", "--dir", tmp_path, "--pdu-port", "0")
        assert again.returncode == 0
        assert "Already up" in again.stderr
        assert BenchProcess(tmp_path).state == bench.state
        with watched(bench.state.pid, *children(bench.state.pid)) as processes:
            assert len(processes) == 3  # the bench, pdudaemon, QEMU
            assert lab_virtual("down", "--dir", tmp_path).returncode == 0
            assert all_end(processes)
    assert not (tmp_path / "qemu-1" / "uart0").is_symlink()
    assert not (tmp_path / "bench.json").exists()
    assert "No virtual bench runs" in lab_virtual("down", "--dir", tmp_path).stdout


def test_a_killed_bench_takes_qemu_and_pdudaemon_along_and_the_next_up_starts_clean(tmp_path: Path) -> None:
    with running_bench(tmp_path) as bench:
        assert bench.power("on") == 200
        with watched(*children(bench.state.pid)) as processes:
            assert len(processes) == 2
            os.kill(bench.state.pid, signal.SIGKILL)
            assert all_end(processes)
    assert "No virtual bench runs" in lab_virtual("status", "--dir", tmp_path).stdout
    with running_bench(tmp_path) as bench, bench.console() as console:
        assert bench.status()["power"] == "off"
        assert bench.power("on") == 200
        console.until(rb"U-Boot 20")


def test_a_killed_pdudaemon_comes_back_on_its_port(tmp_path: Path) -> None:
    with running_bench(tmp_path) as bench:
        for _ in range(2):
            first = bench.child("pdudaemon.conf")
            with watched(first) as processes:
                os.kill(first, signal.SIGKILL)
                assert all_end(processes)
            assert bench.power("on") == 200  # its port is there all the time, and waits for it
            assert bench.child("pdudaemon.conf") != first
            assert bench.power("off") == 200
        assert "pdudaemon ended" in (tmp_path / "bench.log").read_text()


def test_a_port_in_use_is_one_line_that_names_its_owner(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = lab_virtual("up", "--dir", tmp_path, "--pdu-port", str(port))
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert f"127.0.0.1:{port} is in use by process {os.getpid()}" in line
    assert "--pdu-port" in line


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    done = lab_virtual("up", "sim", "--type", "am62xx_sk", "--dir", tmp_path / "open", "--pdu-port", "0")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "chmod 700" in line
    assert list((tmp_path / "open").iterdir()) == []


def test_wrong_orders_are_refused_in_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, reason in (
        (("--type", "am62xx_sk"), "'am62xx_sk' is a simulated board: `lab virtual up sim --type am62xx_sk`"),
        (("--type", "am62"), "no virtual board of type 'am62'; there are: qemu-virt"),
        (("--name", "../evil"), "--name '../evil'"),
        (("--pdu-port", "70000"), "--pdu-port"),
    ):
        assert main(["virtual", "up", "--dir", str(tmp_path), *words]) != 0
        said = capsys.readouterr().err
        assert reason in said
        assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_without_pdudaemon_the_message_says_how_to_install_it(tmp_path: Path) -> None:
    done = lab_virtual("up", "--dir", tmp_path, BOARDLAB_PDUDAEMON=str(tmp_path / "none"))
    assert done.returncode != 0
    assert not missing_facts(done.stderr, "pdudaemon", "not installed")
    assert "./run setup" in done.stderr


def test_the_last_line_of_a_bench_whose_pdudaemon_ends_is_the_reason_although_a_client_waits(tmp_path: Path) -> None:
    asked, pdudaemon, port = tmp_path / "asked", tmp_path / "pdudaemon", free_port()
    pdudaemon.write_text(f"#!/bin/sh\nuntil test -e {asked}; do sleep 0.1; done\necho no switch today\nexit 1\n")
    pdudaemon.chmod(0o700)

    def listens() -> bool:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    def ask() -> None:
        until(listens, "the gate listens")
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /power/control/on?hostname=bench&port=1 HTTP/1.1\r\n\r\n")
            asked.touch()
            client.recv(1)

    with ThreadPoolExecutor() as pool:
        client = pool.submit(ask)
        done = lab_virtual(
            "up",
            "sim",
            "--type",
            "am62xx_sk",
            "--dir",
            tmp_path / "b",
            "--pdu-port",
            str(port),
            BOARDLAB_PDUDAEMON=str(pdudaemon),
        )
        with contextlib.suppress(ConnectionResetError):
            client.result()
    assert done.returncode == 1
    said = (tmp_path / "b" / "bench.log").read_text().splitlines()
    assert "pdudaemon ended at once" in said[-1]
    assert said[-1].endswith("no switch today")
    assert not [line for line in said if "Traceback" in line or "asyncio" in line]


def test_without_images_and_network_the_message_says_what_is_missing(tmp_path: Path) -> None:
    # A proxy that refuses: the same as no network.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
        done = lab_virtual(
            "up",
            "--dir",
            tmp_path / "bench",
            "--pdu-port",
            "0",
            XDG_CACHE_HOME=str(tmp_path / "cache"),
            http_proxy=proxy,
        )
    assert done.returncode != 0
    assert not missing_facts(done.stderr, "Debian packages")
    assert "check the network" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (tmp_path / "cache" / "boardlab" / "images").iterdir() if path.is_dir()] == []


def test_media_that_do_not_fit_are_one_message_and_nothing_half_written(tmp_path: Path) -> None:
    recipe.obtain(cache.default_root(), print)
    done = lab_virtual("up", "--dir", tmp_path, "--pdu-port", "0", largest_file=20 << 20)
    assert done.returncode != 0
    assert "cannot copy the media" in done.stderr
    assert "--dir" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "qemu-1" / "media").exists()


@pytest.mark.soak
def test_real_media_have_the_same_bytes_when_they_are_built_again(tmp_path: Path) -> None:
    root = cache.default_root()
    first = recipe.obtain(root, print)
    recipe.build(tmp_path, recipe.sources(root, print))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["emmc.img", "ospi.img", "sd.img", "u-boot.bin"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (first / name).read_bytes(), name
