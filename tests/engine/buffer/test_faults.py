"""What went wrong for users of neighbouring systems, row by row: FAULTS, section A (grouping, completion) and C (scoring).

A row that another room holds is named in ``ELSEWHERE``, with the test that holds it.
"""

from __future__ import annotations

import importlib
import random
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from tests.engine.buffer.judged import args, count, order, pipeline, said
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.model.trace import Span

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}
QUIET_NS = 10 * SECOND_NS

ELSEWHERE = [
    pytest.param("A9", "tests.sidecar.test_sidecar", "test_sigterm_judges_what_is_pending_and_ends_cleanly", id="A9-restart"),
    pytest.param(
        "A10",
        "tests.sidecar.journal.test_faults",
        "test_a10_what_can_not_be_read_back_costs_its_trace_its_completeness",
        id="A10-journal-read-error",
    ),
    pytest.param(
        "A11",
        "tests.sidecar.journal.test_faults",
        "test_a11_corrupt_file_is_moved_aside_and_the_sidecar_starts_and_is_healthy",
        id="A11-corrupt-journal",
    ),
    pytest.param(
        "A14",
        "tests.inprocess.test_wrapping",
        "test_this_sdk_lets_nobody_write_on_a_span_that_is_ending_and_finding_out_logs_nothing",
        id="A14",
    ),
    pytest.param(
        "A14", "tests.inprocess.test_wrapping", "test_exported_root_carries_its_verdicts_and_no_span_of_ours_is_made", id="A14-wrapping"
    ),
    pytest.param(
        "A15", "tests.inprocess.test_processor", "test_process_that_dies_of_its_own_exception_ends_as_it_would_without_us", id="A15-raise"
    ),
    pytest.param(
        "A16",
        "tests.inprocess.test_in_process",
        "test_child_processes_have_verdicts_of_their_own_and_a_held_root_is_exported_once",
        id="A16",
    ),
    pytest.param("A17", "tests.inprocess.test_in_process", "test_exit_does_not_hang_on_a_dead_collector", id="A17-in-process"),
    pytest.param("A17", "tests.sidecar.test_sidecar", "test_dead_collector_does_not_hold_the_end", id="A17-exit"),
    pytest.param("A18", "tests.inprocess.test_span_processor", "test_own_spans_are_passed_over", id="A18-own-spans"),
    pytest.param(
        "A18", "tests.inprocess.test_in_process", "test_exports_own_calls_do_not_make_spans_for_ever", id="A18-instrumented-exporter"
    ),
    pytest.param(
        "A22", "tests.inprocess.test_in_process", "test_lazy_generator_keeps_one_agent_open_and_the_next_one_nests_in_it", id="A22"
    ),
    pytest.param(
        "A23", "tests.inprocess.test_in_process", "test_span_that_ends_in_another_task_or_thread_counts_the_same", id="A23-other-task"
    ),
    pytest.param("A28", "tests.extraction.test_faults", "test_8_what_was_asked_for_and_did_not_run_is_reported_apart", id="A28-messages"),
    pytest.param(
        "A34", "tests.receivers.test_receivers", "test_the_sdks_exporter_resends_what_was_refused_and_nothing_is_lost_or_doubled", id="A34"
    ),
    pytest.param("A35", "tests.receivers.test_answers", "test_http_refuses_in_the_encoding_of_the_request", id="A35-retry-after"),
    pytest.param("A36", "tests.receivers.test_receivers", "test_large_messages_are_taken_up_to_the_limit", id="A36-large-messages"),
    pytest.param("A37", "tests.otlp.test_unpacking", "test_a_bomb_is_refused_after_as_much_as_is_allowed", id="A37-gzip"),
    pytest.param("A38", "tests.receivers.test_answers", "test_a_media_type_may_have_parameters_and_capitals", id="A38-media-type"),
    pytest.param(
        "A39", "tests.otlp.test_encodings_agree", "test_both_encodings_of_a_request_decode_equal_and_as_the_generated_classes_do", id="A39"
    ),
    pytest.param("A40", "tests.receivers.test_answers", "test_good_and_mixed_batches_are_taken_and_answered", id="A40-partial-success"),
    pytest.param("A42", "tests.inprocess.test_span_processor", "test_unsampled_spans_are_not_seen", id="A42-unsampled"),
    pytest.param(
        "A44",
        "tests.receivers.test_otlp_grpc",
        "test_pings_without_a_call_that_keep_the_floor_are_answered_and_faster_ones_end_the_connection",
        id="A44-keepalive",
    ),
    pytest.param("A45", "tests.inprocess.test_in_process", "test_sixteen_threads_with_random_ends_lock_nothing_up", id="A45-threads"),
    pytest.param("A47", "tests.inprocess.test_wrapping", "test_no_event_of_the_user_is_lost_for_ours", id="A47-events"),
    pytest.param("C11", "tests.inprocess.test_registration", "test_order_and_repetition", id="C11-registered-twice"),
    pytest.param(
        "C12",
        "tests.inprocess.test_span_processor",
        "test_more_news_than_may_wait_is_dropped_and_counted_and_its_trace_is_never_called_complete",
        id="C12-no-waiting",
    ),
    pytest.param("C14", "tests.exporters.test_attributes", "test_event_of_a_failed_verdict_has_all_its_attributes", id="C14-explanation"),
    pytest.param("C15", "tests.engine.test_evaluation", "test_c15_what_is_no_score_counts_as_a_failure", id="C15-range"),
    pytest.param("C16", "tests.settings.test_criteria_file", "test_scores_have_the_name_that_the_evaluator_is_given", id="C16-name"),
]


