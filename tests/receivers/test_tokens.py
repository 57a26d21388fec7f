"""Bearer tokens on both receivers: who is let in, what the others are told, and what a new file changes."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc import status_pb2  # type: ignore[import-untyped]
from grpc_health.v1 import health_pb2, health_pb2_grpc

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.receivers.http.pages import Page, health_page
from otel_toolcall_eval.receivers.tokens import Tokens, UnauthenticatedError
from otel_toolcall_eval.settings.reloading_file import MAX_TOKENS
from tests.otlp.otlp_requests import numbered, request_of
from tests.patience import PATIENCE_SECONDS
from tests.receivers.certificates import Client, Files, bearer, write_secret
from tests.receivers.receivers import JSON, METRICS, PROTOBUF, Intake, grpc_receiver, http_receiver, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.receivers.receivers import Receiver

BODY = request_of(numbered(1)).SerializeToString()
FIRST, SECOND = "first-0123456789abcdef", "second-0123456789abcdef"
TEXT = f"# to be rotated\n{FIRST}\n\n  {SECOND}\t\n"

BOTH = pytest.mark.parametrize("make", [pytest.param(grpc_receiver, id="grpc"), pytest.param(http_receiver, id="http")])


def code(make: Callable[..., Receiver], port: int, *headers: tuple[str, str]) -> str:
    client = Client(headers=headers)
    return client.call(port, BODY).code if make is grpc_receiver else str(client.post(port, BODY).status)


GOOD, BAD = {"OK", "200"}, {"UNAUTHENTICATED", "401"}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(folder=tmp_path)


@BOTH
@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        pytest.param(f"Bearer {FIRST}", GOOD, id="right"),
        pytest.param(f"Bearer {SECOND}", GOOD, id="second of two"),
        pytest.param(f"bearer   {FIRST}", GOOD, id="scheme in lower case, more blanks"),
        pytest.param(None, BAD, id="none"),
        pytest.param("", BAD, id="empty"),
        pytest.param("Bearer", BAD, id="scheme alone"),
        pytest.param("Bearer wrong-0123456789abcdef", BAD, id="wrong"),
        pytest.param(f"Bearer {FIRST[:-1]}", BAD, id="beginning of one"),
        pytest.param(f"Bearer {FIRST}x", BAD, id="one and more"),
        pytest.param(f"Bearer {FIRST.upper()}", BAD, id="in another case"),
        pytest.param(f"Bearer {FIRST} {SECOND}", BAD, id="both at once"),
        pytest.param(f"Basic {FIRST}", BAD, id="another scheme"),
        pytest.param(FIRST, BAD, id="without a scheme"),
        pytest.param("Bearer # to be rotated", BAD, id="comment"),
    ],
)
def test_requests_need_one_of_the_tokens(
    make: Callable[..., Receiver], files: Files, authorization: str | None, expected: set[str]
) -> None:
    intake = Intake()
    with running(make(intake, tokens=files.tokens(TEXT))) as port:
        assert code(make, port, *([] if authorization is None else [("authorization", authorization)])) in expected
    assert intake.names == (["span 1"] if expected is GOOD else [])
    assert [reason for _, reason in intake.refusals] == ([] if expected is GOOD else ["unauthenticated"])


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_refusal_over_http_is_in_the_requests_own_encoding_and_names_the_scheme(files: Files, content_type: str) -> None:
    intake = Intake()
    with running(http_receiver(intake, tokens=files.tokens(TEXT))) as port:
        reply = Client(headers=bearer("wrong-token-canary")).post(port, b"\xff not decoded", content_type)
    assert (reply.status, reply.content_type, reply.headers["WWW-Authenticate"]) == (401, content_type, "Bearer")
    assert "Retry-After" not in reply.headers
    if content_type == JSON:
        status = json.loads(reply.body)
        assert (status["code"], "the token is not valid" in status["message"]) == (16, True)
    else:
        assert status_pb2.Status.FromString(reply.body).code == 16
    assert b"canary" not in reply.body
    assert intake.refusals == [("http/json" if content_type == JSON else "http/protobuf", "unauthenticated")]


def test_refusal_over_grpc_has_its_details_and_holds_for_every_method(files: Files) -> None:
    intake = Intake()
    with running(grpc_receiver(intake, tokens=files.tokens(TEXT))) as port:
        called = Client(headers=bearer("wrong-token-canary")).call(port, b"\xff not decoded")
        metrics, unknown = Client().call(port, b"", METRICS), Client().call(port, b"", "/no.such.Service/Method")
    details = called.trailers["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    assert status_pb2.Status.FromString(details).code == 16
    assert "the token is not valid; send the header" in called.details
    assert "canary" not in called.details
    assert (metrics.code, unknown.code) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert intake.refusals == [("grpc", "unauthenticated")] * 3


def test_message_of_an_unknown_sender_is_not_even_read(files: Files) -> None:
    tokens = files.tokens(TEXT)
    large = bytes(5 << 20)
    with running(grpc_receiver(Intake(), tokens=tokens, max_message_bytes=1 << 20)) as port:
        assert Client().call(port, large).code == "UNAUTHENTICATED"  # and not RESOURCE_EXHAUSTED, as it would be if it had been
        assert Client(headers=bearer(FIRST)).call(port, large).code == "RESOURCE_EXHAUSTED"
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: 1000\r\n\r\n"
    with (
        running(http_receiver(Intake(), tokens=tokens)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as raw,
    ):
        raw.sendall(head.encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


@pytest.fixture
def protected(files: Files) -> Iterator[int]:
    pages = {"/livez": health_page(list), "/readyz": health_page(lambda: ["draining"])}
    pages |= {path: lambda _: Page(body=b"page") for path in ("/metrics", "/debug/traces")}
    with running(http_receiver(Intake(), pages=pages, tokens=files.tokens(TEXT))) as port:
        yield port


@pytest.mark.parametrize(
    ("path", "without", "with_one"),
    [
        pytest.param("/livez", 200, 200, id="alive"),
        pytest.param("/readyz", 503, 503, id="ready"),
        pytest.param("/metrics", 401, 200, id="metrics"),
        pytest.param("/debug/traces", 401, 200, id="debug"),
        pytest.param("/nowhere", 401, 404, id="unknown"),
        pytest.param("/livez/", 401, 404, id="almost open"),
    ],
)
def test_probes_need_no_token_and_other_pages_do(protected: int, path: str, without: int, with_one: int) -> None:
    assert Client().ask(protected, "GET", path).status == without
    assert Client(headers=bearer(FIRST)).ask(protected, "GET", path).status == with_one


def test_the_health_service_needs_no_token(files: Files) -> None:
    with running(grpc_receiver(Intake(), tokens=files.tokens(TEXT))) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS)
    assert reply.status == health_pb2.HealthCheckResponse.SERVING


@BOTH
def test_tokens_are_rotated_without_a_restart(make: Callable[..., Receiver], files: Files, tmp_path: Path) -> None:
    # As Kubernetes does it: the file is a link into a folder that is itself a link, and that one is swapped.
    for name, token in (("one", FIRST), ("two", SECOND)):
        (tmp_path / name).mkdir()
        write_secret(tmp_path / name / "tokens", token.encode())
    link = tmp_path / "..data"
    link.symlink_to("one")
    files.token_file.symlink_to("..data/tokens")
    tokens = Tokens(files.token_file, setting="listen.token_file")
    with running(make(Intake(), tokens=tokens)) as port:
        assert code(make, port, *bearer(FIRST)) in GOOD
        assert code(make, port, *bearer(SECOND)) in BAD
        swapped = tmp_path / "..data_tmp"
        swapped.symlink_to("two")
        swapped.rename(link)
        tokens.refresh()
        assert code(make, port, *bearer(FIRST)) in BAD
        assert code(make, port, *bearer(SECOND)) in GOOD


def accepts(tokens: Tokens, token: str) -> bool:
    try:
        tokens.check(f"Bearer {token}")
    except UnauthenticatedError:
        return False
    return True


def test_a_file_of_the_same_size_and_time_is_noticed(files: Files) -> None:
    tokens = files.tokens("a" * 32)
    files.token_file.write_text("b" * 32)
    tokens.refresh()
    assert (accepts(tokens, "a" * 32), accepts(tokens, "b" * 32)) == (False, True)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="vanished"),
        pytest.param(b"", id="empty"),
        pytest.param(b"# nothing\n\n", id="comments alone"),
        pytest.param(b"canary with blanks\n", id="blanks"),
        pytest.param(b"canary\xff\xfe\n", id="no text"),
        pytest.param(b"canary" * 1000, id="too long"),
        pytest.param(b"\n".join(b"canary%d" % number for number in range(MAX_TOKENS + 1)), id="too many"),
    ],
)
def test_a_file_that_breaks_leaves_the_old_tokens_in_force_and_is_told_once(
    files: Files, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = files.tokens(TEXT)
    if content is None:
        files.token_file.unlink()
    else:
        files.token_file.write_bytes(content)
    for _ in range(4):
        tokens.refresh()
    (record,) = caplog.records
    assert record.getMessage() == "files could not be read again; what was read before stays in force"
    assert vars(record)["problems"][0].startswith(f"listen.token_file: {files.token_file}: ")
    assert "canary" not in str(vars(record))
    assert accepts(tokens, FIRST)
    if content is not None:
        with pytest.raises(SettingsError) as refused:  # at the start, nothing else is in force
            Tokens(files.token_file, setting="listen.token_file")
        assert "canary" not in str(refused.value)


def test_a_fault_of_ours_in_reading_a_file_does_not_end_the_service(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        what = "canary"
        raise ValueError(what)

    tokens = files.tokens(TEXT)
    files.token_file.write_text(SECOND)
    monkeypatch.setattr("otel_toolcall_eval.receivers.tokens.tokens_in", fail)
    for _ in range(3):
        tokens.refresh()
    assert accepts(tokens, FIRST)
    (record,) = caplog.records
    assert (vars(record)["problems"], "canary" in str(vars(record))) == (["ValueError"], False)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", "the file holds no token; write one into it, made with `openssl rand -hex 32`", id="empty"),
        pytest.param(
            f"{FIRST}\na b\n",
            "line 2 is not a token; write one token a line: up to 4096 visible ASCII characters, without blanks",
            id="blank",
        ),
    ],
)
def test_a_file_without_tokens_says_what_to_do(files: Files, content: str, expected: str) -> None:
    with pytest.raises(SettingsError) as refused:
        files.tokens(content)
    assert str(refused.value) == f"listen.token_file: {files.token_file}: {expected}"


def test_a_file_from_windows_is_read_as_it_is_meant(files: Files) -> None:
    write_secret(files.token_file, b"\xef\xbb\xbf" + FIRST.encode() + b"\r\n" + SECOND.encode() + b"\r\n")
    tokens = Tokens(files.token_file, setting="listen.token_file")
    assert accepts(tokens, FIRST)
    assert accepts(tokens, SECOND)


def test_what_is_odd_about_a_file_is_warned_about(files: Files) -> None:
    assert files.tokens(TEXT).warnings == []
    tokens = files.tokens(f"short\n{FIRST}")
    files.token_file.chmod(0o604)
    readable, short = (str(warning) for warning in Tokens(files.token_file, setting="listen.token_file").warnings)
    assert "every user of this machine can read this file" in readable
    assert short.endswith("1 of the tokens have fewer than 16 characters, and can be guessed; make tokens with `openssl rand -hex 32`")
    assert accepts(tokens, "short")


def test_all_tokens_are_compared_in_constant_time(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def compare(known: bytes, given: bytes) -> bool:
        compared.append((len(known), len(given)))
        return known == given

    tokens = files.tokens(TEXT)
    monkeypatch.setattr("otel_toolcall_eval.receivers.tokens.hmac.compare_digest", compare)
    assert accepts(tokens, FIRST)
    assert not accepts(tokens, "x")
    assert compared == [(32, 32)] * 4


def test_a_token_of_any_bytes_is_refused_and_harms_nothing(files: Files) -> None:
    with (
        running(http_receiver(Intake(), tokens=files.tokens(TEXT))) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as raw,
    ):
        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\xed\xa0\x80\r\n\r\n")
        assert raw.recv(100)[9:12] in {b"400", b"401"}
