"""Guides in a browser: imported and written ones, what is wrong in them, and two compared."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from support import recorded_run
from support.facts import missing_facts
from support.web_serving import serving

from lab.guide.check import importer as guide_importer
from lab.host.clock import utc_now
from lab.results import open_store
from lab.web.site import Site

GUIDES = Path(__file__).parents[1] / "guide"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("guides")
    with open_store(str(folder / "results.db")) as store:
        importer = guide_importer.Importer(store)
        for release, seconds in (("10.01", "15.20"), ("11.01", "13.40")):
            path = folder / f"guide-{release}.rst"
            path.write_text(guide(release, seconds), encoding="utf-8")
            (made,) = guide_importer.prepare_all([path], None, None, utc_now())
            assert not isinstance(made, Exception), made
            importer.add(made)
        recorded_run.record(store, virtual=False, cycles=2, release="11.02")
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as address:
        yield address


def guide(release: str, seconds: str) -> str:
    return f"""
Linux {release} Performance Guide
*********************************

Boot-time Measurement
---------------------

Boot media: MMCSD
^^^^^^^^^^^^^^^^^

.. csv-table:: Linux boot time MMCSD
    :header: "Boot Configuration","am62xx_sk-fs: Boot time in seconds: avg(min,max)"

    "Linux boot time from SD with default rootfs (20 boot cycles)","{seconds} (11.00,14.00)"
"""


def get(address: str) -> requests.Response:
    return requests.get(address, timeout=60)


def test_all_releases_with_numbers_are_listed_with_the_files_that_were_imported(url: str) -> None:
    text = get(f"{url}/guides").text
    rows = re.findall(r'<a href="/guides/([^"]+)">.*?class="text">([^<]*)<', text, re.S)
    assert rows == [("11.02", "nothing"), ("11.01", "guide-11.01.rst"), ("10.01", "guide-10.01.rst")]


@pytest.mark.parametrize("release", ["10.01", "11.02"])
def test_a_guide_is_there_whole_and_as_its_source(url: str, release: str) -> None:
    about = get(f"{url}/guides/{release}")
    assert about.status_code == 200, about.text
    assert f'href="/guides/{release}?form=html"' in about.text
    assert '<h2 id="findings">' in about.text
    whole = get(f"{url}/guides/{release}?form=html")
    assert f"<h1>Linux {release} Performance Guide</h1>" in whole.text
    assert "'sha256-" in whole.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in whole.headers["content-security-policy"]
    source = get(f"{url}/guides/{release}?form=rst")
    assert source.headers["content-type"].startswith("text/plain")
    assert ".. csv-table::" in source.text


def test_a_finding_of_a_guide_is_shown_with_its_rule(url: str) -> None:
    """Its average is beyond its maximum, and so it cannot be right."""
    text = html.unescape(get(f"{url}/guides/10.01").text)
    (row,) = re.findall(r'<tr class="bad">.*?</tr>', text.split('<h2 id="findings">')[1], re.S)
    assert re.search(r'class="verdict">error<', row)
    assert "15.2" in row


def test_two_guides_are_compared_as_on_the_command_line(url: str) -> None:
    text = html.unescape(get(f"{url}/guides?old=10.01&new=11.01").text)
    assert not missing_facts(text, "<h1>", "11.01 against 10.01</h1>")
    assert "15.2" in text
    assert "13.4" in text


def test_releases_lead_to_their_guides(url: str) -> None:
    assert 'href="/guides/11.02"' in get(f"{url}/releases/11.02").text


def test_a_guide_that_is_not_there_says_which_are(url: str) -> None:
    for address in ("/guides/9.9", "/guides/9.9?form=rst", "/guides?old=9.9&new=11.01"):
        answer = get(url + address)
        assert answer.status_code == 404
        assert not missing_facts(html.unescape(answer.text), "10.01", "11.01", "11.02")
