"""Chooses the criteria that a trace is evaluated by.

A criteria set evaluates a trace if the trace names it (an attribute on any span or resource), if it was bound to the trace's
ID, or if its selector says so. A harness that names criteria says "evaluate this by that"; so sets that merely lack conditions
(``SelectorScope.UNNAMED``) stay out of such a trace, while sets with conditions, or with ``match: all``, still apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from otel_toolcall_eval.model.criteria import NOTHING_BOUND, BoundCriteria, SelectorScope
from otel_toolcall_eval.model.payload.equality import identity
from otel_toolcall_eval.model.payload.text import UnreadableTextError, read_text
from otel_toolcall_eval.model.trace import Projection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_toolcall_eval.model.criteria import CriteriaSet, Selector
    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Attributes, Resource, Span, Trace, Value

CRITERIA_ATTRIBUTE: Final = "toolcall_eval.criteria"
"""On a span or a resource: the name, or a list of names, of the criteria that evaluate the trace."""

SERVICE_ATTRIBUTE: Final = "service.name"

MAX_BOUND_TRACES = 100_000

INPUT_ATTRIBUTES = (
    "input.value",
    "traceloop.entity.input",
    "mlflow.spanInputs",
    "langfuse.observation.input",
    "genkit:input",
    "lmnr.span.input",
)
"""Where an agent's own input stands, in the order in which they are tried."""

