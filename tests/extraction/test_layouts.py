"""A span that is compared with the last one of its name is read as one whose look is put together anew."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.extraction import layouts, looks
from otel_toolcall_eval.extraction.looks import Looks
from otel_toolcall_eval.model.trace import Span
from tests.extraction.spans import make
from tests.extraction.test_looks import ALL, BUILT_IN, ODD, keys, spans, uncached, values

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.layouts import Likeness

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.arguments": "{}", "gen_ai.agent.name": "a"}


def likeness_of(found: Looks, span: Span) -> Likeness | None:
    found.reading(span)
    return getattr(span.look, "likeness", None)


@given(
    bases=st.lists(spans, min_size=1, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 2), st.none() | st.tuples(st.integers(0, 5), keys, values)), max_size=25),
    dialects=st.sampled_from([ALL, BUILT_IN, ODD]),
)
def test_a_reading_never_hangs_on_the_span_before(
    bases: list[Span], changes: list[tuple[int, tuple[int, str, object] | None]], dialects: tuple[object, ...]
) -> None:
    found = Looks(dialects)  # type: ignore[arg-type] # drawn
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
        assert found.reading(again) == uncached(dialects, again)  # type: ignore[arg-type] # drawn


def test_spans_that_are_equal_and_no_two_objects_the_same_are_told_to_be_alike() -> None:
    def copied(text: str) -> str:
        return text.encode().decode()

    found = Looks(BUILT_IN)
    likeness = likeness_of(found, make(name="execute_tool f", scope="s", attributes=TOOL))
    assert likeness is not None
    attributes = {copied(key): copied(value) for key, value in TOOL.items()} | {"gen_ai.tool.call.arguments": '{"other": 1}'}
    assert likeness.has(make(2, name="execute_tool f", scope=copied("s"), attributes=attributes))


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
def test_a_span_that_differs_in_what_counts_is_not_told_to_be_alike(changed: Span) -> None:
    found = Looks(BUILT_IN)
    likeness = likeness_of(found, make(scope="s", attributes=TOOL))
    assert likeness is not None
    assert likeness.has(make(scope="s", attributes=TOOL | {"gen_ai.tool.name": "g"}))
    assert not likeness.has(changed)
    assert found.reading(changed) == uncached(BUILT_IN, changed)


def test_attributes_that_are_no_dictionary_are_left_to_the_longer_way() -> None:
    found = Looks(BUILT_IN)
    likeness = likeness_of(found, make(attributes=TOOL))
    fields = {name: getattr(make(), name) for name in ("trace_id", "span_id", "name", "start_unix_ns", "end_unix_ns", "scope")}
    odd = Span(**fields, attributes=MappingProxyType(TOOL))
    assert likeness is not None
    assert not likeness.has(odd)
    assert found.reading(odd) == uncached(BUILT_IN, odd)


@pytest.mark.parametrize(
    "span",
    [
        pytest.param(make(attributes=TOOL, events=[("gen_ai.choice", {})]), id="event"),
        pytest.param(make(attributes={"gen_ai.operation.name": 1}), id="number"),
        pytest.param(make(attributes={"gen_ai.operation.name": ""}), id="empty"),
        pytest.param(make(attributes={"braintrust.span_attributes": '{"type": "tool"}'}), id="path"),
    ],
)
def test_where_more_counts_than_texts_none_is_told_to_be_alike(span: Span) -> None:
    assert likeness_of(Looks(BUILT_IN), span) is None


def test_a_test_that_is_asked_for_each_span_leaves_none_alike() -> None:
    assert likeness_of(Looks(ODD), make(attributes=TOOL)) is None


def test_the_last_of_a_name_is_found_without_its_layout() -> None:
    found = Looks(BUILT_IN)
    first, second = (make(name="n", attributes=dict(TOOL)) for _ in range(2))
    found.reading(first)
    found._layouts.clear()  # noqa: SLF001 - else it would be found there
    found.reading(second)
    assert second.look is first.look
    assert not found._layouts  # noqa: SLF001


def test_made_up_names_are_forgotten_again_and_long_ones_never_remembered() -> None:
    found = Looks(BUILT_IN)
    for number in range(3 * layouts.MAX_NAMES):
        found.reading(make(name=f"n{number}", attributes=TOOL))
        assert len(found._last) == number % layouts.MAX_NAMES + 1  # noqa: SLF001 - the bound is not visible otherwise
    assert found.remembered == 2
    for length in (layouts.MAX_NAME_CHARS, layouts.MAX_NAME_CHARS + 1):
        found.reading(make(name="n" * length, attributes=TOOL))
        assert ("n" * length in found._last) is (length == layouts.MAX_NAME_CHARS)  # noqa: SLF001


def test_names_that_come_again_do_not_let_others_be_forgotten() -> None:
    found = Looks(BUILT_IN)
    for number in range(layouts.MAX_NAMES):
        found.reading(make(name=f"n{number}", attributes=TOOL))
    found.reading(make(name="n0", scope="t", attributes=TOOL))
    assert len(found._last) == layouts.MAX_NAMES  # noqa: SLF001


def test_nothing_of_what_was_forgotten_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MAX_LOOKS", 4)
    found = Looks(BUILT_IN)
    waiting = []
    for number in range(40):
        span = make(name=f"n{number}", scope=f"made up {number}", attributes=TOOL)
        found.reading(span)
        waiting.append(span)
        assert len(found._last) <= 4  # noqa: SLF001
    remembered = [span for span in waiting if getattr(span.look, "likeness", None) is not None]
    assert 0 < len(remembered) <= 4
    assert all(getattr(span.look, "reading", None) is None for span in waiting if span not in remembered)
