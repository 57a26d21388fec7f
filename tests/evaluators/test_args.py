from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.args import ArgsEvaluator, ArgsJustification
from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation, Matching
from otel_toolcall_eval.model.score import ExpectationOutcome, Outcome, Score
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason
from tests.evaluators.calls import ABSENT, NO_ARGUMENTS, REDACTED, UNPARSED, call, cut, full, log, said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Json

# All objects over a few members. Expectations leave out the last key, so that each call can have one member too many.
OBJECTS: list[dict[str, Json]] = [
    {key: member for key, member in zip("abc", members, strict=True) if member} for members in product((None, 1, 2), (None, 1), (None, 1))
]
EXPECTED = [members for members in OBJECTS if "c" not in members]
CONTENTS = st.sampled_from([*map(full, OBJECTS), UNPARSED, NO_ARGUMENTS])
HIDDEN = st.sampled_from([ABSENT, REDACTED, *map(cut, OBJECTS), cut(None)])
MATCHINGS = st.sampled_from(Matching)
IDS = st.sampled_from([None, None, "1"])
SPELLINGS = st.sampled_from([("f", ()), ("f", ()), ("g", ()), ("f", ("g",))])


@st.composite
def tool_calls(draw: st.DrawFn, contents: st.SearchStrategy[Content]) -> ToolCall:
    name, aliases = draw(SPELLINGS)
    return call(name, draw(contents), aliases=aliases, call_id=draw(IDS))


@st.composite
def criteria_sets(draw: st.DrawFn, most: int = 3) -> ArgsCriteria:
    expectations = draw(
        st.lists(
            st.builds(ArgsExpectation, tool=st.sampled_from("ffg"), arguments=st.sampled_from(EXPECTED), call_id=IDS),
            min_size=1,
            max_size=most,
        )
    )
    return ArgsCriteria(expectations=tuple(expectations), strict=draw(st.booleans()), subset=draw(st.booleans()), matching=draw(MATCHINGS))


def evaluate(criteria: ArgsCriteria, calls: CallLog) -> Score:
    return ArgsEvaluator().evaluate(criteria, calls)


def expect(
    *arguments: Mapping[str, Json], strict: bool = False, subset: bool = False, matching: Matching = Matching.MAXIMUM
) -> ArgsCriteria:
    expectations = tuple(ArgsExpectation(tool="f", arguments=members) for members in arguments)
    return ArgsCriteria(expectations=expectations, strict=strict, subset=subset, matching=matching)


def plain_value(criteria: ArgsCriteria, calls: Sequence[ToolCall]) -> float:
    """docs/semantics.md, section 3, by trying everything; for contents that were recorded."""

    def fits(wanted: ArgsExpectation, made: ToolCall) -> bool:
        content = made.arguments.content
        if wanted.tool not in {made.name, *made.aliases} or wanted.call_id not in {None, made.call_id}:
            return False
        if content.state is ContentState.UNPARSED:
            return criteria.subset and not wanted.arguments
        members = content.value
        assert isinstance(members, dict)
        if criteria.subset:
            return all(key in members and members[key] == member for key, member in wanted.arguments.items())
        return members == wanted.arguments

    wanted = criteria.expectations
    if criteria.matching is Matching.POSITIONAL:
        matched, used = 0, set()
        for position, expectation in enumerate(wanted):
            turn = sum(other.tool == expectation.tool for other in wanted[:position])
            named = [place for place, made in enumerate(calls) if expectation.tool in {made.name, *made.aliases}]
            if turn < len(named) and named[turn] not in used:
                used.add(named[turn])
                matched += fits(expectation, calls[named[turn]])
    else:
        slots = [*calls, *[None] * len(wanted)]
        matched = max(
            sum(made is not None and fits(expectation, made) for expectation, made in zip(wanted, order, strict=True))
            for order in permutations(slots, len(wanted))
        )
    return float(matched == len(wanted)) if criteria.strict else matched / len(wanted)


def completions(content: Content) -> list[Content]:
    """Everything that a content may have been."""
    if content.state is ContentState.TRUNCATED:
        known = content.partial or {}
        return [full(members) for members in OBJECTS if known.items() <= members.items()]
    return [*map(full, OBJECTS), UNPARSED] if content.state in {ContentState.ABSENT, ContentState.REDACTED} else [content]


def with_arguments(made: ToolCall, content: Content) -> ToolCall:
    return call(made.name, content, aliases=made.aliases, call_id=made.call_id)


