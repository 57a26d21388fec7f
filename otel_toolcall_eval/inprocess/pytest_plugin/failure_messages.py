"""The words of a failed test: what was expected against what was called, in the order in which it was called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.evaluators.comparison import compared
from otel_toolcall_eval.model.payload.difference import likeness
from otel_toolcall_eval.model.payload.equality import identity
from otel_toolcall_eval.model.payload.rendering import render
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, ContentState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_toolcall_eval.inprocess.pytest_plugin.items import ItemVerdict
    from otel_toolcall_eval.model.tool_call import Content, Json, Payload, ToolCall

SHOWN_CALLS = 30
SHOWN_DIFFERENCES = 6
VALUE_CHARACTERS = 120


def counted(number: int, noun: str) -> str:
    """Return ``1 span`` or ``2 spans``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def call_lines(calls: Sequence[ToolCall]) -> list[str]:
    """Return the calls, one on a line, under a heading; nothing if there is none."""
    if not calls:
        return []
    lines = [f"  {place}. {_call(call)}" for place, call in enumerate(calls[:SHOWN_CALLS], start=1)]
    more = [f"  ... and {len(calls) - SHOWN_CALLS} more"] if len(calls) > SHOWN_CALLS else []
    return [f"{counted(len(calls), 'call')}, in the order made:", *lines, *more]


def _call(call: ToolCall) -> str:
    content = call.arguments.content
    if content.state is ContentState.FULL and isinstance(content.value, Mapping):
        arguments = ", ".join(f"{key}={render(value, limit=VALUE_CHARACTERS)}" for key, value in content.value.items())
    else:
        arguments = "" if content.nothing else f"<{content.state.value}>"
    failed = f" failed: {call.error_message or call.error_type or 'error'}" if call.status is CallStatus.ERROR else ""
    phase = "" if call.phase is CallPhase.EXECUTED else f" ({call.phase.value})"
    return f"{call.name}({arguments}){phase}{_output(call.output)}{failed}"


def _output(output: Payload) -> str:
    content = output.content
    if content.nothing or content.state is ContentState.ABSENT:
        return ""
    return f" -> {render(returned(content), limit=VALUE_CHARACTERS) if content.state is ContentState.FULL else f'<{content.state.value}>'}"


def returned(content: Content) -> Json:
    """Return an output as it is compared: recorded text letter by letter, quotes included."""
    return compared("", content)[1]


def order_lines(expected: Sequence[str], made: Sequence[str]) -> list[str]:
    """Return expected and actual names as one sequence: ``-`` was expected and not called, ``+`` was called and not expected."""
    names: list[str] = []
    for kind, start, end, made_start, made_end in SequenceMatcher(None, list(expected), list(made), autojunk=False).get_opcodes():
        if kind == "equal":
            names += expected[start:end]
        else:
            names += [f"-{name}" for name in expected[start:end]]
            names += [f"+{name}" for name in made[made_start:made_end]]
    more = [f"... and {len(names) - SHOWN_CALLS} more"] if len(names) > SHOWN_CALLS else []
    return [f"- expected, + called: {' '.join((*names[:SHOWN_CALLS], *more))}"]


def difference_lines(
    wanted: Sequence[Json],
    calls: Sequence[ToolCall],
    beside: Callable[[Json, ToolCall], tuple[Json, Json] | None],
    *,
    in_order: bool,
    subset: bool,
) -> list[str]:
    """Return where expected values differ from those of the calls, by path.

    Args:
        wanted: expected values.
        calls: those of the tool.
        beside: returns an expected value and that of a call in the forms to be compared; None if the call's was not recorded.
        in_order: the n-th was expected of the n-th call; else each is held against the call that comes nearest.
        subset: arguments beyond the expected ones are no difference.
    """
    lines: list[str] = []
    for place, one in enumerate(wanted):
        pairs = {number: pair for number, call in enumerate(calls) if (pair := beside(one, call)) is not None}
        against = place if in_order else max(pairs, key=lambda number: likeness(*pairs[number]), default=-1)
        if against not in pairs:
            continue
        found = list(islice(_differing("$", *pairs[against], extra_allowed=subset), SHOWN_DIFFERENCES + 1))
        which = f"call {against + 1}" if in_order or len(calls) == 1 else f"call {against + 1}, the nearest"
        lines += [f"{which}: {difference}" for difference in found[:SHOWN_DIFFERENCES]]
        if len(found) > SHOWN_DIFFERENCES:
            lines.append(f"{which}: ... and more")
    return lines


def _differing(path: str, wanted: Json, found: Json, *, extra_allowed: bool = False) -> Iterator[str]:
    """Yield the differences of two values with their paths and values."""
    if identity(wanted) == identity(found):
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key in wanted:
            if key not in found:
                yield f"{path}.{key} is missing, expected {shown(wanted[key])}"
            else:
                yield from _differing(f"{path}.{key}", wanted[key], found[key])
        if not extra_allowed:
            yield from (f"{path}.{key} is {_value(found[key])}, and not expected" for key in found if key not in wanted)
    elif _are_lists_of_one_length(wanted, found):
        pairs = zip(cast("Sequence[Json]", wanted), cast("Sequence[Json]", found), strict=True)
        for place, (inner_wanted, inner_found) in enumerate(pairs):
            yield from _differing(f"{path}[{place}]", inner_wanted, inner_found)
    else:
        yield f"{path} is {_value(found)}, expected {shown(wanted)}"


def _are_lists_of_one_length(*values: Json) -> bool:
    lists = [value for value in values if isinstance(value, Sequence) and not isinstance(value, str)]
    return len(lists) == len(values) and len({len(one) for one in lists}) == 1


def is_json(value: object) -> bool:
    """Return whether a span can hold such a value."""
    if isinstance(value, Mapping):
        return all(map(is_json, value.values()))
    return all(map(is_json, value)) if isinstance(value, list | tuple) else value is None or isinstance(value, str | int | float)


def shown(expected: object, *, limit: int = VALUE_CHARACTERS) -> str:
    """Return an expected value as it stands in the test; it may hold what is no JSON, such as ``pytest.approx(3)``."""
    if is_json(expected):
        return render(expected, limit=limit)
    text = repr(expected)
    return text if len(text) <= limit else f"{text[:limit]}..."


def _value(value: Json) -> str:
    return render(value, limit=VALUE_CHARACTERS)


def verdict_lines(judged: Sequence[ItemVerdict]) -> list[str]:
    """Return a table of verdicts, the failed ones with their reason."""
    names = list(dict.fromkeys(one.criteria for one in judged))
    width = max(len(one.result.evaluator) for one in judged)
    lines = [f"the tool calls do not meet {', '.join(names)}"]
    for one in judged:
        result = one.result
        score = "-" if result.label is Label.INCONCLUSIVE else f"{result.score:.2f}"
        of = f"{one.criteria} / " if len(names) > 1 else ""
        why = "" if result.label is Label.PASS else f"  {result.explanation}"
        doubts = f" ({', '.join(doubt.value.replace('_', ' ') for doubt in result.doubts)})" if result.label is Label.INCONCLUSIVE else ""
        lines.append(f"  {result.label.value:12}  {score:>4}  {of}{result.evaluator:{width}}{why}{doubts}".rstrip())
    return lines
