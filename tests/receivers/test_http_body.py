from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from aiohttp import web

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.receivers.http.body import BodyReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class BrokenContent:
    """A body that aiohttp finds to be framed wrongly behind its first bytes."""

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield b"abc"
        raise web.RequestPayloadError


class BrokenRequest:
    content_length = None
    headers: dict[str, str] = {}  # noqa: RUF012 - read only
    content = BrokenContent()


async def test_a_body_framed_wrongly_is_a_decode_error_and_is_no_longer_accounted_for() -> None:
    reader = BodyReader(max_body_bytes=100, max_pending_bytes=5, body_seconds=20)
    for _ in range(3):  # the third would not fit beside two that are still held
        with pytest.raises(DecodeError, match="not framed as its headers say"):
            await reader.read(cast("web.BaseRequest", BrokenRequest()), packed=False)
