"""The invented hours as samples that Prometheus takes in: what our own emitter, aggregator and page make of them, scrape by scrape.

So no name, label or bucket stands here: what a dashboard asks for is found only if it is what we emit.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.collection import Collection
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.openmetrics import OPENMETRICS, MetricsPage
from otel_toolcall_eval.model import trace as model
from otel_toolcall_eval.model.score import Label
from tests.exporters.reports import evaluated_span, report, score, verdict
from tests.prometheus.world import BEGIN, COUNTED, END, LATER_SIDECAR, RUNS, SCRAPE, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey
    from otel_toolcall_eval.model.score import TraceReport, Verdict
    from tests.prometheus.world import ModelVerdict, Run

SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*?)\})? (?P<value>\S+)(?: # .*)?")


class Seeded:
    """A sidecar at a time that is set."""

    def __init__(self, name: str, *, began: float = BEGIN) -> None:
        self.name = name
        self.now = int(began)
        self.aggregator = Aggregator(Resource.create({"service.name": "otel-toolcall-eval"}), clock=lambda: self.now * 1_000_000_000)
        self.aggregator.source = self
        self.emitter = MetricsEmitter(self.aggregator)
        self.page = MetricsPage(Collection(self.aggregator).collect)

    def counts(self) -> Mapping[CountKey, int | float]:
        mine = [(counted, counted.value(self.now)) for counted in COUNTED if counted.sidecar == self.name]
        return {**self.emitter.counts(), **{(counted.name, counted.attributes): value for counted, value in mine if value is not None}}

    def emit(self, run: Run, number: int) -> None:
        """Emit what came of a run: its report, and the revision with the late span that made it necessary."""
        self.emitter.emit(report_of(run, number))
        if run.revised is not None and run.late_by is not None:
            self.emitter.late_span(run.late_by)
            self.emitter.emit(report_of(run, number, revised=run.revised))

    def samples(self) -> Iterator[str]:
        """Yield the lines of a scrape, with what Prometheus adds to them: where they are from, and when."""
        for line in self.page.render(OPENMETRICS).body.decode().splitlines():
            found = SAMPLE.fullmatch(line)
            if found is None:
                assert line.startswith("#"), line
                continue
            ours = f'job="sidecar",instance="sidecar-{self.name}"'
            yield f"{found['name']}{{{','.join(filter(None, (found['labels'], ours)))}}} {found['value']} {self.now}"


def report_of(run: Run, number: int, *, revised: Label | None = None) -> TraceReport:
    """Return the report of a run; of its revision, whose first verdict is another."""
    verdicts = [_verdict(judged) for judged in run.verdicts]
    if revised is not None:
        verdicts[0] = verdict(revised, evaluator=run.verdicts[0].evaluator, criteria=run.verdicts[0].criteria)
    service = model.Resource(attributes={"service.name": run.service, "service.version": run.version})
    return report(
        *verdicts,
        span=replace(evaluated_span(trace_id=trace_id(number), span_id=number.to_bytes(8)), resource=service),
        agent=run.agent,
        trigger=run.trigger,
        doubts=run.doubts,
        revision=0 if revised is None else 1,
        decided_after_ns=round(run.waited * 1e9),
    )


def _verdict(judged: ModelVerdict) -> Verdict:
    given = score(judged.score, outcomes=judged.outcomes) if judged.label is not Label.INCONCLUSIVE else None
    return verdict(judged.label, evaluator=judged.evaluator, criteria=judged.criteria, given=given, doubts=judged.doubts)


def write_samples(file: Path) -> None:
    """Write all scrapes of the two hours, as OpenMetrics with timestamps."""
    sidecars = {name: Seeded(name) for name in ("a", "b", "c")}
    begins = {"a": BEGIN, "b": LATER_SIDECAR, "c": BEGIN}
    coming = list(enumerate(RUNS, 1))
    with file.open("w", encoding="utf-8") as out:
        for now in range(BEGIN, END + 1, SCRAPE):
            while coming and coming[0][1].at <= now:
                number, run = coming.pop(0)
                sidecars[run.sidecar].emit(run, number)
            for sidecar in sidecars.values():
                if now >= begins[sidecar.name]:
                    sidecar.now = now
                    out.writelines(f"{line}\n" for line in sidecar.samples())
        out.write("# EOF\n")
