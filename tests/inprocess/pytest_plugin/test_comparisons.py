"""Comparisons and their messages, on spans of a provider of our own; what pytest makes of them is in ``test_plugin``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unittest.mock import ANY

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from otel_toolcall_eval import CriteriaError, Label, SettingsError
from otel_toolcall_eval.inprocess.pytest_plugin.recorder import MAX_OUTSIDE, recorder_of
from otel_toolcall_eval.inprocess.pytest_plugin.tool_calls import ToolCalls, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TRACER = "agent"


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False)


@pytest.fixture
def calls(provider: TracerProvider, tmp_path: Path) -> Iterator[ToolCalls]:
    with record(provider, root=tmp_path) as recorded:
        yield recorded


def call(provider: trace.TracerProvider, name: str, args: object = None, output: object = None, **attributes: str) -> None:
    """Make a span as a tool makes it; text stands there as it is."""
    with provider.get_tracer(TRACER).start_as_current_span(f"execute_tool {name}") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **attributes})
        for key, value in (("arguments", args), ("result", output)):
            if value is not None:
                span.set_attribute(f"gen_ai.tool.call.{key}", value if isinstance(value, str) else json.dumps(value))


def run_agent(provider: trace.TracerProvider) -> None:
    with provider.get_tracer(TRACER).start_as_current_span("invoke_agent travel"):
        call(provider, "search", {"city": "Tokyo", "days": 3}, {"price": 90})
        call(provider, "search", {"city": "Paris", "days": 3}, "none left")
        call(provider, "book", {"hotel": {"stars": 4}}, "booked")


MADE = [
    "3 calls, in the order made:",
    "  1. search(city='Tokyo', days=3) -> {'price': 90}",
    "  2. search(city='Paris', days=3) -> 'none left'",
    "  3. book(hotel={'stars': 4}) -> 'booked'",
]

HOLDS: dict[str, Callable[[ToolCalls], bool]] = {
    "count": lambda t: t.count("search") == 2,
    "count-all": lambda t: t.count() == 3,
    "count-none": lambda t: t.count("pay") == 0,
    "count-less": lambda t: t.count() < 4,
    "count-mirrored": lambda t: 2 <= t.count("search"),  # noqa: SIM300 - the other side is what is tested
    "count-other": lambda t: t.count("search") != 1,
    "count-least": lambda t: t.count("search") >= 2,
    "count-more": lambda t: t.count("search") > 1,
    "order": lambda t: t.order == ["search", "search", "book"],
    "order-tuple": lambda t: t.order == ("search", "search", "book"),
    "order-other": lambda t: t.order != ["search", "book"],
    "order-within": lambda t: ["search", "book"] in t.order,
    "order-one": lambda t: "book" in t.order,
    "order-none": lambda t: "pay" not in t.order,
    "order-empty": lambda t: [] in t.order,
    "args-of-one-call": lambda t: t.args("book") == {"hotel": {"stars": 4}},
    "args-of-each-call": lambda t: t.args("search") == [{"city": "Tokyo", "days": 3}, {"city": "Paris", "days": 3}],
    "args-in-the-order-made": lambda t: t.args("search") != [{"city": "Paris", "days": 3}, {"city": "Tokyo", "days": 3}],
    "args-of-a-call": lambda t: {"days": 3, "city": "Paris"} in t.args("search"),
    "args-at-least": lambda t: t.args("search") >= {"city": "Paris"},
    "args-at-least-each": lambda t: t.args("search") >= [{"city": "Paris"}, {"city": "Tokyo"}],
    "args-one-of-two": lambda t: t.args("search") != {"city": "Tokyo", "days": 3},
    "args-none": lambda t: t.args("pay") == [],
    "output-value": lambda t: t.output("search") == [{"price": 90.0}, "none left"],
    "output-text": lambda t: t.output("book") == "booked",
    "output-of-a-call": lambda t: "none left" in t.output("search"),
    "output-other": lambda t: t.output("book") != "refused",
    "output-of-no-call": lambda t: "refused" not in t.output("search"),
}


@pytest.mark.parametrize("holds", HOLDS.values(), ids=HOLDS)
def test_comparison_holds(provider: TracerProvider, calls: ToolCalls, holds: Callable[[ToolCalls], bool]) -> None:
    run_agent(provider)
    assert holds(calls)


FAILS = [
    pytest.param(
        lambda t: (t.count("search"), "==", 1),
        ["tool_calls.count('search') == 1", "0 of 1 counts hold; search: called 2 times, expected exactly 1"],
        id="count",
    ),
    pytest.param(
        lambda t: (t.count(), ">", 3),
        ["tool_calls.count() > 3", "0 of 1 counts hold; all tools: called 3 times, expected more than 3"],
        id="count-all",
    ),
    pytest.param(
        lambda t: (t.order, "==", ["search", "pay", "book"]),
        [
            "tool_calls.order == ['search', 'pay', 'book']",
            "2 of 3 expected calls are in order; missing: pay; 1 further call, which strict mode does not allow",
            "- expected, + called: search -pay +search book",
        ],
        id="order",
    ),
    pytest.param(
        lambda t: (t.order, "!=", ["search", "search", "book"]),
        ["tool_calls.order != ['search', 'search', 'book']", "this is what was called"],
        id="order-other",
    ),
    pytest.param(
        lambda t: (t.args("book"), "==", {"hotel": {"stars": 5}}),
        [
            "tool_calls.args('book') == {'hotel': {'stars': 5}}",
            "0 of 1 expected arguments match; book_0: $.hotel.stars differs",
            "call 1: $.hotel.stars is 4, expected 5",
        ],
        id="args",
    ),
    pytest.param(
        lambda t: (t.args("search"), "==", [{"city": "Tokyo"}, {"city": "Rome", "days": 3, "pets": True}]),
        [
            "tool_calls.args('search') == [{'city': 'Tokyo'}, {'city': 'Rome', 'days': 3, 'pets': True}]",
            "0 of 2 expected arguments match; search_0: $.days is not expected; search_1: $.city differs, $.pets is missing",
            "call 1: $.days is 3, and not expected",
            "call 2: $.city is 'Paris', expected 'Rome'",
            "call 2: $.pets is missing, expected True",
        ],
        id="args-of-each-call",
    ),
    pytest.param(
        lambda t: (t.args("search"), ">=", {"city": "Paris", "days": "3"}),
        [
            "tool_calls.args('search') >= {'city': 'Paris', 'days': '3'}",
            "0 of 1 expected arguments match; search_0: $.days is a number, expected text",
            "call 2, the nearest: $.days is 3, expected '3'",
        ],
        id="args-at-least",
    ),
    pytest.param(
        lambda t: (t.output("search"), "==", "none left"),
        [
            "tool_calls.output('search') == 'none left'",
            "0 of 1 counts hold; search: called 2 times, expected exactly 1",
            "0 of 1 expected outputs match; search_0: $ is an object, expected text",
            "call 1: $ is {'price': 90}, expected 'none left'",
        ],
        id="output-of-one-of-two",
    ),
    pytest.param(
        lambda t: (t.output("book"), "==", ["booked", "booked"]),
        [
            "tool_calls.output('book') == ['booked', 'booked']",
            "0 of 1 counts hold; book: called 1 time, expected exactly 2",
            "1 of 2 expected outputs match; book_1: no call left",
            "a list stands for one output of each call; for one call that returns a list, write [[...]]",
        ],
        id="output-list",
    ),
]


@pytest.mark.parametrize(("asked", "told"), FAILS)
def test_a_failed_comparison_says_why_then_where_they_differ_then_what_was_called(
    provider: TracerProvider, calls: ToolCalls, asked: Callable[[ToolCalls], tuple[object, str, object]], told: list[str]
) -> None:
    run_agent(provider)
    left, operator, right = asked(calls)
    assert left.explanation(operator, right, mirrored=False) == [*told, *MADE]  # type: ignore[attr-defined]


def test_a_comparison_from_the_other_side_is_told_as_it_is_written(provider: TracerProvider, calls: ToolCalls) -> None:
    run_agent(provider)
    told = calls.count("search").explanation(">", 2, mirrored=True)
    assert told is not None
    assert told[:2] == ["2 > tool_calls.count('search')", "0 of 1 counts hold; search: called 2 times, expected fewer than 2"]
    told = calls.order.explanation("not in", "search", mirrored=True)
    assert told is not None
    assert told[:2] == ["'search' not in tool_calls.order", "this is what was called"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(lambda t: t.count("search"), "2", id="count-with-text"),
        pytest.param(lambda t: t.count("search"), True, id="count-with-a-boolean"),
        pytest.param(lambda t: t.order, "search", id="order-with-text"),
        pytest.param(lambda t: t.args("search"), "Tokyo", id="args-with-text"),
    ],
)
def test_what_can_t_be_compared_is_not_equal_and_leaves_the_message_to_pytest(
    provider: TracerProvider, calls: ToolCalls, left: Callable[[ToolCalls], object], right: object
) -> None:
    run_agent(provider)
    assert (left(calls) == right) is False
    assert left(calls).explanation("==", right, mirrored=False) is None  # type: ignore[attr-defined]
    assert 5 not in calls.order


def test_what_was_not_recorded_is_no_evidence(calls: ToolCalls) -> None:
    assert not calls.count("delete") == 0  # noqa: SIM201 - both have to be false
    assert not calls.count("delete") != 0  # noqa: SIM202
    assert not calls.order == []  # noqa: SIM201
    for text in ("delete", ["delete"]):
        with pytest.raises(AssertionError, match="nothing was recorded: no span began and ended in this test"):
            assert text not in calls.order


def test_an_agent_that_is_seen_to_call_nothing_has_called_nothing(provider: TracerProvider, calls: ToolCalls) -> None:
    with provider.get_tracer(TRACER).start_as_current_span("chat gpt"):
        pass
    assert calls.count() == 0
    assert calls.order == []
    assert "delete" not in calls.order


def test_spans_that_are_no_tool_calls_are_named_with_the_reason(provider: TracerProvider, calls: ToolCalls) -> None:
    for number in range(7):
        with provider.get_tracer(TRACER).start_as_current_span(f"step {number}"):
            pass
    told = calls.count("search").explanation("==", 1, mirrored=False)
    assert told is not None
    assert told[2:] == ["no tool call among 7 spans:", *(f"  step {number}: no tool marker" for number in range(5)), "  ... and 2 more"]


def test_a_producer_without_tool_spans_is_told_with_the_cure(provider: TracerProvider, calls: ToolCalls) -> None:
    tracer = provider.get_tracer("opentelemetry.instrumentation.crewai")
    with tracer.start_as_current_span("crewai.workflow", attributes={"gen_ai.system": "crewai", "traceloop.span.kind": "workflow"}):
        pass
    hints = calls.extraction.hints
    assert [line for line in calls.explained() if line.startswith("  hint: ")] == [f"  hint: {hint}" for hint in hints]


def test_what_was_not_captured_is_no_evidence_either(provider: TracerProvider, calls: ToolCalls) -> None:
    call(provider, "search")
    assert calls.count("search") == 1
    assert not calls.args("search") == {"city": "Tokyo"}  # noqa: SIM201 - both have to be false
    assert not calls.args("search") != {"city": "Tokyo"}  # noqa: SIM202
    told = calls.args("search").explanation("==", {"city": "Tokyo"}, mirrored=False)
    assert told is not None
    assert told[1].startswith("inconclusive (content not captured); of what was recorded, ")
    assert told[2:] == ["1 call, in the order made:", "  1. search(<absent>)"]
    assert calls[0].args is None
    assert dict(calls[0].missing) == {"args": "absent", "output": "absent"}


def test_a_span_that_is_still_open_may_call_yet_unless_it_is_the_test_s_own(provider: TracerProvider, calls: ToolCalls) -> None:
    tracer = provider.get_tracer(TRACER)
    with tracer.start_as_current_span("test"), tracer.start_as_current_span("step"):
        call(provider, "search")
        assert calls.count("search") == 1
        forgotten = tracer.start_span("background agent")
        assert not calls.count("search") == 1  # noqa: SIM201 - the negation is another question
        assert "still open, so more may come: background agent; is something not awaited?" in calls.explained()
        forgotten.end()
        assert calls.count("search") == 1


@pytest.mark.parametrize("value", [lambda t: t.count("search"), lambda t: t.order, lambda t: t.args("a"), lambda t: t.output("a")])
def test_nothing_of_it_is_a_truth_value(calls: ToolCalls, value: Callable[[ToolCalls], object]) -> None:
    with pytest.raises(TypeError, match="compare it with what you expect, as in tool_calls"):
        bool(value(calls))


@pytest.mark.parametrize("ask", [len, int, list])
def test_no_plain_number_or_list_is_got_out_of_it_that_says_nothing_of_what_was_not_recorded(
    calls: ToolCalls, ask: Callable[[object], object]
) -> None:
    for value in (calls.count("search"), calls.order, calls.args("a"), calls.output("a")):
        with pytest.raises(TypeError):
            ask(value)


MATCHED: dict[str, Callable[[ToolCalls], bool]] = {
    "args": lambda t: t.args("book") == {"hotel": {"stars": pytest.approx(4.0000001)}},
    "args-of-each-call": lambda t: t.args("search") == [{"city": ANY, "days": ANY}, {"city": "Paris", "days": pytest.approx(3)}],
    "args-another": lambda t: t.args("book") != {"hotel": {"stars": pytest.approx(5)}},
    "args-of-a-call": lambda t: {"city": "Paris", "days": ANY} in t.args("search"),
    "args-of-no-call": lambda t: {"city": "Rome", "days": ANY} not in t.args("search"),
    "args-missing": lambda t: {"city": "Paris", "days": 3, "pets": ANY} not in t.args("search"),
    "args-at-least": lambda t: t.args("search") >= {"days": pytest.approx(3)},
    "args-at-least-whichever-is-left": lambda t: t.args("search") >= [{"city": ANY}, {"city": "Tokyo"}],
    "args-in-place-of-an-object": lambda t: t.args("book") == {"hotel": ANY},
    "output": lambda t: t.output("search") == [{"price": pytest.approx(90)}, ANY],
    "output-text": lambda t: t.output("book") == ANY,
    "output-of-a-call": lambda t: {"price": pytest.approx(90.0)} in t.output("search"),
    "output-of-no-call": lambda t: {"price": pytest.approx(91)} not in t.output("search"),
}


@pytest.mark.parametrize("holds", MATCHED.values(), ids=MATCHED)
def test_expected_values_may_say_themselves_what_they_equal(
    provider: TracerProvider, calls: ToolCalls, holds: Callable[[ToolCalls], bool]
) -> None:
    run_agent(provider)
    assert holds(calls)


def test_what_is_not_equal_in_its_own_way_is_shown_as_it_stands_in_the_test(provider: TracerProvider, calls: ToolCalls) -> None:
    run_agent(provider)
    near = pytest.approx(5, abs=0.5)
    assert calls.args("book").explanation("==", {"hotel": {"stars": near}}, mirrored=False) == [
        f"tool_calls.args('book') == {{'hotel': {{'stars': {near}}}}}",
        "0 of 1 expected arguments match; book_0: $.hotel.stars differs",
        f"call 1: $.hotel.stars is 4, expected {near}",
        *MADE,
    ]


def test_text_that_is_quoted_or_spells_a_number_is_compared_as_it_is_shown(provider: TracerProvider, calls: ToolCalls) -> None:
    for output in ('"quoted"', "90"):
        call(provider, "search", {}, output)
    assert calls.output("search") == [ANY, pytest.approx(90)]


@pytest.mark.parametrize("expected", [ANY, [ANY], pytest.approx(3)], ids=["any", "any-call", "approx"])
def test_arguments_as_a_whole_are_an_object(calls: ToolCalls, expected: object) -> None:
    with pytest.raises(TypeError, match=r"arguments are an object, so .* can't be compared with them; write it inside one"):
        bool(calls.args("search") == expected)


def test_what_was_not_captured_may_equal_what_says_so_itself(provider: TracerProvider, calls: ToolCalls) -> None:
    run_agent(provider)
    call(provider, "search")
    for expected in ({"city": "Rome", "days": ANY}, {"city": "Rome", "days": pytest.approx(3)}):
        with pytest.raises(AssertionError, match="inconclusive"):
            assert expected not in calls.args("search")


def test_calls_are_there_as_plain_values_too(provider: TracerProvider, calls: ToolCalls) -> None:
    run_agent(provider)
    assert len(calls) == 3
    assert [(one.name, one.args, one.output, one.error) for one in calls][1:] == [
        ("search", {"city": "Paris", "days": 3}, "none left", None),
        ("book", {"hotel": {"stars": 4}}, "booked", None),
    ]
    assert [one.name for one in calls] == ["search", "search", "book"]
    assert (repr(calls), repr(calls.count())) == ("<tool calls: search, search, book>", "3")
    assert (repr(calls.order), repr(calls.args("book"))) == ("['search', 'search', 'book']", "[{'hotel': {'stars': 4}}]")
    assert repr(calls.output("book")) == "['booked']"


def test_a_failed_tool_is_shown_with_its_error(provider: TracerProvider, calls: ToolCalls) -> None:
    with provider.get_tracer(TRACER).start_as_current_span("execute_tool pay", record_exception=False) as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "error.type": "timeout"})
        span.set_status(trace.StatusCode.ERROR, "no answer")
    assert calls[0].error == "no answer"
    assert calls.explained()[1] == "  1. pay(<absent>) failed: no answer"


def test_a_long_run_is_cut(provider: TracerProvider, calls: ToolCalls) -> None:
    for _ in range(40):
        call(provider, "search")
    assert calls.explained()[-1] == "  ... and 10 more"
    told = calls.order.explanation("==", ["book"], mirrored=False)
    assert told is not None
    assert told[2].endswith("+search +search ... and 11 more")


def test_many_differences_are_cut(provider: TracerProvider, calls: ToolCalls) -> None:
    call(provider, "search", {str(number): [number] for number in range(9)})
    told = calls.args("search").explanation("==", {str(number): [-1] for number in range(9)}, mirrored=False)
    assert told is not None
    assert told[2] == "call 1: $.0[0] is 0, expected -1"
    assert told[8] == "call 1: ... and more"


COUNT = {"ToolCallCountEvaluator": {"tool_calls_count": {"search": ("=", 2), "pay": ("=", 1)}}}


def test_criteria_of_the_guides_are_met_or_not_in_a_table(provider: TracerProvider, calls: ToolCalls) -> None:
    run_agent(provider)
    calls.assert_meets({"ToolCallOrderEvaluator": {"tool_calls_order": ["search", "book"]}})
    with pytest.raises(AssertionError) as failed:
        calls.assert_meets({**COUNT, "tool-call-order": {"tool_calls_order": ["search", "book"]}})
    assert str(failed.value).splitlines() == [
        "the tool calls do not meet (given in the test)",
        "  fail          0.50  ToolCallCountEvaluator  1 of 2 counts hold; pay: called 0 times, expected exactly 1",
        "  pass          1.00  ToolCallOrderEvaluator",
        *MADE,
    ]
    assert [judged.result.label for judged in calls.judged] == [Label.PASS, Label.FAIL, Label.PASS]
    assert calls.evaluate(COUNT, config={"ToolCallCountEvaluator": {"strict": True}})["ToolCallCountEvaluator"].score == 0.0


ITEMS = """
evaluations:
  - {id: one, name: Search, evaluation_criterias: {ToolCallCountEvaluator: {tool_calls_count: {search: ["=", 2]}}}}
  - {id: two, evaluation_criterias: {ToolCallArgsEvaluator: {tool_calls: [{name: search, args: {city: Rome}}]}}}
