"""How ``calls --explain`` shows what was made of each span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.output import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from otel_toolcall_eval.extraction.explaining import SpanExplanation


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
