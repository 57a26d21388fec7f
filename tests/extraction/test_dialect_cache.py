"""What is remembered of spans that look alike is what the dialects would say if each span were shown to all of them."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.extraction import dialect_cache
from otel_toolcall_eval.extraction.dialect import Dialect, Match, MatchOperator, Role, Subject, Test
from otel_toolcall_eval.extraction.dialect_cache import DialectCache, SpanClassification
from otel_toolcall_eval.extraction.matching import holds
from otel_toolcall_eval.extraction.projection import projection_of
from otel_toolcall_eval.model.trace import Span
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.spans import make

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


BUILT_IN = default_extractor().dialects


def odd(name: str, *tests: Test, role: Role = Role.TOOL, supersedes: frozenset[str] = frozenset()) -> Dialect:
    return Dialect(name=name, family=name, role=role, match=Match(every=tests), supersedes=supersedes)


def wants(subject: Subject, operator: MatchOperator, *values: str, key: str = "", path: tuple[str, ...] = ()) -> Test:
    pattern = re.compile(values[0]) if operator is MatchOperator.REGEX else None
    return Test(subject=subject, operator=operator, values=values, key=key, path=path, pattern=pattern)


ODD = (
    odd("resource", wants(Subject.RESOURCE, MatchOperator.EQUALS, "b", key="service.name")),
    odd("kind", wants(Subject.KIND, MatchOperator.EQUALS, "client"), role=Role.AGENT),
    odd("name-begins", wants(Subject.SPAN_NAME, MatchOperator.PREFIX, "exec")),
    odd("name-not", wants(Subject.SPAN_NAME, MatchOperator.NOT_EQUALS, "execute_tool"), role=Role.IGNORE),
    odd("name-matches", wants(Subject.SPAN_NAME, MatchOperator.REGEX, "tool$"), supersedes=frozenset({"kind"})),
    odd("path", wants(Subject.ATTR, MatchOperator.EQUALS, "tool", key="span.type", path=("type",))),
    odd("value-matches", wants(Subject.ATTR, MatchOperator.REGEX, "^t", key="span.type")),
    odd("value-begins", wants(Subject.ATTR, MatchOperator.PREFIX, "TO", "exec", key="gen_ai.operation.name"), role=Role.AGENT),
    odd("value-not", wants(Subject.ATTR, MatchOperator.NOT_EQUALS, "tool", "x", key="tool.name"), supersedes=frozenset({"kind"})),
    odd("event", wants(Subject.EVENT, MatchOperator.EXISTS, key="e"), role=Role.EVENT),
    odd("scope", wants(Subject.SCOPE, MatchOperator.EQUALS, "langfuse-sdk"), role=Role.MODEL),
    odd("name-is", wants(Subject.SPAN_NAME, MatchOperator.EQUALS, "step")),
    odd("value-is", wants(Subject.ATTR, MatchOperator.EQUALS, "tool", "true", key="tool.name")),
    odd("value-is-there", wants(Subject.ATTR, MatchOperator.EXISTS, key="id")),
)
ALL = (*ODD, *BUILT_IN)
ASKED_FOR = "final_result"
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.arguments": "{}", "gen_ai.agent.name": "a"}

values = st.sampled_from(
    [
        "tool",
        "execute_tool",
        "TOOL",
        "agent",
        "x",
        "",
        '{"type": "tool"}',
        "x" * 300,
        True,
        1,
        1.0,
        0,
        False,
        None,
        (),
        ("a",),
        {},
        {"a": 1},
    ]
)
keys = st.sampled_from(sorted({*projection_of(BUILT_IN).keys, "span.type", "other"}))
NAMES = ("execute_tool", "execute_tool f", "step", "tool", "running tool")
SCOPES = ("", "opentelemetry.instrumentation.mcp", "langfuse-sdk", "s" * 300)
RESOURCES: Sequence[Mapping[str, str]] = ({}, {"service.name": "a"}, {"service.name": "b"})
spans = st.builds(
    make,
    name=st.sampled_from(NAMES),
    scope=st.sampled_from(SCOPES),
    kind=st.integers(0, 4),
    events=st.lists(st.sampled_from([("e", {}), ("f", {}), ("gen_ai.choice", {})]), max_size=3),
    resource=st.sampled_from(RESOURCES),
    attributes=st.dictionaries(keys, values, max_size=6),
)

TELLING = {"span.type": "tool", "gen_ai.operation.name": "TOOL", "tool.name": "tool", "id": "7"}
DIFFERENT: Mapping[str, Sequence[Any]] = {
    "name": NAMES,
    "scope": SCOPES,
    "kind": (1, 3),
    "events": ([], [("e", {})], [("f", {})], [("e", {}), ("f", {})]),
    "resource": RESOURCES,
    **{key: [{**TELLING, key: value} for value in ("tool", "TOOLS", "", '{"type": "tool"}', 7, True, {"a": 1}, None)] for key in TELLING},
}
"""What two spans may differ in, one thing at a time."""


def uncached(dialects: Sequence[Dialect], span: Span) -> SpanClassification:
    return SpanClassification.of([dialect for dialect in dialects if holds(dialect.match, span)], span)


@given(st.lists(spans, max_size=20))
def test_a_reading_never_hangs_on_what_was_read_before(many: list[Span]) -> None:
    found = DialectCache(ALL)
    for span in (*many, *many):
        assert found.classify(span) == uncached(ALL, span)


@pytest.mark.parametrize("dialects", [ALL, *((each,) for each in ODD)], ids=lambda dialects: dialects[-1].name)
@pytest.mark.parametrize("what", DIFFERENT)
def test_spans_that_differ_in_one_thing_are_read_apart_if_a_dialect_looks_at_it(what: str, dialects: Sequence[Dialect]) -> None:
    for one, other in permutations(DIFFERENT[what], 2):
        found = DialectCache(dialects)
        for value in (one, other, one):
            span = make(**{"attributes": TELLING, "attributes" if what in TELLING else what: value})
            assert found.classify(span) == uncached(dialects, span)


@pytest.mark.parametrize(
    ("asked", "heard", "by_event"),
    [
        pytest.param([Role.TOOL, Role.MODEL], Role.TOOL, 0, id="the first says what the span is"),
        pytest.param([Role.TOOL, Role.IGNORE, Role.EVENT], Role.IGNORE, 0, id="one that ignores is heard before all others"),
        pytest.param([Role.WRAPPER, Role.TOOL], Role.WRAPPER, 0, id="a wrapper is none of the others"),
        pytest.param([Role.EVENT, Role.WRAPPER, Role.MODEL, Role.TOOL], Role.MODEL, 1, id="events are read beside what the span is"),
        pytest.param([Role.EVENT, Role.WRAPPER], Role.EVENT, 1, id="a span that has events alone"),
        pytest.param([Role.EVENT, Role.EVENT, Role.AGENT], Role.AGENT, 2, id="several read events"),
        pytest.param([Role.PART, Role.TOOL], None, 0, id="what a part belongs to hangs on the span above"),
        pytest.param([Role.TOOL, Role.PART], None, 0, id="so it does wherever the part stands"),
    ],
)
def test_dialects_that_match_one_span_are_heard_in_this_order(asked: list[Role], heard: Role | None, by_event: int) -> None:
    matching = [odd(f"{number}-{role}", role=role) for number, role in enumerate(asked)]
    classification = SpanClassification.of(matching, make())
    assert classification.deciding_dialects == (None if heard is None else tuple(dialect for dialect in matching if dialect.role is heard))
    assert [dialect.role for dialect in classification.by_event] == [Role.EVENT] * by_event


@given(st.lists(spans, min_size=1, max_size=8), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=40), st.integers(1, 4))
def test_what_is_noted_on_a_span_is_the_same_as_asking_anew_whoever_asks_and_whatever_was_forgotten(
    many: list[Span], asked: list[tuple[int, int]], most: int
) -> None:
    dialects = (ALL, BUILT_IN, ODD)
    with patch.object(dialect_cache, "MAX_ENTRIES", most):
        found = [DialectCache(each) for each in dialects]
        for who, number in asked:
            span = many[number % len(many)]
            assert found[who].classify(span) == uncached(dialects[who], span)


def test_a_span_that_is_noted_differs_in_nothing_and_what_is_made_of_it_is_looked_at_anew() -> None:
    found = DialectCache(BUILT_IN)
    tool = make(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"})
    untouched = replace(tool)
    assert found.classify(tool).is_call
    assert tool.cache_entry is not None
    assert (tool, repr(tool)) == (untouched, repr(untouched))
    other = replace(tool, attributes={"gen_ai.operation.name": "chat"})
    assert other.cache_entry is None
    assert found.classify(other) == uncached(BUILT_IN, other) != found.classify(tool)


def test_a_span_that_is_copied_or_sent_away_takes_no_note_along() -> None:
    tool = make(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"})
    DialectCache(BUILT_IN).classify(tool)
    for other in (copy.copy(tool), copy.deepcopy(tool), pickle.loads(pickle.dumps(tool))):  # noqa: S301 - our own bytes
        assert other == tool
    assert copy.deepcopy(tool).cache_entry is pickle.loads(pickle.dumps(tool)).cache_entry is None  # noqa: S301


def test_spans_keep_no_reading_that_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_cache, "MAX_ENTRIES", 2)
    found = DialectCache(BUILT_IN)
    tool = make(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"})
    assert found.classify(tool).is_call
    for number in range(3):
        found.classify(make(attributes={f"gen_ai.prompt.{number}": "x"}))
    assert getattr(tool.cache_entry, "classification", tool) is None
    assert found.classify(tool) == uncached(BUILT_IN, tool)


def test_spans_of_one_look_share_one_reading() -> None:
    found = DialectCache(BUILT_IN)
    one, other, third = (
        make(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.arguments": text})
        for name, text in (("f", '{"a": 1}'), ("f", '{"a": 2}'), ("g", '{"a": 2}'))
    )
    assert found.classify(one) is found.classify(other) is found.classify(third)
    asked_for = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": ASKED_FOR, "gen_ai.tool.call.arguments": "{}"}
    assert found.classify(make(attributes=asked_for)) is not found.classify(one)
    assert (found.classify(one).is_relevant, found.classify(one).is_agent) == (True, False)


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param([{f"gen_ai.prompt.{number}": "x"} for number in range(100)], id="keys"),
        pytest.param([{"k": 1, f"gen_ai.prompt.{number}": "x"} for number in range(100)], id="more-keys"),
    ],
)
def test_invented_looks_are_forgotten(attributes: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_cache, "MAX_ENTRIES", 10)
    found = DialectCache(ALL)
    for one in attributes:
        assert found.classify(make(attributes=one)) == uncached(ALL, make(attributes=one))
        assert found.remembered <= 12


def test_invented_values_make_no_looks() -> None:
    found = DialectCache(ALL)
    for number in range(100):
        one = make(attributes={"gen_ai.operation.name": str(number), "gen_ai.tool.name": "x" * number, "logfire.msg": f"GET /{number}"})
        assert found.classify(one) == uncached(ALL, one)
    assert found.remembered <= 4


@pytest.mark.parametrize(
    "span",
    [
        pytest.param(make(attributes={f"a{number}": 1 for number in range(dialect_cache.MAX_KEYS + 1)}), id="many-attributes"),
        pytest.param(make(attributes={"k" * (dialect_cache.MAX_KEY_CHARS + 1): 1}), id="long-key"),
        pytest.param(make(scope="s" * (dialect_cache.MAX_SCOPE_CHARS + 1)), id="long-scope"),
    ],
)
def test_what_is_too_long_is_read_and_not_remembered(span: Span) -> None:
    found = DialectCache(BUILT_IN)
    assert found.classify(span) == uncached(BUILT_IN, span)
    assert span.cache_entry is None
    assert found.remembered <= 1  # at most its attributes' names, where these are ordinary


@given(
    bases=st.lists(spans, min_size=1, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 2), st.none() | st.tuples(st.integers(0, 5), keys, values)), max_size=25),
    dialects=st.sampled_from([ALL, BUILT_IN, ODD]),
)
def test_a_reading_never_hangs_on_the_span_before(
    bases: list[Span], changes: list[tuple[int, tuple[int, str, object] | None]], dialects: tuple[object, ...]
) -> None:
    found = DialectCache(dialects)  # type: ignore[arg-type] # drawn
    for base, change in changes:
        span = bases[base % len(bases)]
        attributes = list(span.attributes.items())
        if change is not None:
            place, key, value = change
            key = attributes[place][0] if place < len(attributes) else key
            attributes[place : place + 1] = [(key, value)]  # type: ignore[list-item] # drawn
        events = [(event.name, event.attributes) for event in span.events]
        resource = {key: str(value) for key, value in span.resource.attributes.items()}
        again = make(name=span.name, scope=span.scope.name, kind=span.kind, events=events, resource=resource, attributes=dict(attributes))
        assert found.classify(again) == uncached(dialects, again)  # type: ignore[arg-type] # drawn


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(make(scope="t", attributes=TOOL), id="scope"),
        pytest.param(make(scope="s", attributes=TOOL, events=[("gen_ai.choice", {})]), id="event"),
        pytest.param(make(scope="s", attributes=TOOL | {"one.more": "x"}), id="one-more"),
        pytest.param(make(scope="s", attributes=dict(reversed(TOOL.items()))), id="order"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.operation.name": "chat"}), id="value"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.operation.name": 1}), id="number"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.operation.name": ("execute_tool",)}), id="array"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.tool.name": "final_result"}), id="wanted"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.tool.name": ""}), id="empty"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.tool.name": 7}), id="no-text"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.tool.name": "transfer_to_x"}), id="prefix"),
        pytest.param(make(scope="s", attributes=TOOL | {"gen_ai.agent.name": ""}), id="missing"),
    ],
)
def test_a_span_that_differs_in_what_counts_is_read_anew(changed: Span) -> None:
    found = DialectCache(BUILT_IN)
    found.classify(make(scope="s", attributes=TOOL))
    assert found.classify(changed) == uncached(BUILT_IN, changed)


def test_attributes_need_be_no_dictionary() -> None:
    found = DialectCache(BUILT_IN)
    found.classify(make(attributes=TOOL))
    fields = {name: getattr(make(), name) for name in ("trace_id", "span_id", "name", "start_unix_ns", "end_unix_ns", "scope")}
    odd = Span(**fields, attributes=MappingProxyType(TOOL))
    assert found.classify(odd) == uncached(BUILT_IN, odd)


def test_nothing_of_what_was_forgotten_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_cache, "MAX_ENTRIES", 4)
    found = DialectCache(BUILT_IN)
    waiting = []
    for number in range(40):
        span = make(name=f"n{number}", scope=f"made up {number}", attributes=TOOL)
        found.classify(span)
        waiting.append(span)
    remembered = [span for span in waiting if getattr(span.cache_entry, "classification", None) is not None]
    assert 0 < len(remembered) <= 4
