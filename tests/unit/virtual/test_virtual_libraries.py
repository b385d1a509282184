"""A QEMU of another distribution gets the libraries that the host has not, from the packages that its own depends on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.virtual.images import debian
from lab.virtual.qemu import program as qemu_program

CONTROL = (
    "Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: a test\nDepends: {depends}\n"
)


def compiled(source: str, target: Path, *options: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-x", "c", "-", "-o", str(target), f"-L{target.parent}", *options]
    subprocess.run(command, input=source, text=True, check=True, cwd=target.parent)
    return target


def package(folder: Path, name: str, depends: str, *files: Path) -> debian.Package:
    """Build one; of `files` the names are kept, and a link leads to each, as in Debian's."""
    lib = folder / name / "usr" / "lib" / "some-triplet"
    lib.mkdir(parents=True)
    for path in files:
        (lib / f"{path.name}.2.3").write_bytes(path.read_bytes())
        (lib / path.name).symlink_to(f"{path.name}.2.3")
    control = folder / name / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text(CONTROL.format(name=name, depends=depends))
    subprocess.run(["dpkg-deb", "--build", folder / name, folder / f"{name}.deb"], check=True, capture_output=True)
    return debian.Package(name, "1", folder / f"{name}.deb")


class Mirror:
    """What stands in for apt: packages that were made here."""

    def __init__(self, *packages: debian.Package) -> None:
        self.packages = {package.name: package for package in packages}
        self.suites: list[str] = []

    def __call__(self, _folder: Path, suite: str, _architecture: str) -> Mirror:
        self.suites.append(suite)
        return self

    def update(self) -> None: ...

    def clean(self) -> None: ...

    def download(self, *names: str) -> dict[str, debian.Package]:
        return {name: self.packages[name] for name in names}


def test_libraries_that_the_host_has_not_and_those_that_they_want_are_put_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    inner = compiled("int inner(void) { return 3; }", made / "libinner.so.1", "-shared", "-Wl,-soname,libinner.so.1")
    outer = compiled(
        "int inner(void); int outer(void) { return inner(); }",
        made / "libouter.so.62",
        *("-shared", "-Wl,-soname,libouter.so.62", "-l:libinner.so.1"),
    )
    options = ("-l:libouter.so.62", "-Wl,--allow-shlib-undefined")
    program = compiled("int outer(void); int main(void) { return outer(); }", made / "qemu", *options)
    program = program.rename(tmp_path / "qemu")
    own = package(tmp_path, "qemu-package", "libc6 (>= 2.2), libouter62-turbo (>= 1) | libouter62, python3")
    mirror = Mirror(
        package(tmp_path, "libouter62-turbo", "libc6, libinner1:any", outer),
        package(tmp_path, "libinner1", "libc6", inner),
    )
    monkeypatch.setattr(debian, "AptRoot", mirror)

    assert qemu_program.missing(program) == ["libouter.so.62"]
    assert qemu_program.environment(program) == {}
    assert qemu_program.add(program, own, "bookworm-backports", "amd64") == {"libouter62-turbo": "1", "libinner1": "1"}
    assert mirror.suites == ["bookworm"]
    assert qemu_program.missing(program) == []
    assert subprocess.run([program], env=dict(qemu_program.environment(program)), check=False).returncode == 3
    assert sorted(path.name for path in tmp_path.glob("*.so*")) == ["libinner.so.1", "libouter.so.62"]


def test_a_program_whose_libraries_are_there_needs_nothing() -> None:
    assert qemu_program.missing(Path("/bin/true")) == []
