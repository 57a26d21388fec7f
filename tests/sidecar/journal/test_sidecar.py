"""A sidecar with a journal, in this process: what it says of itself, and what a start that fails leaves."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.sidecar.journal.store import Sync
from otel_toolcall_eval.sidecar.sidecar import Sidecar
from tests.fakes import span
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar.journal.lives import Life
from tests.sidecar.journal.test_failures import full
from tests.sidecar.test_sidecar import otlp, otlp_span
from tests.sidecar_process import get, post

if TYPE_CHECKING:
    from pathlib import Path

    from otel_toolcall_eval.settings.service import Settings

PREFIX = "OTEL_TOOLCALL_EVAL_"


def settings(path: Path, *, grpc: str = "127.0.0.1:0") -> Settings:
    environ = {"JOURNAL_PATH": str(path), "JOURNAL_SYNC": "ack", "LISTEN_GRPC": grpc, "LISTEN_HTTP": "127.0.0.1:0"}
    return load_settings(None, {f"{PREFIX}{name}": value for name, value in environ.items()}, Deployment.SIDECAR)


def send(sidecar: Sidecar, trace: int, text: str = "") -> int:
    attributes = [{"key": "gen_ai.tool.call.arguments", "value": {"stringValue": text}}]
    body = json.dumps(otlp(otlp_span(trace, 1, attributes=attributes))).encode()
    return post(str(sidecar.addresses["http"]), body, content_type="application/json")[0]


def test_full_disk_is_told_to_senders_and_on_the_page_and_both_end_by_themselves(tmp_path: Path) -> None:
    sidecar = Sidecar(settings(tmp_path / "j"))
    sidecar.start()
    try:
        journal = sidecar.parts.journal
        assert journal is not None
        assert send(sidecar, 1) == 200
        full(journal)
        trace = 1
        while (status := send(sidecar, trace := trace + 1, "x" * 50_000)) == 200:
            assert trace < 100
        assert status == 503
        wait_for(lambda: get(str(sidecar.addresses["http"]), "/readyz") == (503, b"journal\n"), "what is not ready")
        assert get(str(sidecar.addresses["http"]), "/livez") == (200, b"ok\n")
        full(journal, is_full=False)
        wait_for(lambda: get(str(sidecar.addresses["http"]), "/readyz")[0] == 200, "room")
        assert send(sidecar, trace, "x" * 50_000) == 200
    finally:
        assert sidecar.stop(timeout_seconds=PATIENCE_SECONDS)


def test_start_that_fails_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    life = Life(tmp_path / "j", Sync.ACK)
    life.send(span(1))
    life.die()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match="the port is in use"):
        Sidecar(settings(tmp_path / "j", grpc=f"127.0.0.1:{taken.getsockname()[1]}")).start()
    life = Life(tmp_path / "j", Sync.ACK)
    assert life.pipeline.open_traces == 1
    life.die()


def test_second_sidecar_on_one_journal_does_not_start(tmp_path: Path) -> None:
    first = Sidecar(settings(tmp_path / "j"))
    first.start()
    try:
        with pytest.raises(SettingsError, match="another process has this journal"):
            Sidecar(settings(tmp_path / "j"))
    finally:
        first.stop(timeout_seconds=PATIENCE_SECONDS)
