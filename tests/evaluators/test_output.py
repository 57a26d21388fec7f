from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.comparison import asked, offered
from otel_toolcall_eval.evaluators.output import OutputEvaluator, OutputJustification
from otel_toolcall_eval.model.criteria import Matching, OutputCriteria, OutputExpectation
from otel_toolcall_eval.model.score import ExpectationOutcome, Outcome, Score
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Json, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason
from tests.evaluators.calls import ABSENT, NO_OUTPUT, REDACTED, call, cut, log, said

TEXTS = [
    *("x", "y", "", "null", "{broken", '{"a": 1}', '{"k": 1}', '{"content": "x"}', '{"content": "y", "k": 1}'),
    *('{"content": {"a": 1}}', '{"content": null, "k": 1}', '{"content": "{\\"a\\": 1}", "k": 1}', '{"k": 1, "z": 2}'),
]
EXPECTED: list[Json] = ["x", "y", "", None, {"a": 1}, "{'k': 1}", '{"content": "x"}', "{broken", {"content": "y", "k": 1}]
RECORDED = [*map(said, TEXTS), NO_OUTPUT]
CONTENTS = st.sampled_from(RECORDED)
HIDDEN = st.sampled_from(
    [ABSENT, REDACTED, cut(None), cut({}), cut({"k": 1}), cut({"content": "x"}), cut({"content": "y", "k": 1}), cut({"content": None})]
)


@st.composite
def criteria_sets(draw: st.DrawFn) -> OutputCriteria:
    outputs = draw(st.lists(st.sampled_from(EXPECTED), min_size=1, max_size=3))
    return expect(*outputs, strict=draw(st.booleans()), matching=draw(st.sampled_from(Matching)))


def expect(*outputs: Json, strict: bool = False, matching: Matching = Matching.MAXIMUM) -> OutputCriteria:
    expectations = tuple(OutputExpectation(tool="f", output=output) for output in outputs)
    return OutputCriteria(expectations=expectations, strict=strict, matching=matching)


def evaluate(criteria: OutputCriteria, calls: CallLog) -> Score:
    return OutputEvaluator().evaluate(criteria, calls)


def made(*contents: Content) -> list[ToolCall]:
    return [call("f", None, content) for content in contents]


def completions(content: Content) -> list[Content]:
    """Everything, among a few, that an output may have been."""
    if content.state is ContentState.TRUNCATED and content.partial:
        known = content.partial.items()
        objects = [whole for whole in RECORDED if isinstance(whole.value, dict) and known <= whole.value.items()]
        rest: list[dict[str, Json]] = [{"other": 1}, *({"content": output} for output in EXPECTED if "content" not in content.partial)]
        return [*objects, *(said(str({**content.partial, **more})) for more in rest)]
    return RECORDED if content.state in {ContentState.ABSENT, ContentState.REDACTED, ContentState.TRUNCATED} else [content]


@settings(max_examples=60)  # each draws hundreds of logs
@given(criteria_sets(), st.lists(CONTENTS | HIDDEN, max_size=2))
def test_bounds_are_what_hidden_contents_can_do(criteria: OutputCriteria, contents: list[Content]) -> None:
    score = evaluate(criteria, log(*made(*contents)))
    values = [evaluate(criteria, log(*made(*whole))).value for whole in product(*map(completions, contents))]
    assert (score.lowest, score.highest) == (min(values), max(values))
    assert score.value == score.lowest
    assert bool(score.doubts) is (score.lowest != score.highest)


@given(criteria_sets(), st.lists(CONTENTS, max_size=4), st.data())
def test_log_that_lacks_anything_is_never_certain_of_another_score(
    criteria: OutputCriteria, contents: list[Content], data: st.DataObject
) -> None:
    whole = evaluate(criteria, log(*made(*contents))).value
    kept = []
    for content in contents:
        hidden = [ABSENT, REDACTED, cut(None)]
        if isinstance(content.value, dict):
            hidden.append(cut({key: member for key, member in content.value.items() if data.draw(st.booleans())}))
        choice = data.draw(st.sampled_from([None, content, *hidden]))
        kept += [choice] if choice is not None else []
    score = evaluate(criteria, log(*made(*kept), open_ended=len(kept) < len(contents)))
    assert score.lowest <= whole <= score.highest
    assert score.lowest <= score.value <= score.highest


