"""README.md tells the truth: its files load, its Python runs, its commands print what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.payload.redaction import Redactor
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(
    r"(?:<!-- (?P<kind>file|not run): (?P<note>.+?) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL
)
BLOCKS = list(BLOCK.finditer(README.read_text(encoding="utf-8")))
COMMAND = "otel-toolcall-eval "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that README shows."""
    for block in BLOCKS:
        if block["kind"] == "file":
            (tmp_path / block["note"]).write_text(block["body"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _python() -> Iterator[object]:
    for number, block in enumerate(found for found in BLOCKS if found["language"] == "python" and found["kind"] != "file"):
        yield pytest.param(block["body"], id=f"python-{number}")


def _commands() -> Iterator[object]:
    for block in BLOCKS:
        if block["language"] != "console" or block["kind"] == "not run":
            continue
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield pytest.param(command, output, id=command)


PYTHON = list(_python())
COMMANDS = list(_commands())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("code", PYTHON)
def test_python_example_runs(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=PATIENCE_SECONDS)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_command_prints_what_is_shown(command: str, output: str) -> None:
    assert command.startswith(COMMAND)
    arguments = [sys.executable, "-m", "otel_toolcall_eval", *command.removeprefix(COMMAND).split()]
    ended = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.returncode in {0, 1}, ended.stderr
    assert output.splitlines() == [line.rstrip() for line in ended.stdout.splitlines()][: len(output.splitlines())]


def _pytest() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider", "test_agent.py"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@pytest.mark.slow
def test_the_tests_that_are_shown_pass_and_fail_as_shown(folder: Path) -> None:
    passed = _pytest()
    assert passed.returncode == 0, passed.stdout
    shown = folder / "test_agent.py"
    shown.write_text(shown.read_text(encoding="utf-8").replace('"amount": 20}\n', '"amount": 19}\n'), encoding="utf-8")
    (message,) = [block["body"] for block in BLOCKS if block["body"].startswith("E ")]
    assert message in _pytest().stdout


def test_nothing_is_left_out() -> None:
    assert {block["language"] for block in BLOCKS} <= {"console", "python", "yaml", "json", "text"}
    assert len(PYTHON) == 5
    assert len(COMMANDS) == 1
    files = {block["note"] for block in BLOCKS if block["kind"] == "file"}
    assert files == {"policy.yaml", "prometheus.yml", "redact.yaml", "sidecar.yaml", "test_agent.py", "traces.jsonl"}


def test_settings_that_are_shown_let_others_in_only_with_a_token_and_encrypted(folder: Path) -> None:
    listen = load_settings(folder / "sidecar.yaml", {}, Deployment.SIDECAR).listen
    assert not listen.insecure
    assert all(listener.tls and listener.tokens and not listener.address.is_loopback for listener in (listen.grpc, listen.http))


def test_redaction_that_is_shown_takes_out_what_it_says(folder: Path) -> None:
    redact = load_settings(folder / "redact.yaml", {}, Deployment.SIDECAR).redact
    redactor = Redactor(keys=redact.keys, patterns=redact.patterns, defaults=redact.defaults)
    assert redactor.in_value("{'customerIban': 'x', 'note': 'for KD-123456'}") == "{'customerIban': [REDACTED], 'note': 'for [REDACTED]'}"


def test_every_path_that_is_named_exists() -> None:
    text = README.read_text(encoding="utf-8")
    for path in ("config/sidecar.yaml", "Dockerfile", "Makefile", ".ci/run"):
        assert path in text or path == "Makefile"
        assert (README.parent / path).exists()
