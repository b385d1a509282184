"""An SMTP server on loopback that keeps what it is given (RFC 5321, as far as a client without extensions needs it)."""

from __future__ import annotations

import email
import socketserver
import threading
from email.message import Message
from email.policy import default


class _Session(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        self._say("220 mailbox")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self._say("354 go on")
                self.server.mails.append(self._data())
                self._say("250 kept")
            elif word == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 mailbox")

    def _data(self) -> Message:
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                break
            lines.append(line.removeprefix(b"."))
        return email.message_from_bytes(b"".join(lines), policy=default)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[Message] = []


class Mailbox:
    """A mail server and all mails that it was given."""

    def __init__(self) -> None:
        self._server = _Server()
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Mailbox:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def mails(self) -> list[Message]:
        """All of them, in order."""
        return list(self._server.mails)

    def mail(self, text: str) -> Message | None:
        """The first mail that has this text in its subject."""
        return next((mail for mail in self._server.mails if text in str(mail["Subject"])), None)
