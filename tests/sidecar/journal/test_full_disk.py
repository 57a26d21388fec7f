"""A disk that is really full: the journal on a file system of 2 MiB of its own, filled and emptied while senders send."""

from __future__ import annotations

import errno
import functools
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped] # it has no types

from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import PROTOBUF, TRACES, ask
from tests.sidecar.journal.test_kills import POLICY, Senders, judged_once, requests_of
from tests.sidecar_process import get, metric_sums, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sidecar_process import RunningSidecar

# Without a step between: the process keeps its ID, and its mounts end with it.
_MOUNT = 'mount -t tmpfs -o "size=$1" none "$0" && shift && exec "$@"'
_SERVE = """
import os, sys
folder, size = sys.argv[1:3]
os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c", {mount!r}, folder, size,
          sys.executable, "-m", "otel_toolcall_eval", "serve", *sys.argv[3:]])
"""


@functools.cache
def _why_not() -> str:
    """Return why file systems can't be mounted here; empty if they can."""
    command = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    try:
        tried = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        return f"no unshare here: {error.strerror}"
    return tried.stderr.strip() if tried.returncode else ""


@pytest.fixture(autouse=True)
def _can_mount() -> None:
    if _why_not():
        pytest.skip(f"needs the right to mount a file system in a namespace of its own: {_why_not()}")


def serve_on(folder: Path, size: str) -> tuple[str, ...]:
    """Return what runs ``serve`` with a file system of this size at ``folder``."""
    folder.mkdir()
    return ("-c", _SERVE.format(mount=_MOUNT), str(folder), size)


def seen_by(sidecar: RunningSidecar, folder: Path) -> Path:
    """Return the path by which we reach a folder as the sidecar sees it."""
    return Path(f"/proc/{sidecar.process.pid}/root{folder}")


