"""Which criteria apply to a trace: a row for each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.binding import Binder, BoundTraces, recorded_input
from otel_toolcall_eval.engine.buffer.open_trace import judged_root
from otel_toolcall_eval.model.criteria import BoundCriteria, Check, CriteriaSet, OrderCriteria, Selector, SelectorScope
from otel_toolcall_eval.model.trace import Span, Trace, Trigger
from tests.fakes import span

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKS = (Check(evaluator="Order", evaluator_id="tool-call-order", criteria=OrderCriteria(expected=("a",))),)


def set_of(name: str, selector: Selector, *aliases: str) -> CriteriaSet:
    return CriteriaSet(name=name, checks=CHECKS, selector=selector, aliases=aliases)


def trace_of(*spans: Span) -> Trace:
    return Trace(trace_id=spans[0].trace_id if spans else bytes(16), spans=spans, root=judged_root(spans), trigger=Trigger.ROOT_SPAN)


def bound(sets: Sequence[CriteriaSet], *spans: Span, agent: str | None = None, names: Sequence[str] = ()) -> list[str]:
    return [found.name for found in Binder(sets).bind(trace_of(*spans), agent=lambda: agent, bound=BoundCriteria(names=tuple(names))).sets]


def test_sets_made_in_code_judge_like_named_ones_and_are_never_unknown() -> None:
    made = set_of("made", Selector(reach=SelectorScope.NAMED))
    binding = Binder(REACHES).bind(trace_of(span(1)), agent=lambda: None, bound=BoundCriteria(names=("no-such",), sets=(made,)))
    assert [found.name for found in binding.sets] == ["every", "made"]
    assert binding.unknown == ("no-such",)
    assert [
        found.name for found in Binder(REACHES).bind(trace_of(span(1)), agent=lambda: None, bound=BoundCriteria(sets=(made,))).sets
    ] == [
        "every",
        "made",
    ]


def test_what_code_binds_although_it_is_loaded_judges_once() -> None:
    loaded = set_of("every", Selector(reach=SelectorScope.EVERY))
    binding = Binder([loaded]).bind(trace_of(span(1)), agent=lambda: None, bound=BoundCriteria(sets=(set_of("every", Selector()),)))
    assert [found.name for found in binding.sets] == ["every"]


def test_what_is_bound_twice_is_bound_once() -> None:
    made, other = set_of("made", Selector()), replace(set_of("made", Selector()), version="2")
    assert BoundCriteria(names=("a",), sets=(made,)).plus(BoundCriteria(names=("b", "a"), sets=(made, other))) == BoundCriteria(
        names=("a", "b"), sets=(made, other)
    )


def test_resource_that_spans_share_is_looked_at_once_and_a_second_one_too() -> None:
    one, two = span(1, resource={"service.name": "one"}), span(2, resource={"service.name": "two"})
    chosen = [set_of("first", Selector(services=frozenset({"one"}))), set_of("second", Selector(services=frozenset({"two"})))]
    shared = replace(span(3), resource=one.resource)
    assert bound(chosen, one, shared, two) == ["first", "second"]


REACHES = [set_of(reach.value, Selector(reach=reach)) for reach in SelectorScope if reach is not SelectorScope.MATCHED]


@pytest.mark.parametrize(
    ("spans", "names", "expected"),
    [
        pytest.param([span(1)], [], ["every", "unnamed"], id="nothing-named"),
        pytest.param([span(1, attributes={"toolcall_eval.criteria": "named"})], [], ["every", "named"], id="span-names"),
        pytest.param(
            [span(1, attributes={"toolcall_eval.criteria": ("named", "fallback")})], [], ["every", "fallback", "named"], id="span-lists"
        ),
        pytest.param(
            [span(1, attributes={"toolcall_eval.criteria": "named, fallback,"})], [], ["every", "fallback", "named"], id="comma-list"
        ),
        pytest.param([span(1), span(2, parent=1, attributes={"toolcall_eval.criteria": "named"})], [], ["every", "named"], id="any-span"),
        pytest.param([span(1, resource={"toolcall_eval.criteria": "named"})], [], ["every", "named"], id="resource-names"),
        pytest.param([span(1)], ["named"], ["every", "named"], id="bound-by-id"),
        pytest.param([span(1, attributes={"toolcall_eval.criteria": "no-such"})], [], ["every"], id="unknown-name"),
        pytest.param([span(1, attributes={"toolcall_eval.criteria": 5})], [], ["every", "unnamed"], id="not-a-name"),
    ],
)
def test_reach(spans: list[Span], names: list[str], expected: list[str]) -> None:
    assert bound(REACHES, *spans, names=names) == expected


def test_fallback_judges_only_what_nothing_else_does() -> None:
    fallback = set_of("fallback", Selector(reach=SelectorScope.FALLBACK))
    other = set_of("other", Selector(reach=SelectorScope.MATCHED, root_span_name="x"))
    assert bound([fallback, other], span(1, name="x")) == ["other"]
    assert bound([fallback, other], span(1, name="y")) == ["fallback"]
    assert bound([fallback, other], span(1, name="y"), names=["no-such"]) == []


def test_unknown_names_are_reported_and_aliases_are_known() -> None:
    binder = Binder([set_of("one", Selector(reach=SelectorScope.NAMED), "First item")])
    binding = binder.bind(trace_of(span(1, attributes={"toolcall_eval.criteria": ("First item", "two")})), agent=lambda: None)
    assert [found.name for found in binding.sets] == ["one"]
    assert binding.unknown == ("two",)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(Selector(reach=SelectorScope.MATCHED, root_span_name="agent"), True, id="root-name"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, root_span_name="tool"), False, id="not-a-child's-name"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, agent_name="weather"), True, id="agent"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, agent_name="Weather"), False, id="agent-case"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, resource={"service.name": "svc", "env": "ci"}), True, id="resource"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, resource={"service.name": "svc", "env": "prod"}), False, id="resource-differs"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, services=frozenset({"svc", "x"})), True, id="service"),
        pytest.param(Selector(reach=SelectorScope.EVERY, services=frozenset({"x"})), False, id="service-limits-every"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, attributes={"k": 1, "l": "x"}), True, id="attributes-of-one-span"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, attributes={"k": 1, "m": "y"}), False, id="attributes-of-two-spans"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, attributes={"k": True}), False, id="true-is-not-one"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, inputs={"city": "Tokyo"}), True, id="inputs-subset"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, inputs={"city": "Tokyo", "days": 3.0}), True, id="inputs-equal"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, inputs={"city": "Kyoto"}), False, id="inputs-differ"),
        pytest.param(Selector(reach=SelectorScope.MATCHED, inputs={"zip": None}), False, id="inputs-missing-is-not-null"),
        pytest.param(
            Selector(reach=SelectorScope.MATCHED, inputs={"city": "Tokyo"}, agent_name="x"), False, id="all-conditions-have-to-hold"
        ),
    ],
)
def test_conditions(selector: Selector, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    spans = [
        span(1, name="agent", attributes={"input.value": '{"city": "Tokyo", "days": 3}'}, resource={"service.name": "svc", "env": "ci"}),
        span(2, parent=1, name="tool", attributes={"k": 1, "l": "x"}, resource={"service.name": "tools", "env": "prod"}),
        span(3, parent=1, attributes={"k": 2, "m": "y"}),
    ]
    assert bound([set_of("it", selector)], *spans, agent="weather") == (["it"] if expected else [])


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([span(1, attributes={"input.value": "{'a': 1}"})], {"a": 1}, id="python-literal"),
        pytest.param([span(1, attributes={"input.value": {"a": 1}})], {"a": 1}, id="object"),
        pytest.param([span(1, attributes={"input.value": "hello"})], None, id="plain-text"),
        pytest.param([span(1, attributes={"input.value": "[1]"})], None, id="no-object"),
        pytest.param([span(1, attributes={"input.value": "??", "genkit:input": '{"a": 1}'})], {"a": 1}, id="next-attribute"),
        pytest.param([span(1), span(2, parent=1, attributes={"input.value": '{"a": 1}'})], {"a": 1}, id="agent-below-the-root"),
        pytest.param(
            [span(1), span(2, parent=1), span(3, parent=2, attributes={"input.value": '{"a": 1}'})], None, id="not-a-tool-deep-below"
        ),
        pytest.param([], None, id="no-span"),
    ],
)
def test_recorded_input(spans: list[Span], expected: object) -> None:
    assert recorded_input(trace_of(*spans)) == expected


def test_projection_asks_for_what_selectors_read() -> None:
    binder = Binder([set_of("it", Selector(reach=SelectorScope.MATCHED, attributes={"k": 1}))])
    assert {"k", "toolcall_eval.criteria", "input.value"} <= binder.projection.keys
    assert [found.name for found in binder.sets] == ["it"]


def test_service_name_that_is_no_text_selects_nothing_and_harms_nothing() -> None:
    odd = span(1, resource={"service.name": {"not": "text"}})
    assert bound([set_of("it", Selector(reach=SelectorScope.MATCHED, services=frozenset({"svc"})))], odd) == []


def test_what_is_bound_to_a_trace_is_taken_once_and_by_each_of_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.engine.binding.MAX_BOUND_TRACES", 2)
    whole = Trace(trace_id=b"1" * 16, spans=(), root=None, trigger=Trigger.ROOT_SPAN)
    unit = replace(whole, unit_span_id=b"u" * 8)
    bound = BoundTraces()
    for name in ("a", "b"):
        bound.bind(whole.trace_id, BoundCriteria(names=(name,)))
    assert [bound.of(each).names for each in (unit, unit, whole, whole, unit)] == [("a", "b"), ("a", "b"), ("a", "b"), (), ()]
    for first in (b"1", b"2", b"3"):
        bound.bind(first * 16, BoundCriteria(names=("a",)))
    assert [bound.of(replace(whole, trace_id=first * 16)).names for first in (b"1", b"2", b"3")] == [(), ("a",), ("a",)]
