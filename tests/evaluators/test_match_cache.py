from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.caching import MAX_BYTES, MAX_TEXT_CHARS, MatchCache
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.extraction.candidate import Recorded
from otel_toolcall_eval.extraction.dialect import Decode, Dialect, Match, Source, ValueOrigin
from otel_toolcall_eval.extraction.reading import Found
from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation, OutputCriteria, OutputExpectation
from otel_toolcall_eval.model.tool_call import CallLog, Payload, ToolCall
from tests.evaluators.calls import said
from tests.evaluators.test_ordered_pairing import OBJECTS, OUTPUTS, TEXTS, told

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Value

SOURCES = [Source(origin=ValueOrigin.ATTR, key="k", decode=decode) for decode in Decode]
PLAIN = Dialect(name="plain", family="d", match=Match())
MASKED = Dialect(
    name="masked", family="d", match=Match(), placeholders={"redacted": frozenset({"x"})}, empty_arguments=frozenset({'{"a": 1}'})
)


def recorded(text: Value, *, source: Source = SOURCES[0], dialect: Dialect = PLAIN, cut: bool = False, names: Value = None) -> Recorded:
    return Recorded(Found(value=text, source=source, dialect=dialect, names=names, cut=cut), is_arguments=True)


def test_text_is_known_at_its_place_under_its_rules() -> None:
    accepted = MatchCache(2)
    assert not accepted.knows(0, recorded("{}"))
    accepted.add(0, recorded("{}"))
    assert accepted.knows(0, recorded("{}"))
    assert not accepted.knows(1, recorded("{}"))
    assert not accepted.knows(0, recorded("{} "))
    assert not accepted.knows(0, recorded("{}", source=SOURCES[1]))
    assert not accepted.knows(0, recorded("{}", dialect=MASKED))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(recorded("{}", cut=True), id="cut-by-the-producer"),
        pytest.param(recorded("{}", names="{}"), id="names-elsewhere"),
        pytest.param(recorded({"a": 1}), id="no-text"),
        pytest.param(Recorded(None, is_arguments=True), id="not-recorded"),
        pytest.param(Payload.of(said("{}")), id="decoded-elsewhere"),
    ],
)
def test_what_more_than_a_text_decides_is_neither_known_nor_remembered(more: Payload) -> None:
    accepted = MatchCache(1)
    accepted.add(0, more)
    assert not accepted.knows(0, more)
    accepted.add(0, recorded("{}"))
    assert not accepted.knows(0, more)


def test_what_another_span_has_a_say_in_is_not_known() -> None:
    accepted, twice = MatchCache(1), recorded("{}")
    accepted.add(0, recorded("{}"))
    twice.also(recorded("[]"))
    assert not accepted.knows(0, twice)


def test_what_is_remembered_is_bounded() -> None:
    accepted = MatchCache(2)
    accepted.add(0, recorded("x" * (MAX_TEXT_CHARS + 1)))
    assert not accepted.knows(0, recorded("x" * (MAX_TEXT_CHARS + 1)))
    texts = [f"{number:0{MAX_TEXT_CHARS - 400}}" for number in range(MAX_BYTES // (MAX_TEXT_CHARS - 400 + 49 + 200) + 1)]
    for place, text in enumerate(texts):
        accepted.add(place % 2, recorded(text))
        accepted.add(place % 2, recorded(text))  # known, so it takes no more room
    assert [accepted.knows(place % 2, recorded(text)) for place, text in enumerate(texts)] == [False] * (len(texts) - 1) + [True]


def test_nothing_is_known_of_any_place_once_all_is_forgotten() -> None:
    accepted, texts = MatchCache(2), [f"{number:04000}" for number in range(MAX_BYTES // 4_249 + 1)]
    accepted.add(1, recorded("{}"))
    for text in texts:
        accepted.add(0, recorded(text))
    assert not accepted.knows(1, recorded("{}"))
    assert accepted.knows(0, recorded(texts[-1]))


def test_texts_that_take_turns_are_all_known() -> None:
    accepted = MatchCache(1)
    for text in ("{}", "[]"):
        accepted.add(0, recorded(text))
    assert [accepted.knows(0, recorded(text)) for text in ("{}", "[]", "{}", "()")] == [True, True, True, False]
    assert not accepted.knows(0, recorded("[]", source=SOURCES[1]))


def test_memory_of_many_short_texts_is_bounded() -> None:
    accepted, texts = MatchCache(1), [f"{number}" for number in range(5_000)]
    for text in texts:
        accepted.add(0, recorded(text))
    assert 0 < sum(accepted.knows(0, recorded(text)) for text in texts) <= MAX_BYTES // 250


def test_text_that_several_dialects_write_is_known_under_each_of_some() -> None:
    accepted = MatchCache(1)
    read = [recorded("{}", source=Source(origin=ValueOrigin.ATTR, key=f"k{number}")) for number in range(6)]
    for _ in range(2):
        for one in read:
            accepted.add(0, one)
    assert [accepted.knows(0, one) for one in read] == [True] * 4 + [False] * 2


PAYLOADS = st.builds(
    recorded,
    st.sampled_from([*TEXTS, '{"b": [1], "a": 1}', "{}", "[REDACTED]", ""]),
    source=st.sampled_from(SOURCES),
    dialect=st.sampled_from([PLAIN, MASKED]),
    cut=st.sampled_from([False, False, False, True]),
)


@given(
    payloads=st.lists(st.tuples(PAYLOADS, PAYLOADS), min_size=1, max_size=12),
    arguments=st.sampled_from(OBJECTS),
    output=st.sampled_from(OUTPUTS),
    subset=st.booleans(),
)
def test_evaluator_that_has_seen_much_scores_as_a_fresh_one_does(
    *, payloads: list[tuple[Recorded, Recorded]], arguments: dict[str, object], output: object, subset: bool
) -> None:
    args = ArgsCriteria(expectations=(ArgsExpectation(tool="f", arguments=arguments),), subset=subset)  # type: ignore[arg-type]
    outputs = OutputCriteria(expectations=(OutputExpectation(tool="f", output=output),))  # type: ignore[arg-type]
    seasoned = ArgsEvaluator(), OutputEvaluator()
    for given_, returned in payloads * 2:
        returned.is_arguments = False
        log = CallLog(calls=(ToolCall(name="f", arguments=given_, output=returned),))
        assert told(seasoned[0].evaluate(args, log)) == told(ArgsEvaluator().evaluate(args, log))
        assert told(seasoned[1].evaluate(outputs, log)) == told(OutputEvaluator().evaluate(outputs, log))
