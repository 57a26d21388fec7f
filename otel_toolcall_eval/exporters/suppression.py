"""Keeps instrumentation quiet while we send, or instrumented clients would make spans of our sending, and we would send those."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def suppressed_instrumentation() -> Iterator[None]:
    """Keep instrumentation quiet inside, on this thread and in what it starts in its own context."""
    token = otel_context.attach(otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, value=True))
    try:
        yield
    finally:
        otel_context.detach(token)
