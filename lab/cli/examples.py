"""An example of each command, for the end of its `--help` and the man page."""

from __future__ import annotations

from typing import Final

import typer

# A line for each command: its words after `lab`. A test lets the command's own parser read it.
EXAMPLES: Final = """\
init mylab
status --json
doctor
run --env am62x.yaml --suite boot --cycles 20 --release 11.01
jobs cancel j12
jobs list
jobs show j12
reserve am62x-1 --hours 2 --reason 'a new PMIC'
results delete 7 --reason 'wrong card'
results export latest --csv -o numbers.csv
results failures kernel_panic
results import fio.json --board am62x-1 --type am62xx_sk --release 11.01
results list --board am62x-1
results migrate
results prune --dry-run
results recordings latest
results show latest --log
results upload
results where latest --perfetto boot.json
report latest -o report.html
judge accept latest --reason 'a larger image'
judge compare latest --against 11.00
judge list
judge mute boot.time --until 2030-01-31 --reason 'known, ticket 17'
judge reject latest --reason 'another card'
judge run latest
judge sensitivity am62x-1
judge show latest
judge stats
power cycle --env am62x.yaml
power off --env am62x.yaml
power on --env am62x.yaml
power state --env am62x.yaml
console attach ttyUSB0
console check am62xx_sk boot.log
console list
console replay ttyUSB0
console serve
console show ttyUSB0
console stop
console tail ttyUSB0
console truth recording.rec capture.csv --channel 1
console wait ttyUSB0
web user add lena --role operator
web user list
web user remove lena
boards learn boot-1.log boot-2.log
boards show am62xx_sk
env check --env am62x.yaml
env list
env port --env am62x.yaml
env straps --env am62x.yaml
health am62x-1 --check -o check.html
rails selftest --env am62x.yaml
rails show sleep.trace
rails trace --env am62x.yaml --seconds 10
rails watch --env am62x.yaml
provision --env am62x.yaml --release 11.01.yaml
release check 11.01.yaml
release list releases
release make images --board am62xx_sk --name 11.01
release ram-linux images
virtual clear sim-1
virtual console
virtual down
virtual fault sim-1 kernel_panic --cycles 3
virtual faults
virtual images
virtual status
virtual uboot-tests u-boot
virtual up sim --count 12
ab 11.00.yaml 11.01.yaml --env am62x.yaml
bisect --good 11.00.yaml --bad 11.01.yaml --env am62x.yaml
guide check guide.rst
guide compare 11.00.rst 11.01.rst
guide import guide.rst
guide read guide.rst --json
guide rules wide-range
guide trend boot.time 11.00.rst 11.01.rst --board am62xx_sk-fs
guide write --release 11.01 -o guide
farm add boards.csv --dry-run
farm buildbot farm.yaml --output buildbot
farm check farm.yaml
farm discover
farm down
farm export am62x.yaml
farm files
farm janitor farm.yaml
farm logs web
farm qualify am62x-1
farm status
farm test-alert farm.yaml
farm units farm.yaml
farm up
watch
exporter --listen 127.0.0.1:9870
backup /srv/backup
restore /srv/backup --dry-run
upgrade check
"""


def add_examples(app: typer.Typer, path: str) -> None:
    """Give each command of an application its example.

    Args:
        path: words after `lab` that lead to the application.
    """
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        # Typer makes an application of one command that command: its own name is no word then.
        is_alone = len(app.registered_commands) == 1 and not app.registered_callback
        words = path if is_alone else f"{path} {name}"
        example = next((line for line in EXAMPLES.splitlines() if f"{line} ".startswith(f"{words} ")), None)
        command.epilog = None if example is None else f"Example: lab {example}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{path} {group.name}")
