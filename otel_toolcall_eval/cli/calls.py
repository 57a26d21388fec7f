"""``calls``: shows the tool calls that are found in recorded traces; with ``--explain``, also why each remaining span is not one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.output import console, counted, print_json, remark, text
from otel_toolcall_eval.cli.recorded import load, read_spans
from otel_toolcall_eval.extraction.explaining import explain
from otel_toolcall_eval.model.errors import Problem
from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.settings.dialect_file import build_extractor

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from otel_toolcall_eval.extraction.explaining import SpanExplanation
    from otel_toolcall_eval.model.tool_call import Extraction, IgnoredSpan, Payload, ToolCall


CLIP = 60


def run(arguments: argparse.Namespace) -> int:
    """Read and show; 2 if a part of the input could not be used."""
    extractor = build_extractor(load(arguments.settings, []).dialects)
    traces, problems = read_spans(arguments.traces, extractor)
    extractions = {trace_id: extractor.extract(spans) for trace_id, spans in traces.items()}
    explained = (
        {trace_id: explain(extractor, traces[trace_id], found) for trace_id, found in extractions.items()} if arguments.explain else {}
    )
    if not extractions and not problems:
        problems.append(Problem(where="traces", what="there is no span", fix="record the agent's spans as OTLP and name that file"))
    if arguments.format == "json":
        print_json({"traces": [_trace(trace_id, found, explained.get(trace_id)) for trace_id, found in extractions.items()]})
    else:
        for trace_id, found in extractions.items():
            _print(trace_id, found, explained.get(trace_id))
    remark(problems, "error")
    return 2 if problems else 0


def _trace(trace_id: bytes, found: Extraction, explained: Sequence[SpanExplanation] | None) -> dict[str, object]:
    return {
        "trace_id": trace_id,
        "tool_calls": [_call(sequence, call) for sequence, call in enumerate(found.calls)],
        "ignored": [_ignored(span) for span in found.ignored],
        "hints": found.hints,
        **({} if explained is None else {"explain": [explained_json(span) for span in explained]}),
    }


def _call(sequence: int, call: ToolCall) -> dict[str, object]:
    """Return a call as JSON. Raw text is added only where the value alone would not do."""
    return {
        "name": call.name,
        "aliases": call.aliases,
        "kind": call.kind.value,
        "phase": call.phase.value,
        "call_id": call.call_id,
        **_payload("arguments", call.arguments),
        **_payload("output", call.output),
        "status": call.status.value,
        "status_from": call.status_from,
        "error_type": call.error_type,
        "error_message": call.error_message,
        "start_ns": call.start_unix_ns,
        "end_ns": call.end_unix_ns,
        "duration_known": call.duration_known,
        "agent": call.agent,
        "agent_path": call.agent_path,
        "sequence": sequence,
        "parallel_group": call.parallel_group,
        "attempts": call.attempts,
        "failed_attempts": call.failed_attempts,
        "from_cache": call.from_cache,
        "nested_in": call.nested_in,
        "trace_id": call.trace_id,
        "span_id": call.span_id,
        "parent_span_id": call.parent_span_id,
        "merged_span_ids": call.merged_span_ids,
        "dialects": call.dialects,
        "evidence": call.evidence.value,
        "conversation_id": call.conversation_id,
        "positional": call.positional,
        "args_names_from": call.args_names_from,
        "event_ns": call.event_unix_ns,
        "duration_ms": None if call.event_duration_ns is None else call.event_duration_ns / 1_000_000,
    }


def _payload(name: str, payload: Payload) -> Mapping[str, object]:
    content = payload.content
    shown: dict[str, object] = {name: content.value, f"{name}_state": content.state.value}
    if content.text is not None and (content.state is not ContentState.FULL or name == "output"):
        shown[f"{name}_raw"] = content.text
    if content.partial is not None:
        shown[f"{name}_partial"] = content.partial
    return shown


def _ignored(span: IgnoredSpan) -> dict[str, object]:
    return {"span_id": span.span_id, "name": span.name, "reason": span.reason, "dialect": span.dialect}


def _print(trace_id: bytes, found: Extraction, explained: Sequence[SpanExplanation] | None) -> None:
    from rich.table import Table  # noqa: PLC0415 - an extra

    out = console()
    out.print(f"[bold]trace {trace_id.hex()}[/]: {counted(len(found.calls), 'tool call')}, {counted(len(found.ignored), 'other span')}")
    if found.calls:
        table = Table(header_style="bold")
        for title in ("#", "tool", "arguments", "output", "status", "agent", "read by"):
            table.add_column(title, overflow="fold")
        for sequence, call in enumerate(found.calls):
            phase = "" if call.phase.value == "executed" else f" ({call.phase.value})"
            table.add_row(
                str(sequence),
                text(call.name + phase),
                text(_short(call.arguments)),
                text(_short(call.output)),
                call.status.value,
                text(call.agent or ""),
                ", ".join(call.dialects),
            )
        out.print(table)
    if explained is None:
        _print_ignored(found.ignored)
    else:
        out.print(explained_table(explained))
    for hint in found.hints:
        out.print(f"[cyan]hint[/] {text(hint)}", soft_wrap=True)


def _print_ignored(ignored: Sequence[IgnoredSpan]) -> None:
    out = console()
    for span in ignored:
        out.print(f"  not a call: {text(span.name)} ({span.span_id.hex()}): {text(span.reason)}", soft_wrap=True)


def _short(payload: Payload) -> str:
    content = payload.content
    if content.state is not ContentState.FULL:
        return f"<{content.state.value}>"
    if content.nothing:
        return ""
    text = content.value if isinstance(content.value, str) else repr(content.value)
    return text if len(text) <= CLIP else text[: CLIP - 3] + "..."


def explained_json(span: SpanExplanation) -> dict[str, object]:
    """Return an explanation for programs; ``calls`` are values of ``sequence`` of the same trace."""
    return {
        "span_id": span.span_id,
        "name": span.name,
        "outcome": span.outcome.value,
        "reason": span.reason,
        "dialects": span.dialects,
        "read_by": span.read_by,
        "calls": span.calls,
        "fields": {source.field: {"place": source.place, "span_id": source.span_id, "dialect": source.dialect} for source in span.fields},
    }


def explained_table(spans: Sequence[SpanExplanation]) -> Table:
    """Return a table for people, one row for each span."""
    from rich.table import Table  # noqa: PLC0415 - an extra

    table = Table(header_style="bold", show_lines=True)
    for title in ("span", "dialects", "outcome", "calls", "why, and where its fields were found"):
        table.add_column(title, overflow="fold")
    for span in spans:
        lines = [span.reason]
        for source in span.fields:
            elsewhere = "" if source.span_id == span.span_id else f" of span {source.span_id.hex()}"
            lines.append(f"{source.field}: {source.place}{elsewhere}" + (f" ({source.dialect})" if source.dialect else ""))
        table.add_row(
            f"{text(span.name)}\n{span.span_id.hex()}",
            text(", ".join(name if name in span.read_by else f"({name})" for name in span.dialects)),
            span.outcome.value,
            ", ".join(str(position) for position in span.calls),
            "\n".join(text(line) for line in lines),
        )
    return table