@pytest.mark.parametrize(("_row", "module", "name"), ELSEWHERE)
def test_row_is_held_by_a_test_of_another_room(_row: str, module: str, name: str) -> None:
    assert callable(getattr(importlib.import_module(module), name))


def send(pipe: Pipeline, *spans: Span, at: float = 0, transport: str = "grpc") -> None:
    """Hand spans in at a second of virtual time."""
    pipe.add(spans, now_ns=round(at * SECOND_NS), transport=transport)


def reports_at(pipe: Pipeline, second: float) -> list[list[tuple[str, float | None]]]:
    return [said(report) for report in pipe.pop_due(now_ns=round(second * SECOND_NS))]


def test_a1_a33_late_tool_span_revises_the_verdict_and_never_makes_a_second_first_one() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(1))
    assert reports_at(pipe, 10) == [[("fail", 0.0)]]
    send(pipe, span(2, parent=1, tool="a"), at=30)
    (second,) = pipe.pop_due(now_ns=40 * SECOND_NS)
    assert (second.revision, second.trigger, said(second)) == (1, Trigger.LATE_SPAN, [("pass", 1.0)])
    assert list(pipe.drain(now_ns=10_000 * SECOND_NS)) == []


def test_a2_root_that_comes_minutes_after_its_child_is_judged_with_it() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(2, parent=1, tool="a"))
    assert reports_at(pipe, 239) == []
    send(pipe, span(1), at=240)
    assert reports_at(pipe, 249.9) == []
    assert reports_at(pipe, 250) == [[("pass", 1.0)]]
    assert reports_at(pipe, 9_000) == []


def test_a3_long_run_is_not_cut_while_it_is_active() -> None:
    pipe = pipeline(count(a=15))
    for turn in range(15):
        send(pipe, span(turn + 2, parent=1, tool="a"), at=120 * turn)
        assert reports_at(pipe, 120 * turn + 119) == []
    send(pipe, span(1), at=1800)
    assert reports_at(pipe, 1810) == [[("pass", 1.0)]]


def test_a4_finished_trace_waits_one_quiet_period_and_no_longer() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(2, parent=1, tool="a"), span(1), at=5)
    assert pipe.next_due_ns() == 15 * SECOND_NS
    assert reports_at(pipe, 15) == [[("pass", 1.0)]]


def test_a5_giant_trace_does_not_delay_two_hundred_small_ones() -> None:
    pipe = pipeline(count(a=1), limits=BufferLimits(maximum_trace_size_bytes=1_000_000))
    for batch in range(50):
        send(pipe, *(span(batch * 1_000 + n, parent=1, tool="loop") for n in range(2, 1_002)), at=batch / 10)
        send(pipe, *(s for n in range(4) for s in (span(1, trace=9 + batch * 4 + n), span(2, trace=9 + batch * 4 + n, parent=1, tool="a"))))
    assert pipe.buffered_bytes < 2_000_000
    assert reports_at(pipe, 10) == [[("pass", 1.0)]] * 200


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        pytest.param(count(loop=["<=", 100]), ("fail", 0.0), id="at-most-is-exceeded"),
        pytest.param(count(loop=[">=", 1]), ("pass", 1.0), id="at-least-was-seen"),
        pytest.param(count(other=0), ("inconclusive", None), id="absence-is-unknown"),
        pytest.param(order("loop", "loop"), ("pass", 1.0), id="sequence-was-seen"),
        pytest.param(order("loop", strict=True), ("fail", 0.0), id="strict-sequence-is-exceeded"),
        pytest.param(args("loop", {"n": 1}), ("inconclusive", None), id="arguments-may-still-come"),
    ],
)
def test_a6_endless_loop_is_bounded_and_only_what_can_not_change_is_said(check: object, expected: tuple[str, float | None]) -> None:
    pipe = pipeline(check, limits=BufferLimits(span_limit=1_000))  # type: ignore[arg-type]
    for batch in range(20):
        send(pipe, *(span(batch * 500 + n, parent=1, tool="loop") for n in range(2, 502)), at=batch)
        assert pipe.buffered_bytes < 2_000_000
    send(pipe, span(1), at=20)
    (report,) = pipe.pop_due(now_ns=30 * SECOND_NS)
    assert (report.doubts[0], said(report)) == (IncompletenessReason.SPAN_LIMIT, [expected])
    assert pipe.counts.total("dropped") == 9_000
    assert pipe.counts.total("received") == 10_001 == pipe.counts.total("relevant") + pipe.counts.total("ignored")


