"""Who comes in and who may change something: every address of the site is tried by everybody who may not."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import evolve
from fastapi.routing import APIRoute
from sqlalchemy import Table, select
from support.facts import missing_facts
from support.web_people import BOARD, PASSWORDS, Browser, GuardedSite, Time, access, logged_in, users
from support.web_serving import serving

from lab.cli import web as web_command
from lab.errors import ConfigurationError, LabStableError
from lab.health.reservations import ReservationBook
from lab.host import process
from lab.http.access import MOST, MOST_WIDE, WINDOW_S, LoginAttempts
from lab.http.web_config import Tls, WebConfig
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import Order
from lab.results.audit import DONE, Audit
from lab.results.models import Base
from lab.web import audit_log, job_control
from lab.web.app import LOCAL_NAMES, create
from lab.web.audit_log import MOST_REFUSED
from lab.web.auth import SESSION_S, Access, Proxy, Users, access_of
from lab.web.site import Site

TABLES = [table for name, table in Base.metadata.tables.items() if name != "audit"]
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
OF_EVERYBODY = {"/login", "/logout"}


def addresses() -> list[str]:
    """Every address of the site, with something for its parameters; a new one is among them."""
    found = [route.path for route in routes()]
    values = {"{board:path}": BOARD, "{run_id}": "1", "{release:path}": "11.01", "{metric:path}": "boot.time"}
    filled = [re.sub(r"\{[^}]+\}", lambda part: values.get(part[0], "1"), path) for path in found]
    return sorted({*filled, "/static/site.css", "/nosuch"})


def routes() -> list[APIRoute]:
    return [route for route in _flat(create(Site()).routes) if isinstance(route, APIRoute)]


def _flat(found: Iterable[Any]) -> Iterator[Any]:
    """Routes, also those of routers that FastAPI keeps whole."""
    for each in found:
        router = getattr(each, "original_router", each)
        inner = [] if isinstance(each, APIRoute) else getattr(router, "routes", [])
        yield from _flat(inner) if inner else [each]


def posted() -> set[str]:
    return {route.path for route in routes() if "POST" in route.methods} - OF_EVERYBODY


def contents(site: GuardedSite) -> dict[Table, list[Any]]:
    """All rows of what actions change."""
    with site.store() as store:
        return {table: [tuple(row) for row in store.rows(select(table))] for table in TABLES}


def test_the_list_of_addresses_has_the_actions() -> None:
    assert {"/boards/{board:path}/reserve", "/boards/{board:path}/power-cycle", "/runs/{run_id}/again"} <= posted()
    assert len(posted()) >= 12
    assert f"/boards/{BOARD}/power-cycle" in addresses()


def test_nobody_but_an_operator_changes_anything_anywhere(
    guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(job_control, "queue_run", lambda *given: started.append(given))
    monkeypatch.setattr(job_control, "power_cycle", lambda *given: started.append(given))
    nobody, viewer, operator = Browser(guarded.url), logged_in(guarded.url, "vera"), logged_in(guarded.url, "olga")
    before = contents(guarded)
    csrf, own = {who: who_browser.csrf() for who, who_browser in (("vera", viewer), ("olga", operator))}, guarded.url
    assert all(csrf.values())
    actions = posted()
    fields = {"hours": "1", "reason": "x", "text": "x", "job": "j1", "suite": "boot", "line": "x", "run": "1"}
    fields |= {"decision": "accept", "verdict": "1", "until": "2099-01-01"}
    tries: list[tuple[str, requests.Session, dict[str, str], dict[str, str], Any]] = [
        ("nobody", nobody.session, {}, {"Origin": own}, None),
        ("a viewer", viewer.session, {"csrf": csrf["vera"]}, {"Origin": own}, None),
        ("nobody with a token", nobody.session, {"csrf": csrf["olga"]}, {"Origin": own}, None),
        ("a viewer with another's token", viewer.session, {"csrf": csrf["olga"]}, {"Origin": own}, None),
        ("an operator's password", requests.Session(), {}, {"Origin": own}, ("olga", PASSWORDS["olga"])),
        ("another site", operator.session, {"csrf": csrf["olga"]}, {"Origin": "https://attacker.example"}, None),
        ("another port", operator.session, {"csrf": csrf["olga"]}, {"Origin": "http://127.0.0.1:1"}, None),
        ("another scheme", operator.session, {"csrf": csrf["olga"]}, {"Origin": own.replace("http:", "https:")}, None),
        ("a page of nowhere", operator.session, {"csrf": csrf["olga"]}, {"Origin": "null"}, None),
        ("no page", operator.session, {"csrf": csrf["olga"]}, {}, None),
        ("an old page", operator.session, {"csrf": "0" * 64}, {"Origin": own}, None),
        ("a page without a token", operator.session, {}, {"Origin": own}, None),
    ]
    for path in addresses():
        if path in OF_EVERYBODY:
            continue
        acts = any(path.endswith(action.rpartition("/")[2]) for action in actions)
        for who, session, more, headers, auth in tries if acts else tries[:2]:
            for method in CHANGING if acts and who == "a viewer" else ("POST",):
                answer = session.request(
                    method,
                    own + path,
                    data=fields | more,
                    headers=headers,
                    auth=auth,
                    allow_redirects=False,
                    timeout=60,
                )
                assert answer.status_code in {401, 403}, (who, method, path, answer.text[:200])
    assert (contents(guarded), started) == (before, [])
    with guarded.store() as store:
        assert {entry.action for entry in Audit(store).entries() if entry.outcome == DONE} == {"login"}


def test_no_address_changes_anything_when_it_is_only_looked_at(guarded: GuardedSite) -> None:
    operator = logged_in(guarded.url, "olga")
    before = contents(guarded)
    for path in addresses():
        with operator.get(path, stream=True, allow_redirects=False) as answer:
            assert answer.status_code in {200, 404, 405, 422, 503}, path
    assert contents(guarded) == before


def test_nobody_sees_anything_before_the_login(guarded: GuardedSite) -> None:
    for path in set(addresses()) - {"/login", "/static/site.css"}:
        answer = Browser(guarded.url).get(path, allow_redirects=False)
        assert answer.status_code == (401 if path.startswith("/api/") else 303), path
        assert BOARD not in answer.text
        if answer.status_code == 303:
            assert answer.headers["location"].startswith("/login?next=%2F")


def test_every_error_of_the_json_interface_is_json_and_in_its_document(
    guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = ("olga", PASSWORDS["olga"])
    document = requests.get(f"{guarded.url}/api/v1/openapi.json", auth=olga, timeout=60).json()

    def breaks(*_given: object, **_more: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(audit_log, "as_csv", breaks)
    monkeypatch.setattr(audit_log, "document", breaks)
    for status, path, options in (
        (400, "/api/v1/runs", {"auth": olga, "headers": {"Host": "evil.example"}}),
        (400, "/api/v1/runs?board=%00", {"auth": olga}),
        (401, "/api/v1/runs", {}),
        (401, "/api/v1/runs", {"auth": ("olga", "wrong")}),
        (404, "/api/v1/runs/99", {"auth": olga}),
        (422, "/api/v1/runs?limit=0", {"auth": olga}),
        (500, "/api/v1/audit", {"auth": olga}),
        *((401, "/api/v1/runs", {"auth": ("olga", "wrong")}) for _ in range(MOST - 1)),
        (429, "/api/v1/runs", {"auth": ("olga", "wrong")}),
    ):
        answer = requests.get(guarded.url + path, timeout=60, **options)  # type: ignore[arg-type]
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), path
        assert answer.json()["detail"], path
        known = [
            its for its in document["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", its), path.split("?")[0])
        ]
        assert str(status) in document["paths"][known[0]]["get"]["responses"], (status, path)
    refused = requests.post(f"{guarded.url}/api/v1/runs", auth=olga, timeout=60)
    assert refused.status_code == 403
    assert not missing_facts(refused.json()["detail"], "not come from a page")


def test_a_login_leads_to_the_page_that_was_asked_for_and_a_logout_ends_it(guarded: GuardedSite) -> None:
    browser = Browser(guarded.url)
    page = browser.get(f"/boards/{BOARD}?x=1")
    assert f'name="next" value="/boards/{BOARD}?x=1"' in page.text
    answer = browser.send("/login", csrf=False, name="vera", password=PASSWORDS["vera"], next=f"/boards/{BOARD}")
    assert answer.headers["location"] == f"/boards/{BOARD}"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    kept = dict(browser.session.cookies)
    assert browser.send("/logout").status_code == 303
    again = requests.get(
        f"{guarded.url}/runs", cookies=kept, headers={"Accept": "text/html"}, allow_redirects=False, timeout=60
    )
    assert again.status_code == 303, "the session has ended, not only the browser's cookie"


def test_a_login_leads_to_no_other_site(guarded: GuardedSite) -> None:
    browser = Browser(guarded.url)
    for wanted in (
        "https://attacker.example/",
        "//attacker.example",
        "/\\attacker.example",
        "\\\\a",
        "x",
        "/a\r\nb: c",
        "//[",
    ):
        answer = browser.send("/login", csrf=False, name="vera", password=PASSWORDS["vera"], next=wanted)
        assert answer.headers["location"] == "/", wanted


def test_a_password_is_guessed_a_few_times_and_every_failure_is_in_the_audit(guarded: GuardedSite) -> None:
    browser = Browser(guarded.url)
    for _ in range(MOST):
        assert browser.log_in("olga", "wrong").status_code == 403
    late = browser.log_in("olga")
    assert (late.status_code, late.headers["retry-after"]) == (429, str(int(WINDOW_S)))
    assert requests.get(guarded.url, auth=("olga", "wrong"), timeout=60).status_code == 429
    guarded.time.now += WINDOW_S - 1
    assert browser.log_in("olga").status_code == 429
    guarded.time.now += 1
    assert browser.log_in("olga").status_code == 303
    with guarded.store() as store:
        entries = Audit(store).entries(action="login")
    refused = ["too many wrong passwords"] * 3
    assert [entry.outcome for entry in entries] == ["done", *refused, *["wrong name or password"] * MOST]
    assert {(entry.person, entry.address) for entry in entries} == {("olga", "127.0.0.1")}


def test_wrong_passwords_for_one_name_lock_out_nobody_else_of_that_address(guarded: GuardedSite) -> None:
    for _ in range(MOST):
        assert Browser(guarded.url).log_in("olga", "wrong").status_code == 403
    assert Browser(guarded.url).log_in("olga").status_code == 429
    assert Browser(guarded.url).log_in("vera").status_code == 303
    right = requests.get(f"{guarded.url}/api/v1/runs", auth=("vera", PASSWORDS["vera"]), timeout=60)
    assert right.status_code == 200


def test_a_name_that_is_guessed_elsewhere_logs_in_from_another_address() -> None:
    attempts = LoginAttempts(Time())
    for _ in range(MOST):
        assert attempts.begin("olga", "192.0.2.1") == 0
    assert attempts.begin("olga", "192.0.2.1") == WINDOW_S
    assert attempts.begin("olga", "192.0.2.2") == 0


def test_many_names_from_one_address_wait_and_people_who_logged_in_there_before_do_not() -> None:
    time = Time()
    attempts = LoginAttempts(time)
    assert attempts.begin("olga", "192.0.2.1") == 0
    attempts.succeeded("olga", "192.0.2.1")
    tried = [attempts.begin(f"name {number}", "192.0.2.1") for number in range(MOST_WIDE + 1)]
    assert (tried.count(0), tried[-1]) == (MOST_WIDE, WINDOW_S)
    assert attempts.begin("olga", "192.0.2.1") == 0
    assert attempts.begin("vera", "192.0.2.2") == 0
    time.now += WINDOW_S
    assert attempts.begin("vera", "192.0.2.1") == 0


def test_one_name_from_many_addresses_waits_except_where_it_logged_in_before() -> None:
    attempts = LoginAttempts(Time())
    assert attempts.begin("olga", "192.0.2.1") == 0
    attempts.succeeded("olga", "192.0.2.1")
    tried = [attempts.begin("olga", f"198.51.100.{number}") for number in range(MOST_WIDE + 1)]
    assert (tried.count(0), tried[-1]) == (MOST_WIDE, WINDOW_S)
    assert attempts.begin("olga", "192.0.2.1") == 0


def test_every_action_that_is_refused_is_in_the_audit_with_person_board_and_reason(guarded: GuardedSite) -> None:
    viewer, operator = logged_in(guarded.url, "vera"), logged_in(guarded.url, "olga")
    for path in sorted(posted()):
        guarded.time.now += WINDOW_S / MOST  # so that no limit of entries is reached
        its = path.replace("{board:path}", BOARD).replace("{run_id}", "1")
        assert viewer.send(its).status_code == 403
        with guarded.store() as store:
            (entry,) = Audit(store).entries(limit=1)
        assert (entry.person, entry.address, entry.board) == ("vera", "127.0.0.1", BOARD if BOARD in its else "")
        assert "may only look" in entry.outcome, path
    path = f"/boards/{BOARD}/reserve"
    Browser(guarded.url).send(path, csrf=False)
    operator.send(path, origin="https://attacker.example", hours="1")
    operator.send(path, csrf=False)
    operator.send(path, reason="x" * 70_000)
    with guarded.store() as store:
        long, old, foreign, nobody = Audit(store).entries(action="reserve", limit=4)
    assert [each.person for each in (nobody, foreign, old, long)] == ["", "olga", "olga", "olga"]
    assert "log in first" in nobody.outcome
    assert not missing_facts(foreign.outcome, "not come from a page")
    assert "too old" in old.outcome
    assert "64 KiB" in long.outcome


def test_refusals_that_anybody_can_cause_are_recorded_up_to_a_limit(guarded: GuardedSite) -> None:
    nobody, operator = Browser(guarded.url), logged_in(guarded.url, "olga")
    for _ in range(MOST_REFUSED + 5):
        assert nobody.send(f"/boards/{BOARD}/run", csrf=False).status_code == 401
    assert operator.send(f"/boards/{BOARD}/comment", text="x").status_code == 303
    with guarded.store() as store:
        entries = Audit(store).entries(action="run")
        assert [each.action for each in Audit(store).entries(limit=1)] == ["comment"]
    assert len(entries) == MOST_REFUSED
    assert "not recorded" in entries[0].outcome
    guarded.time.now += WINDOW_S
    assert nobody.send(f"/boards/{BOARD}/run", csrf=False).status_code == 401
    with guarded.store() as store:
        assert len(Audit(store).entries(action="run")) == MOST_REFUSED + 1


def test_passwords_that_come_at_once_are_counted_before_they_are_tried(
    guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(_users: Users, _name: str, password: str) -> bool:
        tried.append(password)
        begun.set()
        return not go_on.wait(60)

    monkeypatch.setattr(Users, "right", slow)
    stats: list[int] = []

    def guess(number: int) -> None:
        if number % 2:
            stats.append(Browser(guarded.url).log_in("olga", "wrong").status_code)
        else:
            stats.append(requests.get(f"{guarded.url}/runs", auth=("olga", f"x{number}"), timeout=60).status_code)

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert Browser(guarded.url).get("/login").status_code == 200, "other pages go on"
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(tried) == MOST
    assert stats.count(429) == 60 - MOST


def test_what_no_browser_sends_is_refused_in_one_line(guarded: GuardedSite) -> None:
    browser = logged_in(guarded.url, "olga")
    assert browser.send(f"/boards/{BOARD}/comment", origin="http://[", text="x").status_code == 403
    assert browser.send("/login", csrf=False, name="vera", password=PASSWORDS["vera"], next="//[").status_code == 303
    browser = logged_in(guarded.url, "olga")
    assert browser.send(f"/boards/{BOARD}/comment", text="a\0b").status_code == 400
    assert browser.get("/runs?board=a%00b").status_code == 400
    assert browser.send(f"/boards/{BOARD}/cancel", job=f"{1:012}" + "0" * 5000).status_code in {409, 422}


def test_a_wrong_password_with_a_request_is_in_the_audit(guarded: GuardedSite) -> None:
    assert requests.get(f"{guarded.url}/api/v1/runs", auth=("vera", "wrong"), timeout=60).status_code == 401
    with guarded.store() as store:
        (entry,) = Audit(store).entries(action="login")
    assert (entry.person, entry.outcome, entry.address) == ("vera", "wrong name or password", "127.0.0.1")


def test_a_right_password_costs_nothing(guarded: GuardedSite) -> None:
    for _ in range(MOST + 1):
        assert Browser(guarded.url).log_in("vera").status_code == 303
    assert Browser(guarded.url).log_in("vera", "wrong").status_code == 403


def test_a_password_with_a_request_only_looks(guarded: GuardedSite) -> None:
    right = requests.get(f"{guarded.url}/api/v1/runs", auth=("olga", PASSWORDS["olga"]), timeout=60)
    assert right.status_code == 200
    assert requests.get(f"{guarded.url}/api/v1/runs", auth=("olga", "x"), timeout=60).status_code == 401
    Users(guarded.folder / "users.json").add("olga", "operator", "another password")
    after = requests.get(f"{guarded.url}/api/v1/runs", auth=("olga", PASSWORDS["olga"]), timeout=60)
    assert after.status_code == 401, "a password that was changed is known no more"


def test_a_session_ends_with_its_time_with_its_user_and_with_its_password(tmp_path: Path) -> None:
    time = Time()
    door = access(tmp_path, time)
    book = Users(tmp_path / "users.json")

    def begin() -> str:
        cookie = door.log_in("olga", PASSWORDS["olga"])
        assert cookie is not None
        assert door.person({}, cookie, "") is not None
        return cookie

    first = begin()
    time.now += SESSION_S
    assert door.person({}, first, "") is None
    second = begin()
    book.add("olga", "viewer", PASSWORDS["olga"])
    assert door.person({}, second, "") is None
    third = begin()
    person = door.person({}, third, "")
    assert person is not None
    assert (person.role, person.acts) == ("viewer", False)
    book.remove("olga")
    assert door.person({}, third, "") is None


def test_only_a_trusted_proxy_says_who_asks(tmp_path: Path) -> None:
    door = Access(users=users(tmp_path), proxy=Proxy(frozenset({"192.0.2.9"}), "X-Forwarded-User"))

    def asked(name: str, address: str) -> object:
        person = door.person({"x-forwarded-user": name}, "", address)
        return person and (person.name, person.acts)

    assert asked("olga", "192.0.2.9") == ("olga", True)
    assert asked("olga", "::ffff:192.0.2.9") == ("olga", True)
    assert asked("stranger", "192.0.2.9") == ("stranger", False)
    for name, address in (
        ("olga", "192.0.2.8"),
        ("olga", "127.0.0.1"),
        ("", "192.0.2.9"),
        ("a b\x1b", "192.0.2.9"),
        ("olga", "x"),
    ):
        assert asked(name, address) is None, (name, address)


def test_on_loopback_without_users_all_look_and_who_has_the_link_acts(guarded: GuardedSite) -> None:
    door = access_of("127.0.0.1", None, Users(guarded.folder / "none.json"))
    with serving(
        Site(guarded.database, runtime=guarded.folder / "runtime", folder=guarded.folder),
        [*LOCAL_NAMES, door.own_name],
        door,
    ) as url:
        other = Browser(url)
        assert other.send("/login", csrf=False, token=door.token).status_code == 403, (
            "its cookie would be of all ports"
        )
        browser = Browser(url, own_host=f"{door.own_name}:{url.rpartition(':')[2]}")
        assert "Log in</a> to reserve" in browser.get(f"/boards/{BOARD}").text
        assert browser.send("/login", csrf=False, token=door.token[:-1]).status_code == 403
        assert browser.send(f"/boards/{BOARD}/reserve", hours="1", reason="x").status_code == 401
        assert "Log in as" in browser.get(f"/login?token={door.token}").text
        answer = browser.send("/login", csrf=False, token=door.token)
        assert answer.status_code == 303
        assert answer.headers["set-cookie"].startswith(f"boardlab-{url.rpartition(':')[2]}=")
        assert "domain" not in answer.headers["set-cookie"].lower(), "the cookie is of this host alone"
        assert browser.send(f"/boards/{BOARD}/reserve", hours="1", reason="x").status_code == 303
        assert f"reserved</strong>\nby {door.owner} until" in browser.get(f"/boards/{BOARD}").text


def test_the_link_has_a_name_of_its_own_where_browsers_find_it(tmp_path: Path) -> None:
    nobody = Users(tmp_path / "none.json")
    names = {access_of(host, None, nobody).own_name for host in ("127.0.0.1", "127.0.0.1", "::1")}
    assert len(names) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}\.localhost", name) for name in names)
    assert access_of("127.0.0.2", None, nobody).own_name == "", "no browser looks for it there"
    assert access_of("127.0.0.1", WebConfig(Tls("a", "b")), nobody).own_name == "", "no certificate has it"
    assert access_of("127.0.0.1", None, users(tmp_path)).own_name == ""


def test_nobody_else_stands_at_the_port_of_the_other_loopback_address() -> None:
    first, *more = web_command._sockets("127.0.0.1", 0, both=True)
    port = first.getsockname()[1]
    with contextlib.ExitStack() as kept:
        for each in (first, *more):
            kept.enter_context(each)
        assert [each.getsockname()[:2] for each in more] in ([], [("::1", port)])
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(LabStableError, match=f"127\\.0\\.0\\.1:{port}"):
            web_command._sockets("::1", port, both=True)


def test_beyond_loopback_it_starts_only_with_tls_and_users(tmp_path: Path) -> None:
    nobody, some = Users(tmp_path / "none.json"), users(tmp_path)
    tls = Tls("a", "b")
    assert access_of("127.0.0.1", None, nobody).open
    for config, book, lacks in (
        (None, some, "TLS"),
        (WebConfig(), some, "TLS"),
        (None, nobody, "TLS"),
        (WebConfig(tls), nobody, "users"),
    ):
        with pytest.raises(ConfigurationError, match=f"other machines.*{lacks}"):
            access_of("192.0.2.1", config, book)
    door = access_of("192.0.2.1", WebConfig(tls), some)
    assert (door.open, door.token) == (False, "")
    proxy = access_of("192.0.2.1", WebConfig(tls), nobody, ["192.0.2.9"], "X-User").proxy
    assert proxy == Proxy(frozenset({"192.0.2.9"}), "X-User")


@pytest.mark.parametrize(
    ("proxies", "header", "says"),
    [
        (["127.0.0.1"], "X-User", "any user of this host could pass"),
        (["::1"], "X-User", "any user of this host could pass"),
        (["::ffff:127.0.0.1"], "X-User", "any user of this host could pass"),
        (["0.0.0.0"], "X-User", "any user of this host could pass"),  # noqa: S104 - it is to be refused
        (["proxy.example"], "X-User", "expected an IP address"),
        (["192.0.2.9"], None, "need each other"),
        ([], "X-User", "need each other"),
        (["192.0.2.9"], "X User", "the name of a header"),
    ],
)
def test_a_proxy_that_anybody_could_be_is_not_trusted(
    tmp_path: Path, proxies: list[str], header: str | None, says: str
) -> None:
    config = WebConfig(Tls("a", "b"))
    with pytest.raises(ConfigurationError, match=says):
        access_of("127.0.0.1", config, Users(tmp_path / "none.json"), proxies, header)
    verified = evolve(config, tls_server_config=Tls("a", "b", "RequireAndVerifyClientCert", "ca"))
    assert access_of("127.0.0.1", verified, Users(tmp_path / "none.json"), ["127.0.0.1"], "X-User").proxy is not None


def test_a_proxy_on_another_address_of_this_host_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[object] = []
    monkeypatch.setattr(
        socket.socket, "bind", lambda _socket, address: bound.append(address)
    )  # as on a host that has it
    config, nobody = WebConfig(Tls("a", "b")), Users(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match=r"any user.*this host"):
        access_of("127.0.0.1", config, nobody, ["192.0.2.9"], "X-User")
    assert bound == [("192.0.2.9", 0)]


def test_users_that_others_may_read_let_nobody_in(guarded: GuardedSite) -> None:
    browser = logged_in(guarded.url, "olga")
    (guarded.folder / "users.json").chmod(0o644)
    file = guarded.folder / "users.json"
    file.write_text(file.read_text() + "\n")
    answer = browser.get("/runs")
    assert (answer.status_code, "chmod 600" in answer.text) == (503, True)


def test_a_form_that_is_too_long_is_refused(guarded: GuardedSite) -> None:
    assert logged_in(guarded.url, "olga").send(f"/boards/{BOARD}/comment", text="x" * 70_000).status_code == 413


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_does_what_its_scope_has_by_the_json_interface_and_nothing_else(
    guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(job_control, "queue_run", lambda _site, _person, words: started.append(words) or "j7")
    known = Users(guarded.folder / "users.json")
    may: dict[str, set[str]] = {}
    for scope in ("read", "reserve", "run"):
        token = known.add_token(f"ci-{scope}", [scope])
        ways: dict[str, tuple[str, str, dict[str, str]]] = {
            "read": ("GET", "/api/v1/lab", {}),
            "look": ("GET", f"/boards/{BOARD}", {}),
            "run": ("POST", f"/api/v1/boards/{BOARD}/run", {"suite": "boot", "cycles": "3"}),
            "reserve": ("POST", f"/api/v1/boards/{BOARD}/reserve", {"hours": "1", "reason": "nightly"}),
            "release": ("POST", f"/api/v1/boards/{BOARD}/release", {}),
            "form": ("POST", f"/boards/{BOARD}/reserve", {"hours": "1", "reason": "nightly"}),
            "switch": ("POST", f"/api/v1/boards/{BOARD}/power-cycle", {}),
            "decide": ("POST", "/triage/review", {"run": "1", "decision": "accept"}),
        }
        may[scope] = set()
        for name, (method, path, form) in ways.items():
            answer = requests.request(
                method, guarded.url + path, data=form, headers=bearer(token), allow_redirects=False, timeout=60
            )
            if answer.status_code == 200:
                may[scope].add(name)
            else:
                assert answer.status_code == 403, (scope, name, answer.text)
        if scope == "run":
            assert requests.post(
                f"{guarded.url}/api/v1/boards/{BOARD}/run", {"suite": "boot"}, headers=bearer(token), timeout=60
            ).json() == {"board": BOARD, "person": "ci-run", "about": "j7: --suite=boot"}
    assert may == {"read": {"read", "look"}, "reserve": {"reserve", "release"}, "run": {"run"}}
    assert [words[1:] for words in started] == [["--suite=boot", "--cycles=3"], ["--suite=boot"]]
    with guarded.store() as store:
        done = {(entry.person, entry.action) for entry in Audit(store).entries() if entry.outcome == DONE}
    assert done == {("ci-reserve", "reserve"), ("ci-reserve", "release"), ("ci-run", "run")}


def test_a_token_ends_only_the_reservations_and_jobs_that_it_made(guarded: GuardedSite) -> None:
    token = Users(guarded.folder / "users.json").add_token("ci", ["reserve", "run"])

    def post(action: str, **form: str) -> tuple[int, str]:
        answer = requests.post(
            f"{guarded.url}/api/v1/boards/{BOARD}/{action}", form, headers=bearer(token), timeout=60
        )
        return answer.status_code, answer.text

    order = Order("am62xx_sk", BOARD, ("boot",), "e", "", None)
    with guarded.store() as store:
        book = ReservationBook(store)
        book.reserve(BOARD, "lena", "a new PMIC", 4)
        hers, its = (
            JobQueue(store, "lab-2/boot/9/1", lambda _: None, person=person).enqueue(order)
            for person in ("lena", "ci")
        )
        status, text = post("release")
        assert (status, missing_facts(text, "reserved by lena", "lena or an operator")) == (409, [])
        assert [hold.person for hold in book.standing(BOARD)] == ["lena"]
        status, text = post("cancel", job=hers.called)
        assert (status, f"job {hers.called} is of lena" in text, "an operator of the site can cancel" in text) == (
            409,
            True,
            True,
        )
        assert listing.job(store, hers.id).cancelled_by == ""
        book.end(BOARD, "reserved", "lena")
        assert post("reserve", hours="1", reason="nightly")[0] == 200
        assert post("release")[0] == 200
        assert post("cancel", job=its.called)[0] == 200
        assert listing.job(store, its.id).cancelled_by == "ci"


@pytest.mark.parametrize(
    ("tokens", "form", "refused"),
    [
        pytest.param(
            "{hours: 12}", {"hours": "13"}, "1 reservations of 13.0 h in all, and may have 2 of 12 h", id="hours"
        ),
        pytest.param("{reservations: 0}", {"hours": "1"}, "may have 0 of 24 h", id="number"),
        pytest.param("{}", {"hours": "25"}, "may have 2 of 24 h", id="as shipped"),
    ],
)
def test_what_a_token_reserves_is_bounded_by_farm_yaml(
    guarded: GuardedSite, tokens: str, form: dict[str, str], refused: str
) -> None:
    (guarded.folder / "farm.yaml").write_text(f"web: {{tokens: {tokens}}}\n")
    token = Users(guarded.folder / "users.json").add_token("ci", ["reserve"])
    url = f"{guarded.url}/api/v1/boards/{BOARD}/reserve"
    answer = requests.post(url, {**form, "reason": "nightly"}, headers=bearer(token), timeout=60)
    assert (answer.status_code, refused in answer.text) == (409, True), answer.text
    with guarded.store() as store:
        assert ReservationBook(store).standing() == []
        assert ReservationBook(store).reserve(BOARD, "lena", "a new PMIC", 300.0), "a person has other limits"


def test_the_jobs_of_a_token_are_bounded_by_farm_yaml(guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order("am62xx_sk", BOARD, ("boot",), "e", "", None)

    def queue_run(_site: object, person: str, _words: object) -> str:
        with guarded.store() as store:
            return JobQueue(store, process.identity(), process.has_died, person=person).enqueue(order).called

    monkeypatch.setattr(job_control, "queue_run", queue_run)
    (guarded.folder / "farm.yaml").write_text("web: {tokens: {jobs: 2}}\n")
    token = Users(guarded.folder / "users.json").add_token("ci", ["run"])
    url = f"{guarded.url}/api/v1/boards/{BOARD}/run"
    answers = [requests.post(url, {"suite": "boot"}, headers=bearer(token), timeout=60) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert not missing_facts(answers[2].text, "ci", "2 jobs", "may have 2")


def test_a_token_that_was_revoked_or_replaced_lets_nobody_in_and_is_nowhere_in_the_file(guarded: GuardedSite) -> None:
    known = Users(guarded.folder / "users.json")
    old, new = known.add_token("ci", ["read"]), known.add_token("ci", ["read"])

    def status(token: str) -> int:
        return requests.get(f"{guarded.url}/api/v1/lab", headers=bearer(token), timeout=60).status_code

    assert [status(each) for each in (old, new, f"olga.{new}", "", "olga.", f"{new}x")] == [
        401,
        200,
        401,
        401,
        401,
        401,
    ]
    assert new.rpartition(".")[2] not in known.path.read_text(encoding="utf-8")
    known.remove("ci")
    assert status(new) == 401


def test_a_person_of_a_proxy_has_not_the_rights_of_a_program_of_that_name(tmp_path: Path) -> None:
    known = users(tmp_path)
    known.add_token("ci", ["run"])
    door = Access(users=known, proxy=Proxy(frozenset({"192.0.2.9"}), "X-Forwarded-User"))
    person = door.person({"x-forwarded-user": "ci"}, "", "192.0.2.9")
    assert person is not None
    assert (person.role, person.scope) == ("viewer", None)


def test_a_revoked_token_that_goes_on_asking_locks_nobody_out(guarded: GuardedSite) -> None:
    for _ in range(MOST_WIDE + 1):
        answer = requests.get(f"{guarded.url}/api/v1/lab", headers=bearer("ci.gone"), timeout=60)
        assert answer.status_code == 401
    assert "lab web user add" in answer.json()["detail"]
    assert requests.get(f"{guarded.url}/api/v1/lab", auth=("olga", PASSWORDS["olga"]), timeout=60).status_code == 200
