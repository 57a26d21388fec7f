"""What several processes tell, as if one had told it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanContext

from otel_toolcall_eval.assembly.waiting import Waiting, WaitingTrace
from otel_toolcall_eval.emission import names
from otel_toolcall_eval.emission.aggregator import Aggregator
from otel_toolcall_eval.emission.cell_state import State
from otel_toolcall_eval.emission.recording import Occasion
from otel_toolcall_eval.processes.merging import merged_counts, merged_seen, merged_states, merged_unbound, merged_waiting
from otel_toolcall_eval.status.recent import Seen, UnboundService

if TYPE_CHECKING:
    import pytest

    from otel_toolcall_eval.processes.merging import Counted

SPAN = SpanContext(1, 2, is_remote=True)
TRACE = WaitingTrace(
    trace_id=bytes(16),
    unit_span_id=None,
    state="active",
    waits_for="quiet",
    seconds=1.0,
    trigger=None,
    age_seconds=1.0,
    spans=1,
    size_bytes=1,
    root_seen=False,
    orphans=False,
    open_spans=0,
    agents=0,
    truncated=False,
    revisions=0,
)


def occasion(unix_ns: int) -> Occasion:
    return Occasion(lambda: SPAN, unix_ns)


def test_counts_are_sums_but_what_says_that_something_is_there() -> None:
    transport = (("transport", "grpc"),)
    one: Counted = {("toolcall_eval.spans.received", transport): 3, ("toolcall_eval.service.info", transport): 1}
    other = {
        ("toolcall_eval.spans.received", transport): 4,
        ("toolcall_eval.service.info", transport): 1,
        ("toolcall_eval.failures", ()): 2,
    }
    assert merged_counts([one, other, {}]) == {
        ("toolcall_eval.spans.received", transport): 7,
        ("toolcall_eval.service.info", transport): 1,
        ("toolcall_eval.failures", ()): 2,
    }


def test_cells_are_merged_as_if_all_had_been_recorded_in_one_place() -> None:
    parts = [Aggregator(Resource.create({})) for _ in range(3)]
    whole = Aggregator(Resource.create({}))
    values = [
        (names.DECISION_DELAY, {}, 0.3),
        (names.DECISION_DELAY, {}, 12.0),
        (names.SCORE, {"a": "x"}, 1.0),
        (names.SCORE, {"a": "y"}, 0.5),
    ]
    values += [(names.TRACES_DECIDED, {"b": "z"}, 1.0), (names.TRACES_DECIDED, {"b": "z"}, 1.0), (names.DECISION_DELAY, {}, 0.2)]
    for position, (instrument, attributes, value) in enumerate(values):
        for aggregator in (parts[position % 3], whole):
            aggregator.cell(instrument, attributes).record(value, occasion(position))

    def plain(states: object) -> object:
        return {
            name: sorted(
                (key, state.total, state.counts, state.low, state.high, sorted((value, when.unix_ns) for value, when in state.exemplars))
                for key, state in cells
            )
            for name, cells in states.items()  # type: ignore[attr-defined] # a mapping
            if cells
        }

    merged = merged_states((part.states(take_extremes=False) for part in parts), {})
    assert plain(merged) == plain(whole.states(take_extremes=False))


def test_of_two_exemplars_in_a_bucket_the_newer_is_shown() -> None:
    older, newer = occasion(1), occasion(2)
    states = [{names.TRACES_DECIDED.name: [(None, State(total=1, exemplars=((1.0, when),)))]} for when in (newer, older, newer)]
    [(key, merged)] = merged_states(states, {})[names.TRACES_DECIDED.name]
    assert (key, merged.total, merged.exemplars) == (None, 3, ((1.0, newer),))


def test_attribute_sets_beyond_the_bound_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.processes.merging.MAX_CELLS", 2)
    name = names.TRACES_DECIDED.name
    keys = [(("a", str(number)),) for number in range(4)]
    states = [
        {name: [(key, State(total=1)) for key in keys[:2]]},
        {name: [(keys[1], State(total=1)), *((key, State(total=1)) for key in keys[2:])]},
    ]
    assert {key: state.total for key, state in merged_states(states, {})[name]} == {keys[0]: 1, keys[1]: 2, None: 2}


def test_what_waits_longest_and_what_is_forgotten_first_comes_first() -> None:
    def waiting(*ages: float) -> Waiting:
        traces = tuple(replace(TRACE, age_seconds=age, seconds=age) for age in ages)
        return Waiting(open_traces=10, revisable=5, size_bytes=100, open=traces, decided=traces)

    merged = merged_waiting([waiting(5, 1), waiting(3, 2)], limit=3)
    assert (merged.open_traces, merged.revisable, merged.size_bytes) == (20, 10, 200)
    assert [trace.age_seconds for trace in merged.open] == [5, 3, 2]
    assert [trace.seconds for trace in merged.decided] == [1, 2, 3]


def test_what_the_status_page_tells_is_of_all() -> None:
    one = Seen(passing=1, others=2, unbound=3, passing_left_out=4, others_left_out=5)
    assert merged_seen([one, one]) == Seen(passing=2, others=4, unbound=6, passing_left_out=8, others_left_out=10)
    assert merged_seen([]) == Seen()


def test_services_that_nothing_judges_are_known_by_their_latest_trace() -> None:
    early = UnboundService(traces=2, latest=b"a", latest_unix_ns=1, asked_for=("x", "y"))
    late = UnboundService(traces=3, latest=b"b", latest_unix_ns=2, asked_for=("y", "z"))
    merged = merged_unbound([{"desk": early, "other": early}, {"desk": late}])
    assert merged == {"desk": UnboundService(traces=5, latest=b"b", latest_unix_ns=2, asked_for=("x", "y", "z")), "other": early}
