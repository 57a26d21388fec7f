"""What a sidecar asks of the system, tried in processes of their own."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import TYPE_CHECKING

from otel_toolcall_eval import process_limits

if TYPE_CHECKING:
    import pytest

FILES = """
import resource
from otel_toolcall_eval.process_limits import raise_file_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
print(raise_file_limit(), raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)
"""


def test_the_limit_on_files_is_raised_as_far_as_allowed_and_never_lowered() -> None:
    said = subprocess.run([sys.executable, "-c", FILES], check=True, capture_output=True, text=True).stdout
    first, again, soft, hard = map(int, said.split())
    assert first == again == soft
    assert 100 < soft <= (65_536 if hard < 0 else hard)


def test_large_blocks_go_back_where_the_c_library_can_be_told() -> None:
    assert process_limits.return_large_blocks() in {True, False}


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert process_limits.return_large_blocks() is False


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert process_limits.return_large_blocks() is False
