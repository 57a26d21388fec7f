"""Turns a verdict into the attributes of its event, wherever the event goes: a log record, a span of ours, or the evaluated root itself.

Nothing that a user recorded goes into them unless ``ExplainValues`` asks for it, no secret does at all, and every text is bounded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.model.payload.redaction import Redactor
from otel_toolcall_eval.model.score import Label

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport, Verdict
    from otel_toolcall_eval.settings.service import Settings

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]
EventAttributes: TypeAlias = Mapping[str, AttributeValue]

MAX_NAME_CHARS: Final = 255
"""Length of a name (of an agent, a tool, criteria) in telemetry; many backends cut or refuse longer ones."""

TRUNCATED_BYTES: Final = 1024
FULL_BYTES: Final = 16 * 1024
_CUT: Final = "..."

_LATEST_UNIX_NS: Final = 2**63 - 1  # OTLP holds 64 bits without sign; most backends read them with one
_MOST_EVENTS: Final = names.MAX_SPAN_EVENTS

# What has to be seen first when only some verdicts fit on a span.
_BY_URGENCY: Final = (Label.FAIL, Label.INCONCLUSIVE, Label.PASS)


class ExplainValues(StrEnum):
    """Whether explanations may show recorded arguments and outputs. Setting ``explain.values``."""

    OFF = "off"  # names, paths and reasons only, at most 1 KiB
    TRUNCATE = "truncate"  # the whole justification as JSON, cut at 1 KiB
    FULL = "full"  # the same, cut at 16 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationPolicy:
    """What explanations show.

    Attributes:
        values: of recorded arguments and outputs.
        redactor: what takes secrets out of all that is shown.
    """

    values: ExplainValues = ExplainValues.OFF
    redactor: Redactor = field(default_factory=Redactor)


EXPLAIN: Final = ExplanationPolicy()
"""Names, paths and reasons only."""


def explain_of(settings: Settings) -> ExplanationPolicy:
    """Return what explanations show."""
    redact = settings.redact
    redactor = Redactor(keys=redact.keys, patterns=redact.patterns, defaults=redact.defaults)
    return ExplanationPolicy(values=ExplainValues(settings.show_values.value), redactor=redactor)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEventText:
    """An event for a span, without its time."""

    name: str
    attributes: EventAttributes


def clean_name(text: str) -> str:
    """Return a name that any backend can take: at most MAX_NAME_CHARS long, and no lone surrogates.

    A lone surrogate (JSON can spell one) can't be encoded, and one of them would cost the whole batch that it is exported with.
    """
    if len(text) <= MAX_NAME_CHARS and text.isascii():  # as most are
        return text
    return _encodable(text[:MAX_NAME_CHARS])


def explanation(verdict: Verdict, *, explain: ExplanationPolicy = EXPLAIN) -> str:
    """Say why a verdict is what it is. All that is said of a verdict's reasons, wherever it goes, is made here.

    Returns:
        With OFF one line that names tools, paths and reasons, without arguments and outputs. With CLIP and FULL the justification as
        JSON, which is whole only up to its bound: then it ends in ``...``. Secrets are taken out before anything is cut, so that none
        escapes by being cut. Never raises: justifications are rendered here for the first time, and a fault in one must not cost the
        others their events.
    """
    if verdict.failure is not None:  # its message may hold users' data
        return _truncated(
            f"the evaluator failed with {verdict.failure.error_type}; this is a fault of {names.SERVICE_NAME}", TRUNCATED_BYTES
        )
    if verdict.score is None:
        return ""
    shows_values = explain.values is not ExplainValues.OFF
    limit = FULL_BYTES if explain.values is ExplainValues.FULL else TRUNCATED_BYTES
    justification = verdict.score.justification
    try:
        if shows_values:
            text = _bounded_json(justification.details(), limit, explain.redactor)
        else:
            text = explain.redactor.in_text(justification.explain())
    except Exception as error:  # noqa: BLE001 - see "Never raises"; the message may hold users' data, so only the type is told
        return f"the explanation failed with {type(error).__qualname__}; this is a fault of {names.SERVICE_NAME}"
    if not shows_values and verdict.label is Label.INCONCLUSIVE:
        text = f"inconclusive ({', '.join(verdict.doubts)}): {text}"
    return _truncated(text, limit)


def event_attributes(report: TraceReport, verdict: Verdict, *, explain: ExplanationPolicy = EXPLAIN) -> EventAttributes:
    """Return the attributes of a verdict's ``gen_ai.evaluation.result`` event.

    The score is left out where none may be given: the verdict is inconclusive, or the evaluator failed.
    Source: semantic-conventions-genai, event ``gen_ai.evaluation.result``.
    """
    attributes: dict[str, AttributeValue] = {
        names.EVALUATION_NAME.name: clean_name(verdict.evaluator),
        names.SCORE_LABEL.name: verdict.label.value,
        names.EVALUATION_ID.name: verdict.evaluation_id,
        names.CRITERIA.name: clean_name(verdict.criteria),
        names.REVISION.name: report.revision,
        names.TRIGGER.name: report.trigger.value,
        names.COMPLETENESS.name: verdict.completeness.value,
    }
    if verdict.emitted_score is not None:
        attributes[names.SCORE_VALUE.name] = float(verdict.emitted_score)
    if verdict.doubts:
        attributes[names.COMPLETENESS_REASONS.name] = tuple(doubt.value for doubt in verdict.doubts)
    if verdict.failure is not None:
        attributes[names.ERROR_TYPE.name] = clean_name(verdict.failure.error_type)
    if text := explanation(verdict, explain=explain):
        attributes[names.EXPLANATION.name] = text
    if report.conversation_id is not None:
        attributes[names.CONVERSATION_ID.name] = clean_name(report.conversation_id)
    return attributes


def time_of(report: TraceReport) -> int:
    """Return when the evaluated span ended, which is when its events happen."""
    ended = 0 if report.evaluated_span is None else report.evaluated_span.end_unix_ns
    return ended if 0 <= ended <= _LATEST_UNIX_NS else min(max(ended, 0), _LATEST_UNIX_NS)


def span_events(verdicts: Sequence[Verdict], attributes: Sequence[EventAttributes]) -> Sequence[SpanEventText]:
    """Return the events that go on one span; see ``shown_on_span``. ``attributes`` are those of the verdicts' events, in the same order."""
    shown, omitted = shown_on_span(verdicts)
    events = [SpanEventText(name=names.RESULT_EVENT, attributes=attributes[position]) for position in shown]
    if omitted is not None:
        events.append(SpanEventText(name=names.SUMMARY_EVENT, attributes=omitted))
    return events