_HOLDING_INPUT: Final = frozenset(INPUT_ATTRIBUTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The criteria of one trace.

    Attributes:
        sets: without repetition; loaded ones in the order in which they were loaded, then those that were made in code.
        unknown: names that the trace asks for and that are not loaded; for the operator.
    """

    sets: tuple[CriteriaSet, ...] = ()
    unknown: tuple[str, ...] = ()


class BoundTraces:
    """What was bound to trace IDs, before or after the traces came."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._bound: dict[bytes, BoundCriteria] = {}

    def bind(self, trace_id: bytes, bound: BoundCriteria) -> None:
        """Bind more to a trace."""
        if len(self._bound) >= MAX_BOUND_TRACES:  # bound to traces that never came
            self._bound.pop(next(iter(self._bound)), None)
        self._bound[trace_id] = self._bound.get(trace_id, NOTHING_BOUND).plus(bound)

    def of(self, trace: Trace) -> BoundCriteria:
        """Return what a trace that is evaluated now was bound to, once; for a unit again and again, since other units may follow."""
        if trace.unit_span_id is not None:
            return self._bound.get(trace.trace_id, NOTHING_BOUND)
        return self._bound.pop(trace.trace_id, NOTHING_BOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What selectors look at, gathered once for each trace. ``named``: a harness said what the trace is to be evaluated by."""

    names: frozenset[str]
    named: bool
    root: Span | None
    agent: Callable[[], str | None]
    resources: tuple[Resource, ...]
    spans: tuple[Span, ...]
    inputs: Mapping[object, Json] | None = field(default=None)

    @property
    def services(self) -> frozenset[str]:
        named = [resource.attributes.get(SERVICE_ATTRIBUTE) for resource in self.resources]
        return frozenset([name for name in named if isinstance(name, str)])  # a sender may write anything there, objects too


class Binder:
    """The loaded criteria sets. Immutable: a reload builds another one."""

    def __init__(self, sets: Iterable[CriteriaSet]) -> None:
        """Index the sets by every name that a trace may use for them."""
        self._sets = tuple(sets)
        self._known = {name for criteria_set in self._sets for name in (criteria_set.name, *criteria_set.aliases)}
        self._ask_inputs = any(criteria_set.selector.inputs for criteria_set in self._sets)

    @property
    def sets(self) -> tuple[CriteriaSet, ...]:
        """Return all sets in the order in which they were loaded."""
        return self._sets

    @property
    def projection(self) -> Projection:
        """Return the span attributes that binding reads."""
        keys = {CRITERIA_ATTRIBUTE, *INPUT_ATTRIBUTES}
        for criteria_set in self._sets:
            keys.update(criteria_set.selector.attributes)
        return Projection(keys=frozenset(keys))

    def bind(self, trace: Trace, *, agent: Callable[[], str | None], bound: BoundCriteria = NOTHING_BOUND) -> Binding:
        """Return what evaluates a trace.

        Args:
            trace: the trace.
            agent: finds the name of its top-most agent, if any span tells; asked only if criteria do.
            bound: what the trace's ID was bound to.
        """
        facts = self._gather(trace, agent, bound)
        chosen = [criteria_set for criteria_set in self._sets if _applies(criteria_set, facts)]
        if not chosen and not facts.named:
            chosen = [
                criteria_set
                for criteria_set in self._sets
                if criteria_set.selector.reach is SelectorScope.FALLBACK and _conditions_hold(criteria_set.selector, facts)
            ]
        if len(chosen) > 1 or bound.sets:  # code may bind what is loaded, too
            chosen = list({(known.name, known.version): known for known in (*chosen, *bound.sets)}.values())
        return Binding(sets=tuple(chosen), unknown=tuple(sorted(facts.names - self._known)) if facts.names else ())

    def _gather(self, trace: Trace, agent: Callable[[], str | None], bound: BoundCriteria) -> _Facts:
        names = set(bound.names)
        resources: dict[int, Resource] = {}
        latest: Resource | None = None
        for span in trace.spans:
            if CRITERIA_ATTRIBUTE in span.attributes:
                names.update(_names_in(span.attributes))
            if span.resource is not latest:  # most traces have one
                latest = span.resource
                resources[id(latest)] = latest
        for resource in resources.values():
            names.update(_names_in(resource.attributes))
        return _Facts(
            names=frozenset(names),
            named=bool(names or bound.sets),
            root=trace.root,
            agent=agent,
            resources=tuple(resources.values()),
            spans=trace.spans,
            inputs=recorded_input(trace) if self._ask_inputs else None,
        )


def recorded_input(trace: Trace) -> Mapping[object, Json] | None:
    """Return the agent's recorded input, if it is an object: the root's, else that of the earliest span just below it."""
    root = trace.root
    if root is None:
        return None
    below = sorted(
        (
            span
            for span in trace.spans
            if span.parent_span_id == root.span_id and span is not root and not _HOLDING_INPUT.isdisjoint(span.attributes)
        ),
        key=lambda span: (span.start_unix_ns, span.span_id),
    )
    for span in (root, *below):
        found = _input_of(span)
        if found is not None:
            return found
    return None


def _input_of(span: Span) -> Mapping[object, Json] | None:
    for key in INPUT_ATTRIBUTES:
        recorded: object = span.attributes.get(key)
        if isinstance(recorded, str):
            try:
                recorded = read_text(recorded)
            except UnreadableTextError:
                continue
        if isinstance(recorded, dict):
            return recorded
    return None


def _names_in(attributes: Attributes) -> Sequence[str]:
    named = attributes.get(CRITERIA_ATTRIBUTE)
    if isinstance(named, str):
        return [name for name in (part.strip() for part in named.split(",")) if name]
    if isinstance(named, tuple):
        return [name for name in named if isinstance(name, str)]
    return ()


def _applies(criteria_set: CriteriaSet, facts: _Facts) -> bool:
    if criteria_set.name in facts.names or not facts.names.isdisjoint(criteria_set.aliases):
        return True
    reach = criteria_set.selector.reach
    if reach is SelectorScope.NAMED or reach is SelectorScope.FALLBACK or (reach is SelectorScope.UNNAMED and facts.named):
        return False
    return _conditions_hold(criteria_set.selector, facts)


def _conditions_hold(selector: Selector, facts: _Facts) -> bool:
    """Tell whether all conditions of the selector hold; true without conditions. The cheap ones come first."""
    return (
        (not selector.services or not selector.services.isdisjoint(facts.services))
        and (selector.agent_name is None or selector.agent_name == facts.agent())
        and (selector.root_span_name is None or (facts.root is not None and facts.root.name == selector.root_span_name))
        and (not selector.resource or any(_has_all(resource.attributes, selector.resource) for resource in facts.resources))
        and (not selector.attributes or any(_has_all(span.attributes, selector.attributes) for span in facts.spans))
        and (not selector.inputs or (facts.inputs is not None and _has_all(facts.inputs, selector.inputs)))
    )


def _has_all(actual: Mapping[str, Value] | Mapping[object, Json], wanted: Mapping[str, Value] | Mapping[str, Json]) -> bool:
    """Tell whether every wanted member is there with an equal value. Bytes, which no file can spell, equal nothing."""
    found = cast("Mapping[object, Json]", actual)
    return all(key in found and identity(found[key]) == identity(cast("Json", value)) for key, value in wanted.items())
