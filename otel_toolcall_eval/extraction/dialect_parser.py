"""Reads the entries of a dialect file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from otel_toolcall_eval.extraction.dialect import CompilePattern, Dialect, Match, Role
from otel_toolcall_eval.extraction.dialect_grammar import Grammar
from otel_toolcall_eval.extraction.dialect_value import DialectValue
from otel_toolcall_eval.model.errors import Problem, SettingsError
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase

E = TypeVar("E", bound=StrEnum)

MAX_DIALECTS = 1000
"""How many entries a file may have. The shipped one has under a hundred."""

_SOURCES = (
    "name_from",
    "call_id_from",
    "arguments_from",
    "output_from",
    "agent_from",
    "error_type_from",
    "error_message_from",
    "attempts_from",
)
_CONDITIONS = ("error_when", "cached_when")
_MESSAGES = ("calls_from", "requests_from", "responses_from")
_TEXTS = ("reason", "hint", "content_hint", "hidden_pair")
_SETS = ("supersedes", "part_of", "empty_arguments")
_KEYS = (
    *("name", "family", "priority", "role", "match"),
    *_SOURCES,
    *_CONDITIONS,
    *_MESSAGES,
    *_TEXTS,
    *_SETS,
    *("kind", "kind_when", "child_kind_when", "phase_when", "child_phase_when", "alias_separators", "placeholders", "nothing_means_empty"),
    "about",
)
_PLACEHOLDERS = ("name", "call_id", "arguments", "output", "redacted")


def parse_dialects(
    document: object, *, where: str, compile_pattern: CompilePattern, family_prefix: str = "", priority_offset: int = 0
) -> tuple[Dialect, ...]:
    """Read a decoded dialect file.

    Args:
        document: ``{"dialects": [...]}`` or the list itself.
        where: name of the file, for messages.
        compile_pattern: compiles regular expressions for a linear-time engine.
        family_prefix: put before every family; ``user:`` for users' files.
        priority_offset: added to every priority, so that users' dialects are asked first.

    Returns:
        The dialects in order of the file.

    Raises:
        SettingsError: with everything that is wrong.
    """
    problems: list[Problem] = []
    root = DialectValue(document, where=where, problems=problems)
    entries = root
    if isinstance(document, Mapping):
        entries = root.mapping(("dialects", "version", "about")).get("dialects", root.part([], "dialects"))
    grammar = Grammar(compile_pattern)
    items = entries.items()
    if len(items) > MAX_DIALECTS:
        entries.wrong(f"{len(items)} dialects are here", f"write at most {MAX_DIALECTS}")
        items = ()
    dialects = [dialect for item in items if (dialect := _dialect(_named(item), grammar, family_prefix, priority_offset)) is not None]
    _refuse_repeated_names(dialects, entries)
    if problems:
        raise SettingsError.of(problems)
    return tuple(dialects)


def sorted_by_priority(dialects: Iterable[Dialect]) -> tuple[Dialect, ...]:
    """Return the dialects in the order in which they are asked."""
    return tuple(sorted(dialects, key=lambda dialect: (-dialect.priority, dialect.name)))


def _named(item: DialectValue) -> DialectValue:
    """Put the name of an entry into its place, since nobody counts entries."""
    name = item.value.get("name") if isinstance(item.value, Mapping) else None
    where = f"{item.where}({name[:80]})" if isinstance(name, str) else item.where
    return DialectValue(item.value, where=where, problems=item.problems)


def _dialect(item: DialectValue, grammar: Grammar, family_prefix: str, priority_offset: int) -> Dialect | None:
    """Read one entry; None if it can't be used at all."""
    members = item.mapping(_KEYS)
    lacking = [key for key in ("name", "match") if key not in members]
    if not isinstance(item.value, Mapping):
        return None
    if lacking:
        item.wrong(f"{' and '.join(lacking)} missing", "add what is missing")
        return None
    name, match = members["name"].text(), grammar.match(members["match"])
    role = members["role"].choice(Role) if "role" in members else Role.TOOL
    sources = {key: members[key].each(grammar.source) for key in _SOURCES if key in members}
    conditions = {key: grammar.conditions(members[key]) for key in _CONDITIONS if key in members}
    messages = {key: members[key].each(grammar.message_source) for key in _MESSAGES if key in members}
    texts = {key: members[key].text() for key in _TEXTS if key in members}
    sets = {key: frozenset(members[key].texts()) for key in _SETS if key in members}
    priority = members["priority"].integer(0, 1000) if "priority" in members else 50
    if match is None or role is None:
        return None
    if role is Role.TOOL and not sources.get("name_from") and not messages.get("calls_from"):
        item.wrong("a tool dialect needs to know the tool's name", "add name_from")
    return Dialect(
        name=name,
        family=family_prefix + (members["family"].text() if "family" in members else name),
        priority=priority_offset + priority,
        role=role,
        match=match,
        kind=members["kind"].choice(CallKind) if "kind" in members else None,
        kind_when=_cases(members.get("kind_when"), CallKind, grammar),
        child_kind_when=_cases(members.get("child_kind_when"), CallKind, grammar),
        phase_when=_cases(members.get("phase_when"), CallPhase, grammar),
        child_phase_when=_cases(members.get("child_phase_when"), CallPhase, grammar),
        alias_separators=members["alias_separators"].texts() if "alias_separators" in members else (),
        placeholders=_placeholders(members.get("placeholders")),
        nothing_means_empty="nothing_means_empty" in members and members["nothing_means_empty"].truth(),
        **sources,  # type: ignore[arg-type]
        **conditions,  # type: ignore[arg-type]
        **messages,  # type: ignore[arg-type]
        **texts,  # type: ignore[arg-type]
        **sets,  # type: ignore[arg-type]
    )


def _cases(part: DialectValue | None, choices: type[E], grammar: Grammar) -> tuple[tuple[E, Match], ...]:
    """Read ``{mcp: [conditions], ...}``: the first case of which any condition holds wins."""
    if part is None:
        return ()
    members = part.mapping([member.value for member in choices])
    return tuple((choices(name), Match(some=grammar.conditions(member))) for name, member in members.items())


def _placeholders(part: DialectValue | None) -> Mapping[str, frozenset[str]]:
    if part is None:
        return {}
    return {name: frozenset(member.texts()) for name, member in part.mapping(_PLACEHOLDERS).items()}


def _refuse_repeated_names(dialects: list[Dialect], entries: DialectValue) -> None:
    """Note every name that stands twice: the later one would silently never be explained."""
    seen: set[str] = set()
    for dialect in dialects:
        if dialect.name in seen:
            entries.wrong(f"{json.dumps(dialect.name)} stands twice", "give every dialect its own name")
        seen.add(dialect.name)
