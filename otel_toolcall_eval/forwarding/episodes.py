"""What the operator is told of passing on, once for each episode; never what was sent, what was answered, or any header."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otel_toolcall_eval.wire.replies import Signal

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is said of each thing that can go wrong, with what to turn."""

    rejected: str
    refused: str
    failing: str
    works: str
    expired: str
    full: str
    left: str


FORWARDING: Final = Words(
    rejected="the downstream rejected part of a request",
    refused="the downstream refuses requests for good, so they are dropped; check forward.endpoint, its credentials, and its log",
    failing="the downstream can't be reached, or takes nothing; requests wait and are tried again; see forward.endpoint and .protocol",
    works="the downstream takes requests again",
    expired="requests are dropped that were tried for forward.max_elapsed",
    full="the queue of requests to pass on is full; senders are asked to wait",
    left="requests that senders had been answered for could not be passed on before the end; "
    "check that the downstream can be reached, or raise completion.shutdown_timeout",
)
EXPORTING: Final = Words(
    rejected="the OTLP endpoint rejected part of our events",
    refused="the OTLP endpoint refuses our events for good, so they are dropped; check its address, its credentials, and its log",
    failing="the OTLP endpoint can't be reached, or takes nothing; events wait and are tried again; see export.otlp, OTEL_EXPORTER_OTLP_*",
    works="the OTLP endpoint takes events again",
    expired="events are dropped that the OTLP endpoint did not take for minutes",
    full="too many events wait for the OTLP endpoint; the newest are dropped until it keeps up",
    left="events could not be exported before the end; check the OTLP endpoint, or raise completion.shutdown_timeout",
)

_TELLING_FAILURES: Final = 2  # one alone is a connection that was closed while idle, or a downstream that restarts in no time


class Episodes:
    """Remembers what was told. Any thread."""

    def __init__(self, shown: str, *, protocol: str, words: Words = FORWARDING) -> None:
        """Start with nothing told; ``shown`` is the downstream's address, without credentials."""
        self._words = words
        self._fields = {"endpoint": shown, "protocol": protocol}
        self._lock = threading.Lock()
        # Guarded by _lock:
        self._told: set[str] = set()
        self._rejected: Counter[str] = Counter()

    @property
    def rejected(self) -> Counter[str]:
        """Return how many spans, records and data points were rejected in requests that were taken, by signal."""
        with self._lock:
            return Counter(self._rejected)

    def delivered(self, signal: Signal, *, rejected: int) -> None:
        """Note a request that was taken, but for what was rejected of it."""
        name = signal.name.lower()
        self._works()
        self._over(f"refused {name}")
        if not rejected:
            self._over(f"rejected {name}")
            return
        with self._lock:
            self._rejected[name] += rejected
        if self._begins(f"rejected {name}"):
            _logger.warning(self._words.rejected, extra={**self._fields, "signal": name, "rejected": rejected})

    def refused(self, signal: Signal, code: str) -> None:
        """Note a request that the downstream will never take."""
        name = signal.name.lower()
        self._works()
        if self._begins(f"refused {name}"):
            _logger.error(self._words.refused, extra={**self._fields, "signal": name, "status": code})

    def failing(self, code: str, *, in_a_row: int) -> None:
        """Note a request that has to be sent again."""
        if in_a_row >= _TELLING_FAILURES and self._begins("failing"):
            _logger.warning(self._words.failing, extra={**self._fields, "status": code})

    def expired(self) -> None:
        """Note a request that was given up."""
        if self._begins("expired"):
            _logger.error(self._words.expired, extra=self._fields)

    def full(self, *, is_full: bool) -> None:
        """Note whether the queue is full."""
        if not is_full:
            self._over("full")
        elif self._begins("full"):
            _logger.warning(self._words.full, extra=self._fields)

    def left(self, requests: int) -> None:
        """Tell what could not be sent before the end."""
        if requests:
            _logger.error(self._words.left, extra={**self._fields, "requests": requests})

    def _works(self) -> None:
        if self._over("failing"):
            _logger.info(self._words.works, extra=self._fields)
        self._over("expired")

    def _begins(self, episode: str) -> bool:
        with self._lock:
            if episode in self._told:
                return False
            self._told.add(episode)
            return True

    def _over(self, episode: str) -> bool:
        with self._lock:
            if episode not in self._told:
                return False
            self._told.discard(episode)
            return True
