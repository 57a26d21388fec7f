"""Two invented hours: agents run, sidecars judge them, things go wrong. The second hour is looked at; the first is the one before.

Everything is drawn from one seed, so it is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from random import Random

from otel_toolcall_eval.model.score import Label, Outcome
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger

HOUR = 3600
SCRAPE = 30
"""Seconds from one scrape to the next."""

BEGIN = 1_789_999_200
"""Unix time, on the hour."""

END = BEGIN + 2 * HOUR
LATER_SIDECAR = BEGIN + HOUR + 20 * 60
"""When one more sidecar starts, with one more service, amid the second hour."""

CRITERIA_CHANGED = BEGIN + HOUR + 10 * 60
SERVICE_CHANGED = BEGIN + HOUR + 30 * 60

COUNT, ORDER, ARGS, OUTPUT = (f"ToolCall{kind}Evaluator" for kind in ("Count", "Order", "Args", "Output"))
MISMATCHES = {
    COUNT: (Outcome.WRONG_COUNT, Outcome.MISSING),
    ORDER: (Outcome.WRONG_ORDER, Outcome.MISSING),
    ARGS: (Outcome.WRONG_ARGUMENTS, Outcome.MISSING),
    OUTPUT: (Outcome.WRONG_OUTPUT,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVerdict:
    """A verdict; ``outcomes`` are tools with what became of their expectations."""

    criteria: str
    evaluator: str
    label: Label
    outcomes: tuple[tuple[str, Outcome], ...] = ()
    doubts: tuple[IncompletenessReason, ...] = ()

    @property
    def score(self) -> float:
        return sum(outcome is Outcome.MATCHED for _, outcome in self.outcomes) / len(self.outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A trace that was decided ``at`` a time, ``waited`` seconds after its root; ``revised`` is what its first verdict became later."""

    at: int
    sidecar: str
    service: str
    agent: str | None
    verdicts: tuple[ModelVerdict, ...]
    trigger: Trigger
    doubts: tuple[IncompletenessReason, ...]
    waited: float
    revised: Label | None = None
    late_by: float | None = None

    @property
    def version(self) -> str:
        """Return that of the service."""
        return "1.5" if self.service == "travel" and self.at >= SERVICE_CHANGED else "1.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterPoint:
    """A number that a sidecar has counted: from ``since`` on ``first``, and ``more`` with each minute, up to ``until``."""

    sidecar: str
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    since: int = BEGIN
    until: int = END + 1
    first: int = 0
    more: int = 0

    def value(self, at: int) -> int | None:
        """Return it at a time; None before it is counted at all, and after."""
        return None if not self.since <= at < self.until else self.first + self.more * ((at - self.since) // 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """How one agent runs: every so many seconds, and how often each expectation is met."""

    sidecar: str
    service: str
    name: str | None
    every: int
    checks: tuple[tuple[str, str, tuple[str, ...]], ...]
    meets: float
    meets_later: float
    later: int = END
    since: int = BEGIN


REFUNDS = (("refund_policy", COUNT, ("get_order", "refund_order", "delete_order")), ("refund_policy", ORDER, ("get_order", "refund_order")))
FORECAST = (
    ("tokyo_forecast", COUNT, ("get_temperature", "get_humidity", "*")),
    ("tokyo_forecast", ORDER, ("get_temperature", "get_humidity")),
    ("tokyo_forecast", ARGS, ("get_temperature", "get_humidity", "get_forecast")),
    ("tokyo_forecast", OUTPUT, ("get_temperature", "get_forecast")),
)
BILLING = (("invoice_checks", ARGS, ("look_up", "post") * 10),)

AGENTS = (
    # A new version of the criteria came amid the second hour, and most runs fail it.
    Agent(
        sidecar="a", service="order-desk", name="refunds", every=47, checks=REFUNDS, meets=0.97, meets_later=0.35, later=CRITERIA_CHANGED
    ),
    Agent(sidecar="a", service="travel", name="forecast", every=95, checks=FORECAST, meets=0.95, meets_later=0.9, later=BEGIN + HOUR),
    Agent(sidecar="a", service="travel", name=None, every=410, checks=FORECAST, meets=0.85, meets_later=0.85),
    # Twenty expectations each: all but one of them met is no perfect score.
    Agent(sidecar="b", service="billing", name="invoices", every=61, checks=BILLING, meets=0.98, meets_later=0.98, since=LATER_SIDECAR),
)


def _verdict(draw: Random, check: tuple[str, str, tuple[str, ...]], meets: float) -> ModelVerdict:
    criteria, evaluator, tools = check
    if draw.random() < 0.06:
        doubts = draw.choice(
            [
                (IncompletenessReason.CONTENT_NOT_CAPTURED,),
                (IncompletenessReason.VALUE_REDACTED,),
                (IncompletenessReason.ORPHAN, IncompletenessReason.NO_ROOT),
            ]
        )
        return ModelVerdict(criteria=criteria, evaluator=evaluator, label=Label.INCONCLUSIVE, doubts=doubts)
    outcomes = tuple((tool, Outcome.MATCHED if draw.random() < meets else draw.choice(MISMATCHES[evaluator])) for tool in tools)
    passed = all(outcome is Outcome.MATCHED for _, outcome in outcomes)
    return ModelVerdict(criteria=criteria, evaluator=evaluator, label=Label.PASS if passed else Label.FAIL, outcomes=outcomes)


def trace_id(number: int) -> bytes:
    """Return the ID of the trace of the run of this number, counted from 1."""
    return sha256(number.to_bytes(4)).digest()[:16]


def _runs() -> tuple[Run, ...]:
    draw, runs = Random(7), []  # noqa: S311 - the same draw each time is what is wanted
    for agent in AGENTS:
        for at in range(agent.since + 11, END, agent.every):
            meets = agent.meets if at < agent.later else agent.meets_later
            verdicts = tuple(_verdict(draw, check, meets) for check in agent.checks)
            whole = draw.random() < 0.9
            revised = Label.PASS if verdicts[0].label is Label.FAIL and draw.random() < 0.2 else None
            runs.append(
                Run(
                    at=at,
                    sidecar=agent.sidecar,
                    service=agent.service,
                    agent=agent.name,
                    verdicts=verdicts,
                    trigger=Trigger.ROOT_SPAN if whole else Trigger.IDLE_TIMEOUT,
                    doubts=() if whole else (IncompletenessReason.NO_ROOT,),
                    waited=round(draw.uniform(10, 14), 3) if whole else 300.0,
                    revised=revised,
                    late_by=None if revised is None else round(draw.uniform(1, 90), 3),
                )
            )
    # Traces of a service that no criteria are for.
    unbound = [
        Run(at=at, sidecar="a", service="cron", agent=None, verdicts=(), trigger=Trigger.ROOT_SPAN, doubts=(), waited=10.0)
        for at in range(BEGIN + 5, END, 300)
    ]
    return tuple(sorted([*runs, *unbound], key=lambda run: run.at))


RUNS = _runs()

_GRPC, _HTTP = ("transport", "grpc"), ("transport", "http")
_LAST = END - 14 * 60


def _sidecar(name: str, since: int = BEGIN) -> list[CounterPoint]:
    def counted(what: str, *attributes: tuple[str, str], first: int = 0, more: int = 0, begins: int = since) -> CounterPoint:
        return CounterPoint(sidecar=name, name=f"toolcall_eval.{what}", attributes=attributes, since=begins, first=first, more=more)

    return [
        counted("spans.received", _GRPC, first=200, more=60),
        counted("spans.received", _HTTP, first=20, more=6),
        counted("spans.relevant", _GRPC, first=100, more=30),
        counted("spans.ignored", _GRPC, first=90, more=27),
        counted("spans.duplicate", _GRPC, first=10, more=3),
        counted("spans.conflict", _GRPC),
        counted("spans.late", _GRPC, more=1),
        counted("spans.dropped", _GRPC),
        counted("spans.skipped", _GRPC),
        counted("log_records.received", _HTTP, more=4),
        counted("log_records.correlated", more=3),
        counted("log_records.ignored", _HTTP, more=1),
        counted("traces.active", first=40),
        counted("traces.memory", first=3_000_000, more=10_000),
        counted("failures"),
        counted("journal.size", first=4_096, more=512),
        counted("journal.failures"),
        counted("forward.queue", first=1_000),
        counted("forward.requests", ("result", "delivered"), ("signal", "traces"), more=12),
        counted("criteria.reloads", ("result", "loaded"), first=1),
        counted("queue.memory", first=65_536),
        CounterPoint(sidecar=name, name="process.memory.usage", since=since, first=90_000_000, more=20_000),
    ]


def _criteria(name: str, version: str, *, since: int = BEGIN, until: int = END + 1) -> CounterPoint:
    """Return what names the version of criteria that sidecar a has in force."""
    attributes = (("criteria", name), ("criteria.version", version))
    return CounterPoint(sidecar="a", name="toolcall_eval.criteria.info", attributes=attributes, since=since, until=until, first=1)


COUNTED = (
    *_sidecar("a"),
    *_sidecar("b", LATER_SIDECAR),
    _criteria("refund_policy", "1", until=CRITERIA_CHANGED),
    _criteria("refund_policy", "2", since=CRITERIA_CHANGED),
    _criteria("tokyo_forecast", "1"),
    # It receives spans and judges none.
    CounterPoint(sidecar="c", name="toolcall_eval.spans.received", attributes=(_GRPC,), first=50, more=10),
    CounterPoint(sidecar="c", name="toolcall_eval.traces.active", first=7),
    # What went wrong in the last fourteen minutes, for the first time ever.
    CounterPoint(
        sidecar="a",
        name="toolcall_eval.requests.rejected",
        attributes=(("reason", "overloaded"), _GRPC),
        since=_LAST,
        first=1,
        more=2,
    ),
    CounterPoint(sidecar="a", name="toolcall_eval.requests.delayed", attributes=(_GRPC,), since=_LAST, first=3, more=4),
    CounterPoint(
        sidecar="a", name="toolcall_eval.spans.rejected", attributes=(("reason", "trace_id"), _HTTP), since=_LAST, first=5, more=1
    ),
    CounterPoint(sidecar="b", name="toolcall_eval.export.failures", attributes=(("signal", "logs"),), since=_LAST, first=1, more=1),
    CounterPoint(sidecar="b", name="toolcall_eval.export.dropped", attributes=(("signal", "logs"),), since=_LAST, first=512),
    CounterPoint(sidecar="a", name="toolcall_eval.criteria.reloads", attributes=(("result", "rejected"),), since=_LAST, first=1),
)
