"""What the services have for ssh: `ssh_config` of farm.yaml, and the folder with their keys."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.farm.config import Farm
from lab.farm.doctor.finding import Finding
from lab.host.process import user_name

AREA: Final = "ssh"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_DOCS: Final = 'docs/farm/several-hosts.md, "Keys for the services"'


def check(farm: Farm) -> Iterator[Finding]:
    """Is the file there, may the services read it, and nobody else what lies beside it? Nothing where farm.yaml names none."""
    if not farm.ssh_config:
        return
    path = Path(farm.ssh_config)
    try:
        folder, file = path.parent.stat(), path.stat()
    except PermissionError:
        me = user_name(os.getuid())
        yield Finding(
            AREA, str(path), "ok", f"{me} may not look at it, which is as it should be for all but {farm.user}"
        )
        return
    except OSError as error:
        said = f"{error.strerror}: the services reach no other host"
        yield Finding(AREA, str(path), "bad", said, f"write it, with keys and known_hosts beside it: {_DOCS}")
        return
    owner = user_name(file.st_uid)
    if owner != farm.user and not file.st_mode & stat.S_IROTH and not _reads_by_group(farm.user, file):
        said = f"is {owner}'s (mode {stat.S_IMODE(file.st_mode):o}): {farm.user}, as whom the services run, may not read it"
        yield Finding(AREA, str(path), "bad", said, f"sudo chown -R {farm.user}: {path.parent}")
    elif folder.st_mode & _OTHERS:
        said = f"others than {user_name(folder.st_uid)} may enter (mode {stat.S_IMODE(folder.st_mode):o}): keys belong to the services' user alone"
        yield Finding(AREA, str(path.parent), "doubtful", said, f"sudo chmod 700 {path.parent}")
    else:
        yield Finding(AREA, str(path), "ok", f"is there, {owner}'s")


def _reads_by_group(user: str, file: os.stat_result) -> bool:
    """Whether a user is of a file's group, and that may read it, as with chown root:boardlab and chmod 640."""
    if not file.st_mode & stat.S_IRGRP:
        return False
    try:
        return file.st_gid in os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return False
