"""Builds tool calls and logs in few words, and contents in every state."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.model.payload.text import UnreadableTextError, read_text
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Json

NO_ARGUMENTS = Content(state=ContentState.FULL, value={}, nothing=True)
NO_OUTPUT = Content(state=ContentState.FULL, nothing=True)
ABSENT = Content(state=ContentState.ABSENT)
REDACTED = Content(state=ContentState.REDACTED, text="[REDACTED]")
UNPARSED = Content(state=ContentState.UNPARSED, text="hello")


def full(value: Json | Mapping[str, Json], text: str | None = None) -> Content:
    return Content(state=ContentState.FULL, value=cast("Json", value), text=text)


def cut(partial: Mapping[str, Json] | None) -> Content:
    return Content(state=ContentState.TRUNCATED, text="{...", partial=partial)


def said(text: str) -> Content:
    """Output text as the guides' convention decodes it: JSON, else a Python literal, else itself."""
    try:
        value = read_text(text)
    except UnreadableTextError:
        value = text
    return full(value, text)


def call(
    name: str,
    arguments: Content | Mapping[str, Json] | None = None,
    output: Content | str | None = None,
    *,
    aliases: tuple[str, ...] = (),
    call_id: str | None = None,
    group: int | None = None,
) -> ToolCall:
    if arguments is None:
        arguments = NO_ARGUMENTS
    if output is None:
        output = NO_OUTPUT
    return ToolCall(
        name=name,
        aliases=aliases,
        call_id=call_id,
        parallel_group=group,
        arguments=Payload.of(arguments if isinstance(arguments, Content) else full(arguments)),
        output=Payload.of(output if isinstance(output, Content) else said(output)),
    )


def log(*calls: ToolCall | str, open_ended: bool = False) -> CallLog:
    return CallLog(calls=tuple(call(entry) if isinstance(entry, str) else entry for entry in calls), open_ended=open_ended)


def names(text: str) -> list[ToolCall]:
    """One call for each letter."""
    return [call(letter) for letter in text]


def grouped(entries: Sequence[tuple[str, int | None]]) -> list[ToolCall]:
    return [call(name, group=group) for name, group in entries]
