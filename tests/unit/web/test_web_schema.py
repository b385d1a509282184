"""The JSON interface does what its OpenAPI document says, whatever it is asked (schemathesis, the same examples each time)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.specs.openapi.schemas import OpenApiSchema
from support import recorded_run
from support.atlength import either
from support.web_serving import serving

from lab.results import open_store
from lab.web.site import Site

pytestmark = pytest.mark.longer

EXAMPLES = either(8, 100)  # an address
chosen = settings(
    max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenApiSchema]:
    folder = tmp_path_factory.mktemp("lab")
    with open_store(str(folder / "results.db")) as store:
        recorded_run.record(store, virtual=False, cycles=2)
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as address:
        yield schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json", timeout=60)


def test_every_answer_is_one_that_the_document_names(document: OpenApiSchema) -> None:
    asked = []
    for found in document.include(method="GET").get_all_operations():
        operation = found.ok()

        @chosen
        @given(operation.as_strategy())
        def answers(case: Case) -> None:
            case.call_and_validate(timeout=60)

        answers()
        asked.append(operation.path)
    assert {
        "/api/v1/runs",
        "/api/v1/runs/{run_id}",
        "/api/v1/metrics/{metric}",
        "/api/v1/releases",
        "/api/v1/releases/{release}",
    } <= set(asked)
