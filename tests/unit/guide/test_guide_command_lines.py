"""Commands of a table's numbers, as a guide prints them."""

from __future__ import annotations

import pytest

from lab.guide.write.command_lines import merge_commands

IPERF = (
    "echo packets before $(cat /sys/class/net/eth0/statistics/tx_packets); iperf -c 192.168.0.1 -d -t 60 > "
    "/run/boardlab.iperf 2>&1 & sleep 5; mpstat -P ALL 50 1; wait $!; status=$?; echo packets after $(cat "
    "/sys/class/net/eth0/statistics/tx_packets); cat /run/boardlab.iperf; rm -f /run/boardlab.iperf; (exit $status)"
)
NETPERF = (
    "netperf -t TCP_STREAM > /run/boardlab.netperf.TCP_STREAM 2>&1 & netperf -t TCP_MAERTS > "
    "/run/boardlab.netperf.TCP_MAERTS 2>&1; second=$?; wait $!; first=$?; cat /run/boardlab.netperf.TCP_STREAM "
    "/run/boardlab.netperf.TCP_MAERTS; rm -f /run/boardlab.netperf.TCP_STREAM /run/boardlab.netperf.TCP_MAERTS; test "
    "$first = 0 && first=$second; (exit $first)"
)


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        ([], []),
        (["bw_mem 1M rd 2>&1", "bw_mem 2M rd 2>&1", "bw_mem 1M wr 2>&1"], ["bw_mem {1M|2M} {rd|wr}"]),
        (["dd if=/dev/zero bs=1 count=9", "dd if=/dev/zero bs=3 count=3"], ["dd if=/dev/zero bs={1|3} count={9|3}"]),
        (["stress-ng --cpu 1", "stress-ng --pipe 1"], ["stress-ng --cpu 1", "stress-ng --pipe 1"]),
        (["lat_pipe", "lat_sem", "lat_pipe"], ["lat_pipe", "lat_sem"]),
        (["a stop; x", "a start; y", "a start; x"], ["a {stop|start}; x", "a start; y"]),
        (["tester: dd of=/mnt/a bs=1M 2>&1"], ["tester: dd of=/mnt/a bs=1M"]),
        (["cd /opt/gfx && ./app -t a"], ["cd /opt/gfx && ./app -t a"]),
        ([IPERF], ["iperf -c 192.168.0.1 -d -t 60 & sleep 5; mpstat -P ALL 50 1"]),
        ([NETPERF], ["netperf -t TCP_STREAM & netperf -t TCP_MAERTS"]),
        (["echo 3 > /proc/sys/vm/drop_caches; dd if=/x"], ["echo 3 > /proc/sys/vm/drop_caches; dd if=/x"]),
    ],
)
def test_alike_commands_are_one_line_without_the_labs_own_shell(commands: list[str], lines: list[str]) -> None:
    assert list(merge_commands(commands)) == lines
