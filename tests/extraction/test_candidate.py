from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.extraction.candidate import Recorded
from otel_toolcall_eval.extraction.dialect import Dialect, Match, Source, ValueOrigin
from otel_toolcall_eval.extraction.reading import Found
from otel_toolcall_eval.model.tool_call import Content, ContentState

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Value

SOURCE = Source(origin=ValueOrigin.ATTR, key="k")
DIALECT = Dialect(name="d", family="d", match=Match())


def recorded(value: Value, *, names: Value = None, cut: bool = False) -> Recorded:
    return Recorded(Found(value=value, source=SOURCE, dialect=DIALECT, names=names, cut=cut), is_arguments=True)


def test_text_its_source_and_its_dialect_decide_what_it_holds() -> None:
    decided_by = recorded("{}").decided_by
    assert decided_by is not None
    text, source, dialect = decided_by
    assert text == "{}"
    assert source is SOURCE
    assert dialect is DIALECT


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(Recorded(None, is_arguments=True), id="nothing-recorded"),
        pytest.param(recorded("{}", cut=True), id="cut-by-the-producer"),
        pytest.param(recorded("{}", names="{}"), id="names-in-another-attribute"),
        pytest.param(recorded({"a": 1}), id="no-text"),
    ],
)
def test_where_more_decides_what_it_holds_nothing_is_said_to(more: Recorded) -> None:
    assert more.decided_by is None


def test_what_another_span_recorded_has_a_say() -> None:
    twice = recorded("{}")
    twice.also(recorded("[]"))
    assert twice.decided_by is None


WHOLE = Content(state=ContentState.FULL, value={"a": 1})
CONTENTS = [
    Content(state=ContentState.ABSENT),
    Content(state=ContentState.REDACTED),
    Content(state=ContentState.TRUNCATED, partial={}),
    Content(state=ContentState.FULL, value={}, nothing=True),
    WHOLE,
]
Tree = tuple[Content, list["Tree"]]


def nested(tree: Tree) -> Content:
    best, others = tree
    for other in others:
        if best.state is ContentState.FULL and not best.nothing:
            break
        content = nested(other)
        if content.state is ContentState.FULL or (best.state is ContentState.ABSENT and content.state is not ContentState.ABSENT):
            best = content
    return best


@given(contents=st.lists(st.sampled_from(CONTENTS), min_size=1, max_size=8), data=st.data())
def test_what_fell_back_on_others_is_fallen_back_on_as_if_it_were_nested(contents: list[Content], data: st.DataObject) -> None:
    left: list[tuple[Recorded, Tree]] = [(Recorded.known(content, is_arguments=True), (content, [])) for content in contents]
    while len(left) > 1:
        other, other_tree = left.pop(data.draw(st.integers(0, len(left) - 1)))
        winner, tree = data.draw(st.sampled_from(left))
        for asked in data.draw(st.sampled_from([(), (winner,), (other,), (winner, other)])):
            assert asked.content is not None
        winner.also(other)
        tree[1].append(other_tree)
        assert winner.is_there is (nested(tree).state is not ContentState.ABSENT)
    assert left[0][0].content is nested(left[0][1])


def test_an_other_that_has_nothing_leaves_the_text_to_decide() -> None:
    alone = recorded("{}")
    alone.also(Recorded(None, is_arguments=True))
    assert alone.decided_by == recorded("{}").decided_by