@given(criteria_sets(), st.lists(tool_calls(CONTENTS), max_size=3))
def test_score_is_that_of_trying_everything(criteria: ArgsCriteria, calls: list[ToolCall]) -> None:
    score = evaluate(criteria, log(*calls))
    assert score.value == score.lowest == score.highest == plain_value(criteria, calls)
    assert score.doubts == ()


@settings(max_examples=60)  # each draws hundreds of logs
@given(criteria_sets(), st.lists(tool_calls(CONTENTS | HIDDEN), max_size=2))
def test_bounds_are_what_hidden_contents_can_do(criteria: ArgsCriteria, calls: list[ToolCall]) -> None:
    score = evaluate(criteria, log(*calls))
    values = [
        evaluate(criteria, log(*map(with_arguments, calls, contents))).value
        for contents in product(*(completions(made.arguments.content) for made in calls))
    ]
    assert (score.lowest, score.highest) == (min(values), max(values))
    assert score.value == score.lowest
    assert bool(score.doubts) is (score.lowest != score.highest)


@given(criteria_sets(most=2), st.lists(tool_calls(CONTENTS), max_size=2))
def test_bounds_are_what_missing_calls_can_do(criteria: ArgsCriteria, calls: list[ToolCall]) -> None:
    score = evaluate(criteria, log(*calls, open_ended=True))
    added = [call(wanted.tool, wanted.arguments, call_id=wanted.call_id) for wanted in criteria.expectations]
    added += [call(tool, {"z": 1}) for tool in "fg"]
    values = [evaluate(criteria, log(*front, *calls)).value for size in range(3) for front in product(added, repeat=size)]
    # By position, a call that is pushed back from an expectation with an ID may meet one without, which the bound does not count on.
    choosy = any(made.aliases for made in calls) or any(wanted.call_id is not None for wanted in criteria.expectations)
    wider = choosy and criteria.matching is Matching.POSITIONAL
    assert score.highest == max(values)
    assert score.lowest <= min(values) if wider else score.lowest == min(values)
    assert score.doubts == ()


@given(criteria_sets(), st.lists(tool_calls(CONTENTS), max_size=4), st.data())
def test_log_that_lacks_anything_is_never_certain_of_another_score(
    criteria: ArgsCriteria, calls: list[ToolCall], data: st.DataObject
) -> None:
    whole = evaluate(criteria, log(*calls)).value
    kept = []
    for made in calls:
        members = made.arguments.content.value
        hidden = [ABSENT, REDACTED]
        if isinstance(members, dict):
            hidden += [cut(None), cut({key: member for key, member in members.items() if data.draw(st.booleans())})]
        choice = data.draw(st.sampled_from([None, made, *[with_arguments(made, content) for content in hidden]]))
        kept += [choice] if choice is not None else []
    score = evaluate(criteria, log(*kept, open_ended=len(kept) < len(calls)))
    assert score.lowest <= whole <= score.highest
    assert score.lowest <= score.value <= score.highest


@given(criteria_sets(), st.lists(tool_calls(CONTENTS | HIDDEN), max_size=4), st.randoms(use_true_random=False))
def test_maximum_matching_takes_no_notice_of_order(criteria: ArgsCriteria, calls: list[ToolCall], random: object) -> None:
    shuffled, expectations = list(calls), list(criteria.expectations)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random
    random.shuffle(expectations)  # type: ignore[attr-defined]  # random.Random
    one = ArgsCriteria(expectations=criteria.expectations, strict=criteria.strict, subset=criteria.subset)
    other = ArgsCriteria(expectations=tuple(expectations), strict=criteria.strict, subset=criteria.subset)
    first, second = evaluate(one, log(*calls)), evaluate(other, log(*shuffled))
    assert (first.value, first.lowest, first.highest) == (second.value, second.lowest, second.highest)
    loose = ArgsCriteria(expectations=criteria.expectations, subset=criteria.subset)
    assert 0.0 <= first.value <= evaluate(loose, log(*calls)).value <= 1.0