def test_a7_a8_trace_beyond_the_limit_is_judged_on_what_is_there_and_the_gauges_return_to_zero() -> None:
    pipe = pipeline(count(a=[">=", 1]), limits=BufferLimits(num_traces=10))
    for number in range(1, 12):
        send(pipe, span(1, trace=number), span(2, trace=number, parent=1, tool="a"), at=number / 100)
    (report,) = pipe.pop_due(now_ns=SECOND_NS)
    assert (report.trigger, report.doubts, said(report)) == (Trigger.EVICTION, (IncompletenessReason.EVICTED,), [("pass", 1.0)])
    assert len(reports_at(pipe, 11)) == 10
    reports_at(pipe, 100)
    assert (pipe.open_traces, pipe.buffered_bytes) == (0, 0)


def test_a12_request_sent_again_over_any_transport_counts_once() -> None:
    pipe = pipeline(count(a=1))
    for transport in ("grpc", "http", "http"):
        send(pipe, span(1), span(2, parent=1, tool="a"), transport=transport)
    assert reports_at(pipe, 10) == [[("pass", 1.0)]]
    assert (pipe.counts.total("received"), pipe.counts.total("duplicate")) == (6, 4)


@pytest.mark.parametrize("swap", [False, True], ids=["one-order", "other-order"])
def test_a13_conflicting_copies_have_one_winner_whatever_came_first(swap: bool) -> None:  # noqa: FBT001 - a parameter of the table
    copies = [span(2, parent=1, tool="a", end=50), span(2, parent=1, tool="b", end=50)]
    pipe = pipeline(count(a=0, b=1))
    send(pipe, span(1), *(reversed(copies) if swap else copies))
    assert reports_at(pipe, 10) == [[("pass", 1.0)]]
    assert pipe.counts.total("conflict") == 1


def test_a19_streaming_root_ends_before_its_tools_and_one_verdict_has_them_all() -> None:
    pipe = pipeline(count(a=8))
    send(pipe, span(1))
    for second in range(1, 9):
        send(pipe, span(second + 1, parent=1, tool="a"), at=second)
        assert reports_at(pipe, second) == []
    assert reports_at(pipe, 18) == [[("pass", 1.0)]]


def test_a20_tool_spans_beside_the_agent_still_count_for_the_trace() -> None:
    pipe = pipeline(count(a=2))
    send(pipe, span(1), span(2, parent=1, attributes=AGENT), span(3, parent=1, tool="a"), span(4, parent=1, tool="a"))
    assert reports_at(pipe, 10) == [[("pass", 1.0)]]


def test_a21_several_parentless_spans_are_one_trace_and_the_first_does_not_close_it() -> None:
    pipe = pipeline(count(a=3))
    for turn in range(3):
        send(pipe, span(10 * turn + 1, attributes=AGENT), span(10 * turn + 2, parent=10 * turn + 1, tool="a"), at=8 * turn)
    assert reports_at(pipe, 25.9) == []
    assert reports_at(pipe, 26) == [[("pass", 1.0)]]


def test_a22_call_of_an_agent_inside_an_agent_of_the_same_name_counts_once() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(1, attributes=AGENT, end=99), span(2, parent=1, attributes=AGENT, end=98), span(3, parent=2, tool="a"))
    (report,) = pipe.pop_due(now_ns=QUIET_NS)
    assert (said(report), report.agent) == ([("pass", 1.0)], "weather")


