"""Exports of runs for other programs: JUnit's XML and KCIDB's JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.etree import ElementTree as ET

from lab.errors import ConfigurationError
from lab.metrics import Measurement, summarise
from lab.metrics.limits import LimitOutcome
from lab.results.formatting import label, limit_checks
from lab.results.listing import Overview
from lab.results.records import Attempt
from lab.terminal import plain_text


def junit(runs: Sequence[Overview]) -> str:
    """Return runs as JUnit's XML, with one suite for each run.

    A suite has a case for each number, for each cycle that failed, and for a run that is not complete. A case of a
    number has its value, ± and samples as properties. A number beyond a limit is a failure, and so is a cycle that the
    board failed. A cycle that the lab, the test or the configuration failed is an error, and so is an incomplete run.
    """
    root = ET.Element("testsuites", name="boardlab")
    for run in runs:
        r, missing_cycles = run.run, _missing_cycles(run)
        suite = ET.SubElement(root, "testsuite", name=_text(f"run {r.id}: {r.kind} of {r.board}"))
        suite.set("timestamp", r.started_at.isoformat())
        identity = {
            "run": r.id,
            "board": r.board,
            "board_type": r.board_type,
            "release": r.release,
            "virtual": run.virtual,
        }
        _properties(suite, {**identity, "status": r.status})
        unmet_limits = {
            id(m): limit_check for m, limit_check in limit_checks(run) if limit_check.outcome is not LimitOutcome.PASS
        }
        for m in run.measurements:
            case = ET.SubElement(
                suite, "testcase", classname=m.metric.name, name=_text(label(m.params) or m.metric.name), time="0"
            )
            _properties(case, _number(m) | {"samples": " ".join(f"{s.value:.9g}" for s in m.samples)})
            if limit_check := unmet_limits.get(id(m)):
                message = _text(limit_check.sentence(m.metric, m.metric.name))
                if limit_check.outcome is LimitOutcome.FAIL or math.isinf(limit_check.uncertainty):
                    kind = "failure" if limit_check.outcome is LimitOutcome.FAIL else "error"
                    ET.SubElement(case, kind, type="limit", message=message)
                else:
                    ET.SubElement(case, "system-out").text = message
        for attempt in missing_cycles:
            name = f"{label(attempt.params)} cycle {attempt.cycle}"
            case = ET.SubElement(
                suite, "testcase", classname=r.kind, name=_text(name), time=f"{attempt.duration_s:.3f}"
            )
            kind = "failure" if attempt.fault == "board" else "error"
            ET.SubElement(case, kind, type=_text(attempt.outcome), message=_text(attempt.message))
        if run.shortage:
            case = ET.SubElement(suite, "testcase", classname=r.kind, name="complete", time="0")
            ET.SubElement(case, "error", type=r.status, message=_text(f"not complete: {run.shortage}"))
        suite.set("tests", str(len(suite.findall("testcase"))))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("errors", str(len(suite.findall("testcase/error"))))
    ET.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _properties(parent: ET.Element, values: dict[str, Any]) -> None:
    """Add properties to a suite or a case."""
    element = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(element, "property", name=name, value=_text(str(value)))


def _text(text: str) -> str:
    """Return a text in which "?" replaces the characters that XML 1.0 forbids."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", plain_text(text))


def _number(m: Measurement) -> dict[str, Any]:
    """Return the statistics of a number by name."""
    s = summarise(m.samples)
    return {
        "value": s.mean,
        "unit": m.metric.unit,
        "uncertainty": s.uncertainty,
        "n": s.n,
        "min": s.min,
        "max": s.max,
        "flags": " ".join(sorted(m.flags)),
        "better": m.metric.better,
        "definition_version": m.metric.version,
    }


def _missing_cycles(run: Overview) -> list[Attempt]:
    """Return the last attempt of each cycle without a good one."""
    last: dict[tuple[frozenset[tuple[str, str]], int], Attempt] = {}
    for attempt in run.attempts:
        key = (frozenset(attempt.params.items()), attempt.cycle)
        if key not in last or not last[key].ok:
            last[key] = attempt
    return [attempt for attempt in last.values() if not attempt.ok]


