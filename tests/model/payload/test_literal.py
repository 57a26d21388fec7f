from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.literal import MAX_LITERAL_LENGTH, NotALiteralError, read_literal

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
HASHABLE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(HASHABLE, inner, max_size=4),
    max_leaves=20,
)
SOUP = (
    *("{", "}", "[", "]", "(", ")", ",", ",", ":", " "),
    *("'a'", '"b"', "'''c'd'''", '"""e"""', "u'f'", r"R'\g'", "b'h'", r"'\x41\101\n'", "''"),
    *("1", "-1", "+2", "0", "00", "3.5", ".5", "1_0", "0x1F", "0b1", "0o7", "1e3", "2j"),
    *("True", "False", "None", "...", "x"),
)


def read(text: str) -> Json:
    return read_literal(text, max_depth=100)


def is_json_like(value: object) -> bool:
    if isinstance(value, dict):
        return all(is_json_like(key) and is_json_like(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_json_like, value))
    return value is None or isinstance(value, bool | int | float | str)


def python_reads(text: str) -> object:
    """What ast.literal_eval makes of it; NotALiteralError if that is nothing JSON-like."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value: object = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError):
            return NotALiteralError
    return value if is_json_like(value) else NotALiteralError


def we_read(text: str) -> object:
    try:
        return read(text)
    except NotALiteralError:
        return NotALiteralError


@given(VALUES)
def test_whatever_repr_writes_is_read_back(value: Json) -> None:
    assert repr(read(repr(value))) == repr(value)


@given(st.lists(st.sampled_from(SOUP), max_size=12).map("".join))
def test_any_text_is_read_as_python_reads_it(text: str) -> None:
    assert repr(we_read(text)) == repr(python_reads(text))


@given(
    st.text(alphabet="'\"\\xuU01naAg{}[]rR\n ", max_size=14).filter(
        # Python reads programs: a line break before a literal, inside one, or before a blank means something to it, and nothing to us.
        lambda text: "\n" not in text.rstrip("\n")
    )
)
def test_text_and_escapes_are_read_as_python_reads_them(text: str) -> None:
    assert repr(we_read(text)) == repr(python_reads(text))


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    we_read(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("{'a': 1, 'b': (2, [3])}", {"a": 1, "b": (2, [3])}, id="object"),
        pytest.param("{'a': 1,}", {"a": 1}, id="comma-at-the-end"),
        pytest.param(r"'\101\x42\u0043\n\q'", "ABC\n\\q", id="escapes"),
        pytest.param("{'a': 1, 'a': 2}", {"a": 2}, id="last-key-wins"),
        pytest.param("{1: 'x', None: 'y', (1, 2): 'z'}", {1: "x", None: "y", (1, 2): "z"}, id="other-keys"),
        pytest.param("\n { 'a'\t:\r\n[ 1 , ] } \n", {"a": [1]}, id="blanks"),
        pytest.param("(1)", 1, id="grouping"),
        pytest.param("(1,)", (1,), id="tuple-of-one"),
        pytest.param("1, 2", (1, 2), id="bare-tuple"),
        pytest.param("{'long': 'one '\n         'two'}", {"long": "one two"}, id="broken-by-pprint"),
        pytest.param("1_000", 1000, id="underscore"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("- 1", -1, id="sign-apart"),
        pytest.param("-1.5e3", -1500.0, id="negative-float"),
        pytest.param("1e999", float("inf"), id="beyond-double"),
        pytest.param("'\ud800'", "\ud800", id="lone-surrogate"),
        pytest.param(r"'\ud800'", "\ud800", id="lone-surrogate-escaped"),
        pytest.param(r"'\d'", r"\d", id="unknown-escape"),
        pytest.param(r"r'\n'", r"\n", id="raw"),
        pytest.param("'a\\\nb'", "ab", id="line-continued-in-text"),
        pytest.param("'''it's\n'''", "it's\n", id="triple"),
    ],
)
def test_literal_is_read(text: str, value: Json) -> None:
    assert repr(read(text)) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blank"),
        pytest.param(",", id="comma"),
        pytest.param("{1, 2}", id="set"),
        pytest.param("b'a'", id="bytes"),
        pytest.param("1j", id="complex"),
        pytest.param("...", id="ellipsis"),
        pytest.param("1 + 2", id="arithmetic"),
        pytest.param("--1", id="two-signs"),
        pytest.param("-True", id="signed-word"),
        pytest.param("007", id="leading-zeros"),
        pytest.param("1__0", id="two-underscores"),
        pytest.param("Nonesuch", id="longer-word"),
        pytest.param("[1, # note\n2]", id="comment"),
        pytest.param("f'{1}'", id="formatted-text"),
        pytest.param("ur'a'", id="impossible-prefix"),
        pytest.param(r"'\N{BULLET}'", id="named-character"),
        pytest.param(r"'\x4'", id="cut-escape"),
        pytest.param(r"'\U00110000'", id="beyond-unicode"),
        pytest.param("'a\nb'", id="line-break-in-text"),
        pytest.param("'open", id="open-text"),
        pytest.param("'''a''", id="open-triple"),
        pytest.param("'''a' 'b'", id="open-triple-not-two-texts"),
        pytest.param("[1", id="open-list"),
        pytest.param("[1)", id="wrong-closer"),
        pytest.param("]", id="closer-only"),
        pytest.param("[1 2]", id="no-comma"),
        pytest.param("[1 [2]]", id="no-comma-before-list"),
        pytest.param("[,]", id="comma-only"),
        pytest.param("[1,,2]", id="two-commas"),
        pytest.param("[1: 2]", id="colon-in-list"),
        pytest.param("{'a'}", id="no-colon"),
        pytest.param("{'a':}", id="no-member"),
        pytest.param("{'a': 1, 'b'}", id="key-only"),
        pytest.param("{'a', 'b': 1}", id="comma-after-key"),
        pytest.param("{'a': 1: 2}", id="two-colons"),
        pytest.param("{[1]: 2}", id="list-as-key"),
        pytest.param("{(1, {}): 2}", id="object-in-key"),
        pytest.param("__import__('os')", id="code"),
        pytest.param("9" * 100_001, id="too-many-digits"),
    ],
)
def test_no_literal_is_refused(text: str) -> None:
    with pytest.raises(NotALiteralError, match=r"^$"):
        read(text)


@pytest.mark.parametrize(("opener", "closer"), [("[", "]"), ("(", ",)"), ("{'a': ", "}"), ("((", "),)"), ("{(", ",): 1}")])
def test_depth_is_bounded(opener: str, closer: str) -> None:
    levels = len(opener.replace("'a': ", ""))
    times = 1 if opener == "{(" else 4
    text = opener * times + "1" + closer * times
    read_literal(text, max_depth=levels * times)
    with pytest.raises(NotALiteralError):
        read_literal(text, max_depth=levels * times - 1)
    with pytest.raises(NotALiteralError):
        read(opener * 100_000)


def test_length_is_bounded() -> None:
    assert read("'" + "a" * (MAX_LITERAL_LENGTH - 2) + "'  ") == "a" * (MAX_LITERAL_LENGTH - 2)
    with pytest.raises(NotALiteralError):
        read("'" + "a" * (MAX_LITERAL_LENGTH - 1) + "'")


def test_keys_made_to_collide_are_refused() -> None:
    # hash(n) is n modulo 2**61 - 1
    few = ", ".join(f"{number * (2**61 - 1)}: 0" for number in range(32))
    many = ", ".join(f"{number * (2**61 - 1)}: 0" for number in range(33))
    assert len(read("{" + few + "}")) == 32  # type: ignore[arg-type]  # it is an object
    with pytest.raises(NotALiteralError):
        read("{" + many + "}")


def test_many_keys_that_are_no_text_are_read() -> None:
    assert read(repr(dict.fromkeys(range(1000), 0))) == dict.fromkeys(range(1000), 0)
