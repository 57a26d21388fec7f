"""An agent behind a real gunicorn, whose workers are forks of a process that has the processor already."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar_process import get

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKERS = 2

AGENT = """
import json, os, sys
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor

class ToFile(LogRecordExporter):
    def export(self, batch):
        with open(os.environ["VERDICTS"], "a") as file:
            for one in batch:
                record = one.log_record
                label = record.attributes["gen_ai.evaluation.score.label"]
                said = {"trace_id": f"{record.trace_id:032x}", "label": label, "pid": os.getpid()}
                file.write(json.dumps(said) + "\\n")
        return LogRecordExportResult.SUCCESS
    def shutdown(self): pass
    def force_flush(self, timeout_millis=10_000): return True

logs = LoggerProvider(shutdown_on_exit=False)
logs.add_log_record_processor(SimpleLogRecordProcessor(ToFile()))
provider = TracerProvider()  # it shuts down when its process exits, as in any application
provider.add_span_processor(ToolCallEvalSpanProcessor(
    os.environ["CRITERIA"], logger_provider=logs, meter_provider=MeterProvider(shutdown_on_exit=False), tracer_provider=provider))
tracer = provider.get_tracer("agent")

def application(environ, start_response):
    with tracer.start_as_current_span("invoke_agent") as root:
        with tracer.start_as_current_span("execute_tool search", attributes={
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}):
            pass
        said = {"trace_id": f"{root.get_span_context().trace_id:032x}", "pid": os.getpid()}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(said).encode()]
"""

CRITERIA = """
evaluations:
  - id: searches
    name: It searches once
    match: all
    evaluation_criterias:
      ToolCallCountEvaluator: {tool_calls_count: {search: ["=", 1]}}
"""


class Server:
    """A running gunicorn."""

    def __init__(self, folder: Path, *options: str) -> None:
        (folder / "agent.py").write_text(AGENT, encoding="utf-8")
        (folder / "criteria.yaml").write_text(CRITERIA, encoding="utf-8")
        self._verdicts = folder / "verdicts.jsonl"
        self._verdicts.touch()
        self.log: list[str] = []
        self._listens = threading.Event()
        program = [sys.executable, "-m", "gunicorn", "agent:application", "--bind", "127.0.0.1:0", "--workers", str(WORKERS), *options]
        seconds = f"{PATIENCE_SECONDS:.0f}"  # a busy machine takes longer than the half a minute and the five seconds of the defaults
        program += ["--timeout", seconds, "--graceful-timeout", seconds]
        environ = {"VERDICTS": str(self._verdicts), "CRITERIA": str(folder / "criteria.yaml"), "PATH": "/usr/bin:/bin"}
        environ["OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT"] = f"{seconds}s"
        self.process = subprocess.Popen(program, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        assert self._listens.wait(PATIENCE_SECONDS), "".join(self.log)

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.log.append(line)
            if found := re.search(r"Listening at: http://(127\.0\.0\.1:\d+)", line):
                self._address = found[1]
                self._listens.set()

    def ask(self, number: int) -> dict[str, int]:
        """Let the agent run so often, and return which process ran each trace."""

        def once(_: int) -> dict[str, object]:
            status, body = get(self._address, "/")
            assert status == 200
            found: dict[str, object] = json.loads(body)
            return found

        with ThreadPoolExecutor(4) as several:
            return {str(said["trace_id"]): int(str(said["pid"])) for said in several.map(once, range(number))}

    def verdicts(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._verdicts.read_text(encoding="utf-8").splitlines()]

    def wait_for(self, traces: set[str]) -> None:
        """Wait until all of these were judged."""
        wait_for(lambda: {said["trace_id"] for said in self.verdicts()} >= traces, "the verdicts")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        server.reader.join()
        if server.process.stderr is not None:
            server.process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--preload",), ()], ids=["preloaded", "loaded-by-each-worker"])
def test_every_trace_is_judged_once_by_the_worker_that_ran_it_through_restarts_and_to_the_end(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with serving(tmp_path, *options) as server:
        ran = server.ask(30)
        server.wait_for(set(ran))
        server.process.send_signal(signal.SIGHUP)  # new workers take over, the old ones finish what they have
        wait_for(lambda: set(server.ask(4).values()).isdisjoint(ran.values()), "the new workers")
        later = server.ask(30)
        assert set(later.values()).isdisjoint(ran.values())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_SECONDS) == 0, "".join(server.log)
        judged = server.verdicts()
    said = {str(one["trace_id"]): (one["label"], one["pid"]) for one in judged}
    assert len(said) == len(judged)  # once each
    for trace_id, pid in (ran | later).items():
        assert said[trace_id] == ("pass", pid)
    assert "Traceback" not in "".join(server.log)
