"""Runs the steps of a generator inside a context manager, and nothing of what its caller does between them.

A ``with`` in the generator's own body would be open while the caller works, and would be left in whatever task closes the generator.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
    from contextlib import AbstractContextManager

Y = TypeVar("Y")
S = TypeVar("S")
R = TypeVar("R")


def in_steps(generator: Generator[Y, S, R], inside: Callable[[], AbstractContextManager[None]]) -> Generator[Y, S, R]:
    """Return a generator that does what the given one does; each step of it is taken inside."""
    step: Callable[[], Y] = partial(next, generator)
    while True:
        with inside():
            try:
                value = step()
            except StopIteration as stop:
                result: R = stop.value
                return result
        try:
            sent = yield value
        except GeneratorExit:
            with inside():
                generator.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the generator's to deal with
            step = partial(generator.throw, error)
        else:
            step = partial(generator.send, sent)


async def in_async_steps(generator: AsyncGenerator[Y, S], inside: Callable[[], AbstractContextManager[None]]) -> AsyncGenerator[Y, S]:
    """Do the same for an asynchronous generator."""
    step: Callable[[], Awaitable[Y]] = generator.__anext__
    while True:
        with inside():
            try:
                value = await step()
            except StopAsyncIteration:
                return
        try:
            sent = yield value
        except GeneratorExit:
            with inside():
                await generator.aclose()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the generator's to deal with
            step = partial(generator.athrow, error)
        else:
            step = partial(generator.asend, sent)
