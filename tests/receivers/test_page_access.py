"""Who may see pages for people: this machine where there are no tokens, else whoever has one, and how a browser gets in and out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from otel_toolcall_eval.receivers.http import page_access
from otel_toolcall_eval.receivers.http.page_access import SITE_HEADERS
from otel_toolcall_eval.receivers.http.pages import Page, SiteRequest
from tests.receivers.certificates import Client, Files
from tests.receivers.receivers import Intake, Reply, ask, http_receiver, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "first-0123456789abcdef"  # noqa: S105 - a token of the test
BROWSER = "text/html,application/xhtml+xml"
FORM = "application/x-www-form-urlencoded"


@dataclass
class PlainSite:
    """Remembers what it was asked for."""

    root = "/status"
    open_paths = frozenset({"/status/style.css"})
    asked: list[SiteRequest] = field(default_factory=list)

    def page(self, request: SiteRequest) -> Page:
        self.asked.append(request)
        if request.path == "/status/broken":
            raise KeyError(TOKEN)
        return Page(body=f"page {request.path}".encode(), content_type="text/html; charset=utf-8")

    def login_page(self, *, back_to: str, refused: bool) -> Page:
        return Page(body=f"login {back_to} {refused}".encode(), status=403 if refused else 200)


@pytest.fixture
def site() -> PlainSite:
    return PlainSite()


@pytest.fixture
def port(site: PlainSite) -> Iterator[int]:
    with running(http_receiver(Intake(), site=site)) as listened:
        yield listened


@pytest.fixture
def guarded(site: PlainSite, tmp_path: Path) -> Iterator[int]:
    with running(http_receiver(Intake(), site=site, tokens=Files(folder=tmp_path).tokens(f"{TOKEN}\n"))) as listened:
        yield listened


def browse(port: int, path: str, *, cookie: str = "", method: str = "GET", **headers: str) -> Reply:
    return ask(port, method, path, b"", Accept=BROWSER, **({"Cookie": cookie} if cookie else {}), **headers)


def send(port: int, path: str, fields: dict[str, str], *, cookie: str = "", kind: str = FORM, **headers: str) -> Reply:
    more = {"Cookie": cookie} if cookie else {}
    return ask(port, "POST", path, urlencode(fields).encode(), Content_Type=kind, Accept=BROWSER, **more, **headers)


def logged_in(port: int) -> str:
    reply = send(port, "/status/login", {"token": TOKEN})
    assert reply.status == 303
    return reply.headers["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        pytest.param("/status", 200, b"page /status", id="first page"),
        pytest.param("/status/traces/00ff", 200, b"page /status/traces/00ff", id="below"),
        pytest.param("/status/login", 200, b"page /status/login", id="no login where there are no tokens"),
        pytest.param("/statuses", 404, None, id="another path"),
        pytest.param("/status/broken", 500, None, id="a fault of ours"),
    ],
)
def test_this_machine_sees_the_pages(port: int, path: str, status: int, body: bytes | None) -> None:
    reply = browse(port, path)
    assert reply.status == status
    assert body in {None, reply.body}
    assert TOKEN.encode() not in reply.body


def test_every_answer_has_the_headers_that_keep_a_page_to_itself(port: int, guarded: int) -> None:
    replies = [browse(port, "/status"), browse(port, "/"), browse(port, "/status/broken"), send(port, "/status", {})]
    replies += [
        browse(guarded, "/status"),
        browse(guarded, "/status/login"),
        ask(guarded, "GET", "/status"),
        send(guarded, "/status/login", {}),
    ]
    assert [reply.status for reply in replies] == [200, 303, 500, 405, 303, 200, 401, 403]
    for reply in replies:
        assert SITE_HEADERS.items() <= reply.headers.items()
    assert not SITE_HEADERS.items() & ask(port, "GET", "/nowhere").headers.items()


def test_the_first_value_of_a_name_counts(port: int, site: PlainSite) -> None:
    browse(port, "/status?label=fail&label=pass&agent=%3Cb%3E")
    assert site.asked[-1] == SiteRequest(path="/status", query={"label": "fail", "agent": "<b>"})


def test_a_browser_that_names_no_path_is_led_to_the_site_and_nobody_else(port: int) -> None:
    reply = browse(port, "/")
    assert (reply.status, reply.headers["Location"]) == (303, "/status")
    assert ask(port, "GET", "/").status == 404
    assert ask(port, "POST", "/", Accept=BROWSER).status == 404


def test_other_machines_see_nothing_without_tokens(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_access, "is_local", lambda _: False)
    assert [browse(port, path).status for path in ("/", "/status", "/status/style.css", "/status/login")] == [404] * 4


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example", "192.0.2.1"])
def test_a_page_whose_name_was_led_to_this_machine_sees_nothing(port: int, guarded: int, site: PlainSite, name: str) -> None:
    for listened in (port, guarded):
        for path in ("/", "/status", "/status/style.css", "/status/login"):
            assert browse(listened, path, Host=f"{name}:{listened}").status == 421
    assert site.asked == []


def test_with_tokens_other_machines_need_one(guarded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_access, "is_local", lambda _: False)
    assert ask(guarded, "GET", "/status").status == 401
    assert ask(guarded, "GET", "/status", Authorization=f"Bearer {TOKEN}").status == 200


def test_with_tokens_this_machine_needs_one_too(guarded: int, site: PlainSite) -> None:
    assert ask(guarded, "GET", "/status").status == 401
    assert ask(guarded, "GET", "/status", Authorization="Bearer wrong").status == 401
    assert browse(guarded, "/status", Authorization="Bearer wrong").status == 401
    assert site.asked == []
    assert ask(guarded, "GET", "/status/style.css").status == 200


def test_a_browser_logs_in_sees_and_logs_out(guarded: int, site: PlainSite) -> None:
    asked = browse(guarded, "/status/traces/ab?page=2")
    assert (asked.status, asked.headers["Location"]) == (303, "/status/login?back_to=%2Fstatus%2Ftraces%2Fab%3Fpage%3D2")
    assert browse(guarded, asked.headers["Location"]).body == b"login /status/traces/ab?page=2 False"
    done = send(guarded, "/status/login", {"token": TOKEN, "back_to": "/status/traces/ab?page=2"}, Origin=f"http://127.0.0.1:{guarded}")
    assert (done.status, done.headers["Location"]) == (303, "/status/traces/ab?page=2")
    cookie, *attributes = done.headers["Set-Cookie"].split("; ")
    assert attributes == ["Max-Age=43200", "Path=/status", "HttpOnly", "SameSite=Strict"]
    assert cookie.startswith(f"toolcall_eval_session_{guarded}=")
    assert TOKEN not in cookie
    assert browse(guarded, "/status", cookie=cookie).status == 200
    assert site.asked[-1].logged_in
    gone = send(guarded, "/status/logout", {}, cookie=cookie)
    assert (gone.status, gone.headers["Location"]) == (303, "/status/login")
    assert "Max-Age=0" in gone.headers["Set-Cookie"]
    assert browse(guarded, "/status", cookie=cookie).status == 303


def test_a_session_opens_the_site_and_nothing_else(guarded: int) -> None:
    cookie = logged_in(guarded)
    assert ask(guarded, "GET", "/metrics", Cookie=cookie).status == 401
    assert ask(guarded, "POST", "/v1/traces", Cookie=cookie, Content_Type="application/json").status == 401


def test_a_wrong_token_is_asked_for_again_and_opens_nothing(guarded: int) -> None:
    reply = send(guarded, "/status/login", {"token": "wrong", "back_to": "/status/open"})
    assert (reply.status, reply.body) == (403, b"login /status/open True")
    assert "Set-Cookie" not in reply.headers


@pytest.mark.parametrize(
    "back_to",
    [
        "https://evil.example/",
        "//evil.example/status",
        "/statusquo",
        "/status\\..\\evil",
        "/status/\r\nSet-Cookie: a=b",
        "/status/ü",
        "/metrics",
        "/status/login",
        "/status/logout?x",
        "",
    ],
)
def test_the_login_leads_nowhere_but_to_a_page_of_the_site(guarded: int, back_to: str) -> None:
    assert send(guarded, "/status/login", {"token": TOKEN, "back_to": back_to}).headers["Location"] == "/status"


@pytest.mark.parametrize("path", ["/status/login", "/status/logout"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Origin": "https://evil.example"}, 403, id="another origin"),
        pytest.param({"Origin": "null"}, 403, id="an origin that is none"),
        pytest.param({"Sec_Fetch_Site": "cross-site"}, 403, id="another site"),
        pytest.param({"Sec_Fetch_Site": "same-site"}, 403, id="another port"),
        pytest.param({"kind": "application/json"}, 415, id="no form"),
        pytest.param({"kind": "text/plain"}, 415, id="what a form of another site can send"),
    ],
)
def test_forms_of_other_sites_do_nothing(guarded: int, path: str, headers: dict[str, str], status: int) -> None:
    cookie = logged_in(guarded)
    reply = send(guarded, path, {"token": TOKEN}, cookie=cookie, **headers)
    assert reply.status == status
    assert "Set-Cookie" not in reply.headers
    assert browse(guarded, "/status", cookie=cookie).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no browser"),
        pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": "https://status.example"}, id="a proxy that gives another name"),
        pytest.param({"Sec_Fetch_Site": "none"}, id="the user"),
        pytest.param({"Origin": "https://{host}"}, id="a proxy that ends TLS"),
    ],
)
def test_forms_of_this_site_are_taken_also_behind_a_proxy(guarded: int, headers: dict[str, str]) -> None:
    sent = {name: value.format(host=f"127.0.0.1:{guarded}") for name, value in headers.items()}
    assert send(guarded, "/status/login", {"token": TOKEN}, **sent).status == 303


def test_forms_are_bounded(guarded: int) -> None:
    assert send(guarded, "/status/login", {"token": "x" * (17 << 10)}).status == 413
    assert send(guarded, "/status/login", {f"f{number}": "x" for number in range(11)}).status == 400
    assert browse(guarded, "/status/logout").status == 405
    assert send(guarded, "/status", {}).status == 405


def test_a_cookie_of_a_listener_with_tls_is_sent_over_tls_alone(site: PlainSite, tmp_path: Path) -> None:
    files = Files(folder=tmp_path)
    files.issue()
    with running(http_receiver(Intake(), site=site, tls=files.tls(), tokens=files.tokens(f"{TOKEN}\n"))) as port:
        form = urlencode({"token": TOKEN}).encode()
        reply = Client(trusts=files.ca).ask(port, "POST", "/status/login", form, Content_Type=FORM, Origin=f"https://127.0.0.1:{port}")
    assert reply.status == 303
    assert reply.headers["Set-Cookie"].endswith("; Secure")
