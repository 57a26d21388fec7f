"""What is shown can't forge lines, move the cursor, or fail to be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.rendering import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("get_weather", "get_weather", id="plain"),
        pytest.param("größe 天気 🔧", "größe 天気 🔧", id="any-script"),
        pytest.param("a\nb\tc", r"a\nb\tc", id="lines"),
        pytest.param("\x1b[2K\x9b1m", r"\x1b[2K\x9b1m", id="commands"),
        pytest.param("a\u202eb", r"a\u202eb", id="direction"),
        pytest.param("\ud800", r"\ud800", id="lone-surrogate"),
    ],
)
def test_controls_are_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_one_line_that_can_be_written(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()
