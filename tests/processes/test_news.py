"""What other processes tell unasked is written in order, by a thread that may take its time, and never too far behind."""

from __future__ import annotations

import threading

import pytest

from otel_toolcall_eval.emission.console import ConsoleEmitter
from otel_toolcall_eval.processes import news
from otel_toolcall_eval.processes.news import LINES_AHEAD, NewsDesk
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.processes.crews import crew_of


def test_lines_are_written_in_order_and_a_fault_of_one_costs_that_one() -> None:
    written: list[str] = []

    def write(line: str) -> None:
        if line == "1":
            raise BrokenPipeError
        written.append(line)

    desk = NewsDesk(console=ConsoleEmitter(write), remember=None)
    with crew_of(1, on_news=desk.take) as (crew, played):
        for number in range(2 * LINES_AHEAD):
            played[0].news.line(str(number))
        assert crew.problems() == ["worker"]  # so all lines have come
        assert desk.settle(PATIENCE_SECONDS)
        assert written == [str(number) for number in range(2 * LINES_AHEAD) if number != 1]
        assert desk.counts() == {("toolcall_eval.failures", ()): 1}
    assert desk.close(PATIENCE_SECONDS)


def test_who_tells_waits_while_nothing_is_written_and_answers_do_not() -> None:
    gate = threading.Event()
    desk = NewsDesk(console=ConsoleEmitter(lambda _: gate.wait(PATIENCE_SECONDS)), remember=None)
    with crew_of(1, on_news=desk.take) as (crew, played):
        told: list[int] = []

        def tell() -> None:
            for number in range(LINES_AHEAD + 2):
                played[0].news.line("a line")
                told.append(number)

        telling = threading.Thread(target=tell)
        telling.start()
        wait_for(lambda: len(told) == LINES_AHEAD, "lines as far ahead as may be")
        assert crew.problems() == ["worker"]
        assert not desk.settle(0.05)
        assert not desk.close(0.05)
        gate.set()
        telling.join(PATIENCE_SECONDS)
        assert len(told) == LINES_AHEAD + 2
    assert desk.close(PATIENCE_SECONDS)


def test_what_nobody_wants_is_passed_over() -> None:
    desk = NewsDesk(console=None, remember=None)
    with crew_of(1, on_news=desk.take) as (_, played):
        for _ in range(LINES_AHEAD + 1):
            played[0].news.line("a line")
        played[0].news.add([], now_unix_ns=0)
        played[0].news.close()
        assert desk.settle(PATIENCE_SECONDS)
    assert desk.close(PATIENCE_SECONDS)


@pytest.mark.parametrize("outcome", [True, False])
def test_metrics_are_exported_by_who_has_them(outcome: bool) -> None:  # noqa: FBT001 - a parameter of the test
    desk = NewsDesk(console=None, remember=None)
    desk.flush_metrics = lambda: outcome
    with crew_of(1, on_news=desk.take) as (_, played):
        assert played[0].news.flush_metrics() is outcome
    assert desk.close(PATIENCE_SECONDS)


def test_an_export_that_fails_or_takes_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bool:
        raise OSError

    gate, asked = threading.Event(), threading.Event()

    def hang() -> bool:
        asked.set()
        return gate.wait(PATIENCE_SECONDS)

    desk = NewsDesk(console=None, remember=None)
    with crew_of(1, on_news=desk.take) as (_, played):
        desk.flush_metrics = fail
        assert not played[0].news.flush_metrics()
        assert desk.counts() == {("toolcall_eval.failures", ()): 1}
        monkeypatch.setattr(news, "FLUSH_SECONDS", 0.05)
        desk.flush_metrics = hang
        assert not played[0].news.flush_metrics()
        assert asked.wait(PATIENCE_SECONDS)
        gate.set()
        monkeypatch.undo()
        desk.flush_metrics = lambda: False
        assert not played[0].news.flush_metrics()  # the late answer to the one before was yes
        desk.flush_metrics = lambda: True
        assert played[0].news.flush_metrics()
    assert desk.close(PATIENCE_SECONDS)
