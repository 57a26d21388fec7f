"""Frames arrive whole and in order, and who sends never waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.processes.channel import Channel, Frame, Kind, packed, pair
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = bytes(range(256)) * 20_000  # 5 MB: far more than a socket holds


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = (Channel(end) for end in pair())
    yield one, other
    one.close()
    other.close()


def test_a_frame_arrives_as_it_was_sent(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    one.send(Kind.SPANS, 7, b"head", b"body")
    one.send(Kind.START, 0)
    assert other.receive() == Frame(Kind.SPANS, 7, b"headbody")
    assert other.receive() == Frame(Kind.START, 0, b"")


def test_values_travel(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    one.send(Kind.ANSWER, 1, packed({"a": (1, b"2", None)}))
    one.send(Kind.ASK, 1)
    found = [other.receive(), other.receive()]
    assert [frame and frame.value() for frame in found] == [{"a": (1, b"2", None)}, None]


def test_what_the_socket_does_not_take_is_sent_later_in_order_and_nobody_waits(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    for number in range(10):
        one.send(Kind.SPANS, number, LARGE)
        one.send(Kind.LOGS, number, b"small")
    assert not one.flush(0.01)
    found = [other.receive() for _ in range(20)]
    assert one.flush(PATIENCE_SECONDS)
    assert [frame and (frame.kind, frame.number, len(frame.content)) for frame in found] == [
        (kind, number, size) for number in range(10) for kind, size in ((Kind.SPANS, len(LARGE)), (Kind.LOGS, 5))
    ]
    assert all(frame and frame.content in {LARGE, b"small"} for frame in found)
    one.send(Kind.SPANS, 10, LARGE)  # the thread that sends is still there
    assert (last := other.receive()) is not None
    assert last.number == 10


def test_many_threads_may_send(ends: tuple[Channel, Channel]) -> None:
    one, other = ends

    def send(number: int) -> None:
        for _ in range(20):
            one.send(Kind.SPANS, number, bytes([number]) * 50_000)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    found = [other.receive() for _ in range(160)]
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert all(frame and frame.content == bytes([frame.number]) * 50_000 for frame in found)


@pytest.mark.parametrize("closed", [0, 1])
def test_who_waits_for_a_frame_hears_of_the_end_from_either_side(ends: tuple[Channel, Channel], closed: int) -> None:
    heard: list[Frame | None] = []
    waiting = threading.Thread(target=lambda: heard.append(ends[0].receive()))
    waiting.start()
    ends[closed].close()
    waiting.join(PATIENCE_SECONDS)
    assert heard == [None]
    assert ends[0].receive() is None


def test_half_a_frame_is_none(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    one.send(Kind.SPANS, 1, LARGE)  # not all of it fits into the socket
    one.close()
    assert other.receive() is None


@pytest.mark.parametrize("content", [b"small", LARGE])
def test_sending_to_who_is_gone_does_nothing(ends: tuple[Channel, Channel], content: bytes) -> None:
    one, other = ends
    one.send(Kind.SPANS, 0, LARGE)  # its thread is in the midst of it
    other.close()
    assert one.flush(PATIENCE_SECONDS)
    one.send(Kind.SPANS, 1, content)
    assert one.flush(PATIENCE_SECONDS)
    one.close()
    one.close()
    one.send(Kind.SPANS, 2, content)


def test_who_is_gone_is_noticed_by_a_frame_that_would_fit(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    other.close()
    one.send(Kind.SPANS, 1, b"small")
    assert one.flush(PATIENCE_SECONDS)
