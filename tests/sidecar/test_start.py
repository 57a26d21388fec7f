"""A start loads what it needs: what only pages need comes after it, once, and that it can't be had is said all the same."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.sidecar.build import SidecarParts
from otel_toolcall_eval.sidecar.sidecar import Sidecar, SignalWakeup
from tests.patience import PATIENCE_SECONDS
from tests.sidecar_process import SERVE

if TYPE_CHECKING:
    from otel_toolcall_eval.settings.service import Settings

LOADED = """
import sys
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.sidecar.sidecar import Sidecar
listen = {f"OTEL_TOOLCALL_EVAL_LISTEN_{name}_ADDRESS": "127.0.0.1:0" for name in ("GRPC", "HTTP")}
sidecar = Sidecar(load_settings(None, listen, Deployment.SIDECAR))
later = {"jinja2", "opentelemetry.sdk.metrics", "prometheus_client"}
sidecar.start()
print(sorted(later & set(sys.modules)))
for load in sidecar.parts.page_loaders:
    load()
print(sorted(later & set(sys.modules)) == sorted(later))
sidecar.stop(timeout_seconds=5.0)
"""


def settings() -> Settings:
    listen = {f"OTEL_TOOLCALL_EVAL_LISTEN_{name}_ADDRESS": "127.0.0.1:0" for name in ("GRPC", "HTTP")}
    return load_settings(None, listen, Deployment.SIDECAR)


def test_what_only_pages_need_is_not_loaded_by_a_start() -> None:
    said = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[]", "True"]


@pytest.mark.parametrize("name", ["aiohttp", "jinja2", "prometheus_client"])
def test_what_is_missing_is_said_at_the_start_even_if_it_is_loaded_later(name: str) -> None:
    without = f"import sys; sys.modules[{name!r}] = None; from otel_toolcall_eval.__main__ import main; sys.exit(main(['serve']))"
    ended = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"{name} is not installed" in ended.stderr
    assert "otel-toolcall-eval[sidecar]" in ended.stderr


def test_who_can_not_say_that_it_is_ready_ends() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    command = [sys.executable, *SERVE, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--verdicts", "json"]
    try:
        ended = subprocess.run(command, env=inherited, stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False)
    finally:
        os.close(writer)
    assert ended.returncode not in {0, None}


def asked_of_pages(monkeypatch: pytest.MonkeyPatch, *, looks: int) -> int:
    """Run a sidecar whose pages can't be loaded for some looks at its files, and return how often loading them was tried."""
    sidecar, tried, number = Sidecar(settings()), 0, 0

    def load() -> None:
        nonlocal tried
        tried += 1
        message = "no templates there"
        raise ValueError(message)  # as Jinja2's own answer; whatever it is

    def wait(_bell: SignalWakeup, _seconds: float) -> None:
        nonlocal number
        number += 1
        if number == looks:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(SidecarParts, "page_loaders", [load, load])
    monkeypatch.setattr(SignalWakeup, "wait", wait)
    with sidecar.signals():
        sidecar.start()
        assert sidecar.run()
    return tried


def test_a_library_that_can_not_be_loaded_costs_the_pages_and_not_the_sidecar(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert asked_of_pages(monkeypatch, looks=3) == 2  # each once, though the first failed
    told = [record.message for record in caplog.records if "pages can't be shown" in record.message]
    assert ["otel-toolcall-eval[sidecar]" in message for message in told] == [True, True]


def test_a_sidecar_that_ends_at_once_loads_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_of_pages(monkeypatch, looks=1) == 0