@pytest.mark.parametrize(
    ("criteria", "calls", "value"),
    [
        pytest.param(expect({}), [call("f", UNPARSED)], 0.0, id="unusable-is-not-empty"),
        pytest.param(expect({}, subset=True), [call("f", UNPARSED)], 1.0, id="unusable-holds-nothing"),
        pytest.param(expect({}, subset=True), [call("f", ABSENT)], 1.0, id="whatever-it-is-holds-nothing"),
        pytest.param(expect({}), [call("f", NO_ARGUMENTS)], 1.0, id="nothing-recorded-is-empty"),
        pytest.param(expect({"a": 1}), [call("f", full([1]))], 0.0, id="list-is-no-object"),
        pytest.param(expect({"1": "x"}), [call("f", said("{1: 'x'}"))], 0.0, id="number-key"),
        pytest.param(expect({"a": 1}, subset=True), [call("f", {"b": 1, "c": 2, "a": 1.0})], 1.0, id="extra-members"),
        pytest.param(
            expect({"a": {"b": 1}}, subset=True), [call("f", {"a": {"b": 1, "c": 2}})], 0.0, id="nested-values-are-compared-whole"
        ),
        pytest.param(expect({"a": 2}, {"a": 1}), [call("f", {"a": 1}), call("f", {"a": 2})], 1.0, id="maximum"),
        pytest.param(
            expect({"a": 2}, {"a": 1}, matching=Matching.POSITIONAL), [call("f", {"a": 1}), call("f", {"a": 2})], 0.0, id="positional"
        ),
    ],
)
def test_arguments_are_compared(criteria: ArgsCriteria, calls: list[ToolCall], value: float) -> None:
    assert evaluate(criteria, log(*calls)).value == value


@pytest.mark.parametrize(
    ("criteria", "content", "bounds", "doubts"),
    [
        pytest.param(expect({"a": 1}), ABSENT, (0.0, 1.0), (IncompletenessReason.CONTENT_NOT_CAPTURED,), id="absent"),
        pytest.param(expect({"a": 1}), REDACTED, (0.0, 1.0), (IncompletenessReason.VALUE_REDACTED,), id="redacted"),
        pytest.param(
            expect({"a": 1}), cut({"a": 1}), (0.0, 1.0), (IncompletenessReason.VALUE_TRUNCATED,), id="cut-behind-what-is-expected"
        ),
        pytest.param(expect({"a": 1}), cut({"a": 2}), (0.0, 0.0), (), id="cut-behind-another-value"),
        pytest.param(expect({"a": 1}), cut({"b": 1}), (0.0, 0.0), (), id="cut-behind-another-key"),
        pytest.param(
            expect({"a": 1}, subset=True), cut({"b": 1}), (0.0, 1.0), (IncompletenessReason.VALUE_TRUNCATED,), id="subset-may-come-later"
        ),
        pytest.param(expect({"a": 1}, subset=True), cut({"a": 1}), (1.0, 1.0), (), id="subset-is-there"),
        pytest.param(expect({"a": 1}, subset=True), cut({"a": 2}), (0.0, 0.0), (), id="subset-has-another-value"),
        pytest.param(expect({"a": 1}, {"a": 2}, strict=True), ABSENT, (0.0, 0.0), (), id="strict-fails-either-way"),
    ],
)
def test_hidden_arguments_leave_open_what_they_could_change(
    criteria: ArgsCriteria, content: Content, bounds: tuple[float, float], doubts: tuple[IncompletenessReason, ...]
) -> None:
    score = evaluate(criteria, log(call("f", content)))
    assert (score.lowest, score.highest) == bounds
    assert score.doubts == doubts


def test_doubts_are_those_of_the_calls_that_matter() -> None:
    calls = log(call("f", cut({"a": 2})), call("f", ABSENT), call("g", REDACTED))
    assert evaluate(expect({"a": 1}), calls).doubts == (IncompletenessReason.CONTENT_NOT_CAPTURED,)


def test_payloads_that_nobody_asks_for_are_never_decoded() -> None:
    def refuse(recorded: object) -> Content:
        raise AssertionError(recorded)

    untouched = Payload("x", refuse)
    other = ToolCall(name="g", arguments=untouched, output=untouched)
    asked_for = ToolCall(name="f", arguments=Payload.of(full({"a": 1})), output=untouched)
    assert evaluate(expect({"a": 1}), CallLog(calls=(other, asked_for))).value == 1.0


