"""Debian packages of a foreign architecture, and modules for their kernels.

The host's dpkg and its list of architectures stay as they are, and no root is needed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from lab.errors import ConfigurationError, LabError, LabStableError, LabTransientError
from lab.virtual.images import tools

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEFAULT_MIRROR = "http://deb.debian.org/debian/"


HELPER = Path("/usr/lib/apt/apt-helper")  # of the package apt


@frozen
class Package:
    """A downloaded package."""

    name: str
    version: str
    deb: Path


@frozen
class PinnedPackage:
    """A package of a known version.

    Attributes:
        path: under a mirror, "pool/main/...".
        sha256: of its file.
    """

    path: str
    sha256: str


class AptRoot:
    """apt for one suite and architecture, with all its state under `folder`.

    Raises (every method):
        LabTransientError: the mirror cannot be reached or lacks a package.
        ConfigurationError: apt or the keyring of Debian's archive is not installed.
    """

    def __init__(self, folder: Path, suite: str, architecture: str, components: Sequence[str] = ("main",)) -> None:
        self._folder = folder
        self._suite = suite
        self._architecture = architecture
        self._components = " ".join(components)
        self.mirror = _mirror(suite)

    def update(self, *, sources: bool = False) -> None:
        """Fetch the suite's index, perhaps that of its sources too."""
        if not KEYRING.exists():
            raise ConfigurationError(f"{KEYRING} is missing; install it: apt-get install debian-archive-keyring")
        for part in ("state", "lists/partial", "cache/archives/partial", "debs"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        options = f"arch={self._architecture} target=Packages lang=none signed-by={KEYRING}"
        lines = [f"deb [{options}] {self.mirror} {self._suite} {self._components}"]
        if sources:
            lines.append(f"deb-src [target=Sources signed-by={KEYRING}] {self.mirror} {self._suite} main")
        (self._folder / "sources.list").write_text("".join(f"{line}\n" for line in lines))
        self._apt("apt-get", "-o", "APT::Update::Error-Mode=any", "update")

    def resolve(self, meta: str) -> str:
        """The package that a meta package depends on, e.g. linux-image-arm64 -> linux-image-6.1.0-50-arm64."""
        depends = self._apt("apt-cache", "depends", "--important", meta)
        found = re.search(r"Depends: (\S+)", depends)
        if found is None:
            raise LabTransientError(f"{meta} of {self.mirror} {self._suite} depends on nothing; try again later")
        return found.group(1)

    def download(self, *names: str) -> dict[str, Package]:
        """Download packages; by name."""
        debs = self._folder / "debs"
        self._apt("apt-get", "download", *names, cwd=debs)
        return {name: self._package(name, debs) for name in names}

    def download_whole(self, *names: str) -> dict[str, Package]:
        """Download packages with all that they depend on; by name."""
        self._apt("apt-get", "install", "--download-only", "--yes", "--no-install-recommends", *names)
        found = (self._folder / "cache" / "archives").glob("*.deb")
        packages = [_described(path) for path in sorted(found)]
        return {package.name: package for package in packages}

    def download_known(self, known: Sequence[PinnedPackage]) -> dict[str, Package]:
        """Download packages of known versions, without any index; by name."""
        packages = []
        for each in known:
            deb = self._folder / "debs" / Path(each.path).name
            self._apt(
                str(HELPER),
                "download-file",
                f"{self.mirror.rstrip('/')}/{each.path}",
                str(deb),
                f"SHA256:{each.sha256}",
            )
            packages.append(_described(deb))
        return {package.name: package for package in packages}

    def source(self, name: str) -> Package:
        """Download a source package's upstream archive and the distribution's own.

        `update(sources=True)` comes before.
        """
        folder = self._folder / "debs"
        found = re.search(r"^Version: (\S+)$", self._apt("apt-cache", "showsrc", "--only-source", name), re.MULTILINE)
        if found is None:
            raise LabTransientError(f"{self.mirror} {self._suite} has no sources of {name}; try again later")
        for part in ("--tar-only", "--diff-only"):  # apt checks them by the signed index; their .dsc says nothing more
            self._apt("apt-get", "source", "--download-only", part, f"{name}={found[1]}", cwd=folder)
        archives = [path for path in folder.glob(f"{name}_*.orig.tar.*") if path.suffix != ".asc"]
        if len(archives) != 1:
            raise LabTransientError(f"expected one archive of {name} from {self.mirror}, got {len(archives)}")
        return Package(name, found[1], archives[0])

    def clean(self) -> None:
        """Remove everything that was downloaded."""
        shutil.rmtree(self._folder)

    def _package(self, name: str, debs: Path) -> Package:
        found = sorted(debs.glob(f"{name}_*.deb"))
        if len(found) != 1:
            raise LabTransientError(f"expected one package {name} from {self.mirror}, got {len(found)}; try again")
        return _described(found[0])

    def _apt(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        options = {
            "APT::Architecture": self._architecture,
            "APT::Architectures::": self._architecture,
            "APT::Sandbox::User": "",  # the folder need not be readable for the user _apt
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "20",
            "Dir::Cache": self._folder / "cache",
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": self._folder / "state",
            "Dir::State::lists": self._folder / "lists",
            "Dir::State::status": "/dev/null",
            "Debug::NoLocking": "true",  # nothing of the host's is touched, and who is not root may not lock that
        }
        flags = [flag for name, value in options.items() for flag in ("-o", f"{name}={value}")]
        try:
            return tools.run([program, "-qq", *flags, *arguments], cwd=cwd).decode()
        except LabError as error:
            # apt says it of an index that is not the one that was signed.
            syncing = "Release file created at" in str(error)
            hint = (
                "the mirror is between two versions of the archive; try again in an hour"
                if syncing
                else "check the network (and apt's proxy settings)"
            )
            raise LabTransientError(
                f"cannot get Debian packages from {self.mirror}: {error}; {hint}",
                failure="no_network",
            ) from error


def _described(deb: Path) -> Package:
    name, version = tools.run(["dpkg-deb", "--show", "--showformat=${Package} ${Version}", deb]).decode().split()
    return Package(name, version, deb)


def depends(package: Package) -> list[str]:
    """The packages that one depends on; of alternatives the first.

    Raises:
        LabStableError: it cannot be read.
    """
    field = tools.run(["dpkg-deb", "--field", package.deb, "Depends"]).decode()
    return [words[0].partition(":")[0] for entry in field.split(",") if (words := entry.split())]


def unpack(package: Package, folder: Path) -> None:
    """Unpack a whole package.

    Links in place of folders, as of a merged /usr, stay.

    Raises:
        LabStableError: it cannot be unpacked.
    """
    files = tools.run(["dpkg-deb", "--fsys-tarfile", package.deb])
    options = ["--extract", "--file=-", "--keep-directory-symlink", "--no-same-owner", "--no-same-permissions"]
    tools.run(["tar", *options, f"--directory={folder}"], stdin=files)


def extract(package: Package, members: Mapping[str, Path]) -> None:
    """Take single files out of a package.

    `members`: regular expression of the path inside it -> place of the file.

    Raises:
        LabTransientError: the package has no such file.
    """
    missing = dict(members)
    with _files(package) as archive:
        for entry in archive:
            for pattern in [pattern for pattern in missing if re.fullmatch(pattern, entry.name.removeprefix("./"))]:
                source = archive.extractfile(entry)
                if source is not None:
                    missing.pop(pattern).write_bytes(source.read())
            if not missing:
                return
    raise LabTransientError(f"{package.deb.name} has no file {' nor '.join(missing)}; the package has changed")


@contextlib.contextmanager
def _files(package: Package) -> Iterator[tarfile.TarFile]:
    command = [tools.find("dpkg-deb"), "--fsys-tarfile", str(package.deb)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                yield archive
        except tarfile.TarError as error:
            raise LabTransientError(f"{package.deb.name} cannot be unpacked ({error}); download it again") from error
        finally:
            process.kill()


def _mirror(suite: str) -> str:
    """Host's own mirror of that Debian suite, else Debian's."""
    try:
        targets = tools.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
        )
    except LabError:
        return DEFAULT_MIRROR
    for line in targets.decode().splitlines():
        match line.split():
            case [uri, release, "main"] if release == suite and uri.startswith(("http:", "https:", "file:")):
                return uri
    return DEFAULT_MIRROR


# --- Kernel modules for a stock Debian kernel, built reproducibly ---
# They are built against its packaged headers.


_COMPILER = "aarch64-linux-gnu-"
_CC = f"{_COMPILER}gcc"
_SOURCES = "usr/src"


def build(name: str, source: bytes, headers: Sequence[Path]) -> bytes:
    """The module `name`.ko for arm64.

    Args:
        source: its only C file.
        headers: the packages linux-headers-*-arm64, linux-headers-*-common and linux-kbuild-* of one kernel, the last
            of them for this host.

    Raises:
        ConfigurationError: the cross compiler or make is not installed.
        LabStableError: it cannot be built.
    """
    tools.find(_CC)
    with tempfile.TemporaryDirectory(prefix="boardlab-module-") as folder:
        root, work = Path(folder) / "root", Path(folder) / "module"
        for package in headers:
            tools.run(["dpkg-deb", "-x", package, root])
        kernel, common = (_only(root / _SOURCES, f"linux-headers-*-{kind}") for kind in ("arm64", "common"))
        (kernel / "Makefile").write_text(f"include {common}/Makefile\n")  # the packaged one has an absolute path
        work.mkdir()
        (work / f"{name}.c").write_bytes(source)
        (work / "Kbuild").write_text(f"obj-m := {name}.o\n")
        compiler = [f"CROSS_COMPILE={_COMPILER}", f"CC={_CC}", "ARCH=arm64"]
        # Without debug information nothing in the module tells of the folder that it was built in.
        tools.run(["make", "-s", "-C", kernel, f"M={work}", *compiler, "KCFLAGS=-g0", "modules"])
        return (work / f"{name}.ko").read_bytes()


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise LabStableError(
            f"expected one {pattern} in the kernel's packages, got {len(found)}", failure="image_build"
        )
    return found[0]
