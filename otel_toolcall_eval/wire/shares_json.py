"""Shares a request in JSON out, as ``shares`` does one in protobuf: parsed, not decoded, and written anew for each part that gets some.

What is not of the form that OTLP has goes to the first part as it came: its decoder says what is wrong, and where.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.wire.json_fields import WrongTypeError, as_object, id_of, list_of
from otel_toolcall_eval.wire.limits import DEFAULT_LIMITS, check_json
from otel_toolcall_eval.wire.otlp_json import parse_json
from otel_toolcall_eval.wire.replies import Signal
from otel_toolcall_eval.wire.shares import Share, check_growth, is_trace_id, part_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.wire.json_fields import JsonObject
    from otel_toolcall_eval.wire.limits import Limits

_KEYS: Final[Mapping[Signal, tuple[str, str, str]]] = {
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
}


def share_json(body: bytes, parts: int, signal: Signal, *, limits: Limits = DEFAULT_LIMITS) -> Mapping[int, Share]:
    """Share a request of traces or of logs out.

    Returns:
        The shares by part, as ``share_spans`` and ``share_logs`` do; in what is written again, what each member says is the same.

    Raises:
        DecodeError: it is not JSON.
        TooLargeError: it holds more than the limits, or its resources are so large that copies of them would be too much.
    """
    check_json(body, limits)
    document = parse_json(body)
    try:
        shares = _Sharing(parts, signal).request(as_object(document))
    except WrongTypeError:
        return {0: Share(body=body, items=0)}
    if len(shares) <= 1:
        return {part: Share(body=body, items=items) for part, (_, items) in shares.items()} or {0: Share(body=body, items=0)}
    written = {part: Share(body=json.dumps(request).encode(), items=items) for part, (request, items) in shares.items()}
    check_growth(sum([len(share.body) for share in written.values()]), len(body))
    return written


class _Sharing:
    """Shares one request out."""

    def __init__(self, parts: int, signal: Signal) -> None:
        self._parts = parts
        self._signal = signal
        self._blocks, self._groups, self._items = _KEYS[signal]

    def request(self, request: JsonObject) -> dict[int, tuple[JsonObject, int]]:
        """Return what each part gets, and how many items. Blocks without any stay as empty ones, as in ``shares``."""
        blocks: dict[int, list[JsonObject]] = {}
        items: dict[int, int] = {}
        for place, block in enumerate(map(as_object, list_of(request, self._blocks))):
            for part, (groups, number) in self._block(block).items():
                ours = blocks.setdefault(part, [])
                ours.extend({} for _ in range(place - len(ours)))
                ours.append({**block, self._groups: groups})
                items[part] = items.get(part, 0) + number
        return {part: ({**request, self._blocks: found}, items[part]) for part, found in blocks.items()}

    def _block(self, block: JsonObject) -> dict[int, tuple[list[JsonObject], int]]:
        found: dict[int, tuple[list[JsonObject], int]] = {}
        for group in map(as_object, list_of(block, self._groups)):
            of_part: dict[int, list[object]] = {}
            for item in list_of(group, self._items):
                for part in self._parts_of(as_object(item)):
                    of_part.setdefault(part, []).append(item)
            for part, items in of_part.items():
                groups, number = found.get(part, ([], 0))
                found[part] = ([*groups, {**group, self._items: items}], number + len(items))
        return found

    def _parts_of(self, item: JsonObject) -> Sequence[int]:
        trace_id = id_of(item, "traceId")
        if self._signal is Signal.LOGS and not is_trace_id(trace_id):
            return range(self._parts)
        return (part_of(trace_id, self._parts),)
