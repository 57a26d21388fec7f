"""What pydantic finds becomes ours: the keys as written, our words, a guess at what was meant."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from otel_toolcall_eval.settings.config_model import ConfigModel, check, member, place_of, spellings
from otel_toolcall_eval.settings.criteria_models import (
    ArgsConfig,
    ArgsModel,
    CountConfig,
    CountModel,
    EvalItemModel,
    EvalSetModel,
    EvaluatorModel,
    MatchModel,
    OrderConfig,
    OrderModel,
    OutputConfig,
    OutputModel,
)
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation, Spelling
from otel_toolcall_eval.settings.service_models import CriteriaEntryModel, OtlpModel, ServiceModel
from tests.settings.loading import said, top

MODELS: list[type[ConfigModel]] = [
    *(ArgsConfig, ArgsModel, CountConfig, CountModel, EvalItemModel, EvalSetModel, EvaluatorModel, MatchModel, OrderConfig, OrderModel),
    *(OutputConfig, OutputModel, CriteriaEntryModel, OtlpModel, ServiceModel),
]


class Inner(ConfigModel):
    some_name: str


class Outer(ConfigModel):
    tool_calls: list[Inner] = Field(min_length=1)
    by_name: dict[str, Inner] = Field(default={})
    plain: int = 0


def complaints(model: type[ConfigModel], raw: object, *, tolerant: bool = False, place: SourceLocation | None = None) -> list[str]:
    diagnostics = Diagnostics()
    assert check(model, raw, place or top(), diagnostics, tolerant=tolerant) is None
    return said(diagnostics)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"tool_calls": [{"some_name": "a"}]}, id="snake-case"),
        pytest.param({"toolCalls": [{"someName": "a"}]}, id="camel-case"),
        pytest.param({"toolCalls": [{"some_name": "a"}]}, id="mixed"),
    ],
)
def test_both_spellings_are_one(raw: object) -> None:
    diagnostics = Diagnostics()
    model = check(Outer, raw, top(), diagnostics)
    assert model is not None
    assert model.tool_calls[0].some_name == "a"
    assert (said(diagnostics), diagnostics.warnings) == ([], ())


@pytest.mark.parametrize("tolerant", [True, False])
def test_of_both_spellings_of_one_key_camel_case_wins_with_a_warning(tolerant: bool) -> None:  # noqa: FBT001 - a table's column
    diagnostics = Diagnostics()
    model = check(Outer, {"toolCalls": [{"some_name": "a"}], "tool_calls": []}, top(), diagnostics, tolerant=tolerant)
    assert model is not None
    assert model.tool_calls[0].some_name == "a"
    assert [str(warning) for warning in diagnostics.warnings] == [
        "f.yaml: tool_calls: 'toolCalls' is given too, and wins; remove one of them"
    ]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            {"tool_calls": [{"some_name": "a"}], "plian": 1}, ["f.yaml: plian: unknown key 'plian'; did you mean 'plain'?"], id="misspelt"
        ),
        pytest.param(
            {"tool_call": [{"some_name": "a"}]}, ["f.yaml: tool_call: unknown key 'tool_call'; did you mean 'tool_calls'?"], id="snake"
        ),
        pytest.param(
            {"toolCall": [{"some_name": "a"}]}, ["f.yaml: toolCall: unknown key 'toolCall'; did you mean 'toolCalls'?"], id="camel"
        ),
        pytest.param(
            {"tool_calls": [{"some_name": "a"}], "zz": 1},
            ["f.yaml: zz: unknown key 'zz'; use one of by_name, plain, tool_calls"],
            id="nothing-comes-near",
        ),
        pytest.param({"zz": 1, "tool_calls": []}, None, id="several"),
        pytest.param({}, ["f.yaml: 'tool_calls' is missing; add it"], id="missing"),
        pytest.param(
            {"zz": 1},
            [
                "f.yaml: 'tool_calls' is missing; add it; 'zz' is no key of this object",
                "f.yaml: zz: unknown key 'zz'; use one of by_name, plain, tool_calls",
            ],
            id="missing-beside-an-unknown-key",
        ),
        pytest.param(5, ["f.yaml: this is a whole number, not an object; write keys with values"], id="no-object"),
        pytest.param(
            {"tool_calls": {}}, ["f.yaml: tool_calls: this is an object, not a list; write a list, even for a single entry"], id="no-list"
        ),
        pytest.param({"tool_calls": []}, ["f.yaml: tool_calls: this is empty; add at least one entry, or remove it"], id="empty"),
        pytest.param(
            {"toolCalls": [{"someName": "a"}, {"someNam": "b"}, None]},
            [
                "f.yaml: [1].someNam: unknown key 'someNam'; did you mean 'someName'?",
                "f.yaml: [2]: this is null, not an object; write keys with values",
            ],
            id="inside-a-list",
        ),
        pytest.param(
            {"tool_calls": [{"some_name": "a"}], "byName": {"k": {"some_nam": "b"}}},
            ["f.yaml: byName.k.some_nam: unknown key 'some_nam'; did you mean 'some_name'?"],
            id="inside-an-object",
        ),
        pytest.param({"tool_calls": [{"some_name": "a"}], "by_name": []}, None, id="list-for-object"),
    ],
)
def test_all_that_is_wrong_is_told_with_the_keys_as_written(raw: object, expected: list[str] | None) -> None:
    found = complaints(Outer, raw)
    if expected is None:
        assert found
    else:
        assert found == expected


def test_missing_keys_are_named_in_the_spelling_of_the_file() -> None:
    assert complaints(Outer, {}, place=SourceLocation(origin="f.json", spelling=Spelling.CAMEL)) == [
        "f.json: 'toolCalls' is missing; add it"
    ]


def test_tolerance_leaves_unknown_keys_out_with_a_warning() -> None:
    diagnostics = Diagnostics()
    raw = {"toolCalls": [{"someName": "a", "zz": 1}], "plian": 1, "byName": {"k": {"someName": "b", "x": [1]}}}
    model = check(Outer, raw, top(), diagnostics, tolerant=True)
    assert model is not None
    assert model.by_name["k"].some_name == "b"
    assert said(diagnostics) == []
    assert [str(warning) for warning in diagnostics.warnings] == [
        "f.yaml: [0]: the unknown key 'zz' is ignored; remove it",
        "f.yaml: byName.k: the unknown key 'x' is ignored; remove it",
        "f.yaml: the unknown key 'plian' is ignored; did you mean 'plain'?",
    ]


def test_tolerance_does_not_take_a_misspelt_key_for_an_unknown_one_when_it_is_due() -> None:
    assert complaints(Outer, {"toolCal": [{"someName": "a"}]}, tolerant=True) == [
        "f.yaml: toolCal: unknown key 'toolCal'; did you mean 'toolCalls'?"
    ]


def test_tolerance_is_for_keys_alone() -> None:
    assert complaints(Outer, {"toolCalls": 1, "zz": 1}, tolerant=True) == [
        "f.yaml: toolCalls: this is a whole number, not a list; write a list, even for a single entry",
    ]


def test_keys_that_are_no_text_are_told() -> None:  # only mappings from code have them
    assert complaints(CountModel, {"tool_calls_count": {1: ["=", 1]}}) == [
        "f.yaml: [1]: this is a whole number, not text; put it in quotes"
    ]
    assert complaints(Outer, {"tool_calls": [{"some_name": "a"}], 5: 1}) == ["f.yaml: [5]: a key is not text; use text for keys"]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"toolCalls": 1, "tool_calls": 2}, 1, id="camel-case-wins"),
        pytest.param({"tool_calls": 2}, 2, id="snake-case"),
        pytest.param({}, None, id="absent"),
        pytest.param([], None, id="no-object"),
    ],
)
def test_members_are_found_in_either_spelling(raw: object, expected: object) -> None:
    assert member(raw, "tool_calls") == expected


def test_places_of_members_have_the_spelling_that_was_written() -> None:
    assert str(place_of({"toolCalls": 1}, "tool_calls", top())) == "f.yaml: toolCalls"
    assert str(place_of({}, "tool_calls", top())) == "f.yaml: tool_calls"


def test_names_of_tools_are_no_spellings_of_each_other() -> None:
    raw = {"tool_calls_count": {"getWeather": ["=", 1], "get_weather": ["=>", 1]}}
    assert complaints(CountModel, raw) == ["f.yaml: get_weather: '=>' is not an operator; use one of = == != > >= < <="]


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(-1, 2)
    | st.sampled_from(["", "a", "=", "true", "tool-call-count", "10s", "::1:1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "", "name", "args", "output", "id", "kinds"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def shaped_junk(draw: st.DrawFn) -> tuple[type[ConfigModel], dict[str, object]]:
    """Draw a model, and an object with its keys, some of them misspelt, and anything for values."""
    model = draw(st.sampled_from(MODELS))
    keys = sorted(spellings(model))
    misspelt = [key[1:] for key in keys] + ["zz"]
    return model, draw(st.dictionaries(st.sampled_from(keys + misspelt), JUNK, max_size=4))


@given(shaped_junk(), st.booleans())
def test_no_word_of_pydantic_gets_out(drawn: tuple[type[ConfigModel], dict[str, Any]], tolerant: bool) -> None:  # noqa: FBT001 - drawn
    model, raw = drawn
    before = json.dumps(raw)
    diagnostics = Diagnostics()
    result = check(model, raw, top(), diagnostics, tolerant=tolerant)
    assert (result is None) == bool(diagnostics.problems)
    assert json.dumps(raw) == before
    for problem in diagnostics.problems:
        # "a key is not text" is what an error of an unforeseen kind would turn into, and no key here is anything else.
        assert problem.what != "a key is not text"
        assert "Input should" not in str(problem)
        assert problem.fix


def test_threads_that_read_first_together_all_read() -> None:
    class Read(ConfigModel):
        some_name: str
        inner: MatchModel | None = None

    start = Barrier(8)

    def read(number: int) -> Read | None:
        start.wait()
        return check(Read, {"someName": str(number), "inner": {"service": "a"}}, top(), Diagnostics())

    assert not Read.__pydantic_complete__  # so the threads build it
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(read, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert [one and one.some_name for one in found] == [str(number) for number in range(8)]
