"""glmark2 (DRM, Wayland), GFXBench, GLBenchmark 2.5; they need a display."""

from __future__ import annotations

import re
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import PrintedNumber, missing, read, refusal, rule
from lab.benchmarks.section import (
    Bench,
    HarmlessStatus,
    Need,
    ParsedReading,
    Row,
    Rows,
    Section,
    Validity,
    has_feature,
)

CHAPTER = "Graphics SGX/RGX Driver"
GLMARK2 = {
    "glmark2-drm": "systemctl stop weston; glmark2-es2-drm",
    "glmark2-wayland": "systemctl start weston; glmark2-es2-wayland",
    "glmark2-wayland 1920x1080": "systemctl start weston; glmark2-es2-wayland --size 1920x1080",
}
_LAST_SCENE = r"^\[loop\] .*fragment-uniform=true"  # glmark2 src/default-benchmarks.h
GFXBENCH = {
    "gl_manhattan_off": "gfxbench 3.x gl_manhattan_off",
    "gl_trex_off": "gfxbench 3.x gl_trex_off",
    "gl_5_high_off": "gfxbench 5.x gl_5_high_off",
}


# They print a result when its test is done. From 126 on it is the shell that failed, or a signal.
_UNKNOWN_STATUS = Validity(
    harmless=(HarmlessStatus(range(1, 126), "no document says what Kishonti's programs return after a good test"),)
)


def glmark2(output: bytes, test: str) -> list[ParsedReading]:
    """The score: mean frames a second over all scenes.

    Interrupted, it prints the mean of the scenes so far and ends with status 0.
    """
    scenes: list[str] = []

    def scene(match: re.Match[str]) -> list[ParsedReading]:
        scenes.append(match[0])
        return []

    rules = [
        rule(r"glmark2 Score: (\d+) *$", PrintedNumber("glmark2.score", {"test": test})),
        rule(r"^\[[\w-]+\] .*", scene),
        rule(r"^=+$|^ *glmark2 \d|^ *(?:GL_|OpenGL|Surface)"),
    ]
    readings = read(output, "glmark2", rules)
    if scenes and not any(re.search(_LAST_SCENE, line) for line in scenes):
        raise refusal(
            "glmark2", f"it ended after {scenes[-1]!r}, before its last scene, so its score is that of a part"
        )
    return readings


def gfxbench(output: bytes, test: str) -> list[ParsedReading]:
    """Frames and frames a second from the JSON that the test prints."""
    rules = [
        rule(r'"fps": *(\d+(?:\.\d+)?) *,', PrintedNumber("gfxbench.rate", {"test": test})),
        rule(r'"score": *(\d+(?:\.\d+)?) *,', PrintedNumber("gfxbench.score", {"test": test})),
        rule(r'^\[INFO ?\]|^ *[{}\]]|^ *"'),
    ]
    return read(output, "GFXBench", rules, expected=2)


def glbenchmark_tests(output: bytes) -> dict[str, str]:
    """PrintedNumber -> name of every test that GLBenchmark2 lists."""
    text = output.decode("utf-8", "replace")
    tests = dict(re.findall(r"Log:.*?(\d{7})\s*\|\s*(GLB\w+)", text))
    if not tests:
        raise missing("GLBenchmark2", "a list of tests", text.partition("\n")[0])
    return tests


def glbenchmark(output: bytes, test: str) -> list[ParsedReading]:
    """Parse one test: mean frame rate, and triangles or texels per second.

    A frame rate comes several times in one run, and each is the vendor's sample; here they are one number. It is whole
    when the test says that it has finished.
    """
    rates: list[float] = []
    name = _test(test)

    def frames(match: re.Match[str]) -> list[ParsedReading]:
        if rates[-1:] != [float(match[1])]:  # a line that came twice is one sample
            rates.append(float(match[1]))
        return []

    def end(match: re.Match[str]) -> list[ParsedReading]:
        if not rates:
            return []
        mean = ParsedReading("glbenchmark.rate", sum(rates) / len(rates), {"test": name, "what": "fps"})
        counted = (
            [ParsedReading("glbenchmark.rate", float(match[1]), {"test": name, "what": "rate"})] if match[1] else []
        )
        return [*counted, mean]

    rules = [
        rule(r"FinishCurrentTest\(\w+: (?:(\d+(?:\.\d+)?) (?:triangles|texels?)/s)?", end),
        rule(r"FPS = (\d+(?:\.\d+)?)$", frames),
        rule(r"^Log:"),
    ]
    return read(output, "GLBenchmark2", rules)


def _test(name: str) -> str:
    """The guides' name of a GLBenchmark test."""
    return f"{name.lower()} test"


def _glmark2(bench: Bench) -> Rows:
    for test, command in GLMARK2.items():
        yield Row(partial(bench.read, partial(glmark2, test=test), command, timeout_s=900), {"test": test})


def _gfxbench(bench: Bench) -> Rows:
    for option, test in GFXBENCH.items():
        command = f"cd {bench.site.gfxbench} && ./testfw_app --gfx egl --gl_api gles -w 1920 -h 1080 -t {option}"
        measure = partial(bench.read, partial(gfxbench, test=test), command, timeout_s=600, validity=_UNKNOWN_STATUS)
        yield Row(measure, {"test": test})


def _glbenchmark(bench: Bench) -> Rows:
    ahead = f"cd {bench.site.glbenchmark} &&"
    for number_, name in glbenchmark_tests(bench.run(f"{ahead} ./GLBenchmark2 2>&1", timeout_s=120)).items():
        command = f"{ahead} ./GLBenchmark2 -t {number_} -d ./data 2>&1"
        parser = partial(glbenchmark, test=name)
        measure = partial(bench.read, parser, command, timeout_s=600, validity=_UNKNOWN_STATUS)
        yield Row(measure, {"test": _test(name)})


def _folder(field: str, program: str) -> Need:
    return needs.path(
        f"{{site.{field}}}/{program}", field, f"install the suite there, or set `benchmarks: {{{field}: ...}}`"
    )


def _weston(bench: Bench) -> None:
    bench.run("systemctl start weston", check=False)


SECTIONS = (
    Section(
        name="gfxbench",
        title="GFXBench",
        chapter=CHAPTER,
        metrics=("gfxbench.score", "gfxbench.rate"),
        rows=_gfxbench,
        needs=(_folder("gfxbench", "testfw_app"), needs.display()),
        command="testfw_app --gfx egl --gl_api gles -w 1920 -h 1080 -t gl_manhattan_off",
        fits=has_feature("gfxbench"),
        duration_s=240,
    ),
    Section(
        name="glmark2",
        title="glmark2",
        chapter=CHAPTER,
        metrics=("glmark2.score",),
        rows=_glmark2,
        restore=_weston,
        needs=(needs.tool("glmark2-es2-drm"), needs.tool("glmark2-es2-wayland"), needs.display()),
        command="glmark2-es2-drm; glmark2-es2-wayland --size 1920x1080",
        fits=has_feature("glmark2"),
        duration_s=900,
    ),
    Section(
        name="glbenchmark",
        title="GLBenchmark 2.5",
        chapter=CHAPTER,
        metrics=("glbenchmark.rate",),
        rows=_glbenchmark,
        needs=(_folder("glbenchmark", "GLBenchmark2"), needs.display()),
        command="GLBenchmark2 -t NUMBER -d ./data",
        fits=has_feature("glbenchmark"),
        duration_s=600,
    ),
)
