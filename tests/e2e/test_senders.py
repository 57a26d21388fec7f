"""Each sender against a sidecar that is healthy, full, restarting, or not there yet: nothing lost, nothing doubled, same verdicts.

Senders are given time to resend for as long as a test can take. Two exporters drop all the same what another would send again
(``senders.py`` says which, and when); then the claim is that what was dropped was not judged, and everything else was.
A trace whose spans come before and after a restart is judged twice, each time as partial, unless a journal is kept; so where a restart is
tested, each request holds whole traces.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from tests.e2e.cutting_proxy import losing_answers
from tests.e2e.judged import SeenVerdict
from tests.e2e.ports import held_ports
from tests.e2e.senders import EVERY, sending
from tests.patience import wait_for
from tests.sidecar_process import SERVE, metric_sums, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.senders import Sender, Sent
    from tests.e2e.traffic import Recorded
    from tests.sidecar_process import RunningSidecar

pytestmark = pytest.mark.e2e

ENOUGH = 12
"""Traces: each recorded run twice."""

STRAGGLING = "3s"
"""Longer than the requests of one sender overtake each other by, where several are under way and traces are spread over them."""


@contextmanager
def sidecar(grpc: str, http: str, *, quiet: str = "0s", held: str = "", queue_bytes: str = "64MiB") -> Iterator[RunningSidecar]:
    """Run a sidecar that judges at once what came whole; ``held`` names what waits until it is released."""
    options = ("--criteria", str(EVALUATIONS), "--grpc", grpc, "--http", http)
    environ = {"OTEL_TOOLCALL_EVAL_LIMITS_QUEUE_BYTES": queue_bytes}
    program = ("-m", "tests.e2e.held_sidecar", held) if held else SERVE
    first = "standing by" if held == "listening" else "ready"
    with running_sidecar(*options, environ=environ, quiet=quiet, program=program, first=first) as running:
        yield running


def release(running: RunningSidecar) -> None:
    running.process.send_signal(signal.SIGUSR1)


def hold_all(judged: SeenVerdict, running: RunningSidecar, sent: Sent, recorded: Recorded) -> None:
    """Wait for the last verdict, and hold that each trace was judged and each span counted once."""
    judged.wait_for(running, sent.runs.keys() - sent.given_up)
    spans = sum(number for t, number in sent.spans.items() if t not in sent.given_up)
    wait_for(lambda: metric_sums(running.http).get("toolcall_eval_spans_received_total", 0) >= spans, "the count of all spans")
    counts = metric_sums(running.http)
    judged.finish(running)
    judged.hold(sent, recorded)
    assert counts["toolcall_eval_spans_received_total"] == spans
    assert counts.get("toolcall_eval_spans_duplicate_total", 0) == 0


@pytest.mark.parametrize("sender", EVERY, ids=str)
def test_healthy_sidecar_judges_what_every_sender_sends_as_its_own_process_would(
    sender: Sender, recorded: Recorded, tmp_path: Path
) -> None:
    judged = SeenVerdict()
    quiet = "0s" if sender.in_order else STRAGGLING
    with (
        held_ports(2) as (grpc, http),
        sidecar(grpc, http, quiet=quiet) as running,
        sending(sender, grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=False, most=ENOUGH * 5) as at_work,
    ):
        judged.wait_for(running, ENOUGH)
        sent = at_work.stop()
        assert not sent.given_up
        hold_all(judged, running, sent, recorded)


@pytest.mark.parametrize("sender", EVERY, ids=str)
def test_full_sidecar_refuses_says_when_to_resend_and_loses_nothing(sender: Sender, recorded: Recorded, tmp_path: Path) -> None:
    judged = SeenVerdict()
    with (
        held_ports(2) as (grpc, http),
        sidecar(grpc, http, held="judging", queue_bytes="128KiB") as running,
        sending(sender, grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=not sender.in_order) as at_work,
    ):
        wait_for(lambda: metric_sums(running.http).get("toolcall_eval_requests_rejected_total", 0) >= 2, "a full queue")
        wait_for(lambda: at_work.rebuffed, "the sender to notice")
        assert sender.hint is None or sender.hint in at_work.said
        release(running)
        judged.wait_for(running, ENOUGH)
        sent = at_work.stop()
        assert bool(sent.given_up) is not sender.keeps_refused
        hold_all(judged, running, sent, recorded)


@pytest.mark.parametrize("sender", EVERY, ids=str)
def test_restart_under_a_sender_that_goes_on_loses_and_doubles_nothing(sender: Sender, recorded: Recorded, tmp_path: Path) -> None:
    judged = SeenVerdict()
    with (
        held_ports(2) as (grpc, http),
        sidecar(grpc, http) as first,
        sidecar(grpc, http, held="listening") as second,
        sending(sender, grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=True) as at_work,
    ):
        judged.wait_for(first, ENOUGH)
        judged.finish(first)
        wait_for(lambda: at_work.rebuffed, "the sender to notice")
        release(second)
        second.wait_until("ready")
        judged.wait_for(second, ENOUGH)
        sent = at_work.stop()
        assert not sent.given_up or not sender.keeps_unsent
        judged.wait_for(second, sent.runs.keys() - sent.given_up)
        judged.finish(second)
    judged.hold(sent, recorded)


@pytest.mark.parametrize("sender", EVERY, ids=str)
def test_sidecar_that_comes_after_its_senders_loses_nothing_of_what_they_keep(sender: Sender, recorded: Recorded, tmp_path: Path) -> None:
    judged = SeenVerdict()
    whole = not sender.in_order or not sender.keeps_unsent  # half a trace that was dropped would leave the other half to be judged
    with (
        held_ports(2) as (grpc, http),
        sidecar(grpc, http, held="listening") as running,
        sending(sender, grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=whole) as at_work,
    ):
        wait_for(lambda: at_work.rebuffed, "the sender to notice")
        release(running)
        running.wait_until("ready")
        judged.wait_for(running, ENOUGH)
        sent = at_work.stop()
        assert bool(sent.given_up) is not sender.keeps_unsent
        hold_all(judged, running, sent, recorded)


@pytest.mark.parametrize("sender", [sender for sender in EVERY if sender.keeps_refused], ids=str)
def test_request_that_is_sent_again_after_its_answer_was_lost_counts_as_duplicate_and_is_judged_once(
    sender: Sender, recorded: Recorded, tmp_path: Path
) -> None:
    judged = SeenVerdict()
    is_grpc = sender.protocol == "grpc"
    with (
        held_ports(2) as (grpc, http),
        sidecar(grpc, http) as running,
        losing_answers(grpc if is_grpc else http, grpc=is_grpc, answers=1) as proxy,
        sending(
            sender, grpc=proxy.address, http=proxy.address, runs=recorded.file, folder=tmp_path, whole=True, most=ENOUGH * 5
        ) as at_work,
    ):
        judged.wait_for(running, ENOUGH)
        sent = at_work.stop()
        assert proxy.cut == 1
        assert not sent.given_up
        judged.wait_for(running, sent.runs)
        wait_for(lambda: metric_sums(running.http).get("toolcall_eval_spans_duplicate_total", 0) > 0, "the count of duplicates")
        counts = metric_sums(running.http)
        judged.finish(running)
    judged.hold(sent, recorded)
    assert counts["toolcall_eval_spans_duplicate_total"] > 0
    assert counts["toolcall_eval_spans_received_total"] == sum(sent.spans.values()) + counts["toolcall_eval_spans_duplicate_total"]
