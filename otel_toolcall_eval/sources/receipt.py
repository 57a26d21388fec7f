"""Waits until what a sender sent is written down, before the sender is answered. Only where a journal asks for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from otel_toolcall_eval.errors import OverloadedError

if TYPE_CHECKING:
    from concurrent.futures import Future

RECEIPT_SECONDS = 8.0
"""Senders give up after 10 s. One that is told before that sends again, and what was taken in after all is known by its span IDs."""


def wait_for(done: Future[None], transport: str) -> None:
    """Wait on this thread; raises OverloadedError if it was refused, or is not done in time."""
    try:
        done.result(RECEIPT_SECONDS)
    except TimeoutError:
        done.cancel()  # the sender sends again; what waits for this, passing it on above all, waits for that one
        raise _late(transport) from None


async def waiting_for(done: Future[None] | None, transport: str) -> None:
    """Wait while the loop goes on; raises OverloadedError if it was refused, or is not done in time."""
    if done is None:
        return
    try:
        async with asyncio.timeout(RECEIPT_SECONDS):
            await asyncio.wrap_future(done)
    except TimeoutError:
        raise _late(transport) from None


def _late(transport: str) -> OverloadedError:
    return OverloadedError(where=transport, what="the journal takes too long to write", fix="send the request again after a moment")
