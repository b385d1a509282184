"""Sound, graphics, CAN and cyclictest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool, drawn, known, option, play
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams

_BYTES = 10_485_760
_CAN_FRAMES_S = 7400.0  # unpublished; 1 Mbit/s carries about that many frames of eight bytes
_LATENCY_US = {"min": 4, "mean": 7, "max": 42}  # the size of a K3 board's; no guide in the family has numbers


def _alsa(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    rate = option(arguments, "-rate", "48000")
    direction, word = ("capture", "Read") if "-record" in arguments else ("playback", "write")
    params = {"direction": direction, "rate_hz": rate}
    bits = known(session).figure("audio.throughput", float(rate) * 32, **params).value
    load = drawn(session, "audio.cpu_load", 0.2, **params)
    seconds = _BYTES * 8 / bits
    text = (
        "|TEST START|alsa_perf_tests|\n|TRACE LOG|Device		|hw:0,0|\n"
        f"|TRACE LOG|Sampling Rate	|{rate}|\n|TRACE LOG|{word}: Duration in Sec | {seconds:.6f}|\n"
        f"|TRACE LOG|{word}: No. of bits/Sec | {bits:.0f}|\n|TRACE LOG|{word}: percentage cpu load | {load:.2f}%|\n"
        "|TEST RESULT|PASS|alsa_perf_tests|\n|TEST END|alsa_perf_tests|\n"
    )
    return (yield from play(session, streams, text, seconds))


def _glmark2(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    test = "glmark2-drm" if arguments[0].endswith("drm") else "glmark2-wayland"
    test += f" {option(arguments, '--size')}" if "--size" in arguments else ""
    score = round(drawn(session, "glmark2.score", 60.0, test=test))
    rule = "=" * 55
    text = (
        f"{rule}\n    glmark2 2023.01\n{rule}\n    OpenGL Information\n    GL_VENDOR:      Imagination Technologies\n"
        f"[build] use-vbo=false: FPS: {score + 20} FrameTime: 12.346 ms\n"
        f"[loop] fragment-steps=5:fragment-uniform=true:vertex-steps=5: FPS: {score - 20} FrameTime: 17.241 ms\n{rule}\n"
        f"                                  glmark2 Score: {score} \n{rule}\n"
    )
    return (yield from play(session, streams, text, 280))


def _gfxbench(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    option_ = option(arguments, "-t", "gl_manhattan_off")
    test = f"gfxbench {'5' if '_5_' in option_ else '3'}.x {option_}"
    fps, score = drawn(session, "gfxbench.rate", 1.0, test=test), drawn(session, "gfxbench.score", 60.0, test=test)
    text = (
        '[INFO ]: {\n  "results": [\n    {\n      "elapsed_time": 62000,\n'
        f'      "fps": {fps:.4f},\n      "score": {score:.4f},\n      "test_id": "{option_}"\n    }}\n  ]\n}}\n'
    )
    return (yield from play(session, streams, text, 65))


def _glbenchmark(
    session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter
) -> Program[int]:
    tests = list(dict.fromkeys(one.params["test"] for one in known(session).by_metric.get("glbenchmark.rate", ())))
    numbers = {f"2500{index:03}": _spelled(test) for index, test in enumerate(tests, start=5)}
    wanted = option(arguments, "-t")
    if not wanted:
        text = "".join(f"Log: {number} | {name}\n" for number, name in numbers.items())
        return (yield from play(session, streams, text, 1))
    name = numbers.get(wanted, "")
    test = f"{name.lower()} test"
    fps = drawn(session, "glbenchmark.rate", 30.0, test=test, what="fps")
    text = "".join(f"Log: FPS = {fps * factor:.2f}\n" for factor in (0.99, 1.0, 1.01))
    said = f"{fps:.2f} FPS"
    if known(session).has("glbenchmark.rate", test=test, what="rate"):
        rate = drawn(session, "glbenchmark.rate", 1e7, test=test, what="rate")
        said = f"{rate:.2f} {'texels' if 'Fill' in name else 'triangles'}/s, {said}"
    text += f"Log: Application::FinishCurrentTest({name}: {said})\n"
    return (yield from play(session, streams, text, 30))


def _spelled(test: str) -> str:
    name = test.removesuffix(" test")
    return "GLB" + name[3:].replace("filltest", "FillTest")


def _cangen(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    frames, settings = int(option(arguments, "-n", "1")), session.kernel.settings
    settings["packets"] = str(int(settings.get("packets", "1000")) + frames)
    seconds = frames / _CAN_FRAMES_S
    return (yield from play(session, streams, "", seconds))


def _cyclictest(
    session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter
) -> Program[int]:
    cpus, highest = session.computer.model.identity.cpus, int(option(arguments, "-h", "400"))
    seconds = float(option(arguments, "-D", "60"))
    total = round(seconds / 200e-6) - 1
    low, mean, high = (round(_LATENCY_US[name] * drawn(session, "rt.latency", 1.0)) for name in ("min", "mean", "max"))
    counts = dict.fromkeys(range(highest), 0)
    counts |= {high: 1, low: total // 10}
    counts[mean] += total - 1 - counts[low]
    seen = sum(counts.values())

    def row(value: int) -> str:
        return " ".join([f"{value:06d}"] * cpus)

    text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n"
    text += "".join(f"{latency:06d} " + "\t".join([f"{count:06d}"] * cpus) + "\n" for latency, count in counts.items())
    text += f"# Total: {' '.join([f'{seen:09d}'] * cpus)}\n# Min Latencies: {row(low)}\n# Avg Latencies: {row(mean)}\n"
    text += f"# Max Latencies: {row(high)}\n# Histogram Overflows: {row(0)}\n# Histogram Overflow at cycle number:\n"
    text += "".join(f"# Thread {cpu}:\n" for cpu in range(cpus)) + "\n"
    return (yield from play(session, streams, text, seconds))


TOOLS: Mapping[str, Tool] = {
    "GLBenchmark2": _glbenchmark,
    "cangen": _cangen,
    "cyclictest": _cyclictest,
    "glmark2-es2-drm": _glmark2,
    "glmark2-es2-wayland": _glmark2,
    "run_alsa_perf.sh": _alsa,
    "testfw_app": _gfxbench,
}
