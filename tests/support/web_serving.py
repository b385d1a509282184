"""`lab web`'s application, served by its own server on a free port of loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from lab.http.server import LimitedServer
from lab.web.app import LOCAL_NAMES, create
from lab.web.auth import Access
from lab.web.site import Site


@contextlib.contextmanager
def serving(
    site: Site,
    names: Sequence[str] = LOCAL_NAMES,
    access: Access | None = None,
    *,
    ahead: bool = False,
    **options: Any,
) -> Iterator[str]:
    """The address of the site; `ahead`: as `create` has it; `options`: more of the server's."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = LimitedServer(create(site, names, access, ahead=ahead), timeout_graceful_shutdown=1, **options)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"  # the kernel holds connections until the server takes them
    finally:
        server.should_exit = True
        thread.join()
