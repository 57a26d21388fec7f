"""What to look for on a span, put together once for all spans that look alike.

Dialects name many places for each field, and a span has few of them. A plan holds the places that can hold something at all, of all
the dialects that read the span, in the order in which they are asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.extraction.dialect import Decode, Match, Origin, Source, Step, Subject

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_toolcall_eval.extraction.dialect import Dialect, Test
    from otel_toolcall_eval.model.tool_call import CallKind, CallPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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


Places: TypeAlias = "tuple[Place, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where the fields of a call, or an agent's name, are looked for; each in the order of the dialects.

    Attributes:
        dialects: those that read the span; at least one.
        told: kinds and phases that conditions on the span tell (``own``), or conditions on its children.
    """

    dialects: tuple[Dialect, ...]
    families: tuple[str, ...]
    name: Places
    call_id: Places
    arguments: Places
    output: Places
    agent: Places
    error_type: Places
    error_message: Places
    attempts: Places
    error_when: tuple[Test | Match, ...]
    cached_when: tuple[Test | Match, ...]
    kinds: tuple[tuple[bool, CallKind, Match], ...]
    phases: tuple[tuple[bool, CallPhase, Match], ...]
    kind: CallKind | None
    alias_separators: tuple[tuple[str, ...], ...]
    nothing_means_empty: bool

    @classmethod
    def of(cls, dialects: Sequence[Dialect], keys: Collection[str] | None = None) -> Plan:
        """Put a plan together; ``keys`` are the attributes that the spans have, None if they are not known."""
        return cls(
            dialects=tuple(dialects),
            families=tuple(dict.fromkeys(dialect.family for dialect in dialects)),
            name=places(dialects, "name", keys),
            call_id=places(dialects, "call_id", keys),
            arguments=places(dialects, "arguments", keys),
            output=places(dialects, "output", keys),
            agent=places(dialects, "agent", keys),
            error_type=places(dialects, "error_type", keys),
            error_message=places(dialects, "error_message", keys),
            attempts=places(dialects, "attempts", keys),
            error_when=tuple(condition for dialect in dialects for condition in dialect.error_when if may_hold(condition, keys)),
            cached_when=tuple(condition for dialect in dialects for condition in dialect.cached_when if may_hold(condition, keys)),
            kinds=tuple(
                (own, kind, match)
                for dialect in dialects
                for own, told in ((True, dialect.kind_when), (False, dialect.child_kind_when))
                for kind, match in told
                if not own or may_hold(match, keys)
            ),
            phases=tuple(
                (own, phase, match)
                for dialect in dialects
                for own, told in ((True, dialect.phase_when), (False, dialect.child_phase_when))
                for phase, match in told
                if not own or may_hold(match, keys)
            ),
            kind=next((dialect.kind for dialect in dialects if dialect.kind is not None), None),
            alias_separators=tuple(dialect.alias_separators for dialect in dialects if dialect.alias_separators),
            nothing_means_empty=len(dialects) == 1 and dialects[0].nothing_means_empty,
        )


def may_hold(condition: Test | Match, keys: Collection[str] | None) -> bool:
    """Tell whether a span with the attributes ``keys`` may fulfil a condition; False is certain, and True without ``keys``.

    Only an EXISTS that is turned around holds where there is no attribute; all other tests of it fail.
    """
    if keys is None:
        return True
    if isinstance(condition, Match):
        some = not condition.some or any(may_hold(inner, keys) for inner in condition.some)
        return some and all(may_hold(inner, keys) for inner in condition.every)
    return condition.subject is not Subject.ATTR or condition.key in keys or not condition.wanted


def places(dialects: Sequence[Dialect], field: str, keys: Collection[str] | None = None) -> Places:
    """Return the places of a field (``name``, ``arguments`` ...): dialects in their order, sources in theirs.

    Without those that look at an attribute of the span itself which is not among ``keys``, where these are known.
    """
    found = []
    for dialect in dialects:
        refused = dialect.placeholders.get(field, frozenset())
        for source in getattr(dialect, f"{field}_from"):
            own = source.origin is Origin.ATTR and source.step is Step.SELF
            if own and keys is not None and source.key not in keys:
                continue
            always = own and source.only_if is None and source.unless is None
            plain = always and not source.path and source.decode is Decode.AUTO
            direct = always and source.cut_when is None and not source.names_from
            found.append(
                Place(
                    source=source,
                    dialect=dialect,
                    placeholders=refused,
                    attribute=source.key if plain else None,
                    direct=source.key if direct else None,
                )
            )
    return tuple(found)
