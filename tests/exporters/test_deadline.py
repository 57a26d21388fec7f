from __future__ import annotations

import threading
import time
from threading import Event

import pytest

from otel_toolcall_eval.exporters.deadline import Attempt, Flusher
from tests.patience import PATIENCE_SECONDS, wait_for


def _raise() -> None:
    raise ValueError


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(lambda: None, True, id="returns-nothing"),
        pytest.param(lambda: True, True, id="returns-true"),
        pytest.param(lambda: False, False, id="returns-false"),
        pytest.param(_raise, False, id="raises"),
    ],
)
def test_call_that_comes_back_tells_whether_it_worked(call: object, expected: object) -> None:
    attempt = Attempt(call, name="test")  # type: ignore[arg-type]  # a table of callables
    assert attempt.wait(PATIENCE_SECONDS) is expected
    assert not attempt.running


def test_call_that_hangs_is_waited_for_no_longer_than_told() -> None:
    release = Event()
    attempt = Attempt(release.wait, name="test")
    started = time.monotonic()
    assert not attempt.wait(0.01)
    assert not attempt.wait(-1)
    assert time.monotonic() - started < PATIENCE_SECONDS  # it would wait for ever
    assert attempt.running
    release.set()
    assert attempt.wait(PATIENCE_SECONDS)


def test_thread_is_a_daemon_with_a_name() -> None:
    release = Event()
    attempt = Attempt(release.wait, name="flush")
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "toolcall-eval-flush"]
    assert thread.daemon
    release.set()
    assert attempt.wait(PATIENCE_SECONDS)


def test_where_no_thread_can_be_started_the_attempt_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        message = "can't create new thread at interpreter shutdown"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)  # no other way to reach the end of the interpreter
    attempt = Attempt(lambda: True, name="test")
    assert not attempt.running
    assert not attempt.wait(1)


def test_flush_needs_all_to_work() -> None:
    assert Flusher([]).flush(0)
    assert Flusher([lambda: True, lambda: None]).flush(PATIENCE_SECONDS)
    assert not Flusher([lambda: True, lambda: False]).flush(PATIENCE_SECONDS)


def test_hanging_flush_is_not_started_again() -> None:
    release, calls = Event(), []

    def flush() -> None:
        calls.append(threading.current_thread())
        release.wait()

    flusher = Flusher([flush])
    assert [flusher.flush(0.01) for _ in range(5)] == [False] * 5
    wait_for(lambda: bool(calls), "the thread of the first one")
    assert len(calls) == 1
    release.set()
    calls[0].join(PATIENCE_SECONDS)
    assert flusher.flush(PATIENCE_SECONDS)
    assert len(calls) == 2


def test_flush_that_waited_for_an_older_one_does_not_claim_to_have_flushed_all() -> None:
    release, entered = Event(), Event()

    def flush() -> None:
        entered.set()
        release.wait()

    flusher = Flusher([flush])
    assert not flusher.flush(0.01)
    assert entered.wait(PATIENCE_SECONDS)
    waiting = Attempt(lambda: flusher.flush(PATIENCE_SECONDS), name="test")
    release.set()
    assert isinstance(waiting.wait(PATIENCE_SECONDS), bool)  # what it says depends on who was first; it comes back either way


def test_lock_that_a_fork_left_behind_is_waited_for_no_longer_than_told() -> None:
    flusher = Flusher([lambda: True])
    flusher._lock.acquire()  # noqa: SLF001 - as the child of a fork finds it
    assert not flusher.flush(0.01)
