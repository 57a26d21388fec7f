"""The status page of a sidecar in a process of its own: real traffic, restarts, tokens, and what a wrong file is answered with."""

from __future__ import annotations

import re
import subprocess
import sys
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.certificates import write_secret
from tests.sidecar_process import get, running_sidecar, send_json
from tests.status_traffic import BAD, CRITERIA, HOSTILE, JUDGED, NOT_CAPTURED, ROOTLESS, SECRET, UNBOUND, VERDICTS, trace, trace_id_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sidecar_process import RunningSidecar

TOKEN = "status-0123456789abcdef"  # noqa: S105 - a token of the test
PAGES = ("", f"/traces/{trace_id_of(BAD)}", f"/traces/{trace_id_of(NOT_CAPTURED)}", "/open", "/criteria")


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    path = tmp_path / "criteria.yaml"
    path.write_text(CRITERIA, encoding="utf-8")
    return path


def feed(sidecar: RunningSidecar) -> None:
    for request in (*JUDGED, UNBOUND, ROOTLESS):
        send_json(sidecar.http, request)
    for _ in range(VERDICTS + 1):
        sidecar.verdicts.get(timeout=PATIENCE_SECONDS)
    wait_for(lambda: len(labels(page(sidecar))) >= VERDICTS, "the page, where what is printed stands a moment later")


def page(sidecar: RunningSidecar, path: str = "", *, status: int = 200) -> str:
    found, body = get(sidecar.http, f"/status{path}")
    assert found == status
    return body.decode()


def labels(text: str) -> list[str]:
    return re.findall(r'class="verdict-cell"><span class="label (\w+)"', text)


def test_every_page_shows_what_came_and_no_recorded_value(criteria: Path) -> None:
    with running_sidecar("--criteria", str(criteria)) as sidecar:
        feed(sidecar)
        texts = {path: page(sidecar, path) for path in PAGES}
    assert len(labels(texts[""])) == VERDICTS
    assert labels(texts[""]).count("inconclusive") == 2
    assert "content_not_captured" in texts[f"/traces/{trace_id_of(NOT_CAPTURED)}"]
    trace = texts[f"/traces/{trace_id_of(BAD)}"]
    assert ("called out of order" in trace, "otel_genai" in trace, trace.count("<svg")) == (True, True, 4)
    assert trace_id_of(ROOTLESS) in texts["/open"]
    assert ("refund_policy" in texts["/criteria"], "newsletter" in texts["/criteria"]) == (True, True)
    for text in texts.values():
        assert SECRET not in text
        assert "<script" not in text
        assert HOSTILE not in text


def test_values_are_shown_once_the_operator_says_so(criteria: Path) -> None:
    with running_sidecar("--criteria", str(criteria), environ={"OTEL_TOOLCALL_EVAL_EXPLAIN_VALUES": "truncate"}) as sidecar:
        feed(sidecar)
        assert SECRET in page(sidecar, f"/traces/{trace_id_of(BAD)}")


def test_secrets_are_taken_out_of_names_and_values(criteria: Path) -> None:
    environ = {"OTEL_TOOLCALL_EVAL_EXPLAIN_VALUES": "full", "OTEL_TOOLCALL_EVAL_EXPLAIN_REDACT_KEYS": "amount,status"}
    with running_sidecar("--criteria", str(criteria), environ=environ) as sidecar:
        feed(sidecar)
        key = "sk-proj-" + "a1B2" * 10
        named = trace(50, service="order-desk", agent=f"agent {key}", calls=[(f"call {key}", {}, None)])
        send_json(sidecar.http, named)
        for _ in range(4):
            sidecar.verdicts.get(timeout=PATIENCE_SECONDS)
        wait_for(lambda: trace_id_of(named) in page(sidecar), "the page with the new trace")
        texts = [page(sidecar), page(sidecar, f"/traces/{trace_id_of(BAD)}")]
        texts.append(page(sidecar, re.findall("/traces/[0-9a-f]{32}", texts[0])[0]))
    assert "Actual: " in texts[1]
    for text in texts:
        assert (SECRET in text, key in text) == (False, False)


def test_filters_hold_together(criteria: Path) -> None:
    with running_sidecar("--criteria", str(criteria)) as sidecar:
        feed(sidecar)
        assert labels(page(sidecar, "?agent=refunds&label=fail")) == ["fail"] * 4
        assert labels(page(sidecar, "?agent=refunds&criteria=forecast_first")) == []
        assert labels(page(sidecar, "?service=weather&criteria=forecast_first&agent=forecaster&label=pass")) == ["pass"] * 2


@pytest.mark.slow
def test_history_survives_a_restart_in_a_file_that_is_its_owners(criteria: Path, tmp_path: Path) -> None:
    file = tmp_path / "status.db"
    environ = {"OTEL_TOOLCALL_EVAL_STATUS_PATH": str(file)}
    with running_sidecar("--criteria", str(criteria), environ=environ) as sidecar:
        feed(sidecar)
        assert sidecar.terminate() == 0
    assert file.stat().st_mode & 0o777 == 0o600
    with running_sidecar("--criteria", str(criteria), environ=environ) as sidecar:
        text = page(sidecar)
        assert len(labels(text)) == VERDICTS + 4, "with the trace whose root never came, which was judged at the end"
        assert "delete_order" in page(sidecar, f"/traces/{trace_id_of(BAD)}")
        send_json(sidecar.http, JUDGED[0])
        for _ in range(4):
            sidecar.verdicts.get(timeout=PATIENCE_SECONDS)
        assert len(labels(page(sidecar))) == VERDICTS + 4, "the same verdict once more stands in place of the first"


@pytest.mark.slow
def test_a_file_that_is_in_use_keeps_a_second_sidecar_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "status.db"
    with running_sidecar(environ={"OTEL_TOOLCALL_EVAL_STATUS_PATH": str(file)}):
        command = [sys.executable, "-m", "otel_toolcall_eval", "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        environ = {"OTEL_TOOLCALL_EVAL_STATUS_PATH": str(file)}
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 2
    assert "another process has this file; stop it, or give this one a status.path of its own" in ended.stderr


def test_without_it_there_is_no_page_and_nothing_is_remembered() -> None:
    with running_sidecar(environ={"OTEL_TOOLCALL_EVAL_STATUS_ENABLED": "false"}) as sidecar:
        assert get(sidecar.http, "/status")[0] == 404
        assert get(sidecar.http, "/", accept="text/html")[0] == 404


def test_with_tokens_the_page_is_for_those_who_have_one(tmp_path: Path) -> None:
    tokens = write_secret(tmp_path / "tokens", f"{TOKEN}\n".encode())
    with running_sidecar(environ={"OTEL_TOOLCALL_EVAL_LISTEN_TOKEN_FILE": str(tokens)}) as sidecar:
        assert get(sidecar.http, "/status")[0] == 401
        assert get(sidecar.http, "/status", accept="text/html")[0] == 303
        assert "Log in" in page(sidecar, "/login")
        connection = HTTPConnection(sidecar.http, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/status", headers={"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 200
        connection.close()