@pytest.mark.parametrize(
    ("flags", "due"), [pytest.param(0x300, 10, id="remote"), pytest.param(0x100, 300, id="local"), pytest.param(0, 300, id="old-sdk")]
)
def test_a24_the_flag_tells_a_local_root_and_its_kind_does_not(flags: int, due: int) -> None:
    pipe = pipeline(count(a=[">=", 1]))
    send(pipe, span(2, parent=1, attributes=AGENT, flags=flags), span(3, parent=2, tool="a"))
    assert reports_at(pipe, due - 0.1) == []
    assert reports_at(pipe, due) == [[("pass", 1.0)]]


def test_a25_orphan_is_provisional_and_its_parent_makes_one_more_verdict() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(1), span(3, parent=2, tool="a"))
    assert reports_at(pipe, 60) == [[("inconclusive", None)]]
    send(pipe, span(2, parent=1), at=70)
    assert reports_at(pipe, 80) == [[("pass", 1.0)]]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        pytest.param({"kind": 3}, {"kind": 2, "flags": 0x300}, id="A26-client-and-server"),
        pytest.param({"scope": "langchain"}, {"scope": "mcp"}, id="A27-two-instrumentations"),
    ],
)
def test_a26_a27_call_that_two_spans_recorded_counts_once(outer: dict[str, object], inner: dict[str, object]) -> None:
    said_by_both = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a", "gen_ai.tool.call.id": "call_1"}
    outer, inner = ({key: value for key, value in fields.items() if key != "kind"} for fields in (outer, inner))
    pipe = pipeline(count(a=1))
    send(
        pipe,
        span(1),
        span(2, parent=1, attributes=said_by_both, start=20, end=40, **outer),  # type: ignore[arg-type]
        span(3, parent=2, attributes=said_by_both, start=22, end=38, **inner),  # type: ignore[arg-type]
    )
    assert reports_at(pipe, 10) == [[("pass", 1.0)]]


def test_a29_calls_that_start_together_stand_in_one_order_however_they_arrive() -> None:
    spans = [span(1), *(span(n, parent=1, tool="abc"[n % 3], start=5, end=9) for n in range(2, 8))]
    shuffled, verdicts = random.Random(29), set()  # noqa: S311 - a repeatable shuffle
    for trace in range(100):
        pipe = pipeline(order("a", "b", "c", "a", "b", "c"), order("c", "a", "b", "c", strict=True))
        send(pipe, *shuffled.sample(spans, len(spans)), at=trace)
        verdicts.add(tuple(reports_at(pipe, trace + 10)[0]))
    assert len(verdicts) == 1


@pytest.mark.parametrize("seconds", [-1, -90, 90])
def test_a30_child_whose_times_lie_outside_its_parent_stands_where_the_tree_puts_it(seconds: int) -> None:
    begin = 1_790_000_000 * SECOND_NS
    agent = span(2, parent=1, attributes=AGENT, start=begin, end=begin + 5 * SECOND_NS)
    skewed = begin + seconds * SECOND_NS
    pipe = pipeline(order("outer", "inner"))
    send(
        pipe,
        span(1, start=begin, end=begin - SECOND_NS),  # a clock that was set back: the end before the start
        agent,
        span(3, parent=2, tool="outer", start=begin + 1, end=begin + 9),
        span(4, parent=3, tool="inner", start=skewed, end=skewed + 5),
    )
    assert reports_at(pipe, 10) == [[("pass", 1.0)]]


def test_a32_drip_feed_is_judged_by_age_and_then_revised_with_all_parts() -> None:
    pipe = pipeline(count(a=[">=", 17]))
    reports = []
    for turn in range(31):
        send(pipe, span(turn + 2, parent=1, tool="a"), at=240 * turn)
        reports += pipe.pop_due(now_ns=240 * turn * SECOND_NS)
        if turn == 15:  # the last span before the age limit is reached; the next one comes within the late window
            reports += pipe.pop_due(now_ns=3_600 * SECOND_NS)
            send(pipe, span(99, parent=1, tool="a"), at=3_630)
            reports += pipe.pop_due(now_ns=3_645 * SECOND_NS)
    assert [(r.trigger, r.revision, said(r)) for r in reports] == [
        (Trigger.TRACE_TIMEOUT, 0, [("inconclusive", None)]),
        (Trigger.LATE_SPAN, 1, [("pass", 1.0)]),
    ]
    assert pipe.counts.total("late") == 16
    assert pipe.open_traces == 0


