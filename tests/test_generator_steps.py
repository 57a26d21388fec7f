"""Steps of a generator are taken inside, whatever is sent, thrown or closed; what the caller does between them is not."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.generator_steps import in_async_steps, in_steps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator


class Inside:
    """Knows whether it is entered."""

    def __init__(self) -> None:
        """Start outside."""
        self.now = False
        self.seen: list[object] = []

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Be inside."""
        self.now = True
        try:
            yield
        finally:
            self.now = False

    def note(self, what: object) -> None:
        """Keep what is seen inside."""
        assert self.now
        self.seen.append(what)

    def generator(self) -> Generator[int, str, str]:
        """Yield two numbers, the second one again if a ValueError is thrown in."""
        try:
            self.note((yield 1))
            try:
                self.note((yield 2))
            except ValueError as error:
                self.note(str(error))
                yield 3
        finally:
            self.note("end")
        return "returned"

    async def async_generator(self) -> AsyncGenerator[int, str]:
        """Do the same."""
        try:
            self.note((yield 1))
            try:
                self.note((yield 2))
            except ValueError as error:
                self.note(str(error))
                yield 3
        finally:
            await asyncio.sleep(0)
            self.note("end")


@pytest.fixture
def inside() -> Inside:
    return Inside()


def test_values_go_in_and_out(inside: Inside) -> None:
    running = in_steps(inside.generator(), inside.enter)
    assert (next(running), inside.now, running.send("a"), inside.now) == (1, False, 2, False)
    with pytest.raises(StopIteration) as stopped:
        running.send("b")
    assert (stopped.value.value, inside.seen) == ("returned", ["a", "b", "end"])


def test_exceptions_go_in_and_out(inside: Inside) -> None:
    running = in_steps(inside.generator(), inside.enter)
    next(running)
    next(running)
    assert running.throw(ValueError("v")) == 3
    with pytest.raises(KeyError):
        running.throw(KeyError("k"))
    assert (inside.seen, inside.now) == ([None, "v", "end"], False)


def test_closed_generator_is_closed_inside(inside: Inside) -> None:
    running = in_steps(inside.generator(), inside.enter)
    next(running)
    running.close()
    assert (inside.seen, inside.now) == (["end"], False)


def test_values_go_in_and_out_of_an_async_generator(inside: Inside) -> None:
    async def scenario() -> None:
        running = in_async_steps(inside.async_generator(), inside.enter)
        assert (await anext(running), inside.now, await running.asend("a"), inside.now) == (1, False, 2, False)
        with pytest.raises(StopAsyncIteration):
            await running.asend("b")

    asyncio.run(scenario())
    assert inside.seen == ["a", "b", "end"]


def test_exceptions_go_in_and_out_of_an_async_generator(inside: Inside) -> None:
    async def scenario() -> None:
        running = in_async_steps(inside.async_generator(), inside.enter)
        await anext(running)
        await anext(running)
        assert await running.athrow(ValueError("v")) == 3
        with pytest.raises(KeyError):
            await running.athrow(KeyError("k"))

    asyncio.run(scenario())
    assert (inside.seen, inside.now) == ([None, "v", "end"], False)


def test_closed_async_generator_is_closed_inside(inside: Inside) -> None:
    async def scenario() -> None:
        running = in_async_steps(inside.async_generator(), inside.enter)
        await anext(running)
        await running.aclose()

    asyncio.run(scenario())
    assert (inside.seen, inside.now) == (["end"], False)
