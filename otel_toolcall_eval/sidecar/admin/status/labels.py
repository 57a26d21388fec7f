"""The words of the pages: why a trace was evaluated when it was, what was missing, what criteria select; numbers and times for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.criteria import SelectorScope
from otel_toolcall_eval.model.payload.rendering import printable
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.criteria import Criteria, Selector

TRIGGERS: Mapping[str, str] = {
    Trigger.ROOT_SPAN: "Its root span was received, and no other span for a while.",
    Trigger.IDLE_TIMEOUT: "Its root span was missing, and no span was received for a long while.",
    Trigger.TRACE_TIMEOUT: "It had been open for as long as a trace may be.",
    Trigger.SPAN_LIMIT: "It had as many tool spans as are kept of one trace.",
    Trigger.MEMORY: "Memory for open traces was full, and it was the oldest.",
    Trigger.EVICTION: "Too many traces were open, and it was the oldest.",
    Trigger.SHUTDOWN: "The sidecar was shutting down.",
    Trigger.LATE_SPAN: "A span that matters was received after the verdict.",
    Trigger.RECORDED: "It was read from a recording.",
}

DOUBTS: Mapping[str, str] = {
    IncompletenessReason.NO_ROOT: "its root span was never received",
    IncompletenessReason.ORPHAN: "the parent of some span was never received",
    IncompletenessReason.OPEN_SPANS: "some spans had not ended",
    IncompletenessReason.SPAN_LIMIT: "it had more spans than are kept",
    IncompletenessReason.EVICTED: "it was evaluated early to make room",
    IncompletenessReason.OVERLOAD: "some of it was forwarded without evaluation, since evaluation was behind",
    IncompletenessReason.SHUTDOWN: "the sidecar was shutting down",
    IncompletenessReason.JOURNAL: "some of it could not be restored after a restart",
    IncompletenessReason.VALUE_TRUNCATED: "a value that matters was cut off",
    IncompletenessReason.VALUE_REDACTED: "a value that matters was masked",
    IncompletenessReason.CONTENT_NOT_CAPTURED: "arguments or outputs were not recorded",
    IncompletenessReason.NO_TOOL_SPANS: "its producer writes no tool spans",
    IncompletenessReason.CLOCK_SKEW: "clocks that disagree leave the order of calls open",
}

_REACHES: Mapping[SelectorScope, str] = {
    SelectorScope.MATCHED: "traces",
    SelectorScope.EVERY: "every trace",
    SelectorScope.UNNAMED: "every trace that does not name its criteria itself",
    SelectorScope.FALLBACK: "every trace that no other criteria select",
    SelectorScope.NAMED: "only traces that name it",
}
_NANOSECOND_DIGITS: Final = 1_000_000_000


def moment(unix_ns: int) -> str:
    """Return the time of day, with the date, in UTC."""
    return datetime.fromtimestamp(unix_ns / _NANOSECOND_DIGITS, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def machine_moment(unix_ns: int) -> str:
    """Return it as the attribute ``datetime`` wants it."""
    return datetime.fromtimestamp(unix_ns / _NANOSECOND_DIGITS, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float | None) -> str:
    """Return a duration in the unit that suits it, such as ``420 ms`` or ``2 min 5 s``."""
    if seconds is None:
        return "unknown"
    if seconds < 0:
        return f"{duration(-seconds)} ago"
    for below, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (60.0, 1.0, "s")):
        if seconds < below:
            return f"{seconds * factor:.3g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def size(number: int) -> str:
    """Return bytes in the unit that suits them."""
    scaled = float(number)
    for unit in ("B", "KiB", "MiB"):
        if scaled < 1024:  # noqa: PLR2004 - the units' factor
            return f"{scaled:.3g} {unit}" if scaled < 1000 else f"{scaled:.0f} {unit}"  # noqa: PLR2004 - 1e+03 otherwise
        scaled /= 1024
    return f"{scaled:.3g} GiB"


def score(value: float | None) -> str:
    """Return a score as people compare them; never 1.00 for what is less."""
    if value is None:
        return "-"
    return "0.99…" if 0.995 <= value < 1 else f"{value:.2f}"  # noqa: PLR2004 - what would be rounded up


def expectations(criteria: Criteria) -> int:
    """Return how many expectations criteria have."""
    return criteria.expectation_count


def selects(selector: Selector, *, values: bool) -> str:
    """Return in words which traces a selector selects; without ``values``, the keys alone of attributes and inputs."""
    conditions = []
    if selector.services:
        conditions.append(f"service.name is {' or '.join(sorted(selector.services))}")
    if selector.root_span_name is not None:
        conditions.append(f"root span is {selector.root_span_name!r}")
    if selector.agent_name is not None:
        conditions.append(f"agent is {selector.agent_name!r}")
    for title, wanted in (("resource", selector.resource), ("a span", selector.attributes), ("input", selector.inputs)):
        if wanted:
            shown_pairs = (f"{key}={value!r}" for key, value in wanted.items()) if values else (f"a certain {key}" for key in wanted)
            conditions.append(f"{title} has {', '.join(shown_pairs)}")
    return _REACHES[selector.reach] + (f" whose {' and '.join(conditions)}" if conditions else "")


def shown(text: object) -> str:
    """Return recorded text that can't change the direction of its line or break it; the template escapes markup."""
    return printable(str(text))
