"""Tells whether two candidates can be the same call, by name and arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.tool_call import ContentState, Json

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.candidate import Candidate

MAX_EXACT_FLOAT = 2.0**53
"""Up to here every whole float is an exact integer."""

MAX_DECIMAL_BITS = 10_000
"""Longer integers are written in hexadecimal, since decimal digits take time that grows with the square of their number."""

_SEPARATORS = ("__", ".", "/", ":", "-")


def bare_name(name: str) -> str:
    """Return a name without the server's or plugin's prefix: what follows the last separator."""
    for separator in _SEPARATORS:
        _, found, rest = name.rpartition(separator)
        if found and rest:
            name = rest
    return name


def same_tool(one: str, other: str) -> bool:
    """Tell whether two names are equal, or one is the other behind a server's or plugin's prefix."""
    if one == other:
        return True
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(shorter) and longer[: -len(shorter)].endswith((*_SEPARATORS, "_"))


def same_arguments(one: Candidate, other: Candidate) -> bool:
    """Tell whether arguments are equal, or missing on one side; hidden and cut ones count as missing."""
    first, second = fingerprint(one), fingerprint(other)
    return first is None or second is None or first == second


def known_same_arguments(one: Candidate, other: Candidate) -> bool:
    """Tell whether both recorded arguments, and these are equal."""
    first = fingerprint(one)
    return first is not None and first == fingerprint(other)


def fingerprint(call: Candidate) -> str | None:
    """Return a text that is equal for equal arguments; None if there are none to compare.

    Text that is no object does not count: LangChain records the value of an only argument without its name.

    Cost: decodes the arguments once, and is then linear in their size.
    """
    if not call.has_fingerprint:
        call.fingerprint, call.has_fingerprint = _fingerprint(call), True
    return call.fingerprint


def _fingerprint(call: Candidate) -> str | None:
    content = call.arguments.content
    if content.state is not ContentState.FULL or (content.nothing and call.arguments.found is None):
        return None
    return json.dumps(_canonical(content.value), sort_keys=True, ensure_ascii=True)


def _canonical(value: Json) -> Json:
    """Return a value in which equal numbers look equal and all keys are text. Depth is bounded by who decoded it."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT_FLOAT:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > MAX_DECIMAL_BITS:
        return hex(value)
    return value
