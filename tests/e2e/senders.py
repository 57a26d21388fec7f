"""The world's senders, each as a process of its own that sends until it is told to stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.collector import DROPS, collecting, patient_exporter
from tests.e2e.processes import logged
from tests.e2e.toolchain import LOWEST_SDK, NODE, built
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.e2e.collector import Collecting

MOST_TRACES = 5_000
"""Of one sender: a bound for a test that never comes to its end. Usual are some hundred."""

GIVEN_UP = "given up"
"""What senders say when their exporter has dropped something."""

PYTHON_SENDER = Path(__file__).with_name("python_sender.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a sender did.

    Attributes:
        runs: for each trace ID which recorded run it repeats.
        given_up: traces of which the sender itself dropped something, and said so.
        spans: for each trace ID how many spans it has.
        roots: for each trace ID the ID of its root span.
    """

    runs: Mapping[str, int]
    given_up: frozenset[str]
    spans: Mapping[str, int]
    roots: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A kind of sender.

    Attributes:
        name: of the test case.
        protocol: ``grpc``, ``http/protobuf`` or ``http/json``.
        program: what runs it; called, since it may not be built yet.
        retries: words in its log when it is going to send a request again.
        hint: words in its log when it is going to do so after the second that a refusal asks for; None if it can't be told what it obeys.
        in_order: it has one request under way at a time, so the spans of a trace come in the order in which they ended.
        keeps_refused: it sends again what is refused for now; else it drops that.
        keeps_unsent: it sends again what it could not send; else it drops that.
        gzip: it compresses.
        exporter: of the Collector, in whose place the Python SDK sends; None if it is none.
    """

    name: str
    protocol: str
    program: Callable[[], Sequence[str]]
    retries: str
    hint: str | None
    in_order: bool = True
    keeps_refused: bool = True
    keeps_unsent: bool = True
    gzip: bool = False
    exporter: str | None = None

    def __str__(self) -> str:
        """Return the name, for the test's ID."""
        return self.name


def _newest_python() -> Sequence[str]:
    return (sys.executable, str(PYTHON_SENDER))


def _lowest_python() -> Sequence[str]:
    return (str(built(LOWEST_SDK) / "bin" / "python"), str(PYTHON_SENDER))


def _node() -> Sequence[str]:
    return ("node", str(built(NODE) / "sender.mjs"))


_PYTHON_RETRIES = "Transient error"
_HINTED = "retrying in 1.00s"
_NODE_RETRIES = "Scheduling export retry in"
_COLLECTOR_RETRIES = "Will retry the request after interval."
# The Collector waits for the longer of the hint and its own interval, which tests set far lower.
_COLLECTOR_HINT = '"interval":"1s"'

PYTHON = (
    Sender(name="python-grpc", protocol="grpc", program=_newest_python, retries=_PYTHON_RETRIES, hint=_HINTED),
    Sender(name="python-http", protocol="http/protobuf", program=_newest_python, retries=_PYTHON_RETRIES, hint=_HINTED, gzip=True),
    Sender(name="python-lowest-grpc", protocol="grpc", program=_lowest_python, retries=_PYTHON_RETRIES, hint=_HINTED, gzip=True),
    # This version knows no Retry-After, and it raises, and so drops, if it can't connect at once.
    Sender(
        name="python-lowest-http",
        protocol="http/protobuf",
        program=_lowest_python,
        retries=_PYTHON_RETRIES,
        hint=None,
        keeps_unsent=False,
    ),
)
JAVASCRIPT = (
    # Its gRPC exporter never sends a request again, whatever the answer says.
    Sender(
        name="node-grpc",
        protocol="grpc",
        program=_node,
        retries=GIVEN_UP,
        hint=None,
        in_order=False,
        keeps_refused=False,
        keeps_unsent=False,
    ),
    Sender(
        name="node-http-protobuf", protocol="http/protobuf", program=_node, retries=_NODE_RETRIES, hint="retry in 1000ms", in_order=False
    ),
    Sender(
        name="node-http-json", protocol="http/json", program=_node, retries=_NODE_RETRIES, hint="retry in 1000ms", in_order=False, gzip=True
    ),
)
_COLLECTOR = {"program": _newest_python, "retries": _COLLECTOR_RETRIES, "hint": _COLLECTOR_HINT, "in_order": False}
COLLECTORS = (
    Sender(name="collector-grpc", protocol="grpc", exporter="otlp_grpc", **_COLLECTOR),  # type: ignore[arg-type]
    Sender(name="collector-http-protobuf", protocol="http/protobuf", exporter="otlp_http", **_COLLECTOR),  # type: ignore[arg-type]
    Sender(name="collector-http-json", protocol="http/json", exporter="otlp_http", **_COLLECTOR),  # type: ignore[arg-type]
)
EVERY = (*PYTHON, *JAVASCRIPT, *COLLECTORS)