KCIDB_VERSION: Final = {"major": 5, "minor": 3}  # schema of March 2025; `number` came with 4.4
_ORIGIN: Final = re.compile(r"[a-z0-9_]+")
_STATUSES: Final = {"lab": "MISS", "board": "FAIL"}  # party at fault -> status; of others it is ERROR
_EXCERPT: Final = 16_384  # largest length of a log_excerpt


def kcidb(runs: Sequence[Overview], origin: str, build_id: str = "") -> str:
    """Return runs as KCIDB's JSON, which a person posts.

    It has a test for each number, for each cycle that failed, and for a run that is not complete (MISS). The test of a
    number is DONE: only a verdict would pass or fail it. Its path begins with `boardlab`, since KernelCI takes each
    path `boot` for a boot test.

    Args:
        origin: name that KernelCI has given to this lab.
        build_id: id of the kernel's build, `ORIGIN:...`; empty: it is made of the release.

    Raises:
        ConfigurationError: `origin` or `build_id` has another form.
    """
    if not _ORIGIN.fullmatch(origin):
        raise ConfigurationError(
            f"--kcidb {origin!r}: give the origin that KernelCI has assigned: lower-case letters, digits and _"
        )
    if build_id and not build_id.startswith(f"{origin}:"):
        raise ConfigurationError(f"--build-id {build_id!r}: it has to begin with {origin}:")
    tests = [test for run in runs for test in _kcidb_tests(run, origin, build_id)]
    return json.dumps({"version": KCIDB_VERSION, "tests": tests}, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _kcidb_tests(run: Overview, origin: str, build_id: str) -> Iterator[dict[str, Any]]:
    """Yield the tests of one run."""
    r = run.run
    common = {
        "build_id": build_id or f"{origin}:boardlab-{_word(r.release)}",
        "origin": origin,
        "environment": {"comment": r.board, "misc": {"platform": r.board_type, "virtual": run.virtual}},
        "start_time": r.started_at.isoformat(),
    }
    for number, m in enumerate(run.measurements):
        figures = _number(m)
        value: dict[str, Any] = {"value": figures.pop("value"), "prefix": "metric"}
        if unit := figures.pop("unit"):
            value["unit"] = unit
        yield {
            **common,
            "id": f"{origin}:boardlab-run-{r.id}-number-{number}",
            "path": _path(m.metric.name.replace(".", "_"), label(m.params)),
            "status": "DONE",
            "number": value,
            "misc": {**figures, "params": dict(m.params), "run": r.id, "release": r.release, "metric": m.metric.name},
        }
    if run.shortage:
        yield {
            **common,
            "id": f"{origin}:boardlab-run-{r.id}-complete",
            "path": _path("complete", r.kind),
            "status": "MISS",
            "log_excerpt": f"not complete: {run.shortage}",
            "misc": {"status": r.status, "run": r.id, "release": r.release},
        }
    for attempt in _missing_cycles(run):
        yield {
            **common,
            "id": f"{origin}:boardlab-run-{r.id}-attempt-{attempt.id}",
            "path": _path("cycle", r.kind, label(attempt.params)),
            "status": _STATUSES.get(attempt.fault or "", "ERROR"),
            "start_time": attempt.started_at.isoformat(),
            "duration": attempt.duration_s,
            "log_excerpt": plain_text(attempt.message)[:_EXCERPT],
            "misc": {"outcome": attempt.outcome, "cycle": attempt.cycle, "run": r.id, "release": r.release},
        }


def _path(*parts: str) -> str:
    """Return the path of a test, e.g. "boardlab.boot_time.sd"."""
    return ".".join(["boardlab", *(word for part in parts if (word := _word(part)))])


def _word(text: str) -> str:
    """Return a text in which "_" replaces all but letters, digits, "_" and "-"."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
