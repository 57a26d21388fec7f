from __future__ import annotations

from types import MappingProxyType

import pytest

from otel_toolcall_eval.settings import plain_values as plain_values_module
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.plain_values import plain_values
from tests.settings.loading import said, top


def test_copy_is_equal_and_shares_nothing_that_can_change() -> None:
    value = {"a": [1, 2.5, "x", None, True], "b": {"c": []}}
    diagnostics = Diagnostics()
    copy = plain_values(value, top(), diagnostics)
    assert copy == value
    assert said(diagnostics) == []
    value["a"].append("later")  # type: ignore[attr-defined]
    assert copy != value


def test_tuples_and_other_mappings_become_lists_and_objects() -> None:
    assert plain_values({"a": ("=", 1), "b": MappingProxyType({"c": 1})}, top(), Diagnostics(), from_code=True) == {
        "a": ["=", 1],
        "b": {"c": 1},
    }


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        pytest.param({"a": {1, 2}}, "f.yaml: a: set is not a JSON value; use text, a number, a list or an object", id="set"),
        pytest.param([b"x"], "f.yaml: [0]: bytes is not a JSON value; use text, a number, a list or an object", id="bytes"),
        pytest.param({1: "a"}, "f.yaml: the key '1' is not text; put it in quotes", id="number-as-key"),
        pytest.param([float("inf")], "f.yaml: [0]: the number is not finite; use a finite number, or text", id="infinity"),
        pytest.param([float("nan")], "f.yaml: [0]: the number is not finite; use a finite number, or text", id="nan"),
    ],
)
def test_what_json_can_not_hold_is_refused(value: object, complaint: str) -> None:
    diagnostics = Diagnostics()
    plain_values(value, top(), diagnostics)
    assert said(diagnostics) == [complaint]


def test_code_may_use_what_python_literals_can_hold() -> None:
    diagnostics = Diagnostics()
    value = {"a": {1: float("inf"), None: 1, False: 2}}
    assert plain_values(value, top(), diagnostics, from_code=True) == value
    assert said(diagnostics) == []


def test_code_may_not_use_tuples_as_keys() -> None:
    diagnostics = Diagnostics()
    plain_values({("a", 1): 1}, top(), diagnostics, from_code=True)
    assert said(diagnostics) == ["""f.yaml: the key "('a', 1)" is not text; put it in quotes"""]


def test_a_value_that_holds_itself_ends_in_a_complaint() -> None:
    loop: list[object] = []
    loop.append(loop)
    diagnostics = Diagnostics()
    plain_values({"a": loop}, top(), diagnostics)
    (complaint,) = said(diagnostics)
    assert complaint.endswith("nested more than 100 deep; flatten it, or cut the loop in it")


def test_values_that_unfold_without_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_values_module, "MAX_VALUES", 1000)
    value: object = "x"
    for _ in range(40):
        value = [value, value]
    diagnostics = Diagnostics()
    assert plain_values(value, top(), diagnostics) is None
    (complaint,) = said(diagnostics)
    assert complaint.endswith("more than 1,000 values; split them, or use fewer aliases")