@dataclass(kw_only=True)
class Sending:
    """A sender at work."""

    process: subprocess.Popen[str]
    sender: Sender
    log: list[str] = field(default_factory=list)
    collector: Collecting | None = None

    @property
    def said(self) -> str:
        """Return what the exporter has logged so far."""
        return "".join(self.log if self.collector is None else self.collector.log)

    @property
    def rebuffed(self) -> bool:
        """Tell whether it has noticed that a request was not taken."""
        return self.sender.retries in self.said or GIVEN_UP in self.said

    def stop(self) -> Sent:
        """Let it send what it has, and return what it did; a Collector that it sends through goes on."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        answer = self.process.stdout.read()
        assert self.process.wait(PATIENCE_SECONDS) == 0, "".join(self.log)
        told = json.loads(answer)
        given_up = frozenset(told["given_up"])
        assert self.collector is None or not given_up, "the Collector under test refused its own sender"
        return Sent(
            runs={trace_id: run for trace_id, (run, _, _) in told["sent"].items()},
            given_up=given_up,
            spans={trace_id: number for trace_id, (_, number, _) in told["sent"].items()},
            roots={trace_id: root for trace_id, (_, _, root) in told["sent"].items()},
        )


@contextmanager
def sending(sender: Sender, *, grpc: str, http: str, runs: Path, folder: Path, whole: bool, most: int = MOST_TRACES) -> Iterator[Sending]:
    """Run a sender until it is told to stop, or has sent the most that it may.

    Args:
        sender: which.
        grpc: where the sidecar serves gRPC, or will.
        http: where it serves HTTP.
        runs: the recorded runs.
        folder: for the files of the sender.
        whole: each request has all the spans of each of its traces; else traces are spread over several.
        most: traces.
    """
    spread = {"batch": 512, "flush_every": 1} if whole else {"batch": 7, "flush_every": 20}
    options = {"runs": str(runs), "most": most, **spread}
    target = f"http://{grpc if sender.protocol == 'grpc' else http}"
    if sender.exporter is None:
        options |= {"endpoint": target, "protocol": sender.protocol, "gzip": sender.gzip}
        with _running(sender, options) as found:
            yield found
        return
    exporters = {sender.exporter: patient_exporter(sender.exporter, sender.protocol, target)}
    with collecting(folder, exporters=exporters, traces=("groupbytrace", "batch")) as collector:
        options |= {"endpoint": f"http://{collector.grpc}", "protocol": "grpc", "gzip": False}
        with _running(sender, options) as found:
            found.collector = collector
            yield found
        # Not before all has arrived: a Collector that is told to end drops what it is waiting to send again.
        collector.stop()
        assert not any(words in line for words in DROPS for line in collector.log), "the Collector dropped something"


@contextmanager
def _running(sender: Sender, options: Mapping[str, object]) -> Iterator[Sending]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    program = [*sender.program(), json.dumps(options)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ)
    found = Sending(process=process, sender=sender)
    with logged(process, found.log):
        yield found