def test_details_read_as_in_the_guide() -> None:
    criteria = ArgsCriteria(
        expectations=(
            ArgsExpectation(tool="update_user", arguments={"user_id": 123, "status": "active"}),
            ArgsExpectation(tool="send_email", arguments={"to": "user@example.com"}),
            ArgsExpectation(tool="log_event", arguments={"type": "info"}),
            ArgsExpectation(tool="log_event", arguments={"type": "error"}),
        ),
        subset=True,
    )
    calls = log(
        call("update_user", {"user_id": 123, "status": "active"}),
        call("send_email", {"to": "user@example.com", "subject": "Hello"}),
        call("log_event", {"type": "info", "message": "Success"}),
    )
    score = evaluate(criteria, calls)
    assert isinstance(score.justification, ArgsJustification)
    assert score.justification.explained_tool_calls_args == {
        "update_user_0": "Actual: {'user_id': 123, 'status': 'active'}, Expected: {'user_id': 123, 'status': 'active'}, Score: 1.0",
        "send_email_0": "Actual: {'to': 'user@example.com', 'subject': 'Hello'}, Expected: {'to': 'user@example.com'}, Score: 1.0",
        "log_event_0": "Actual: {'type': 'info', 'message': 'Success'}, Expected: {'type': 'info'}, Score: 1.0",
        "log_event_1": "Actual: None, Expected: {'type': 'error'}, Score: 0.0",
    }
    assert score.justification.details() == {"explained_tool_calls_args": score.justification.explained_tool_calls_args}
    assert score.outcomes[2:] == (
        ExpectationOutcome(tool="log_event", outcome=Outcome.MATCHED),
        ExpectationOutcome(tool="log_event", outcome=Outcome.MISSING),
    )


@pytest.mark.parametrize(
    ("subset", "content", "shown", "reason"),
    [
        pytest.param(False, full({"a": 1, "z": 0}), "{'a': 1, 'z': 0}", "$.b is missing, $.z is not expected", id="members"),
        pytest.param(True, full({"a": 1, "z": 0}), "{'a': 1, 'z': 0}", "$.b is missing", id="members-of-a-subset"),
        pytest.param(False, NO_ARGUMENTS, "{}", "$.a is missing, $.b is missing", id="nothing"),
        pytest.param(False, UNPARSED, "'hello'", "the arguments are no object", id="unusable"),
        pytest.param(False, Content(state=ContentState.UNPARSED), "(no object)", "the arguments are no object", id="unusable-without-text"),
        pytest.param(False, ABSENT, "(not recorded)", "the arguments are not recorded", id="absent"),
        pytest.param(False, REDACTED, "(redacted)", "the arguments are redacted", id="redacted"),
        pytest.param(False, cut({"a": 1}), "{'a': 1} (cut off)", "the arguments are cut off", id="cut"),
        pytest.param(False, cut({"a": 2, "z": 0}), "{'a': 2, 'z': 0} (cut off)", "$.a differs, $.z is not expected", id="cut-and-wrong"),
        pytest.param(True, cut({"a": 2, "z": 0}), "{'a': 2, 'z': 0} (cut off)", "$.a differs", id="cut-and-no-subset"),
    ],
)
def test_mismatch_is_explained(subset: bool, content: Content, shown: str, reason: str) -> None:  # noqa: FBT001 - a column of the table
    score = evaluate(expect({"a": 1, "b": 1}, subset=subset), log(call("f", content)))
    assert score.justification.explain() == f"0 of 1 expected arguments match; f_0: {reason}"
    assert score.justification.details() == {
        "explained_tool_calls_args": {"f_0": f"Actual: {shown}, Expected: {{'a': 1, 'b': 1}}, Score: 0.0"}
    }
    assert score.outcomes == (ExpectationOutcome(tool="f", outcome=Outcome.WRONG_ARGUMENTS),)


def test_nearest_unused_call_stands_beside_an_unmatched_expectation() -> None:
    calls = log(call("f", ABSENT), call("f", {"a": 1, "b": 1}), call("f", {"a": 2, "b": 1}), call("f", cut({"a": 3, "b": 3})))
    score = evaluate(expect({"a": 1, "b": 1}, {"a": 3, "b": 3, "c": 3}, {"a": 2, "b": 2}, {"a": 9}), calls)
    assert score.justification.details() == {
        "explained_tool_calls_args": {
            "f_0": "Actual: {'a': 1, 'b': 1}, Expected: {'a': 1, 'b': 1}, Score: 1.0",
            "f_1": "Actual: {'a': 3, 'b': 3} (cut off), Expected: {'a': 3, 'b': 3, 'c': 3}, Score: 0.0",
            "f_2": "Actual: {'a': 2, 'b': 1}, Expected: {'a': 2, 'b': 2}, Score: 0.0",
            "f_3": "Actual: (not recorded), Expected: {'a': 9}, Score: 0.0",
        }
    }
