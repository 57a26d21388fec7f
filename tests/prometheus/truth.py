"""What Prometheus has to say of the invented hours, reckoned from the inventions alone: nothing of ours that emits is used here.

A counter grows by the difference of its samples in a window, stretched to the window's edges as Prometheus documents for ``increase``;
a counter that was not there in the window before has grown by what it says.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TypeAlias

from otel_toolcall_eval.model.score import Label
from tests.prometheus.world import BEGIN, COUNTED, LATER_SIDECAR, RUNS, SCRAPE, Run

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = Mapping[Labels, float]
Expectations: TypeAlias = Callable[[int, int], Vector]
"""What an expression is at a time, over a window; both in seconds."""

NOTHING: Labels = frozenset()


def _bounds(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SCORE_BOUNDS = _bounds("0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 0.999 1.0 +Inf")
DELAY_BOUNDS = _bounds("0.01 0.1 0.5 1.0 2.5 5.0 10.0 15.0 30.0 60.0 120.0 300.0 600.0 1800.0 3600.0 +Inf")
AGE_BOUNDS = _bounds("1.0 5.0 10.0 30.0 60.0 120.0 300.0 600.0 1800.0 3600.0 +Inf")
DURATION_BOUNDS = _bounds("1e-05 2.5e-05 5e-05 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.05 0.1 1.0 +Inf")
EVALUATION_SECONDS = 0.0002  # of each report that is made by hand
AGENT = "gen_ai_agent_name"
NAMES = {
    "service": "toolcall_eval_service_name",
    "evaluator": "gen_ai_evaluation_name",
    "criteria": "toolcall_eval_criteria",
    "agent": AGENT,
}


@dataclass(slots=True)
class Series:
    """A counter: when it was first scraped, and its growth since."""

    began: int
    times: list[int] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    _sums: list[float] | None = None

    def add(self, at: int, step: float) -> None:
        self.times.append(at)
        self.steps.append(step)

    def value(self, at: int) -> float:
        if self._sums is None:
            self._sums = list(accumulate(self.steps))
        place = bisect_right(self.times, at)
        return self._sums[place - 1] if place else 0.0

    def grown(self, at: int, window: int) -> float | None:
        """Return the growth within a window that ends at a scrape, of a new counter all of it; None if it is not there yet."""
        if self.began > at:
            return None
        return self.value(at) if self.began > at - window else self.risen(at, window)

    def risen(self, at: int, window: int) -> float | None:
        """Return the difference of samples, stretched to the window; None if there are not two of them."""
        first = max(self.began, at - window + SCRAPE)  # a window holds its end, not its beginning
        if first >= at:
            return None
        start, grown = self.value(first), self.value(at) - self.value(first)
        sampled, before = at - first, float(first - (at - window))
        if before >= 1.1 * SCRAPE:  # the counter began amid the window: half a scrape before is guessed
            before = SCRAPE / 2
        if grown:
            before = min(before, sampled * start / grown)  # no counter was ever below zero
        return grown * (sampled + before) / sampled


class Truth:
    """All counters of the invented hours; ``chosen`` leaves out the series that a reader did not choose, by short name."""

    def __init__(self, **chosen: str) -> None:
        self.counters: dict[str, dict[Labels, Series]] = defaultdict(dict)
        self._chosen = {NAMES[name]: value for name, value in chosen.items()}
        for run in RUNS:
            self._decided(run)
        for counted in COUNTED:
            if not counted.name.endswith((".active", ".memory", ".queue", ".size", ".info", ".usage")):
                name = f"{counted.name.replace('.', '_')}_total"
                labels = {f"toolcall_eval_{word}": text for word, text in counted.attributes}
                self._add(name, labels, counted.sidecar, counted.since, counted.first)
                for minute in range(counted.since + 60, BEGIN + 7201, 60):
                    self._add(name, labels, counted.sidecar, minute, counted.more)

    def _decided(self, run: Run) -> None:
        service = {"toolcall_eval_service_name": run.service}
        fate = {"toolcall_eval_trigger": run.trigger.value, "toolcall_eval_completeness": "partial" if run.doubts else "complete"}
        self._add("toolcall_eval_traces_completed_total", fate, run.sidecar, run.at)
        self._observe("toolcall_eval_completion_delay_seconds", DELAY_BOUNDS, {}, run, run.waited)
        if not run.verdicts:
            self._add("toolcall_eval_traces_unbound_total", fate | service, run.sidecar, run.at)
            return
        self._observe("toolcall_eval_evaluation_duration_seconds", DURATION_BOUNDS, {}, run, EVALUATION_SECONDS)
        for one in run.verdicts:
            name = {"gen_ai_evaluation_name": one.evaluator}
            criteria = {"toolcall_eval_criteria": one.criteria}
            label = {"gen_ai_evaluation_score_label": one.label.value}
            how = {
                "toolcall_eval_trigger": run.trigger.value,
                "toolcall_eval_completeness": "partial" if one.doubts else "complete",
            }
            self._add("toolcall_eval_evaluations_total", name | criteria | service | label | how, run.sidecar, run.at)
            for doubt in one.doubts:
                reason = {"toolcall_eval_reason": doubt.value}
                self._add("toolcall_eval_inconclusive_total", name | criteria | service | reason, run.sidecar, run.at)
            if one.label is not Label.INCONCLUSIVE:
                agent = {} if run.agent is None else {"gen_ai_agent_name": run.agent}
                self._observe("gen_ai_evaluation_score", SCORE_BOUNDS, name | criteria | service | label | agent, run, one.score)
            for tool, outcome in one.outcomes:
                met = {"gen_ai_tool_name": tool, "toolcall_eval_result": outcome.value}
                self._add("toolcall_eval_expectations_total", name | met, run.sidecar, run.at)
        if run.revised is not None and run.late_by is not None:
            for place, one in enumerate(run.verdicts):  # all are given again, and all but the first are what they were
                now = one.label if place else run.revised
                change = {"toolcall_eval_label_from": one.label.value, "toolcall_eval_label_to": now.value}
                self._add("toolcall_eval_revisions_total", {"gen_ai_evaluation_name": one.evaluator, **change}, run.sidecar, run.at)
            self._observe("toolcall_eval_late_span_age_seconds", AGE_BOUNDS, {}, run, run.late_by)

    def _observe(self, name: str, bounds: tuple[str, ...], labels: dict[str, str], run: Run, value: float) -> None:
        for bound in bounds:
            self._add(f"{name}_bucket", {**labels, "le": bound}, run.sidecar, run.at, float(value <= float(bound)))
        self._add(f"{name}_count", labels, run.sidecar, run.at)
        self._add(f"{name}_sum", labels, run.sidecar, run.at, value)

    def _add(self, name: str, labels: dict[str, str], sidecar: str, at: int, step: float = 1) -> None:
        nobody = {AGENT: ""} if name.startswith("gen_ai_evaluation_score_") else {}  # of metrics that tell agents apart, a trace without
        if any({**nobody, **labels}.get(key, value) != value for key, value in self._chosen.items()):
            return
        key = frozenset({**labels, "instance": f"sidecar-{sidecar}", "job": "sidecar"}.items())
        series = self.counters[name].get(key)
        if series is None:
            scraped = -(-max(at, LATER_SIDECAR if sidecar == "b" else BEGIN) // SCRAPE) * SCRAPE
            series = self.counters[name][key] = Series(scraped)
        series.add(at, step)

    def grown(self, name: str, *by: str, **where: str) -> Expectations:
        """Return the growth of a counter, summed over all labels but ``by``; ``where`` narrows, ``!`` before a value turns it round."""
        return self._summed(Series.grown, name, by, where)

    def risen(self, name: str, *by: str, **where: str) -> Expectations:
        """Return what ``increase`` makes of a counter by itself, summed likewise."""
        return self._summed(Series.risen, name, by, where)

    def _summed(
        self, of: Callable[[Series, int, int], float | None], name: str, by: tuple[str, ...], where: Mapping[str, str]
    ) -> Expectations:
        def vector(at: int, window: int) -> Vector:
            found: dict[Labels, float] = defaultdict(float)
            for labels, series in self.counters[name].items():
                has = dict(labels)
                if all(has.get(key) != value[1:] if value[:1] == "!" else has.get(key) == value for key, value in where.items()):
                    grown = of(series, at, window)
                    if grown is not None:
                        found[frozenset((key, has[key]) for key in by if key in has)] += grown
            return found

        return vector


def ratio(part: Expectations, whole: Expectations, *, zero: bool = True) -> Expectations:
    """Return a part of a whole: 0 (if ``zero``) where there is no part, nothing where there is no whole."""

    def vector(at: int, window: int) -> Vector:
        parts = part(at, window)
        return {key: parts.get(key, 0.0) / all_ for key, all_ in whole(at, window).items() if all_ > 0 and (zero or key in parts)}

    return vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A quantile of a histogram whose growth is given by ``le``: linear within a bucket, from 0 in the first."""

    fraction: float
    buckets: Expectations

    def __call__(self, at: int, window: int) -> Vector:
        return self.of(self.fraction, at, window)

    def ends(self, at: int, window: int) -> tuple[Vector, Vector]:
        """Return it a hair below and a hair above: where it falls on the edge of a bucket, rounding says which."""
        return self.of(self.fraction - 1e-9, at, window), self.of(self.fraction + 1e-9, at, window)

    def of(self, fraction: float, at: int, window: int) -> Vector:
        found = sorted((float(dict(labels)["le"]), count) for labels, count in self.buckets(at, window).items())
        if not found or found[-1][1] == 0:
            return {}
        rank = fraction * found[-1][1]
        if found[0][1] >= rank:
            bound, count = found[0]
            return {NOTHING: bound if bound <= 0 else bound * rank / count}
        for (low, below), (high, upto) in pairwise(found):
            if upto >= rank:
                return {NOTHING: low if math.isinf(high) else low + (high - low) * (rank - below) / (upto - below)}
        return {}


def less(one: Expectations, other: Expectations) -> Expectations:
    return lambda at, window: {key: value - other(at, window)[key] for key, value in one(at, window).items() if key in other(at, window)}


def filled(one: Expectations) -> Expectations:
    """Return 0 where there is nothing."""
    return lambda at, window: one(at, window) or {NOTHING: 0.0}


def above_zero(one: Expectations) -> Expectations:
    return lambda at, window: {key: value for key, value in one(at, window).items() if value > 0}
