"""``demo``: a sample agent, the ordinary OTLP exporter, a sidecar in another process, and the scores that come of it."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, SCENARIOS, SERVICE_NAME
from otel_toolcall_eval.cli.output import console, print_json, text
from otel_toolcall_eval.cli.parser import PROGRAM
from otel_toolcall_eval.model.errors import ToolCallEvalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from rich.console import Console

    from otel_toolcall_eval.cli.demo_agent.weather_agent import Scenario

    Record = Mapping[str, object]

START_SECONDS = 30.0
VERDICT_SECONDS = 30.0
STOP_SECONDS = 10.0
EVALUATORS = ("ToolCallCountEvaluator", "ToolCallOrderEvaluator", "ToolCallArgsEvaluator", "ToolCallOutputEvaluator")
STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}
# In production the sidecar waits 10 s for stragglers after the root span; here nothing straggles and somebody watches.
ENVIRONMENT = {
    "OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED": "1s",
    "OTEL_TOOLCALL_EVAL_EXPLAIN_VALUES": "full",  # made-up weather: nothing to keep secret
}


class DemoError(ToolCallEvalError):
    """The demonstration could not be run."""


def run(arguments: argparse.Namespace) -> int:
    """Run the sample; 0 if every run was evaluated."""
    as_json = arguments.format == "json"
    out = None if as_json else console()
    with sidecar() as (ready, lines):
        _say(out, f"[bold]1. A sidecar runs in another process[/] and takes OTLP/gRPC on {ready['grpc']}, OTLP/HTTP on {ready['http']}.")
        _say(out, f"   It evaluates by the criteria in {EVALUATIONS}\n")
        _say(out, "[bold]2. The weather agent runs[/] and exports its spans through the ordinary OTLP exporter:")
        runs = _play(str(ready["grpc"]), out)
        _say(out, "\n[bold]3. Verdicts fall[/] as the sidecar finds each trace complete:")
        verdicts = _collect(lines, runs, out)
    if as_json:
        print_json({"runs": [{"title": s.title, "trace_id": t, "verdicts": verdicts[t]} for t, s in runs.items()]})
    else:
        _show(console(), runs, verdicts)
    return 0


@contextmanager
def sidecar() -> Iterator[tuple[Record, queue.Queue[Record]]]:
    """Start a sidecar on ports of its own; yields what it says when it is ready, and its verdicts as they come.

    Raises:
        DemoError: it did not start.
    """
    command = [sys.executable, "-m", "otel_toolcall_eval", "serve", "--criteria", str(EVALUATIONS), "--verdicts", "json"]
    command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    # what is set for the user's own agent must not reach this one: an exporter, a settings file, a sampler
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    process = subprocess.Popen(  # noqa: S603 - our own program with arguments of our own
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**inherited, **ENVIRONMENT}
    )
    lines: queue.Queue[Record] = queue.Queue()
    complaints: list[str] = []
    readers = [
        threading.Thread(target=_read_records, args=(process, lines), daemon=True),
        threading.Thread(target=lambda: complaints.extend(process.stderr or ()), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        try:
            ready = lines.get(timeout=START_SECONDS)
        except queue.Empty:
            ready = {}
        if ready.get("event") != "ready":
            process.kill()
            readers[1].join(STOP_SECONDS)
            raise DemoError(where="demo", what="the sidecar did not start", fix=f"see what it says: {''.join(complaints[-5:]).strip()}")
        yield ready, lines
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for reader in readers:
            reader.join(STOP_SECONDS)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _read_records(process: subprocess.Popen[str], lines: queue.Queue[Record]) -> None:
    for line in process.stdout or ():
        lines.put(json.loads(line))
    lines.put({"event": "ended"})


def _play(endpoint: str, out: Console | None) -> dict[str, Scenario]:
    """Let the agent run through all scenarios; returns them by trace ID."""
    # What is set for the user's own agent would change this one: limits on attributes, a disabled SDK, a proxy before 127.0.0.1.
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    os.environ["no_grpc_proxy"] = endpoint.rpartition(":")[0]  # noqa: SIM112 - the name that gRPC reads
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - slow to import
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

    ended: list[ReadableSpan] = []

    class Watch(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            ended.append(span)

    provider = TracerProvider(resource=Resource({"service.name": SERVICE_NAME}), sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"http://{endpoint}", insecure=True)))
    provider.add_span_processor(Watch())
    runs: dict[str, Scenario] = {}
    for scenario in SCENARIOS:
        ended.clear()
        answer = asyncio.run(scenario.play(provider))
        runs[answer.trace_id] = scenario
        tools = [span.name for span in ended if "tool.name" in (span.attributes or {})]
        _say(out, f"   {answer.trace_id[:8]}  {scenario.title:<22} {len(ended)} spans: {', '.join(tools)}")
    provider.shutdown()
    return runs


def _collect(lines: queue.Queue[Record], runs: Mapping[str, Scenario], out: Console | None) -> dict[str, list[Record]]:
    """Wait for the verdicts of all runs; returns them by trace ID."""
    verdicts: dict[str, list[Record]] = defaultdict(list)
    deadline = time.monotonic() + VERDICT_SECONDS
    while any(len(verdicts[trace_id]) < len(EVALUATORS) for trace_id in runs):
        try:
            record = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            record = {"event": "ended"}
        if "trace_id" not in record:
            raise DemoError(where="demo", what="not every run was evaluated in time", fix="run it again; if it stays, please report it")
        verdicts[str(record["trace_id"])].append(record)
        label = str(record["label"])
        _say(
            out,
            f"   {str(record['trace_id'])[:8]}  {record.get('criteria')!s:<22} {record.get('evaluator')!s:<24} "
            f"{_score(record):>4}  [{STYLES.get(label, 'bold')}]{label}[/]",
        )
    return verdicts


def _show(out: Console, runs: Mapping[str, Scenario], verdicts: Mapping[str, Sequence[Record]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - an extra
    from rich.table import Table  # noqa: PLC0415

    out.print("\n[bold]How the agent used its tools[/]")
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for title in ("run", "criteria"):
        table.add_column(title)
    for title in ("count", "order", "args", "output"):
        table.add_column(title, justify="right")
    for trace_id, scenario in runs.items():
        by_name = {record["evaluator"]: record for record in verdicts[trace_id]}
        cells = [f"[{STYLES[str(by_name[name]['label'])]}]{_score(by_name[name])}[/]" for name in EVALUATORS]
        table.add_row(text(scenario.title), text(scenario.criteria), *cells)
    out.print(table)
    spoiled, scenario = list(runs.items())[-1]
    out.print(
        f"\n[bold]Why the {text(scenario.title)} scores as it does[/] (a wrong city, a doubled call, a swapped order, a wrong output):"
    )
    for record in verdicts[spoiled]:
        out.print(f"\n  [bold]{record['evaluator']}[/] {_score(record)}")
        _print_details(out, json.loads(str(record["explanation"])))
    out.print("\n[bold]Where to go next[/]")
    program = command_line()
    for arguments, why in (
        ("serve --criteria PATH --verdicts text", "evaluate your own agent: point its OTLP exporter at 127.0.0.1:4317"),
        ("calls traces.jsonl", "see which tool calls are read out of recorded spans"),
        ("evaluate traces.jsonl --criteria PATH", "evaluate recorded traces, in CI for example"),
    ):
        out.print(f"  {program} {arguments:<40} {why}", soft_wrap=True)
    out.print(f"  The criteria used here, to copy from: {EVALUATIONS}", soft_wrap=True)


def command_line() -> str:
    """Return how this program is called from where the reader stands: ``make demo`` leaves it in an environment off the PATH."""
    if shutil.which(PROGRAM):
        return PROGRAM
    path = Path(sys.executable).with_name(PROGRAM)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _print_details(out: Console, details: Mapping[str, object]) -> None:
    for key, value in details.items():
        if isinstance(value, dict):
            for name, line in value.items():
                out.print(f"    {name}: {line}", markup=False, soft_wrap=True)
        else:
            out.print(f"    {key}: {value}", markup=False, soft_wrap=True)


def _score(record: Record) -> str:
    score = record.get("score")
    return f"{score:.2f}" if isinstance(score, float | int) else "-"


def _say(out: Console | None, text: str) -> None:
    if out is not None:
        out.print(text, soft_wrap=True)
