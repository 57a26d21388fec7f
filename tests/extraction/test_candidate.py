from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.candidate import Recorded
from otel_toolcall_eval.extraction.dialect import Dialect, Match, Origin, Source
from otel_toolcall_eval.extraction.reading import Found

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Value

SOURCE = Source(origin=Origin.ATTR, key="k")
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