"""


def test_items_are_found_in_files_by_id_and_by_name(provider: TracerProvider, calls: ToolCalls, tmp_path: Path) -> None:
    (tmp_path / "items.yaml").write_text(ITEMS, encoding="utf-8")
    call(provider, "search", "{cut off")
    call(provider, "search")
    calls.assert_meets("one", "Search", criteria="items.yaml")
    with pytest.raises(AssertionError) as failed:
        calls.assert_meets("one", "two", criteria=["items.yaml"])
    inconclusive = (
        "  inconclusive     -  two / ToolCallArgsEvaluator   0 of 1 expected arguments match; search_0: the arguments are cut off "
        "(content not captured, value truncated)"
    )
    assert str(failed.value).splitlines()[:3] == [
        "the tool calls do not meet one, two",
        "  pass          1.00  one / ToolCallCountEvaluator",
        inconclusive,
    ]
    with record(provider, root=tmp_path, criteria=[tmp_path / "items.yaml"]) as others:
        assert others.paths(()) == (tmp_path / "items.yaml",)


@pytest.mark.parametrize(
    ("items", "criteria", "told"),
    [
        pytest.param(["tow"], "items.yaml", "has this name; did you mean 'two'?", id="name"),
        pytest.param(["two"], (), 'no criteria files are named; add criteria="evaluations/" here, or tool_calls_criteria', id="no-file"),
        pytest.param(["two"], "item.yaml", "the file can't be read", id="file"),
        pytest.param([], (), "nothing to hold the calls against is named", id="nothing"),
        pytest.param([{"ToolCallCount": {}}], (), "ToolCallCount", id="evaluator"),
    ],
)
def test_a_slip_in_what_is_to_be_met_is_told(
    calls: ToolCalls, tmp_path: Path, items: list[str], criteria: str | tuple[str, ...], told: str
) -> None:
    (tmp_path / "items.yaml").write_text(ITEMS, encoding="utf-8")
    with pytest.raises(CriteriaError) as error:
        calls.assert_meets(*items, criteria=criteria)
    assert told in str(error.value)


def test_a_test_is_recorded_alone(provider: TracerProvider, tmp_path: Path) -> None:
    tracer = provider.get_tracer(TRACER)
    with record(provider, root=tmp_path):
        background = tracer.start_span("agent of an earlier test")
    with record(provider, root=tmp_path) as calls:
        with trace.use_span(background, end_on_exit=True):
            call(provider, "late")
        run_agent(provider)
        assert calls.order == ["search", "search", "book"]
    run_agent(provider)
    assert len(calls) == 3


def test_a_provider_gets_one_recorder_however_many_tests_there_are(provider: TracerProvider, tmp_path: Path) -> None:
    for _ in range(3):
        with record(provider, root=tmp_path):
            run_agent(provider)
    assert len(provider._active_span_processor._span_processors) == 1  # noqa: SLF001 - whether more were registered is the question


def test_what_a_harness_s_own_span_is_around_belongs_to_the_test(provider: TracerProvider, tmp_path: Path) -> None:
    with record(provider, root=tmp_path):
        pass
    with provider.get_tracer("harness").start_as_current_span("test session"), record(provider, root=tmp_path) as calls:
        run_agent(provider)
        assert calls.count() == 3


def test_earlier_spans_are_forgotten_in_the_end(provider: TracerProvider) -> None:
    recorder = recorder_of(provider)
    for number in range(MAX_OUTSIDE + 10):
        recorder._leave_out(number)  # noqa: SLF001 - a hundred thousand spans would take seconds
    assert len(recorder._outside) == MAX_OUTSIDE  # noqa: SLF001


@pytest.mark.parametrize(
    ("variable", "sampler", "told"),
    [
        pytest.param("true", None, "OTEL_SDK_DISABLED is set, so the SDK makes no span", id="switched-off"),
        pytest.param("", "always_off", "the provider's sampler drops spans (AlwaysOffSampler)", id="sampler"),
        pytest.param("", "parentbased_always_off", "the provider's sampler drops spans (AlwaysOffSampler)", id="sampler-of-roots"),
    ],
)
def test_why_nothing_was_recorded_is_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, sampler: str | None, told: str
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", variable)
    if sampler is not None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    provider = TracerProvider(shutdown_on_exit=False)
    with record(provider, root=tmp_path) as calls:
        run_agent(provider)
        assert f"  {told}" in calls.explained()
        assert calls.explained()[-1].startswith("  the global provider is another one")


def test_what_was_left_out_is_told(provider: TracerProvider, tmp_path: Path) -> None:
    with record(provider, root=tmp_path):
        background = provider.get_tracer(TRACER).start_span("agent of an earlier test")
    with record(provider, root=tmp_path) as calls, trace.use_span(background):
        call(provider, "late")
        assert "  1 span was left out, since what it is part of began before this test" in calls.explained()


def test_a_provider_that_takes_no_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="tool_calls_tracer_provider: a NoOpTracerProvider takes no span processor"):  # noqa: SIM117
        with record(trace.NoOpTracerProvider(), root=tmp_path):
            pass
