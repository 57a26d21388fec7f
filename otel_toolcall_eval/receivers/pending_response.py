"""Waits with a sender's answer: until what it sent is written down, where a journal asks for it, and while more came than can be judged."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import OverloadedError

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.work_items import PendingResponse

RECEIPT_SECONDS = 8.0
"""In all, the pause included. Senders give up after 10 s. One that is told before that sends again, and what was taken in after all is
known by its span IDs."""


def wait_for(receipt: PendingResponse, transport: str) -> None:
    """Wait on this thread; raises OverloadedError if it was refused, or is not done in time."""
    time.sleep(receipt.seconds)
    done = receipt.done
    if done is None:
        return
    try:
        done.result(max(0.0, RECEIPT_SECONDS - receipt.seconds))
    except TimeoutError:
        done.cancel()  # the sender sends again; what waits for this, passing it on above all, waits for that one
        raise _late(transport) from None


async def waiting_for(receipt: PendingResponse | None, transport: str) -> None:
    """Wait while the loop goes on; raises OverloadedError if it was refused, or is not done in time."""
    if receipt is None:
        return
    await asyncio.sleep(receipt.seconds)
    if receipt.done is None:
        return
    try:
        async with asyncio.timeout(max(0.0, RECEIPT_SECONDS - receipt.seconds)):
            await asyncio.wrap_future(receipt.done)
    except TimeoutError:
        raise _late(transport) from None


def _late(transport: str) -> OverloadedError:
    return OverloadedError(where=transport, what="taking it in takes too long", fix="send the request again after a moment")
