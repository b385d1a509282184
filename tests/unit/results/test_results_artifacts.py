"""Artifacts are named by their contents, written whole, and verified when they are read."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.errors import LabStableError, TestStableError
from lab.results import ArtifactStore
from lab.results.artifacts import PACK_BYTES, make_pack

LOG = b"U-Boot 2023.01\r\n\x00\xff\x1b[0m"


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def files(artifacts: ArtifactStore) -> list[Path]:
    return [path for path in artifacts.root.rglob("*") if path.is_file()]


def test_an_artifact_lies_under_the_hash_of_its_contents(artifacts: ArtifactStore) -> None:
    ref = artifacts.put(LOG, kind="console-log")
    digest = hashlib.sha256(LOG).hexdigest()
    assert (ref.kind, ref.sha256, ref.size) == ("console-log", digest, len(LOG))
    assert artifacts.path(digest) == artifacts.root / digest[:2] / digest[2:]
    assert artifacts.path(digest).read_bytes() == LOG


@given(data=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_come_back(artifacts: ArtifactStore, data: bytes) -> None:
    assert artifacts.read(artifacts.put(data, kind="tool-output").sha256) == data


def packed(folder: Path, contents: dict[str, bytes]) -> tuple[ArtifactStore, Path]:
    """A store whose artifacts lie in one pack, and the pack."""
    pack = ArtifactStore(folder).put(make_pack(contents), kind="").sha256
    store = ArtifactStore(folder, pack_of=lambda sha256: pack if sha256 in contents else None)
    store.path(pack).chmod(0o600)
    return store, store.path(pack)


def test_a_pack_with_any_flipped_bit_or_cut_anywhere_is_right_or_one_clear_error(tmp_path: Path) -> None:
    log = LOG * 8
    names = [hashlib.sha256(data).hexdigest() for data in (log, b"index")]
    store, pack = packed(tmp_path, dict(zip(names, (log, b"index"), strict=True)))
    whole = pack.read_bytes()
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in range(8)
    ]
    errors = 0
    for damaged in [*flipped, *(whole[:length] for length in range(len(whole)))]:
        pack.write_bytes(damaged)
        try:
            assert store.read(names[0]) == log
        except LabStableError as error:
            errors += 1
            assert str(pack) in str(error)  # noqa: PT017 - either is good
    assert errors > len(whole)


def test_a_pack_that_inflates_without_bound_is_refused(tmp_path: Path) -> None:
    name = hashlib.sha256(LOG).hexdigest()
    store, _ = packed(tmp_path, {name: bytes(PACK_BYTES * 8)})
    tracemalloc.start()
    try:
        with pytest.raises(LabStableError, match=f"more than {PACK_BYTES} .*copy"):
            store.read(name)
        assert tracemalloc.get_traced_memory()[1] < 4 * PACK_BYTES
    finally:
        tracemalloc.stop()


def test_the_same_contents_are_kept_once(artifacts: ArtifactStore) -> None:
    first = artifacts.put(LOG, kind="console-log")
    before = artifacts.path(first.sha256).stat()
    assert artifacts.put(LOG, kind="copy").sha256 == first.sha256
    after = artifacts.path(first.sha256).stat()
    assert len(files(artifacts)) == 1
    assert before.st_ino == after.st_ino
    assert before.st_mtime_ns < after.st_mtime_ns  # it is wanted anew, so that no removal takes it


def test_nobody_changes_an_artifact_by_accident(artifacts: ArtifactStore) -> None:
    path = artifacts.path(artifacts.put(LOG, kind="console-log").sha256)
    assert path.stat().st_mode & 0o777 == 0o440


def test_a_damaged_artifact_is_said_to_be_damaged(artifacts: ArtifactStore) -> None:
    ref = artifacts.put(LOG, kind="console-log")
    path = artifacts.path(ref.sha256)
    path.chmod(0o644)
    path.write_bytes(LOG[:-1] + b"!")
    with pytest.raises(LabStableError, match=f"{path} is damaged.*copy"):
        artifacts.read(ref.sha256)


def test_putting_the_contents_again_mends_a_damaged_artifact(artifacts: ArtifactStore) -> None:
    ref = artifacts.put(LOG, kind="console-log")
    path = artifacts.path(ref.sha256)
    path.chmod(0o644)
    path.write_bytes(b"")
    artifacts.put(LOG, kind="console-log")
    assert artifacts.read(ref.sha256) == LOG


def test_a_missing_artifact_says_where_it_was_looked_for(artifacts: ArtifactStore) -> None:
    with pytest.raises(LabStableError, match=f"{artifacts.root}.*host"):
        artifacts.read("ab" * 32)


@pytest.mark.parametrize("name", ["", "ab", "AB" * 32, "../" * 22, "g" * 64])
def test_only_a_hash_names_an_artifact(artifacts: ArtifactStore, name: str) -> None:
    with pytest.raises(TestStableError, match=r"named by a SHA-256"):
        artifacts.path(name)


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file where the directory should be")
    with pytest.raises(LabStableError, match=r"\d+ bytes .*LAB_ARTIFACTS"):
        ArtifactStore(tmp_path / "artifacts").put(LOG, kind="console-log")
