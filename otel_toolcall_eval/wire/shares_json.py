"""Shares a request in JSON out, as ``shares`` does one in protobuf: parsed, not decoded, and written anew for each part that gets some.

What is not of the form that OTLP has goes to the first part as it came: its decoder says what is wrong, and where.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.wire.json_blocks import in_field, scope_of
from otel_toolcall_eval.wire.json_fields import WrongTypeError, as_object, id_of, list_of
from otel_toolcall_eval.wire.limits import DEFAULT_LIMITS, MemberBudget, check_json
from otel_toolcall_eval.wire.otlp_json import parse_json
from otel_toolcall_eval.wire.otlp_logs_json import AskedRecords
from otel_toolcall_eval.wire.replies import Signal
from otel_toolcall_eval.wire.shares import Growth, Share, is_trace_id, part_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.trace import Projection
    from otel_toolcall_eval.wire.json_fields import JsonObject
    from otel_toolcall_eval.wire.limits import Limits

_KEYS: Final[Mapping[Signal, tuple[str, str, str]]] = {
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
}
_EMPTY_BLOCK: Final = b"{},"
_END: Final = b"]},"


def share_json(body: bytes, parts: int, signal: Signal, asked: Projection, *, limits: Limits = DEFAULT_LIMITS) -> Mapping[int, Share]:
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
        sharing = _Sharing(parts, signal, AskedRecords(asked, MemberBudget(limits)), as_object(document))
    except WrongTypeError:
        return {0: Share(body=body, items=0)}
    if len(sharing.items) <= 1:
        return {part: Share(body=body, items=items) for part, items in sharing.items.items()} or {0: Share(body=body, items=0)}
    return sharing.written(Growth(len(body)), in_ascii=b"\\ud" in body or b"\\uD" in body)  # half a pair can be written so alone


class _Sharing:
    """Which part gets what of one request.

    Attributes:
        items: how many each part gets that gets any.
    """

    def __init__(self, parts: int, signal: Signal, asked: AskedRecords, request: JsonObject) -> None:
        """Look at each item; raises WrongTypeError if something is not of OTLP's form."""
        self._parts = parts
        self._is_logs = signal is Signal.LOGS
        self._asked = asked
        self._request = request
        self._blocks, self._groups, self._items = _KEYS[signal]
        self.items: dict[int, int] = {}
        self._found: list[tuple[JsonObject, list[tuple[JsonObject, dict[int, list[object]]]]]] = []
        for block in map(as_object, list_of(request, self._blocks)):
            self._found.append((block, [(group, self._shared(group)) for group in map(as_object, list_of(block, self._groups))]))

    def written(self, growth: Growth, *, in_ascii: bool) -> Mapping[int, Share]:
        """Return the shares. Blocks without any for a part stay as empty ones, as in ``shares``; what is around items is written once."""
        encoder = json.JSONEncoder(ensure_ascii=in_ascii, separators=(",", ":"))
        head = _opened(encoder, self._request, self._blocks)
        pieces: dict[int, list[bytes]] = {part: [head] for part in self.items}
        places = dict.fromkeys(self.items, 0)
        for place, (block, groups) in enumerate(self._found):
            of_part: dict[int, list[bytes]] = {}
            for group, shared in groups:
                before = _opened(encoder, group, self._items) if shared else b""
                for part, items in shared.items():
                    text = encoder.encode(items)[1:].encode()  # with the end of the list
                    growth.add(len(before) + len(text) + 2)
                    of_part.setdefault(part, []).extend((b",", before, text, b"}"))
            before = _opened(encoder, block, self._groups) if of_part else b""
            for part, found in of_part.items():
                skipped = place - places[part]
                growth.add(skipped * len(_EMPTY_BLOCK) + len(before) + len(_END))
                pieces[part] += (_EMPTY_BLOCK * skipped, before, *found[1:], _END)
                places[part] = place + 1
        return {part: Share(body=b"".join(pieces[part])[:-1] + b"]}", items=number) for part, number in self.items.items()}

    def _shared(self, group: JsonObject) -> dict[int, list[object]]:
        of_part: dict[int, list[object]] = {}
        for item in list_of(group, self._items):
            for part in self._parts_of(as_object(item), group):
                of_part.setdefault(part, []).append(item)
                self.items[part] = self.items.get(part, 0) + 1
        return of_part

    def _parts_of(self, item: JsonObject, group: JsonObject) -> Sequence[int]:
        if not self._is_logs:
            return (part_of(id_of(item, "traceId"), self._parts),)
        try:
            trace_id = id_of(item, "traceId")
        except WrongTypeError:
            if self._is_asked(item, group):
                raise
            return (0,)
        if is_trace_id(trace_id):
            return (part_of(trace_id, self._parts),)
        return range(self._parts) if self._is_asked(item, group) else (0,)

    def _is_asked(self, item: JsonObject, group: JsonObject) -> bool:
        return self._asked.name_of(item, in_field(group, "scope", scope_of))[0] is not None


def _opened(encoder: json.JSONEncoder, fields: JsonObject, without: str) -> bytes:
    """Return an object up to the begin of the list that is its field ``without``."""
    text = encoder.encode({name: value for name, value in fields.items() if name != without})[:-1]
    return f'{text}{"," if len(text) > 1 else ""}"{without}":['.encode()