def test_a41_invented_tool_names_make_no_series() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    emitter = MetricsEmitter(SdkRecorder(provider))
    pipe = pipeline(count(get_weather=(">=", 1)), order("get_weather", "get_forecast"))
    for trace in range(1, 101):
        calls = [span(number, trace=trace, parent=1, tool=f"invented-{trace}-{number}") for number in range(2, 102)]
        send(pipe, span(1, trace=trace), *calls)
    for report in pipe.pop_due(now_ns=QUIET_NS):
        assert len(report.extraction.calls) == 100
        emitter.emit(report)
    collected = reader.get_metrics_data()
    assert collected is not None
    metrics = [metric for resource in collected.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
    points = {metric.name: len(metric.data.data_points) for metric in metrics}
    assert set(points) >= {"gen_ai.evaluation.score", "toolcall_eval.expectations"}
    assert max(points.values()) < 20, points
    provider.shutdown()


def test_a43_halves_of_a_trace_at_two_instances_are_both_partial_and_say_so() -> None:
    one, other = pipeline(count(a=1)), pipeline(count(a=1))
    send(one, span(1), span(3, parent=2, tool="a"))
    send(other, span(2, parent=1))
    (first,), (second,) = one.pop_due(now_ns=60 * SECOND_NS), other.pop_due(now_ns=300 * SECOND_NS)
    assert IncompletenessReason.ORPHAN in first.doubts
    assert IncompletenessReason.ORPHAN in second.doubts
    assert said(first) == said(second) == [("inconclusive", None)]


def test_a46_c8_resumed_run_that_comes_hours_later_is_late_and_under_a_new_id_a_trace_of_its_own() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(1), span(2, parent=1, tool="a"))
    assert reports_at(pipe, 10) == [[("pass", 1.0)]]
    send(pipe, span(3, parent=1, tool="a"), at=3_000)
    send(pipe, span(4, trace=2), span(5, trace=2, parent=4, tool="a"), at=7_200)
    assert reports_at(pipe, 7_210) == [[("pass", 1.0)]]
    assert pipe.counts.total("late") == 1


def test_c9_resumed_run_that_sends_its_root_again_has_one_verdict() -> None:
    pipe = pipeline(count(a=1))
    send(pipe, span(1, end=50), span(2, parent=1, tool="a"))
    send(pipe, span(1, end=90), at=1)
    assert reports_at(pipe, 11) == [[("pass", 1.0)]]
    send(pipe, span(1, end=95), at=15)
    assert reports_at(pipe, 1_000) == []


def test_c10_traces_that_run_side_by_side_are_never_mixed() -> None:
    pipe = pipeline(count(a=1))
    spans = [s for trace in range(1, 51) for s in (span(1, trace=trace), span(2, trace=trace, parent=1, tool="a"))]
    for sent in random.Random(10).sample(spans, len(spans)):  # noqa: S311 - a repeatable shuffle
        send(pipe, sent)
    assert reports_at(pipe, 10) == [[("pass", 1.0)]] * 50


@pytest.mark.parametrize(
    ("attributes", "check", "expected"),
    [
        pytest.param({"tool.synthesized": True}, count(a=0), 1.0, id="C1-spans-that-a-runtime-made-up"),
        pytest.param({"input.value": '{"x": true, "y": null}'}, args("a", {"x": True, "y": None}), 1.0, id="C2-json-before-literal"),
        pytest.param({"input.value": "{'x': True}"}, args("a", {"x": True}), 1.0, id="C-literal"),
        pytest.param({"input.value": '{"x": 1}'}, args("a", {}), 0.0, id="C4-empty-expectation-is-none-that-fits-all"),
        pytest.param({"input.value": '{"x": {"y": [5.0]}}'}, args("a", {"x": {"y": [5]}}), 1.0, id="C6-numbers-by-value-at-any-depth"),
        pytest.param({}, order("a", "b", "c"), 1 / 3, id="C7-a-score-keeps-its-fraction"),
        pytest.param({"tool.name": "Web_Search"}, count(**{"Web Search": 0}), 1.0, id="C3-names-are-exact"),
    ],
)
def test_c_rows_about_scores(attributes: dict[str, object], check: object, expected: float) -> None:
    pipe = pipeline(check)  # type: ignore[arg-type]
    send(pipe, span(1), span(2, parent=1, tool="a", attributes=attributes))  # type: ignore[arg-type]
    ((verdict,),) = reports_at(pipe, 10)
    assert verdict == ("pass" if expected == 1.0 else "fail", expected)


def test_c_neighbours_two_equal_calls_are_two_and_a_repeat_never_scores_above_one() -> None:
    pipe = pipeline(count(a=2), args("a", {"n": 1}))
    spans = [span(n, parent=1, tool="a", attributes={"input.value": '{"n": 1}'}, start=5, end=9) for n in (2, 3)]
    send(pipe, span(1), *spans, *spans)
    assert reports_at(pipe, 10) == [[("pass", 1.0), ("pass", 1.0)]]
