"""What to look for on a span, worked out once for all spans that look alike.

Dialects name many places for each field, and a span has few of them. A plan holds the places that can hold something at all, of all
the dialects that read the span, in the order in which they are asked. What conditions on the span itself say is settled in it, too:
what they compare is part of how a span looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from otel_toolcall_eval.extraction.dialect import Decode, ReadStep, Role, Source, ValueOrigin
from otel_toolcall_eval.extraction.matching import any_holds, holds
from otel_toolcall_eval.model.tool_call import CallPhase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from otel_toolcall_eval.extraction.dialect import Dialect, Match
    from otel_toolcall_eval.model.tool_call import CallKind
    from otel_toolcall_eval.model.trace import Span

_Fact = TypeVar("_Fact")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """A source of one dialect.

    Attributes:
        placeholders: texts that stand for "none" there.
        attribute: the attribute of the span itself that is the text as it stands; None if there is more to be done.
        direct: the attribute of the span itself that is the content, whatever has to be decoded in it; None if more has to be looked at,
            such as conditions, names of positional arguments, a mark that it was cut.
    """

    source: Source
    dialect: Dialect
    placeholders: frozenset[str]
    attribute: str | None
    direct: str | None


Places: TypeAlias = "tuple[FieldSource, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupPlan:
    """Where the fields of a call, or an agent's name, are looked for; each in the order of the dialects.

    Attributes:
        families: of the dialects that read the span; at least one.
        is_part: the span is a piece of the call above it.
        is_batch: the span stands for several calls, see ``Dialect.calls_from``.
        fails: a condition says that the call failed.
        from_cache: a condition says that its result was kept from an earlier one.
        kinds: what conditions on the children tell, the first that holds counts; then, without a condition, what is told anyway.
        phases: likewise.
    """

    families: tuple[str, ...]
    is_part: bool
    is_batch: bool
    name: Places
    call_id: Places
    arguments: Places
    output: Places
    agent: Places
    error_type: Places
    error_message: Places
    attempts: Places
    fails: bool
    from_cache: bool
    kinds: tuple[tuple[CallKind, Match | None], ...]
    phases: tuple[tuple[CallPhase, Match | None], ...]
    alias_separators: tuple[tuple[str, ...], ...]
    nothing_means_empty: bool

    @classmethod
    def of(cls, dialects: Sequence[Dialect], span: Span) -> LookupPlan:
        """Put a plan together for all spans that look like this one."""
        keys = span.attributes.keys()
        kind = next((dialect.kind for dialect in dialects if dialect.kind is not None), None)
        return cls(
            is_part=dialects[0].role is Role.PART,
            is_batch=dialects[0].role is Role.TOOL and bool(dialects[0].calls_from),
            families=tuple(dict.fromkeys(dialect.family for dialect in dialects)),
            name=places(dialects, "name", keys),
            call_id=places(dialects, "call_id", keys),
            arguments=places(dialects, "arguments", keys),
            output=places(dialects, "output", keys),
            agent=places(dialects, "agent", keys),
            error_type=places(dialects, "error_type", keys),
            error_message=places(dialects, "error_message", keys),
            attempts=places(dialects, "attempts", keys),
            fails=any(any_holds(dialect.error_when, span) for dialect in dialects),
            from_cache=any(any_holds(dialect.cached_when, span) for dialect in dialects),
            kinds=tuple(_told([(dialect.kind_when, dialect.child_kind_when) for dialect in dialects], span, kind)),
            phases=tuple(_told([(dialect.phase_when, dialect.child_phase_when) for dialect in dialects], span, CallPhase.EXECUTED)),
            alias_separators=tuple(dialect.alias_separators for dialect in dialects if dialect.alias_separators),
            nothing_means_empty=len(dialects) == 1 and dialects[0].nothing_means_empty,
        )


_Conditions: TypeAlias = "tuple[tuple[_Fact, Match], ...]"


def _told(
    conditions: Sequence[tuple[_Conditions[_Fact], _Conditions[_Fact]]], span: Span, anyway: _Fact | None
) -> Iterator[tuple[_Fact, Match | None]]:
    """Yield the facts that conditions on a span's children may tell before one on the span itself does, then that one.

    Args:
        conditions: of each dialect in order: on the span itself, then on its children.
        span: the conditions on it are settled.
        anyway: what is so if no condition holds.
    """
    for own, of_children in conditions:
        for fact, match in own:
            if holds(match, span):
                yield fact, None
                return
        yield from of_children
    if anyway is not None:
        yield anyway, None


def places(dialects: Sequence[Dialect], field: str, keys: Collection[str] | None = None) -> Places:
    """Return the places of a field (``name``, ``arguments`` ...): dialects in their order, sources in theirs.

    Without those that look at an attribute of the span itself which is not among ``keys``, where these are known.
    """
    found = []
    for dialect in dialects:
        refused = dialect.placeholders.get(field, frozenset())
        for source in getattr(dialect, f"{field}_from"):
            own = source.origin is ValueOrigin.ATTR and source.step is ReadStep.SELF
            if own and keys is not None and source.key not in keys:
                continue
            always = own and source.only_if is None and source.unless is None
            plain = always and not source.path and source.decode is Decode.AUTO
            direct = always and source.cut_when is None and not source.names_from
            found.append(
                FieldSource(
                    source=source,
                    dialect=dialect,
                    placeholders=refused,
                    attribute=source.key if plain else None,
                    direct=source.key if direct else None,
                )
            )
    return tuple(found)
