"""YAML becomes plain values by version 1.2's core schema, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.settings import yaml_tree
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.yaml_tree import parse_yaml
from tests.settings.loading import said, top

NO_TAG = "a YAML tag is not allowed; remove it, or put text that begins with ! in quotes"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[on, off, yes, no, y, n]", ["on", "off", "yes", "no", "y", "n"], id="these-are-text"),
        pytest.param("[true, True, TRUE, false, tRUE]", [True, True, True, False, "tRUE"], id="booleans"),
        pytest.param("[null, Null, ~, '']", [None, None, None, ""], id="null"),
        pytest.param("a:\nb: ~", {"a": None, "b": None}, id="no-value-is-null"),
        pytest.param("[0, 017, -5, +5, 0o17, 0x1F]", [0, 17, -5, 5, 15, 31], id="integers"),
        pytest.param("[1_000, 1:30, 2020-01-01, 1e, 0b1]", ["1_000", "1:30", "2020-01-01", "1e", "0b1"], id="text-that-1.1-took-for-more"),
        pytest.param("[1.5, 1., .5, 1e3, -1.5E-1]", [1.5, 1.0, 0.5, 1000.0, -0.15], id="floats"),
        pytest.param("['1', \"true\", 'null']", ["1", "true", "null"], id="quotes-make-text"),
        pytest.param("[!!str 1, !!str true]", ["1", "true"], id="the-text-tag-makes-text"),
        pytest.param("[=, a]", ["=", "a"], id="equals-sign"),
        pytest.param("a: |\n  x\n  y\nb: >\n  x\n  y\n", {"a": "x\ny\n", "b": "x y\n"}, id="blocks"),
        pytest.param("a: &x [1]\nb: *x\nc: &x 2\nd: *x", {"a": [1], "b": [1], "c": 2, "d": 2}, id="aliases"),
        pytest.param("気温: 雨", {"気温": "雨"}, id="any-script"),
        pytest.param("%YAML 1.1\n---\n[yes, 010]", ["yes", 10], id="an-old-directive-changes-nothing"),
        pytest.param(f"- {'9' * 5000}", [10**5000 - 1], id="integers-of-any-length"),
        pytest.param("", None, id="empty"),
        pytest.param("# nothing\n", None, id="comments-alone"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, expected: object) -> None:
    diagnostics = Diagnostics()
    value, _ = parse_yaml(text, top(), diagnostics)
    assert said(diagnostics) == []
    assert value == expected
    if isinstance(value, list):
        assert [type(member) for member in value] == [type(member) for member in expected]  # type: ignore[attr-defined]


def test_every_value_knows_its_line() -> None:
    _, lines = parse_yaml("a:\n  - x\n  - b:\n      1\n    c: 2\n", top(), Diagnostics())
    assert lines == {(): 1, ("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 1, "b"): 3, ("a", 1, "c"): 5}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "f.yaml:3: the key 'a' stands twice, first in line 1; remove one of them", id="key-twice"),
        pytest.param(
            "x:\n  a: 1\n  a: 1", "f.yaml:3: x: the key 'a' stands twice, first in line 2; remove one of them", id="key-twice-inside"
        ),
        pytest.param("1: a", "f.yaml:1: the key '1' is not text; put it in quotes", id="number-as-key"),
        pytest.param("null: a", "f.yaml:1: the key 'null' is not text; put it in quotes", id="null-as-key"),
        pytest.param("? [a]\n: b", "f.yaml:1: the key a list or an object is not text; put it in quotes", id="list-as-key"),
        pytest.param(
            "a: &x {b: 1}\nc:\n  <<: *x", "f.yaml:3: c: merge keys (<<) are not part of YAML 1.2; write the keys out", id="merge-key"
        ),
        pytest.param("- [!=, 1]", "f.yaml:1: [0][0]: '!=' is read as a YAML tag; put it in quotes: \"!=\"", id="operator-as-tag"),
        pytest.param("a: !!binary aGk=", f"f.yaml:1: a: {NO_TAG}", id="binary"),
        pytest.param("!!set {a, b}", f"f.yaml:1: {NO_TAG}", id="set"),
        pytest.param(
            "a: !!python/object/apply:os.system [ls]",
            f"f.yaml:1: a: {NO_TAG}",
            id="code",
        ),
        pytest.param(f"a: {'9' * 100_001}", "f.yaml:1: a: the number is too long; write it as text, in quotes", id="number-of-any-cost"),
        pytest.param("a: 1\n---\nb: 2", "f.yaml:2: a second YAML document starts here; keep one document in a file", id="two-documents"),
        pytest.param(
            "a: [>=, 1]",
            "f.yaml:1: not valid YAML in column 5: found character '>' that cannot start any token; "
            'mend the syntax; an operator needs quotes, as in [">=", 1]',
            id="operator-without-quotes",
        ),
        pytest.param(
            "a: *x",
            "f.yaml:1: not valid YAML in column 4: found undefined alias 'x'; mend the syntax; an operator needs quotes, as in [\">=\", 1]",
            id="unknown-alias",
        ),
        pytest.param(
            "password: *s3cret",
            'f.yaml:1: not valid YAML in column 11: found undefined alias; mend the syntax; an operator needs quotes, as in [">=", 1]',
            id="alias-that-is-a-secret",
        ),
        pytest.param(
            "a: \x07", "f.yaml: not valid YAML: a character that YAML does not allow; remove control characters", id="control-character"
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, complaint: str) -> None:
    diagnostics = Diagnostics()
    parse_yaml(text, top(), diagnostics)
    assert said(diagnostics) == [complaint]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 150 + "]" * 150, id="a-little"),
        pytest.param("[" * 1_000, id="a-lot"),
        pytest.param("a: " + "{b: " * 5_000, id="objects"),
        pytest.param("- " * 5_000, id="lists-in-lists"),
        pytest.param("a: &x [*x]", id="an-alias-that-holds-itself"),
        pytest.param("&x a: *x\n? *x\n: &y {b: *y}", id="an-object-that-holds-itself"),
    ],
)
def test_nesting_without_end_is_refused(text: str) -> None:
    diagnostics = Diagnostics()
    parse_yaml(text, top(), diagnostics)
    assert said(diagnostics)


def test_aliases_that_unfold_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_tree, "MAX_VALUES", 10_000)
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    diagnostics = Diagnostics()
    parse_yaml(bomb, top(), diagnostics)
    (complaint,) = said(diagnostics)
    assert complaint.endswith("more than 10,000 values; split the file, or use fewer aliases")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(codec="ascii")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="abc:#- '\"<=", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_reads_the_same_as_yaml(value: object) -> None:
    text = json.dumps(value, ensure_ascii=True)
    diagnostics = Diagnostics()
    read, _ = parse_yaml(text, top(), diagnostics)
    assert said(diagnostics) == []
    assert read == value


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%? \n\t,01~<=@`"))
def test_any_text_is_read_or_complained_about(text: str) -> None:
    diagnostics = Diagnostics()
    parse_yaml(text, top(), diagnostics)
    assert all(complaint.startswith("f.yaml") for complaint in said(diagnostics))
