from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.message_repr import MAX_REPR_LENGTH, read_message_repr


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("content='18 C' name='f'", {"content": "18 C", "name": "f"}, id="pydantic"),
        pytest.param("ToolMessage(content='a', id=None)", {"content": "a", "id": None}, id="dataclass"),
        pytest.param("a.b.C(x=[1, 'y z'], d={'k': (1, 2)})", {"x": [1, "y z"], "d": {"k": (1, 2)}}, id="containers"),
        pytest.param('content="it\'s" x=-1.5', {"content": "it's", "x": -1.5}, id="double quotes"),
        pytest.param("a=<object at 0x1> b=2", None, id="what can't be read back and has blanks"),
        pytest.param("a=datetime(2026, 1, 1) b=2", {"b": 2}, id="what can't be read back"),
        pytest.param("a=1,  b=2", {"a": 1, "b": 2}, id="comma and blanks"),
        pytest.param("sunny", None, id="text"),
        pytest.param("x=1 and more", None, id="text that begins like a field"),
        pytest.param("a='open", None, id="quote that is not closed"),
        pytest.param("a=[1", None, id="bracket that is not closed"),
        pytest.param("a=", {}, id="no value"),
        pytest.param("", None, id="empty"),
    ],
)
def test_printed_objects_are_read(text: str, fields: dict[str, object] | None) -> None:
    assert read_message_repr(text) == fields


def test_long_text_is_not_read() -> None:
    assert read_message_repr("a='" + "x" * MAX_REPR_LENGTH + "'") is None


@given(text=st.text(), number=st.integers())
def test_what_repr_wrote_comes_back(text: str, number: int) -> None:
    assert read_message_repr(f"content={text!r} n={number!r}") == {"content": text, "n": number}


@given(text=st.text(alphabet="a=('\"[]{}), \\\n"))
def test_no_text_is_a_crash(text: str) -> None:
    read_message_repr(text)
