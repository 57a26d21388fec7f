"""The bar is for people who wait: never in a pipe, never for what is over at once."""

from __future__ import annotations

import io
import sys

import pytest

from otel_toolcall_eval.cli import recorded as module
from otel_toolcall_eval.cli.recorded import progress


class Terminal(io.StringIO):
    """Standard error of somebody who looks at it."""

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in place; within the test, since pytest sets standard error anew after the fixtures."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_bar_appears_once_a_second_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(module, "SHOW_AFTER_SECONDS", -1.0)
    with progress("reading", 100) as advance:
        advance(40)
        advance(60)
    assert "reading" in terminal.getvalue()
    assert "100/100 bytes" in terminal.getvalue()


def test_quick_work_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with progress("reading", 100) as advance:
        advance(100)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("total", [0, -1])
def test_nothing_to_do_shows_none(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    terminal = watched(monkeypatch)
    with progress("reading", total) as advance:
        advance(1)
    assert terminal.getvalue() == ""


def test_pipe_gets_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOW_AFTER_SECONDS", -1.0)
    with progress("reading", 100) as advance:
        advance(100)
    assert capsys.readouterr().err == ""