def shown_on_span(verdicts: Sequence[Verdict], *, room: int | None = None) -> tuple[Sequence[int], EventAttributes | None]:
    """Choose the verdicts whose events go on one span: at most MAX_SPAN_EVENTS, and a summary of the rest if there is one.

    Args:
        verdicts: of one report.
        room: how many events the span can take, the summary included; None for any number.

    Returns:
        Their positions, failures first, then inconclusive verdicts, then passes, so that the summary swallows what matters least;
        within these, in the given order. And the attributes of the summary's event, None if nothing is left out.
    """
    labels = [verdict.label for verdict in verdicts]
    if room is None and len(labels) <= _MOST_EVENTS and all(label is labels[0] for label in labels):  # as of most
        return range(len(labels)), None
    ranked = [position for label in _BY_URGENCY for position, found in enumerate(labels) if found is label]
    if room is not None and room <= 0:
        return (), None
    most = _MOST_EVENTS
    if room is not None and room < min(len(ranked), most + 1):  # the summary takes a place, too
        most = room - 1
    omitted = [labels[position] for position in ranked[most:]]
    return ranked[:most], _omitted(omitted) if omitted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictTally:
    """How many verdicts of a report have each label.

    Attributes:
        min_score: of those that have one; None if none has.
    """

    failed: int
    inconclusive: int
    passed: int
    min_score: float | None


