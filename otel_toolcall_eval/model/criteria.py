"""Criteria: one class for each evaluator, and the selectors of the traces that they apply to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.trace import Attributes

EVERY_TOOL: Final = "*"
"""The key of a count expectation that counts every tool call of the trace."""

MARK_BYTES: Final = 16


class Criteria:
    """What one evaluator expects. Each evaluator has a class of its own."""

    __slots__ = ()

    @property
    def expectation_count(self) -> int:
        """Return how many expectations there are."""
        raise NotImplementedError


class Operator(StrEnum):
    """How a count is compared. ``==`` in a file becomes EQUAL."""

    EQUAL = "="
    NOT_EQUAL = "!="
    GREATER = ">"
    LESS = "<"
    GREATER_EQUAL = ">="
    LESS_EQUAL = "<="


@dataclass(frozen=True, slots=True, kw_only=True)
class CountExpectation:
    """How often one tool has to be called. ``tool`` may be ``*``; ``count`` >= 0."""

    tool: str
    operator: Operator
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCriteria(Criteria):
    """How often tools have to be called. At least one expectation, each tool once."""

    expectations: tuple[CountExpectation, ...]
    strict: bool = False

    @property
    def expectation_count(self) -> int:
        """Return how many expectations there are."""
        return len(self.expectations)


class Parallel(StrEnum):
    """How calls that overlap in time are ordered."""

    START_TIME = "start_time"  # the guides' plain sequence
    ANY = "any"  # any order inside a group of overlapping calls counts


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCriteria(Criteria):
    """In which order tools have to be called. At least one name; a name may stand several times."""

    expected: tuple[str, ...]
    strict: bool = False
    parallel: Parallel = Parallel.START_TIME

    @property
    def expectation_count(self) -> int:
        """Return how many expectations there are."""
        return len(self.expected)


class Matching(StrEnum):
    """How expected calls are paired with actual calls of the same name."""

    MAXIMUM = "maximum"  # so that as many as possible match
    POSITIONAL = "positional"  # the n-th with the n-th


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgsExpectation:
    """One call that has to be made with these arguments; with ``call_id`` also under that ID."""

    tool: str
    arguments: Mapping[str, Json]
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgsCriteria(Criteria):
    """What tools have to be called with. At least one expectation.

    Attributes:
        subset: True lets an actual call have more arguments than expected; nested values are compared whole either way.
    """

    expectations: tuple[ArgsExpectation, ...]
    strict: bool = False
    subset: bool = False
    matching: Matching = Matching.MAXIMUM

    @property
    def expectation_count(self) -> int:
        """Return how many expectations there are."""
        return len(self.expectations)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputExpectation:
    """One call that has to return this: text, or a value."""

    tool: str
    output: Json
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCriteria(Criteria):
    """What tools have to return. At least one expectation."""

    expectations: tuple[OutputExpectation, ...]
    strict: bool = False
    matching: Matching = Matching.MAXIMUM

    @property
    def expectation_count(self) -> int:
        """Return how many expectations there are."""
        return len(self.expectations)


EVALUATED_KINDS = frozenset({CallKind.FUNCTION, CallKind.MCP, CallKind.PROVIDER, CallKind.AGENT})
EVALUATED_PHASES = frozenset({CallPhase.EXECUTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls are evaluated at all."""

    kinds: frozenset[CallKind] = EVALUATED_KINDS
    phases: frozenset[CallPhase] = EVALUATED_PHASES


EVALUATED_CALLS = CallFilter()
"""The calls that are evaluated unless criteria say otherwise. One object, so that checks that see the same calls are found by identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One evaluator with its criteria.

    Attributes:
        evaluator: the name that scores are emitted under, such as ``ToolCallCountEvaluator``.
        evaluator_id: such as ``tool-call-count``.
        pass_threshold: least score, in [0.0, 1.0], that is labelled ``pass``.
    """

    evaluator: str
    evaluator_id: str
    criteria: Criteria
    pass_threshold: float = 1.0
    include: CallFilter = EVALUATED_CALLS


class SelectorScope(StrEnum):
    """How far a selector without conditions reaches."""

    MATCHED = "matched"  # traces that fulfil its conditions (there is at least one)
    EVERY = "every"  # every trace
    UNNAMED = "unnamed"  # every trace that does not name its criteria itself
    FALLBACK = "fallback"  # every trace that nothing else is bound to
    NAMED = "named"  # only traces that name it


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which traces criteria apply to. All conditions have to hold.

    Attributes:
        services: values of ``service.name``, one of which a resource of the trace has to have; empty means any. Checked
            whatever ``reach`` is, unless it is NAMED.
        resource: attributes that one resource of the trace has to have. An agent is often called by another service, so the
            root's resource need not be the agent's.
        root_span_name: exact name of the root span.
        agent_name: name of the trace's top-most agent.
        attributes: attributes that at least one span has to have, all on the same span.
        inputs: a subset of the agent's recorded input.
    """

    reach: SelectorScope = SelectorScope.UNNAMED
    services: frozenset[str] = frozenset()
    resource: Attributes = field(default_factory=dict)
    root_span_name: str | None = None
    agent_name: str | None = None
    attributes: Attributes = field(default_factory=dict)
    inputs: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaSet:
    """The checks that apply to one trace under one name.

    Attributes:
        name: unique among the loaded sets; what traces name in ``toolcall_eval.criteria``.
        aliases: other names that traces may use, such as an eval item's display name.
        version: changes whenever anything in the set changes; part of the evaluation's ID.
        source: file that it came from, for people.
    """

    name: str
    checks: tuple[Check, ...]
    selector: Selector = field(default_factory=Selector)
    aliases: tuple[str, ...] = ()
    version: str = ""
    source: str = ""
    _marks: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)

    @property
    def marks(self) -> tuple[int, ...]:
        """Return for each check 128 bits that tell it from all checks of other names or versions; made once."""
        if len(self._marks) != len(self.checks):
            object.__setattr__(self, "_marks", tuple([self._mark(check) for check in self.checks]))
        return self._marks

    def _mark(self, check: Check) -> int:
        text = f"{self.name}\x1f{self.version}\x1f{check.evaluator}".encode("utf-8", "surrogatepass")
        # ``person`` keeps apart what is hashed of checks and of traces.
        return int.from_bytes(blake2b(text, digest_size=MARK_BYTES, person=b"check", usedforsecurity=False).digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCriteria:
    """The criteria that a trace was bound to from outside, by its ID.

    Attributes:
        names: of criteria that are loaded, or will be by the time the trace is evaluated.
        sets: criteria that were made in code and are loaded nowhere. Their selectors are not asked.
    """

    names: tuple[str, ...] = ()
    sets: tuple[CriteriaSet, ...] = ()

    def plus(self, other: BoundCriteria) -> BoundCriteria:
        """Return what both bind to, without repetition."""
        sets = {(bound.name, bound.version): bound for bound in (*self.sets, *other.sets)}
        return BoundCriteria(names=tuple(dict.fromkeys((*self.names, *other.names))), sets=tuple(sets.values()))


NOTHING_BOUND = BoundCriteria()
