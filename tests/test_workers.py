"""Several processes that judge, as a user runs them: real processes, real signals. What all sidecars do is in the tests of sidecars, which
run against several processes, too (``make test`` runs those again with SIDECAR_WORKERS=2)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.demo.scenarios import EVALUATIONS, GOOD_RUNS, MISBEHAVING_RUN
from otel_toolcall_eval.processes.forking import Process
from otel_toolcall_eval.processes.link import STALLED_SECONDS
from otel_toolcall_eval.wire.shares import part_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar_process import SERVE, get, metric_sums, running_sidecar, send_json
from tests.test_sidecar import otlp, otlp_span, play, verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.sidecar_process import RunningSidecar

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

THREE: Mapping[str, str] = {"OTEL_TOOLCALL_EVAL_WORKERS": "3"}
_IGNORE = "import runpy, signal as s; s.signal(s.SIGCHLD, s.SIG_IGN); runpy.run_module('otel_toolcall_eval', None, '__main__', True)"
DEAF = ("-c", _IGNORE, "serve")
"""As started by somebody who ignores the end of processes, which is inherited."""

NAMED = [{"key": "toolcall_eval.criteria", "value": {"stringValue": "tokyo_forecast"}}]


def members(sidecar: RunningSidecar) -> list[int]:
    """Return the IDs of the processes that judge."""
    found: list[int] = []
    for task in Path(f"/proc/{sidecar.process.pid}/task").glob("*/children"):
        with suppress(OSError):
            found.extend(map(int, task.read_text(encoding="ascii").split()))
    return found


def are_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def labels(found: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return sorted((record["criteria"], record["evaluator"], record["label"], record["score"]) for record in found)


def test_verdicts_metrics_and_pages_are_those_of_one_process() -> None:
    runs = [*GOOD_RUNS, MISBEHAVING_RUN] * 3
    said, sums = [], []
    for environ in ({"OTEL_TOOLCALL_EVAL_WORKERS": "1"}, THREE):
        with running_sidecar("--criteria", str(EVALUATIONS), environ=environ) as sidecar:
            played = play(sidecar, *runs)
            found = verdicts(sidecar, 4 * len(runs))
            assert {record["trace_id"] for record in found} == set(played)
            said.append(labels(found))
            wait_for(lambda: metric_sums(sidecar.http).get("toolcall_eval_evaluations_total") == 4 * len(runs), "the metrics of all")
            page = metric_sums(sidecar.http)
            sums.append(
                {name: number for name, number in page.items() if name.startswith(("toolcall_eval_traces_decided", "toolcall_eval_eval"))}
            )
            # A trace that fails: under pressure, those that pass are not all remembered.
            wait_for(lambda failing=played[-1]: get(sidecar.http, f"/status/traces/{failing}")[0] == 200, "the page of a trace")  # type: ignore[misc]
            assert b"0 traces" not in get(sidecar.http, "/status")[1]
            sidecar.until_ready()
            assert sidecar.terminate() == 0
    assert said[0] == said[1]
    assert sums[0].keys() == sums[1].keys()


def test_at_the_end_all_that_is_open_is_judged_and_no_process_is_left() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ=THREE, quiet="1h") as sidecar:
        pids = members(sidecar)
        assert len(pids) == 3
        for trace in range(1, 31):
            send_json(sidecar.http, otlp(otlp_span(trace, 1, attributes=NAMED)))
        assert {part_of(trace.to_bytes(16, "big"), 3) for trace in range(1, 31)} == {0, 1, 2}
        os.kill(pids[0], signal.SIGTERM)  # as a supervisor does that signals the whole group: only the first process decides
        os.kill(pids[1], signal.SIGINT)
        assert sidecar.terminate() == 0
        found = sidecar.drained()
        assert {int(record["trace_id"], 16) for record in found} == set(range(1, 31))
        assert {record["trigger"] for record in found} == {"shutdown"}
        assert are_gone(pids)


def test_one_that_is_killed_ends_all_so_that_a_supervisor_starts_them_anew() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ=THREE, quiet="1h") as sidecar:
        pids = members(sidecar)
        for trace in range(1, 31):
            send_json(sidecar.http, otlp(otlp_span(trace, 1, attributes=NAMED)))
        os.kill(pids[1], signal.SIGKILL)
        assert sidecar.process.wait(PATIENCE_SECONDS) == 1
        left = {int(record["trace_id"], 16) for record in sidecar.drained()}
        assert left == {trace for trace in range(1, 31) if part_of(trace.to_bytes(16, "big"), 3) != 1}  # all others had their verdicts
        assert are_gone(pids)
        assert any("ended by itself" in line for line in sidecar.log)


def test_how_one_ended_is_noticed_though_whoever_started_us_does_not_want_to_hear_of_processes() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ=THREE, program=DEAF) as sidecar:
        os.kill(members(sidecar)[1], signal.SIGKILL)
        assert sidecar.process.wait(PATIENCE_SECONDS) == 1
    assert any("ended by itself" in line and "SIGKILL" in line for line in sidecar.log)
    with running_sidecar("--criteria", str(EVALUATIONS), environ=THREE, program=DEAF) as sidecar:
        assert sidecar.terminate() == 0


@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 3, f"signal {signal.SIGRTMIN + 3}"), (None, "somebody else was told")],
)
def test_how_a_process_ended_is_said(number: int | None, how: str) -> None:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    process = Process(pid)
    assert not process.wait(0.0)
    os.kill(pid, signal.SIGTERM if number is None else number)
    if number is None:
        os.waitpid(pid, 0)
    assert process.wait(PATIENCE_SECONDS)
    assert how in process.how
    process.kill()  # which there is nobody for any more


def test_none_outlives_the_first() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ=THREE) as sidecar:
        pids = members(sidecar)
        sidecar.process.kill()
        sidecar.process.wait(PATIENCE_SECONDS)
        wait_for(lambda: are_gone(pids), "the end of the others")


def test_one_that_hangs_keeps_nobody_from_ending() -> None:
    environ = {**THREE, "OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT": "2s"}
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ) as sidecar:
        pids = members(sidecar)
        os.kill(pids[2], signal.SIGSTOP)
        began = time.monotonic()
        assert b"worker" in get(sidecar.http, "/readyz")[1]
        assert get(sidecar.http, "/metrics")[0] == 200  # with what that one told last
        assert sidecar.terminate() == 0
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert are_gone(pids)
        assert any("ended before everything was judged" in line for line in sidecar.log)


def test_each_has_a_journal_and_what_is_open_in_them_is_judged_by_the_next_life(tmp_path: Path) -> None:
    environ = {**THREE, "OTEL_TOOLCALL_EVAL_JOURNAL_PATH": str(tmp_path / "journal.db"), "OTEL_TOOLCALL_EVAL_JOURNAL_SYNC": "ack"}
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ, quiet="1h") as sidecar:
        for trace in range(1, 31):
            send_json(sidecar.http, otlp(otlp_span(trace, 1, attributes=NAMED)))
        second = serve(environ)
        assert second.returncode == 2
        assert re.search(r"journal-[123]-of-3.db: another process has this journal", second.stderr)
        assert "ended by itself" not in second.stderr
        pids = members(sidecar)
        sidecar.process.kill()
        sidecar.process.wait(PATIENCE_SECONDS)
        wait_for(lambda: are_gone(pids), "the end of the others")
    assert sorted(file.name for file in tmp_path.glob("*.db")) == [f"journal-{number}-of-3.db" for number in (1, 2, 3)]
    for number in (1, 2):
        refused = serve({**environ, "OTEL_TOOLCALL_EVAL_WORKERS": str(number)})
        assert refused.returncode == 2
        assert "it holds traces that 3 processes left open" in refused.stderr
        assert "start once with workers: 3" in refused.stderr
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ, quiet="1h") as sidecar:
        sidecar.until_ready()
        assert sidecar.terminate() == 0
        assert {int(record["trace_id"], 16) for record in sidecar.drained()} == set(range(1, 31))
    fewer = {**environ, "OTEL_TOOLCALL_EVAL_WORKERS": "1"}  # nothing is open any more
    with running_sidecar("--criteria", str(EVALUATIONS), environ=fewer, quiet="1h") as sidecar:
        assert sidecar.terminate() == 0


def test_what_can_not_be_used_is_said_before_anything_listens() -> None:
    for value, said in (("0", "workers"), ("65", "65 is more than 64"), ("two", "whole number")):
        ended = serve({"OTEL_TOOLCALL_EVAL_WORKERS": value})
        assert ended.returncode == 2
        assert said in ended.stderr
    held = {**THREE, "OTEL_TOOLCALL_EVAL_FORWARD_ENDPOINT": "http://127.0.0.1:1", "OTEL_TOOLCALL_EVAL_FORWARD_ATTACH_TO_ROOT": "true"}
    ended = serve(held)
    assert ended.returncode == 2
    assert "roots can't be held back where several processes judge" in ended.stderr


def serve(environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Start a sidecar that can't start."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    command = [sys.executable, *SERVE, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    return subprocess.run(command, env={**inherited, **environ}, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def test_who_can_not_say_that_it_is_ready_ends_with_all_its_processes() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    command = [sys.executable, *SERVE, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--verdicts", "json"]
    try:
        ended = subprocess.run(
            command, env={**inherited, **THREE}, stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False
        )
    finally:
        os.close(writer)
    assert ended.returncode not in {0, None}


def test_a_reader_that_does_not_read_holds_up_verdicts_and_no_request() -> None:
    environ = {**THREE, "OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT": "2s"}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    command = [sys.executable, *SERVE, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--verdicts", "json"]
    command += ["--criteria", str(EVALUATIONS)]
    wait = {"OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED": "0s"}
    with subprocess.Popen(command, env={**inherited, **environ, **wait}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            http = json.loads(process.stdout.readline())["http"]
            for first in range(1, 2_001, 100):
                send_json(http, otlp(*(otlp_span(trace, 1, attributes=NAMED) for trace in range(first, first + 100))))
            numbers = count(5_000)

            def is_taken_at_once() -> bool:
                began = time.monotonic()
                send_json(http, otlp(*(otlp_span(next(numbers), 1, attributes=NAMED) for _ in range(30))))
                return time.monotonic() - began < 5.0

            wait_for(is_taken_at_once, "a request that is not held up")  # on a busy machine, not the first one
            assert get(http, "/livez") == (200, b"ok\n")
            assert get(http, "/status")[0] == 200  # with what was told last: it asks for rows that nobody can write
            time.sleep(STALLED_SECONDS + 1)
            send_json(http, otlp(*(otlp_span(next(numbers), 1, attributes=NAMED) for _ in range(30))))
        finally:
            process.kill()


def test_each_holds_its_own_end_alone() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ=THREE) as sidecar:
        pids = members(sidecar)
        held = {pid: {file.readlink() for file in Path(f"/proc/{pid}/fd").iterdir()} for pid in pids}
        sockets = {pid: {name for name in names if str(name).startswith("socket:")} for pid, names in held.items()}
        assert all(not sockets[one] & sockets[other] for one in pids for other in pids if one != other)
        of_first = {file.readlink() for file in Path(f"/proc/{sidecar.process.pid}/fd").iterdir()}
        assert all(not sockets[pid] & of_first for pid in pids)