def tally(verdicts: Sequence[Verdict]) -> VerdictTally:
    """Count verdicts by their labels."""
    failed = inconclusive = passed = 0
    least: float | None = None
    for verdict in verdicts:
        if verdict.label is Label.PASS:
            passed += 1
        elif verdict.label is Label.FAIL:
            failed += 1
        else:
            inconclusive += 1
        score = verdict.emitted_score
        if score is not None and (least is None or score < least):
            least = score
    return VerdictTally(failed=failed, inconclusive=inconclusive, passed=passed, min_score=None if least is None else float(least))


def span_attributes(report: TraceReport) -> EventAttributes:
    """Return what the verdicts of a report have in common, and their labels, for the span that carries their events.

    ``span_key`` names what they are made of.
    """
    labels = tally(report.verdicts)
    attributes: dict[str, AttributeValue] = {
        names.VERDICTS_FAIL.name: labels.failed,
        names.VERDICTS_INCONCLUSIVE.name: labels.inconclusive,
        names.VERDICTS_PASS.name: labels.passed,
        names.REVISION.name: report.revision,
        names.TRIGGER.name: report.trigger.value,
        names.COMPLETENESS.name: report.completeness.value,
    }
    if labels.min_score is not None:
        attributes[names.MIN_SCORE.name] = labels.min_score
    if report.doubts:
        attributes[names.COMPLETENESS_REASONS.name] = tuple(doubt.value for doubt in report.doubts)
    if report.agent is not None:
        attributes[names.AGENT_NAME.name] = clean_name(report.agent)
    if report.conversation_id is not None:
        attributes[names.CONVERSATION_ID.name] = clean_name(report.conversation_id)
    return attributes


def span_key(report: TraceReport) -> tuple[object, ...]:
    """Return all that the attributes of a report's span are made of, its conversation aside: where it is equal, they are."""
    labels = tally(report.verdicts)
    agent = None if report.agent is None else clean_name(report.agent)
    about = labels.failed, labels.inconclusive, labels.passed, labels.min_score, agent
    return *about, report.revision, report.trigger, report.completeness, report.doubts


def _omitted(labels: Sequence[Label]) -> EventAttributes:
    counts = Counter(labels)
    return {
        names.OMITTED.name: len(labels),
        names.OMITTED_FAIL.name: counts[Label.FAIL],
        names.OMITTED_INCONCLUSIVE.name: counts[Label.INCONCLUSIVE],
        names.OMITTED_PASS.name: counts[Label.PASS],
    }


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _truncated(text: str, limit: int) -> str:
    """Cut text to ``limit`` bytes of UTF-8, at a character, with a sign that it was cut."""
    if len(text) <= limit and text.isascii():  # as most are
        return text
    raw = text[: limit + 1].encode(errors="replace")  # a character is a byte at least, so more can't fit
    if len(raw) <= limit:
        return raw.decode()
    return raw[: limit - len(_CUT)].decode(errors="ignore") + _CUT


def _bounded_json(details: Mapping[str, object], limit: int, redactor: Redactor) -> str:
    """Render details as JSON, and stop once ``limit`` characters are there: a trace may hold megabytes of arguments."""
    pieces: list[str] = []
    size = 0
    for piece in _json_pieces(details, redactor):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            break
    return "".join(pieces)


def _json_pieces(value: object, redactor: Redactor) -> Iterator[str]:
    """Yield JSON bit by bit; its texts are values as evaluators render them, its keys names of tools and ours."""
    if isinstance(value, str):
        yield json.dumps(redactor.in_value(value), ensure_ascii=False)
    elif value is None or isinstance(value, bool | int | float):
        yield json.dumps(value)
    elif isinstance(value, Mapping):
        yield "{"
        for position, (key, member) in enumerate(value.items()):
            yield f"{', ' if position else ''}{json.dumps(redactor.in_text(str(key)), ensure_ascii=False)}: "
            yield from _json_pieces(member, redactor)
        yield "}"
    elif isinstance(value, Iterable):
        yield "["
        for position, member in enumerate(value):
            yield ", " if position else ""
            yield from _json_pieces(member, redactor)
        yield "]"
    else:
        yield json.dumps(redactor.in_value(str(value)), ensure_ascii=False)
