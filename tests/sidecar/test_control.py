"""The control listener over real sockets: what binds, what is refused and why, and that nothing else is served."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.listening import ListenOptions
from otel_toolcall_eval.sidecar.admin.control import MAX_BODY_BYTES, ControlListener
from tests.receivers.certificates import Client, Files, bearer
from tests.receivers.receivers import JSON, Reply, ask, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from otel_toolcall_eval.receivers.tls import ServerTls
    from otel_toolcall_eval.receivers.tokens import Tokens

TRACE = "5b8efff798038103d269b633813fc60c"
PATH = f"/v1/traces/{TRACE}/criteria"


@dataclass
class BoundCriteria:
    """Remembers what was bound and refused."""

    bound: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    known: set[str] = field(default_factory=lambda: {"weather", "forecast"})

    def bind(self, trace_id: bytes, names: Sequence[str]) -> None:
        self.bound.append((trace_id.hex(), tuple(names)))

    def refused(self, transport: str, reason: str) -> None:
        self.refusals.append((transport, reason))


@contextmanager
def listening(
    bound: BoundCriteria, *, allowed_hosts: frozenset[str] = frozenset(), tls: ServerTls | None = None, tokens: Tokens | None = None
) -> Iterator[int]:
    listen = ListenOptions(port_option="--control", allowed_hosts=allowed_hosts, tls=tls, tokens=tokens)
    listener = ControlListener(bind=bound.bind, known=lambda: bound.known, refused=bound.refused, listen=listen)
    with running(listener) as port:
        yield port


def put(port: int, body: object, path: str = PATH, **headers: str) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(port, "PUT", path, content, **{"Content_Type": JSON, **headers})


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param({"criteria": ["weather"]}, ("weather",), id="object"),
        pytest.param({"criteria": ["forecast", "weather", "forecast"]}, ("forecast", "weather"), id="twice"),
        pytest.param({"criteria": "weather"}, ("weather",), id="one name"),
        pytest.param(["weather", "forecast"], ("weather", "forecast"), id="list alone"),
        pytest.param("weather", ("weather",), id="name alone"),
    ],
)
@pytest.mark.parametrize("trace_id", [TRACE, TRACE.upper()])
def test_criteria_are_bound_to_the_trace(body: object, names: tuple[str, ...], trace_id: str) -> None:
    bound = BoundCriteria()
    with listening(bound) as port:
        replies = [put(port, body, f"/v1/traces/{trace_id}/criteria") for _ in range(2)]
    assert [(reply.status, reply.body) for reply in replies] == [(204, b"")] * 2
    assert bound.bound == [(TRACE, names)] * 2
    assert bound.refusals == []


def test_a_name_that_no_criteria_have_is_named_and_nothing_is_bound_until_it_is_loaded() -> None:
    bound = BoundCriteria()
    body = {"criteria": ["weather", "forcast"]}
    with listening(bound) as port:
        reply = put(port, body)
        bound.known.add("forcast")
        assert put(port, body).status == 204
        bound.known.clear()
        without = json.loads(put(port, body).body)["message"]
    status = json.loads(reply.body)
    assert (reply.status, status["code"], reply.content_type) == (422, 5, JSON)
    assert status["message"] == ("criteria: no criteria are named forcast; load them, or use names that are loaded: forecast, weather")
    assert without == "criteria: no criteria are named weather, forcast; load criteria first"
    assert bound.bound == [(TRACE, ("weather", "forcast"))]
    assert bound.refusals == [("control", "unknown_criteria")] * 2


@pytest.mark.parametrize(
    "trace_id",
    [
        pytest.param("0" * 32, id="zero"),
        pytest.param(TRACE[:-1], id="short"),
        pytest.param(TRACE + "0", id="long"),
        pytest.param(TRACE[:-1] + "g", id="no hexadecimal digit"),
        pytest.param("%2B" + TRACE[1:], id="sign"),
        pytest.param(TRACE[:-2] + "%D9%A1", id="digit of another script"),
        pytest.param(TRACE[:15] + "_" + TRACE[16:], id="underscore"),
        pytest.param("", id="empty"),
        pytest.param(TRACE + "%0A", id="line break"),
    ],
)
def test_what_is_no_trace_id_is_refused(trace_id: str) -> None:
    bound = BoundCriteria()
    with listening(bound) as port:
        reply = put(port, ["weather"], f"/v1/traces/{trace_id}/criteria")
    assert (reply.status, json.loads(reply.body)["code"], bound.bound) == (400, 3, [])
    assert bound.refusals == [("control", "undecodable")]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[" * 20_000, id="nested"),
        pytest.param(b"1" * 10_000, id="huge number"),
        pytest.param({}, id="no criteria"),
        pytest.param({"criterias": ["weather"]}, id="misspelt"),
        pytest.param({"criteria": ["weather"], "trace": "x"}, id="more"),
        pytest.param({"criteria": []}, id="no names"),
        pytest.param({"criteria": None}, id="null"),
        pytest.param({"criteria": {"weather": True}}, id="object"),
        pytest.param(["weather", 5], id="number"),
        pytest.param([""], id="empty name"),
        pytest.param(["x" * 257], id="long name"),
        pytest.param(["weather"] * 101, id="many names"),
        pytest.param(5, id="number alone"),
    ],
)
def test_a_body_that_says_nothing_is_refused_with_the_form_that_would(body: object) -> None:
    bound = BoundCriteria()
    with listening(bound) as port:
        reply = put(port, body)
    status = json.loads(reply.body)
    assert (reply.status, reply.content_type, status["code"], bound.bound) == (400, JSON, 3, [])
    assert "; " in status["message"]
    assert bound.refusals == [("control", "undecodable")]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        pytest.param("GET", PATH, {}, 405, id="GET"),
        pytest.param("POST", PATH, {}, 405, id="POST"),
        pytest.param("DELETE", PATH, {}, 405, id="DELETE"),
        pytest.param("OPTIONS", PATH, {"Origin": "https://a.example", "Access_Control_Request_Method": "PUT"}, 405, id="a browser asks"),
        pytest.param("PUT", "/v1/traces", {}, 404, id="path of OTLP"),
        pytest.param("PUT", f"{PATH}/", {}, 404, id="more path"),
        pytest.param("PUT", f"/v1/traces/{TRACE}/x/criteria", {}, 404, id="deeper path"),
        pytest.param("GET", "/metrics", {}, 404, id="page"),
        pytest.param("PUT", PATH, {"Content_Type": "text/plain"}, 415, id="text"),
        pytest.param("PUT", PATH, {"Content_Type": "application/x-protobuf"}, 415, id="protobuf"),
        pytest.param("PUT", PATH, {"Content_Encoding": "gzip"}, 415, id="packed"),
        pytest.param("PUT", PATH, {"Content_Type": "application/json; charset=utf-8"}, 204, id="with a charset"),
    ],
)
def test_nothing_else_is_served(method: str, path: str, headers: dict[str, str], status: int) -> None:
    bound = BoundCriteria()
    with listening(bound) as port:
        reply = ask(port, method, path, b'["weather"]', **{"Content_Type": JSON, **headers})
    assert (reply.status, bool(bound.bound)) == (status, status == 204)
    assert reply.headers.get("Allow") == ("PUT" if status == 405 else None)
    assert not any(name.startswith("Access-Control") for name in reply.headers)


def test_a_body_above_the_limit_is_refused() -> None:
    bound = BoundCriteria()
    with listening(bound) as port:
        assert put(port, b'["' + b"x" * MAX_BODY_BYTES + b'"]').status == 413
    assert (bound.bound, bound.refusals) == ([], [("control", "too_large")])


def test_it_is_protected_as_the_others_are(tmp_path: Path) -> None:
    files = Files(folder=tmp_path)
    files.issue()
    token = "0123456789abcdef"  # noqa: S105 - no secret
    bound = BoundCriteria()
    with listening(bound, tls=files.tls(), tokens=files.tokens(token)) as port:
        stranger = Client(trusts=files.ca).ask(port, "PUT", PATH, b'["weather"]', Content_Type=JSON)
        friend = Client(trusts=files.ca, headers=bearer(token)).ask(port, "PUT", PATH, b'["weather"]', Content_Type=JSON)
    assert (stranger.status, stranger.headers["WWW-Authenticate"], friend.status) == (401, "Bearer", 204)
    assert (bound.bound, bound.refusals) == ([(TRACE, ("weather",))], [("control", "unauthenticated")])


def test_a_failure_inside_is_told_without_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(BoundCriteria):
        def bind(self, trace_id: bytes, names: Sequence[str]) -> None:
            raise ValueError(trace_id, names)

    with listening(Broken(known={"canary"})) as port:
        reply = put(port, ["canary"])
    assert (reply.status, json.loads(reply.body)["message"]) == (500, "internal error")
    assert "canary" not in caplog.text
