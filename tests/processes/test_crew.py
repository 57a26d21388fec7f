"""A crew does what one worker does, whatever its members do; see ``crews`` for how they are played."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.assembly.shed import Shed
from otel_toolcall_eval.emission import names
from otel_toolcall_eval.errors import CriteriaError, DecodeError, InternalError, OverloadedError, SettingsError
from otel_toolcall_eval.model.bound import Bound
from otel_toolcall_eval.model.criteria import CriteriaSet, Reach, Selector
from otel_toolcall_eval.pace import FREE_SECONDS, Burden
from otel_toolcall_eval.processes.channel import TRANSPORTS, Channel, Kind, Question, packed, pair
from otel_toolcall_eval.processes.crew import Crew, DividedError
from otel_toolcall_eval.processes.link import Link, Taken
from otel_toolcall_eval.wire.shares import Share, part_of, share_spans
from tests.fakes import SECOND_NS
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.processes.crews import ThreadAsProcess, crew_of
from tests.wire.test_shares import IDS, request_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.processes.channel import Frame
    from otel_toolcall_eval.processes.merging import Counted
    from tests.processes.crews import Played

GRPC = (("transport", "grpc"),)
SPREAD = request_of([IDS]).SerializeToString()  # 39 traces: each of three members has some
CRITERIA = (CriteriaSet(name="refunds", checks=(), version="1", selector=Selector(reach=Reach.NAMED)),)


def send(crew: Crew, body: bytes = SPREAD, *, may_shed: bool = False) -> Sequence[Taken]:
    taken, _ = crew.offer(Kind.SPANS, share_spans(body, len(crew.links)), transport="grpc", may_shed=may_shed)
    return taken.result(PATIENCE_SECONDS)


def decided(crew: Crew) -> int:
    """Return how many verdicts the metrics of all members tell of."""
    return sum(sum(state.counts) for states in crew.states(take_extremes=False) for _, state in states[names.DECISION_DELAY.name])


def judge(played: Sequence[Played]) -> list[bytes]:
    """Let time pass, and return the traces that were judged."""
    for one in played:
        assert one.worker.flush(PATIENCE_SECONDS)
        one.clock.ns = 1_000 * SECOND_NS
        one.worker.look()
        assert one.worker.flush(PATIENCE_SECONDS)
    return sorted(report.trace_id for one in played for report in one.emitter.reports)


def test_each_trace_is_judged_once_by_the_one_that_it_belongs_to_and_all_count_as_one() -> None:
    with crew_of(3) as (crew, played):
        crew.start()
        assert [one.judged for one in send(crew)] == [True] * 3
        assert judge(played) == IDS
        assert all(part_of(report.trace_id, 3) == index for index, one in enumerate(played) for report in one.emitter.reports)
        counts = crew.counts()
        assert counts["toolcall_eval.spans.received", GRPC] == len(IDS)
        assert decided(crew) == len(IDS)
        assert crew.alive
        assert crew.problems() == []
        assert crew.shutdown(PATIENCE_SECONDS)
        assert crew.counts()["toolcall_eval.spans.received", GRPC] == len(IDS)  # what they told last
        assert decided(crew) == len(IDS)
        assert crew.problems() == ["worker"]


def test_what_is_open_is_judged_at_the_end() -> None:
    with crew_of(2) as (crew, played):
        crew.start()
        send(crew)
        assert crew.shutdown(PATIENCE_SECONDS)
        assert sorted(report.trace_id for one in played for report in one.emitter.reports) == IDS
        with pytest.raises(OverloadedError, match="stopping"):
            send(crew)
        with pytest.raises(OverloadedError, match="stopping"):
            crew.bind(IDS[0], Bound(names=("a",)))
        with pytest.raises(OverloadedError):
            crew.waiting(limit=1, timeout_seconds=1.0)


def test_what_waits_is_told_of_all() -> None:
    with crew_of(3) as (crew, played):
        crew.start()
        send(crew)
        for one in played:
            assert one.worker.flush(PATIENCE_SECONDS)
        waiting = crew.waiting(limit=10, timeout_seconds=PATIENCE_SECONDS)
        assert (waiting.open_traces, len(waiting.open), waiting.decided) == (len(IDS), 10, ())
        assert {trace.trace_id for trace in waiting.open} <= set(IDS)


def test_a_trace_is_bound_where_it_is_judged() -> None:
    with crew_of(3) as (crew, played):
        crew.start()
        send(crew)
        crew.bind(IDS[0], Bound(names=("no-such",)))
        crew.waiting(limit=1, timeout_seconds=PATIENCE_SECONDS)  # so the binding, which was sent before, is there
        judge(played)
        asked = {report.trace_id: report.unknown_criteria for one in played for report in one.emitter.reports}
        assert {trace_id for trace_id, names_ in asked.items() if names_ == ("no-such",)} == {IDS[0]}


def test_spans_that_can_not_be_used_and_bytes_that_are_none_are_told() -> None:
    with crew_of(2) as (crew, _):
        crew.start()
        rejected: Counter[str] = Counter()
        for taken in send(crew, request_of([[b"", *IDS[:5]]]).SerializeToString()):
            rejected.update(taken.rejected)
        assert rejected == {"trace_id": 1}
        broken, _seconds = crew.offer(Kind.SPANS, {0: Share(body=b"\x0a\x7f", items=1)}, transport="grpc", may_shed=False)
        with pytest.raises(DecodeError, match="trace request"):
            broken.result(PATIENCE_SECONDS)
        logs, _seconds = crew.offer(Kind.LOGS, {1: Share(body=b"{}", items=1)}, transport="http/json", may_shed=False)
        assert [one.judged for one in logs.result(PATIENCE_SECONDS)] == [True]
        assert crew.offer(Kind.SPANS, {}, transport="grpc", may_shed=False)[0].result(0) == ()


def test_a_fault_of_ours_costs_its_request_and_says_nothing_of_what_was_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("4111 1111 1111 1111")  # noqa: EM101, TRY003 - as a library might word it

    with crew_of(1) as (crew, played):
        monkeypatch.setattr(played[0].worker, "offer", fail)
        with pytest.raises(InternalError, match="internal error"):
            send(crew)
        monkeypatch.setattr(played[0].worker, "counts", fail)
        delayed: Counted = {("toolcall_eval.requests.delayed", (("transport", transport),)): 0 for transport in TRANSPORTS}
        assert crew.counts() == {("toolcall_eval.queue.memory", ()): 0, **delayed}
        monkeypatch.undo()
        send(crew)
    assert "4111" not in caplog.text
    assert "RuntimeError" in str([vars(record).get("error_type") for record in caplog.records])


def test_who_is_behind_is_sent_no_more_than_its_bound_and_what_may_be_shed_is_noted() -> None:
    shares = share_spans(SPREAD, 1)
    with crew_of(1, limit_bytes=len(SPREAD) + 1) as (crew, played):
        crew.start()
        gate = threading.Event()
        played[0].member._answering[Question.COUNTS].submit(gate.wait)  # noqa: SLF001 - a question waits; requests do not
        offer = played[0].worker.offer
        played[0].worker.offer = lambda *given, **named: (gate.wait(PATIENCE_SECONDS), offer(*given, **named))[1]  # type: ignore[method-assign]
        first, _ = crew.offer(Kind.SPANS, shares, transport="grpc", may_shed=False)  # larger ones than the bound fit into an empty one
        with pytest.raises(OverloadedError, match="the queue of spans to judge is full"):
            crew.offer(Kind.SPANS, shares, transport="grpc", may_shed=False)
        assert crew.links[0].waiting_bytes == len(SPREAD)
        noted = crew.shed({0: Shed(transport="grpc", trace_ids={IDS[0]}, spans=3)})
        with pytest.raises(OverloadedError, match="is full"):
            crew.shed({0: Shed(transport="grpc", trace_ids={*IDS, *(bytes([number]) * 16 for number in range(1, 99))}, spans=3)})
        gate.set()
        assert [one.judged for one in first.result(PATIENCE_SECONDS)] == [True]
        assert [one.judged for one in noted.result(PATIENCE_SECONDS)] == [False]
        assert played[0].worker.flush(PATIENCE_SECONDS)
        assert crew.counts()["toolcall_eval.spans.shed", GRPC] == 3


def test_what_a_member_has_no_room_for_is_refused_or_shed_there(caplog: pytest.LogCaptureFixture) -> None:
    with crew_of(1, queue_bytes=1) as (crew, played):  # its thread does not run, so its queue stays full
        assert send(crew)[0].judged
        with pytest.raises(OverloadedError):
            send(crew)
        assert not send(crew, may_shed=True)[0].judged
        logs, _ = crew.offer(Kind.LOGS, {0: Share(body=b"", items=0)}, transport="grpc", may_shed=True)
        assert not logs.result(PATIENCE_SECONDS)[0].judged
        played[0].worker._queue.stop()  # noqa: SLF001 - as at its end, when not even notes are taken
        with pytest.raises(OverloadedError, match="too many traces are shed"):
            crew.shed({0: Shed(transport="grpc", trace_ids={IDS[0]}, spans=1)}).result(PATIENCE_SECONDS)
        crew.bind(IDS[0], Bound(names=("a",)))  # nobody waits for it
        wait_for(lambda: "a trace was not bound" in caplog.text, "the line in the log of that process")


def test_senders_wait_by_what_a_span_costs_in_all_processes_together() -> None:
    with crew_of(2) as (crew, played):
        for one in played:
            for _ in range(50):
                one.worker._pace.judged(10_000, ns=10_000 * 800_000, late_ns=0)  # noqa: SLF001 - a millisecond a span
        crew.start()
        send(crew)  # tells us
        assert crew.links[0].burden.span_seconds == pytest.approx(0.001, rel=0.1)
        crew.offer(Kind.SPANS, {0: Share(body=SPREAD, items=1_000)}, transport="grpc", may_shed=False)
        _, seconds = crew.offer(Kind.SPANS, {0: Share(body=SPREAD, items=500)}, transport="grpc", may_shed=False)
        assert seconds == pytest.approx(1_500 * 0.001 / 2 - FREE_SECONDS, rel=0.3)
        assert crew.counts()["toolcall_eval.requests.delayed", GRPC] == 2


def test_refusals_are_counted_here() -> None:
    with crew_of(2) as (crew, _):
        crew.refuse("grpc", "undecodable")
        assert crew.counts()["toolcall_eval.requests.refused", (("reason", "undecodable"), ("transport", "grpc"))] == 1


def test_all_read_criteria_anew_or_it_is_said() -> None:
    read: list[Sequence[tuple[str, str]]] = []

    def reload(versions: Sequence[tuple[str, str]]) -> bool:
        read.append(versions)
        if len(read) > 4:
            raise CriteriaError(where="criteria", what="half a file", fix="write the other half")
        return len(read) != 3

    with crew_of(2, reload=reload) as (crew, _):
        crew.judge_by(CRITERIA)
        assert (read, crew.criteria) == ([[("refunds", "1")]] * 2, CRITERIA)
        for _ in ("one read something else", "none could read it"):
            with pytest.raises(DividedError, match="not every process"):
                crew.judge_by(())
            assert crew.criteria == CRITERIA


def test_a_member_that_ends_by_itself_is_noticed_and_what_it_had_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    lost = threading.Event()
    with crew_of(2) as (crew, played):
        crew.on_lost = lost.set
        gate = threading.Event()
        played[0].worker.offer = lambda *_, **__: gate.wait(PATIENCE_SECONDS)  # type: ignore[method-assign,assignment] # never answers
        taken, _ = crew.offer(Kind.SPANS, share_spans(SPREAD, 2), transport="grpc", may_shed=False)
        played[0].channel.close()
        assert lost.wait(PATIENCE_SECONDS)
        with pytest.raises(OverloadedError, match="has ended"):
            taken.result(PATIENCE_SECONDS)
        assert not crew.alive
        assert "ended by itself" in caplog.text
        with pytest.raises(OverloadedError):
            crew.bind(next(trace_id for trace_id in IDS if part_of(trace_id, 2) == 0), Bound(names=()))
        assert crew.links[0].post(Kind.LOGS, size_bytes=1).exception(0) is not None
        assert crew.links[0].ask(Question.COUNTS, None) is None
        assert crew.problems() == ["worker"]
        assert not crew.shutdown(1.0)
        gate.set()


def test_a_sender_that_no_longer_waits_harms_nobody() -> None:
    with crew_of(1) as (crew, played):
        gate, offer = threading.Event(), played[0].worker.offer
        played[0].worker.offer = lambda *given, **named: (gate.wait(PATIENCE_SECONDS), offer(*given, **named))[1]  # type: ignore[method-assign]
        taken, _ = crew.offer(Kind.SPANS, share_spans(SPREAD, 1), transport="grpc", may_shed=False)
        taken.cancel()
        gate.set()
        assert crew.problems() == ["worker"]  # answered after the request; its thread was not started
        assert crew.links[0].waiting_bytes == 0


def started(answer: object) -> Crew:
    """Return a crew of one that says this in place of READY, or ends if it is None."""
    ours, theirs = pair()
    channel = Channel(theirs)

    def run() -> None:
        if answer is not None:
            channel.send(Kind.READY, 0, packed(answer))
            channel.flush(PATIENCE_SECONDS)
        channel.close()

    crew = Crew([Link(Channel(ours), ThreadAsProcess(run), 0, limit_bytes=1)], criteria=())
    crew.listen(lambda _link, _frame: None)
    return crew


def test_a_member_that_can_not_be_built_says_why() -> None:
    crew = started(SettingsError(where="journal.db", what="another process has this file", fix="stop it"))
    with pytest.raises(SettingsError, match="another process has this file"):
        crew.await_ready()
    crew.abandon()


def test_a_member_that_ends_before_it_is_built_is_an_error() -> None:
    crew = started(None)
    with pytest.raises(SettingsError, match="did not start"):
        crew.await_ready()
    crew.abandon()


def test_a_process_that_does_not_end_is_killed() -> None:
    ours, theirs = pair()
    never = threading.Event()
    process = ThreadAsProcess(lambda: never.wait(PATIENCE_SECONDS))
    link = Link(Channel(ours), process, 0, limit_bytes=1)
    link.hang_up()
    link.end(0.05)
    assert process.killed
    never.set()
    theirs.close()


def test_news_reach_who_listens() -> None:
    heard: list[Frame] = []
    came = threading.Event()

    def hear(_link: Link, frame: Frame) -> None:
        heard.append(frame)
        came.set()

    with crew_of(1, on_news=hear) as (_, played):
        played[0].channel.send(Kind.LINE, 0, packed("a line\n"))
        assert came.wait(PATIENCE_SECONDS)
    assert [(frame.kind, frame.value()) for frame in heard] == [(Kind.LINE, "a line\n")]


def test_the_burden_of_a_crew_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    with crew_of(2) as (crew, _):
        monkeypatch.setattr(crew.links[0], "burden", Burden(0.001, 0.0))
        monkeypatch.setattr(crew.links[1], "burden", Burden(0.003, 0.5))
        assert crew._burden() == Burden(0.001, 0.5)  # noqa: SLF001 - two at 2 ms a span do one a millisecond


def test_a_member_that_says_what_nobody_understands_is_as_good_as_gone(caplog: pytest.LogCaptureFixture) -> None:
    lost = threading.Event()
    with crew_of(1) as (crew, played):
        crew.on_lost = lost.set
        played[0].channel.send(Kind.ANSWER, 999, packed(None))
        assert lost.wait(PATIENCE_SECONDS)
        assert not crew.alive
    assert "can't be understood" in caplog.text


def test_a_member_that_can_not_judge_any_more_ends() -> None:
    lost = threading.Event()
    with crew_of(1) as (crew, played):
        crew.on_lost = lost.set
        crew.start()
        assert crew.problems() == []
        played[0].worker.shutdown(PATIENCE_SECONDS)  # as if its thread had died
        crew.links[0].order(Kind.START)
        assert lost.wait(PATIENCE_SECONDS)


def test_one_that_does_not_answer_is_sent_nothing_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    with crew_of(1) as (crew, played), monkeypatch.context() as impatient:
        send(crew)
        counted = crew.counts()
        impatient.setattr("otel_toolcall_eval.processes.link.STALLED_SECONDS", 0.05)
        impatient.setattr("otel_toolcall_eval.processes.crew.ASK_SECONDS", 0.05)
        impatient.setattr("otel_toolcall_eval.processes.crew.PROBLEMS_SECONDS", 0.05)
        gate, offer = threading.Event(), played[0].worker.offer
        played[0].worker.offer = lambda *given, **named: (gate.wait(PATIENCE_SECONDS), offer(*given, **named))[1]  # type: ignore[method-assign]
        taken, _ = crew.offer(Kind.SPANS, share_spans(SPREAD, 1), transport="grpc", may_shed=False)
        assert not taken.done()
        threading.Event().wait(0.1)
        with pytest.raises(OverloadedError):
            crew.offer(Kind.SPANS, share_spans(SPREAD, 1), transport="grpc", may_shed=False)
        assert crew.counts().keys() >= counted.keys()  # what it told last
        assert crew.problems() == ["worker"]
        impatient.undo()
        gate.set()
        assert taken.result(PATIENCE_SECONDS)[0].judged
        send(crew)


def test_a_question_that_stays_open_holds_up_neither_requests_nor_other_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, asked = threading.Event(), list[object]()

    def reload(versions: Sequence[tuple[str, str]]) -> bool:
        asked.append(versions)
        return gate.wait(PATIENCE_SECONDS)

    with crew_of(1, reload=reload) as (crew, played), monkeypatch.context() as impatient:
        crew.start()
        impatient.setattr("otel_toolcall_eval.processes.link.STALLED_SECONDS", 0.05)
        impatient.setattr("otel_toolcall_eval.processes.crew.RELOAD_SECONDS", 0.1)
        for _ in range(3):  # longer than that: who has not answered it is not asked it again
            with pytest.raises(DividedError):
                crew.judge_by(())
        assert not crew.links[0].stalled
        assert send(crew)[0].judged
        assert played[0].worker.flush(PATIENCE_SECONDS)
        assert crew.counts()["toolcall_eval.spans.received", GRPC] == len(IDS)
        assert crew.problems() == []
        gate.set()
        impatient.undo()
        wait_for(lambda: crew.links[0].ask(Question.PROBLEMS, None) is not None, "an answer")
        wait_for(lambda: not crew.links[0]._open, "the late answer")  # noqa: SLF001 - which nobody waits for
        assert len(asked) == 1
        crew.judge_by(())
        assert len(asked) == 2


def test_one_that_has_judged_all_before_the_others_may_be_asked_and_nobody_counts_less_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.processes.crew.ASK_SECONDS", 0.05)
    with crew_of(2) as (crew, played):
        crew.start()
        send(crew)
        gate, shutdown = threading.Event(), played[0].worker.shutdown
        played[0].worker.shutdown = lambda seconds: gate.wait(PATIENCE_SECONDS) and shutdown(seconds)  # type: ignore[method-assign,assignment]
        said: list[bool] = []
        stopping = threading.Thread(target=lambda: said.append(crew.shutdown(PATIENCE_SECONDS)))
        stopping.start()
        answering = played[1].member._answering[Question.COUNTS]  # noqa: SLF001 - its end is to be seen there alone
        wait_for(lambda: answering._shutdown, "the end of one")  # noqa: SLF001
        crew.counts()
        gate.set()
        stopping.join(PATIENCE_SECONDS)
        assert said == [True]
        assert crew.shutdown(PATIENCE_SECONDS)
        assert crew.counts()["toolcall_eval.spans.received", GRPC] == len(IDS)
        assert decided(crew) == len(IDS)


def test_the_last_word_stands_whatever_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with crew_of(1) as (crew, _):
        crew.start()
        send(crew)
        early = crew._ask_all  # noqa: SLF001 - as a thread does that was asking meanwhile
        older = early(Question.COUNTS, PATIENCE_SECONDS)
        assert crew.shutdown(PATIENCE_SECONDS)
        last = crew.counts()
        assert last["toolcall_eval.traces.active", ()] == 0
        monkeypatch.setattr(crew, "_ask_all", lambda *_: {0: {**older[0], ("toolcall_eval.traces.active", ()): 7}})
        assert crew.counts() == last
