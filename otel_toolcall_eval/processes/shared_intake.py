"""Takes in the body of an OTLP request for several processes: shares it out, and says what is answered once all have taken their share.

The same request has the same effect and the same answer as with one process (``sources.otlp_intake``), but for this: a request is looked
into by those who get its shares, so of one that is refused, for a span that is no OTLP or for want of room in one process, the shares of
others may be judged. What is sent again is known by its span IDs. Errors in JSON count the spans of a share.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from otel_toolcall_eval.errors import OverloadedError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.processes.channel import Kind, encoding_of
from otel_toolcall_eval.sources.otlp_intake import DECODERS, LOG_DECODERS, shed_records, shed_spans
from otel_toolcall_eval.wire.decoded import FaultTally, SpanFault
from otel_toolcall_eval.wire.otlp_metrics import check_metrics
from otel_toolcall_eval.wire.replies import Encoding, Signal, export_reply
from otel_toolcall_eval.wire.shares import share_logs, share_spans
from otel_toolcall_eval.wire.shares_json import share_json
from otel_toolcall_eval.work_items import Receipt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from otel_toolcall_eval.assembly.shed import Shed
    from otel_toolcall_eval.processes.crew import Crew
    from otel_toolcall_eval.processes.link import Taken
    from otel_toolcall_eval.sources.sink import Forward, Passage
    from otel_toolcall_eval.wire.shares import Share

_KINDS = {Signal.TRACES: Kind.SPANS, Signal.LOGS: Kind.LOGS}
_FAULTS = {fault.reason: fault for fault in SpanFault}


class SharedIntake:
    """Takes in requests. Any thread, several at a time."""

    def __init__(self, crew: Crew, *, forward: Forward | None, asked: Projection) -> None:
        """Say where things go.

        Args:
            crew: judges.
            forward: passes every request on; None for nobody.
            asked: names the log records that dialects ask for.
        """
        self._crew = crew
        self._forward = forward
        self._asked = asked

    def wants(self, signal: Signal) -> bool:
        """Tell whether the body of such a request is looked at."""
        return signal is not Signal.METRICS or self._forward is not None

    def take(self, body: bytes, encoding: Encoding, signal: Signal, *, transport: str) -> tuple[bytes, Receipt | None]:
        """Take in a request; as ``OtlpIntake.take``, with an answer that only the receipt knows.

        Raises:
            IntakeError: it can't be taken in. What is wrong inside a span is raised by waiting for the receipt.
        """
        if not self.wants(signal):
            return export_reply(encoding, signal), None
        if signal is Signal.METRICS:
            check_metrics(body, encoding)
            if self._forward is not None:
                self._forward.reserve(body, encoding, signal).commit(judged=True)
            return export_reply(encoding, signal), None
        shares = self._shared(body, encoding, signal)
        passage = None if self._forward is None else self._forward.reserve(body, encoding, signal)
        try:
            taken, seconds = self._offer(shares, signal, transport, may_shed=passage is not None)
        except BaseException:
            if passage is not None:
                passage.cancel()
            raise
        if passage is not None:
            taken.add_done_callback(partial(_pass_on, passage))
        return b"", Receipt(done=taken, seconds=seconds, reply=partial(_reply, taken, encoding, signal))

    def _shared(self, body: bytes, encoding: Encoding, signal: Signal) -> Mapping[int, Share]:
        parts = len(self._crew.links)
        if encoding is Encoding.JSON:
            return share_json(body, parts, signal, self._asked)
        return share_spans(body, parts) if signal is Signal.TRACES else share_logs(body, parts, self._asked)

    def _offer(
        self, shares: Mapping[int, Share], signal: Signal, transport: str, *, may_shed: bool
    ) -> tuple[Future[Sequence[Taken]], float]:
        try:
            return self._crew.offer(_KINDS[signal], shares, transport=transport, may_shed=may_shed)
        except OverloadedError:
            if not may_shed:
                raise
        # Looked into here only now, where it is to be kept in few bytes.
        return self._crew.shed({part: self._shed(share.body, signal, transport) for part, share in shares.items()}), 0.0

    def _shed(self, body: bytes, signal: Signal, transport: str) -> Shed:
        encoding = encoding_of(transport)
        if signal is Signal.TRACES:
            return shed_spans(DECODERS[encoding](body, Projection()), transport)
        return shed_records(LOG_DECODERS[encoding](body, self._asked), transport)


def _reply(taken: Future[Sequence[Taken]], encoding: Encoding, signal: Signal) -> bytes:
    rejected: Counter[str] = Counter()
    for one in taken.result(0):
        rejected.update(one.rejected)
    if not rejected:
        return export_reply(encoding, signal)
    faults = FaultTally()
    for reason, number in rejected.items():
        faults.add(_FAULTS[reason], number)
    return export_reply(encoding, signal, rejected=faults.total, reasons=str(faults))


def _pass_on(passage: Passage, done: Future[Sequence[Taken]]) -> None:
    if done.cancelled() or done.exception() is not None:
        passage.cancel()
    else:
        passage.commit(judged=all(one.judged for one in done.result()))
