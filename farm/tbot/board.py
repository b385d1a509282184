"""A board of this lab for tbot (https://tbot.tools, 0.10).

Use: `newbot -c board board.look` in this folder.

LAB: the port as the env has it, and the env.
"""

import tbot
from tbot.machine import board, connector, linux

PORT = "/dev/serial/by-path/platform-xhci-usb-0:1:1.0-port0"
ENV = "/etc/boardlab/sk-am62-1.yaml"


class Board(connector.ConsoleConnector, board.PowerControl, board.Board):
    """Its console is lent by boardlab's console server, which goes on recording."""

    name = "sk-am62-1"

    def connect(self, mach):
        """tbot's end of the console."""
        return mach.open_channel("lab", "console", "attach", PORT)

    def poweron(self):
        """Verified by the rails, where there are any."""
        self.host.exec0("lab", "power", "on", "--env", ENV)

    def poweroff(self):
        """Also when a test case has failed."""
        self.host.exec0("lab", "power", "off", "--env", ENV)


class Linux(board.Connector, board.LinuxBootLogin, linux.Ash):
    """Logged in."""

    name = "sk-am62-1-linux"
    username = "root"
    password = None


def register_machines(ctx):
    """Whom test cases get for these roles."""
    ctx.register(Board, tbot.role.Board)
    ctx.register(Linux, tbot.role.BoardLinux)


@tbot.testcase
def look():
    """Boot it and look around."""
    with tbot.ctx.request(tbot.role.BoardLinux) as shell:
        shell.exec0("uname", "-sm")
