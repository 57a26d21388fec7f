"""What browsers are told, and that they are told nothing unless origins are listed. Source: Fetch Standard, "CORS protocol"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.http.pages import health_page
from tests.otlp.otlp_requests import numbered, request_of
from tests.receivers.certificates import Client, Files, bearer
from tests.receivers.receivers import JSON, Intake, ask, http_receiver, post, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.receivers.receivers import Reply

APP, OTHER = "https://app.example.com", "https://other.example.com"
TOKEN = "0123456789abcdef"  # noqa: S105 - no secret
BODY = request_of(numbered(1)).SerializeToString()
SIGNALS = pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    tokens = Files(folder=tmp_path_factory.mktemp("tokens")).tokens(TOKEN)
    with running(http_receiver(Intake(), tokens=tokens, allowed_origins=frozenset({APP}), pages={"/livez": health_page(list)})) as port:
        yield port


def preflight(port: int, path: str, origin: str) -> Reply:
    return ask(port, "OPTIONS", path, Origin=origin, Access_Control_Request_Method="POST", Access_Control_Request_Headers="content-type")


def cors(reply: Reply) -> dict[str, str]:
    return {name: value for name, value in reply.headers.items() if name.startswith("Access-Control") or name == "Vary"}


@SIGNALS
def test_a_listed_origin_is_told_what_it_may_send_without_a_token(listed: int, path: str) -> None:
    reply = preflight(listed, path, APP)
    assert (reply.status, reply.body) == (204, b"")
    found = cors(reply)
    allowed = {name.strip() for name in found.pop("Access-Control-Allow-Headers").split(",")}
    assert allowed >= {"content-type", "content-encoding", "authorization", "traceparent"}
    assert found == {
        "Access-Control-Allow-Origin": APP,
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Max-Age": "7200",
        "Access-Control-Expose-Headers": "Retry-After",
        "Vary": "Origin",
    }


def test_answers_and_refusals_can_be_read_by_a_listed_origin_alone(listed: int) -> None:
    allowed = {"Access-Control-Allow-Origin": APP, "Access-Control-Expose-Headers": "Retry-After", "Vary": "Origin"}
    with_token = Client(headers=bearer(TOKEN))
    for status, reply in (
        (200, with_token.ask(listed, "POST", "/v1/traces", BODY, Content_Type="application/x-protobuf", Origin=APP)),
        (400, with_token.ask(listed, "POST", "/v1/traces", b"{", Content_Type=JSON, Origin=APP)),
        (401, post(listed, BODY, Origin=APP)),
    ):
        assert (reply.status, cors(reply)) == (status, allowed)
    for reply in (post(listed, BODY, Origin=OTHER), post(listed, BODY), post(listed, BODY, Origin="null")):
        assert cors(reply) == {"Vary": "Origin"}  # what is cached for one origin must not be shown to another


@SIGNALS
def test_an_origin_that_is_not_listed_is_told_nothing(listed: int, path: str) -> None:
    for origin in (OTHER, f"{APP}.evil.example", APP.upper(), "null"):
        reply = preflight(listed, path, origin)
        assert reply.status == 401
        assert cors(reply) == {"Vary": "Origin"}


def test_pages_say_nothing_to_browsers(listed: int) -> None:
    assert cors(ask(listed, "GET", "/livez", Origin=APP)) == {}
    assert (preflight(listed, "/livez", APP).status, cors(preflight(listed, "/livez", APP))) == (405, {})


def test_any_origin_is_any() -> None:
    with running(http_receiver(Intake(), allowed_origins=frozenset({"*"}))) as port:
        assert cors(preflight(port, "/v1/traces", OTHER))["Access-Control-Allow-Origin"] == "*"
        assert cors(post(port, BODY, Origin="null"))["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Origin" not in cors(post(port, BODY))
        assert ask(port, "OPTIONS", "/v1/traces", Origin=OTHER).status == 405  # a browser says what it wants to send


@SIGNALS
def test_nothing_is_said_to_browsers_unless_origins_are_listed(path: str, tmp_path: Path) -> None:
    intake = Intake()
    with running(http_receiver(intake)) as port:
        reply = preflight(port, path, APP)
        assert (reply.status, reply.headers["Allow"], cors(reply)) == (405, "POST", {})
        assert cors(post(port, BODY, path=path, Origin=APP)) == {}
    with running(http_receiver(intake, tokens=Files(folder=tmp_path).tokens(TOKEN))) as port:
        assert (Client(headers=bearer(TOKEN)).ask(port, "OPTIONS", path).status, preflight(port, path, APP).status) == (405, 401)