@given(criteria_sets(), st.lists(CONTENTS | HIDDEN, max_size=4), st.randoms(use_true_random=False))
def test_maximum_matching_takes_no_notice_of_order(criteria: OutputCriteria, contents: list[Content], random: object) -> None:
    outputs = [wanted.output for wanted in criteria.expectations]
    shuffled, others = list(contents), list(outputs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random
    random.shuffle(others)  # type: ignore[attr-defined]  # random.Random
    first = evaluate(expect(*outputs, strict=criteria.strict), log(*made(*contents)))
    second = evaluate(expect(*others, strict=criteria.strict), log(*made(*shuffled)))
    assert (first.value, first.lowest, first.highest) == (second.value, second.lowest, second.highest)
    assert 0.0 <= first.value <= evaluate(expect(*outputs), log(*made(*contents))).value <= 1.0


@pytest.mark.parametrize("expected", EXPECTED)
@pytest.mark.parametrize("recorded", RECORDED)
def test_one_output_scores_by_its_tokens(expected: Json, recorded: Content) -> None:
    score = evaluate(expect(expected), log(*made(recorded)))
    assert score.value == score.lowest == score.highest == (not set(asked(expected)).isdisjoint(offered(recorded)))
    score.justification.details()
    score.justification.explain()


@pytest.mark.parametrize(
    ("criteria", "contents", "value"),
    [
        pytest.param(expect("2", "1"), [said("1"), said("2")], 1.0, id="maximum"),
        pytest.param(expect("2", "1", matching=Matching.POSITIONAL), [said("1"), said("2")], 0.0, id="positional"),
        pytest.param(expect("1", "1"), [said("1")], 0.5, id="a-call-counts-once"),
        pytest.param(expect("1", "1", strict=True), [said("1")], 0.0, id="strict"),
        pytest.param(expect("1.0", "1"), [said("1"), said('{"content": "1"}')], 1.0, id="the-only-one-for-the-number"),
    ],
)
def test_outputs_are_matched(criteria: OutputCriteria, contents: list[Content], value: float) -> None:
    assert evaluate(criteria, log(*made(*contents))).value == value


@pytest.mark.parametrize(
    ("expected", "content", "bounds", "doubts"),
    [
        pytest.param("x", ABSENT, (0.0, 1.0), (IncompletenessReason.CONTENT_NOT_CAPTURED,), id="absent"),
        pytest.param("x", REDACTED, (0.0, 1.0), (IncompletenessReason.VALUE_REDACTED,), id="redacted"),
        pytest.param("x", cut({"k": 1}), (0.0, 1.0), (IncompletenessReason.VALUE_TRUNCATED,), id="content-may-come-later"),
        pytest.param("x", cut(None), (0.0, 1.0), (IncompletenessReason.VALUE_TRUNCATED,), id="nothing-known"),
        pytest.param("x", cut({"content": "x"}), (1.0, 1.0), (), id="content-is-there"),
        pytest.param("y", cut({"content": "x"}), (0.0, 0.0), (), id="content-is-another"),
        pytest.param(
            {"content": "x", "k": 1},
            cut({"content": "x"}),
            (0.0, 1.0),
            (IncompletenessReason.VALUE_TRUNCATED,),
            id="whole-object-may-follow",
        ),
        pytest.param({"content": "x", "k": 1}, cut({"content": "y"}), (0.0, 0.0), (), id="whole-object-can't-follow"),
        pytest.param("{broken", cut({"content": "y"}), (0.0, 0.0), (), id="what-follows-is-well-formed"),
    ],
)
def test_hidden_outputs_leave_open_what_they_could_change(
    expected: Json, content: Content, bounds: tuple[float, float], doubts: tuple[IncompletenessReason, ...]
) -> None:
    score = evaluate(expect(expected), log(*made(content)))
    assert (score.lowest, score.highest) == bounds
    assert score.doubts == doubts


def test_missing_calls_leave_open_what_they_could_change() -> None:
    score = evaluate(expect("x", "y"), log(*made(said("x")), open_ended=True))
    assert (score.value, score.lowest, score.highest) == (0.5, 0.5, 1.0)
    positional = evaluate(expect("x", "y", matching=Matching.POSITIONAL), log(*made(said("x")), open_ended=True))
    assert (positional.value, positional.lowest, positional.highest) == (0.5, 0.0, 1.0)


def test_details_read_as_in_the_guide() -> None:
    criteria = OutputCriteria(
        expectations=(
            OutputExpectation(tool="get_user", output="{'user_id': 123, 'name': 'John Doe'}"),
            OutputExpectation(tool="calculate_total", output={"total": 99.99}),
            OutputExpectation(tool="api_request", output='{"status": 200, "data": {}}'),
            OutputExpectation(tool="api_request", output="done"),
        )
    )
    calls = log(
        call("get_user", None, '{"content": {"user_id": 123, "name": "John Doe"}}'),
        call("calculate_total", None, '{"content": "{\\"total\\": 99.99}"}'),
        call("api_request", None, '{"content": {"status": 200, "data": {}}}'),
    )
    score = evaluate(criteria, calls)
    assert isinstance(score.justification, OutputJustification)
    assert score.justification.explained_tool_calls_outputs == {
        "get_user_0": "Actual: {'user_id': 123, 'name': 'John Doe'}, Expected: {'user_id': 123, 'name': 'John Doe'}, Score: 1.0",
        "calculate_total_0": "Actual: {'total': 99.99}, Expected: {'total': 99.99}, Score: 1.0",
        "api_request_0": "Actual: {'status': 200, 'data': {}}, Expected: {'status': 200, 'data': {}}, Score: 1.0",
        "api_request_1": "Actual: None, Expected: 'done', Score: 0.0",
    }
    assert score.justification.details() == {"explained_tool_calls_outputs": score.justification.explained_tool_calls_outputs}


@pytest.mark.parametrize(
    ("expected", "content", "shown", "reason"),
    [
        pytest.param({"a": 1}, said('{"content": {"a": 2}}'), ("{'a': 2}", "{'a': 1}"), "$.a differs", id="objects"),
        pytest.param("hello", said('"hello"'), ("'\"hello\"'", "'hello'"), "$ differs", id="quotes"),
        pytest.param("x", said("42"), ("42", "'x'"), "$ is a number, expected text", id="kinds"),
        pytest.param(42, said('{"content": "42"}'), ("'42'", "42"), "$ is text, expected a number", id="number-as-content-text"),
        pytest.param("x", NO_OUTPUT, ("None", "'x'"), "no output was recorded", id="nothing"),
        pytest.param("x", ABSENT, ("(not recorded)", "'x'"), "the output is not recorded", id="absent"),
        pytest.param("x", REDACTED, ("(redacted)", "'x'"), "the output is redacted", id="redacted"),
        pytest.param("x", cut({"k": 1}), ("{'k': 1} (cut off)", "'x'"), "the output is cut off", id="cut"),
        pytest.param("x", Content(state=ContentState.UNPARSED, text="["), ("'['", "'x'"), "$ differs", id="can't-be-read"),
    ],
)
def test_mismatch_is_explained(expected: Json, content: Content, shown: tuple[str, str], reason: str) -> None:
    score = evaluate(expect(expected), log(*made(content)))
    assert score.justification.explain() == f"0 of 1 expected outputs match; f_0: {reason}"
    entry = f"Actual: {shown[0]}, Expected: {shown[1]}, Score: 0.0"
    assert score.justification.details() == {"explained_tool_calls_outputs": {"f_0": entry}}
    assert score.outcomes == (ExpectationOutcome(tool="f", outcome=Outcome.WRONG_OUTPUT),)


def test_nearest_unused_call_stands_beside_an_unmatched_expectation() -> None:
    contents = [ABSENT, said('{"a": 2, "b": 1}'), said('{"a": 1, "b": 2, "c": 3}'), cut({"z": 1})]
    score = evaluate(expect("{'a': 1, 'b': 2}", {"z": 1, "y": 1}, "x"), log(*made(*contents)))
    assert score.justification.details() == {
        "explained_tool_calls_outputs": {
            "f_0": "Actual: {'a': 1, 'b': 2, 'c': 3}, Expected: {'a': 1, 'b': 2}, Score: 0.0",
            "f_1": "Actual: {'z': 1} (cut off), Expected: {'z': 1, 'y': 1}, Score: 0.0",
            "f_2": "Actual: (not recorded), Expected: 'x', Score: 0.0",
        }
    }