def fill(path: Path) -> None:
    """Take all the room that is left, in one file."""
    with path.open("wb", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while ballast.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - how it ends


def seconds_until(condition: Callable[[], bool], what: str) -> float:
    """Wait, and return how many seconds that took."""
    begun = time.monotonic()
    wait_for(condition, what)
    return time.monotonic() - begun


def is_ready(sidecar: RunningSidecar) -> bool:
    return get(sidecar.http, "/readyz")[0] == 200


def environ_of(folder: Path, sync: str = "ack") -> dict[str, str]:
    return {"OTEL_TOOLCALL_EVAL_JOURNAL_PATH": str(folder / "journal"), "OTEL_TOOLCALL_EVAL_JOURNAL_SYNC": sync}


@pytest.mark.slow
def test_senders_keep_what_a_full_disk_has_no_room_for_and_all_goes_on_once_there_is_room(tmp_path: Path) -> None:
    folder, policy = tmp_path / "disk", tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    senders = Senders()
    with running_sidecar("--criteria", str(policy), environ=environ_of(folder), program=serve_on(folder, "2m")) as sidecar:
        senders.sidecar = sidecar
        senders.start()
        try:
            recoveries = []
            for _ in range(3):
                before = len(senders.acknowledged)
                seconds_until(lambda before=before: len(senders.acknowledged) > before + 5, "traces that are taken in")  # type: ignore[misc]
                ballast = seen_by(sidecar, folder) / "ballast"
                fill(ballast)
                seconds_until(lambda: get(sidecar.http, "/readyz") == (503, b"journal\n"), "a full disk")
                _is_refused_as_promised(sidecar)
                assert get(sidecar.http, "/livez") == (200, b"ok\n")
                ballast.unlink()
                recoveries.append(seconds_until(lambda: is_ready(sidecar), "room"))
        finally:
            senders.stop()
        assert sidecar.terminate() == 0
        said = sidecar.drained()
        print(f"{len(senders.acknowledged)} traces, {senders.resent} requests sent again, back after {recoveries} s")  # noqa: T201 - figures
    judged_once(said, senders.acknowledged, sidecar.log)
    told = [line for line in sidecar.log if "journal can" in line]
    assert [("can't" in line) for line in told] == [True, False] * 3  # once for each episode


def _is_refused_as_promised(sidecar: RunningSidecar) -> None:
    (body, _) = requests_of(1 << 100)
    reply = ask(int(sidecar.http.rpartition(":")[2]), "POST", "/v1/traces", body, Content_Type=PROTOBUF)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    with grpc.insecure_channel(sidecar.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(TRACES, None, None)(body, timeout=PATIENCE_SECONDS)
    trailers = {each.key: each.value for each in refused.value.trailing_metadata()}
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"]).retry_delay.seconds == 1


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["none", "interval"])
def test_without_ack_judging_goes_on_while_the_disk_is_full(tmp_path: Path, sync: str) -> None:
    folder, policy = tmp_path / "disk", tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    senders = Senders()
    with running_sidecar("--criteria", str(policy), environ=environ_of(folder, sync), program=serve_on(folder, "2m")) as sidecar:
        ballast = seen_by(sidecar, folder) / "ballast"
        senders.sidecar = sidecar
        senders.start()
        try:
            seconds_until(lambda: len(senders.acknowledged) > 5, "traces that are taken in")
            fill(ballast)
            seconds_until(lambda: metric_sums(sidecar.http).get("toolcall_eval_journal_failures_total", 0) > 0, "a full disk")
            before = len(senders.acknowledged)
            seconds_until(lambda: len(senders.acknowledged) > before + 5, "traces that are taken in without a journal")
            assert is_ready(sidecar)
            ballast.unlink()
            seconds_until(lambda: any("can be written again" in line for line in sidecar.log), "a journal that is written again")
        finally:
            senders.stop()
        assert sidecar.terminate() == 0
        said = sidecar.drained()
    assert senders.resent == 0
    judged_once(said, senders.acknowledged, sidecar.log)


@pytest.mark.slow
def test_a_disk_that_the_journal_alone_fills_is_enough_for_what_is_open(tmp_path: Path) -> None:
    """The log that SQLite writes ahead grows beyond a small disk long before it would be written back; that has to happen then."""
    folder, policy = tmp_path / "disk", tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    senders = Senders()
    with running_sidecar("--criteria", str(policy), environ=environ_of(folder), program=serve_on(folder, "1m")) as sidecar:
        senders.sidecar = sidecar
        senders.start()
        try:
            seconds_until(lambda: len(senders.acknowledged) > 300, "traces that are taken in")
        finally:
            senders.stop()
        assert sidecar.terminate() == 0
        said = sidecar.drained()
    judged_once(said, senders.acknowledged, sidecar.log)


_OTHERS_FILL_THE_DISK = """
import sys
from pathlib import Path
from otel_toolcall_eval.sidecar.journal import statements as sql
from otel_toolcall_eval.sidecar.journal.store import JournalStore, Sync
from tests.sidecar.journal.test_full_disk import fill
path = Path(sys.argv[1]) / "journal"
store = JournalStore(path, Sync.ACK)
for number in range(1, 301):
    store.change((sql.INSERT, [(number, bytes(16), 1, 0, 0, bytes(9_000))]), (sql.DELETE_ROW, [(number - 2,)]))
fill(path.with_name("ballast"))
for number in range(301, 401):
    store.change((sql.INSERT, [(number, bytes(16), 1, 0, 0, bytes(9_000))]), (sql.DELETE_ROW, [(number - 2,)]))
print([row.number for row in store.rows()])
"""


def test_the_room_of_the_log_is_used_before_anybody_is_refused(tmp_path: Path) -> None:
    """Once the file has the room that its rows need, it can do without what the log has taken since."""
    (tmp_path / "disk").mkdir()
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _MOUNT, str(tmp_path / "disk"), "8m"]
    command += [sys.executable, "-c", _OTHERS_FILL_THE_DISK, str(tmp_path / "disk")]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout.endswith("[399, 400]\n")
