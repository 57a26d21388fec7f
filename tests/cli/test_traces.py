"""``traces`` against a sidecar that runs, and against what is none."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.cli.parser import run
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.receivers.http.pages import may_see
from tests.patience import PATIENCE_SECONDS
from tests.sidecar_process import get, running_sidecar, send_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def otlp_span(number: int, parent: int | None) -> dict[str, object]:
    ids = {"traceId": f"{7:032x}", "spanId": f"{number:016x}", "parentSpanId": "" if parent is None else f"{parent:016x}"}
    return {**ids, "name": "s", "flags": 0x100, "startTimeUnixNano": "5", "endTimeUnixNano": "9"}


def test_what_a_sidecar_holds_is_shown_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with running_sidecar(quiet="20m", environ={"OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_MAX": "30m"}) as sidecar:
        url, patient = f"http://{sidecar.http}", ["--timeout", str(PATIENCE_SECONDS)]
        assert run(["traces", "--url", url, *patient]) == 0
        assert capsys.readouterr().out == "0 open, 0 decided and open to late spans, 0.0 KiB; nothing waits\n"
        send_json(sidecar.http, {"resourceSpans": [{"scopeSpans": [{"spans": [otlp_span(1, None), otlp_span(3, 2)]}]}]})
        assert run(["traces", "--url", url, *patient]) == 0
        table = capsys.readouterr().out
        assert run(["traces", "--url", f"{url}/", *patient, "--format", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert get(sidecar.http, "/debug/traces")[0] == 200
    (trace,) = document["traces"]
    assert f"{7:032x}" in table
    assert "the parents of some spans" in table
    assert {key: trace[key] for key in ("spans", "root_seen", "orphans", "trigger", "state")} == {
        "spans": 2,
        "root_seen": True,
        "orphans": True,
        "trigger": "root_span",
        "state": "root_seen",
    }
    assert 1_600 < trace["seconds"] <= 1_800
    assert (document["open"], document["revisable"], document["decided"]) == (1, 0, [])


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(404, b"", "ask from the machine that the sidecar runs on", id="not-shown"),
        pytest.param(421, b"", "it does not answer under this name; ask for 127.0.0.1 or localhost", id="another-name"),
        pytest.param(503, b"", "it answered 503; ask again", id="busy"),
        pytest.param(200, b"<html>", "the answer is not JSON", id="not-json"),
        pytest.param(200, b"[]", "the answer is not a sidecar's", id="another-server"),
    ],
)
def test_answer_that_can_not_be_used_says_what_to_do(status: int, body: bytes, words: str) -> None:
    with answering(status, body) as url, pytest.raises(SettingsError, match=words):
        run(["traces", "--url", url, "--timeout", str(PATIENCE_SECONDS)])


@pytest.mark.parametrize(
    ("url", "words"),
    [pytest.param("ftp://x", "is no HTTP address", id="scheme"), pytest.param("http://127.0.0.1:9", "no answer", id="nobody")],
)
def test_url_that_nobody_answers_says_what_to_do(url: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        run(["traces", "--url", url])


def test_the_address_comes_from_a_settings_file(tmp_path: Path) -> None:
    settings = tmp_path / "sidecar.yaml"
    settings.write_text("listen: {http: '0.0.0.0:9', insecure: true}\n")
    with pytest.raises(SettingsError, match=r"http://127\.0\.0\.1:9: no answer"):
        run(["traces", "--config", str(settings)])


def test_without_an_url_the_configured_address_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_LISTEN_HTTP", "127.0.0.1:9")
    with pytest.raises(SettingsError, match=r"http://127\.0\.0\.1:9: no answer"):
        run(["traces"])


@pytest.mark.parametrize(
    ("path", "client", "allowed"),
    [
        pytest.param("/metrics", "10.0.0.7", True, id="other-page"),
        pytest.param("/debug/traces", "10.0.0.7", False, id="other-machine"),
        pytest.param("/debug/traces", "127.0.0.1", True, id="this-machine"),
        pytest.param("/debug/traces", "::1", True, id="this-machine-ipv6"),
        pytest.param("/debug/traces", "::ffff:127.0.0.1", True, id="this-machine-mapped"),
        pytest.param("/debug/traces", "::ffff:10.0.0.7", False, id="other-machine-mapped"),
        pytest.param("/debug/traces", "fe80::1%eth0", False, id="link-local"),
        pytest.param("/debug/traces", None, False, id="unknown"),
    ],
)
def test_pages_about_single_traces_are_for_this_machine_alone(path: str, client: str | None, allowed: bool) -> None:  # noqa: FBT001 - a column
    assert may_see(path, client) is allowed
