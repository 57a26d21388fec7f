"""Three hundred megabytes in small parcels, against a sidecar in a process of its own: its memory grows by less than 64 MiB.

What counts is the most that the process ever took, while the bomb was in its hands, as the kernel counts it.
"""

from __future__ import annotations

import gzip
import socket
import sys
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.otlp.otlp_requests import field, nested_bytes, numbered, request_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import JSON, PROTOBUF, TRACES, call, post
from tests.sidecar_process import RunningSidecar, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process's memory from /proc")

MIB = 1 << 20
BOMB = 300 * MIB
GOOD = request_of(numbered(1)).SerializeToString()


def packed(piece: bytes, total: int = BOMB) -> bytes:
    """Pack ``piece`` again and again, ``total`` bytes in all, into one gzip member.

    A block that begins afresh is packed once and repeated, which saves a minute; the checksum would be wrong, but nobody gets so far.
    """
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    head = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(piece * (MIB // len(piece))) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (total // MIB) + packer.flush()


def members(piece: bytes, total: int = BOMB) -> bytes:
    """Pack the same into members of 4 MiB."""
    member = gzip.compress(piece * (4 * MIB // len(piece)), 9)
    return member * (total // (4 * MIB))


EMPTY_SPANS = field(1, field(2, field(2, b"") * (64 * MIB // 2 - 100)))
BOMBS = {
    "zeros": packed(b"\0"),
    "members": members(b"\0"),
    "gzip in gzip": gzip.compress(packed(b"\0")),
    "empty spans": packed(b"\x12\0"),
    "empty blocks": packed(b"\x0a\0"),
    "empty spans, just below the limit": gzip.compress(EMPTY_SPANS, 6),
    "open groups": packed(b"\xfb\x06"),
    "a value nested deep": gzip.compress(field(1, field(2, field(2, field(9, field(2, nested_bytes(100_000))))))),
}
JSON_BOMBS = {
    "open lists": packed(b"["),
    "open objects": packed(b'{"a":'),
    "empty objects": packed(b"{},"),
    "a number": packed(b"9"),
    "blanks": packed(b" "),
    "empty lists, just below the limit": gzip.compress(b"[" + b"[]," * (60 * MIB // 3) + b"[]]"),
    "empty objects for spans, just below the limit": gzip.compress(
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * (60 * MIB // 3) + b"{}]}]}]}"
    ),
}


@pytest.fixture(scope="module")
def sidecar() -> Iterator[RunningSidecar]:
    with running_sidecar() as found:
        warm_up(found)
        yield found


def warm_up(sidecar: RunningSidecar) -> None:
    """Let it load and allocate what any sender makes it load."""
    for _ in range(20):
        assert post(port_of(sidecar.http), GOOD).status == 200
        assert call(port_of(sidecar.grpc), GOOD).code == "OK"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def peak(sidecar: RunningSidecar) -> int:
    """Return the most memory that the process took since the peak was reset, in bytes."""
    status = Path(f"/proc/{sidecar.process.pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) * 1024


def reset_peak(sidecar: RunningSidecar) -> None:
    Path(f"/proc/{sidecar.process.pid}/clear_refs").write_text("5", encoding="ascii")


def growth(sidecar: RunningSidecar, before: int) -> int:
    return peak(sidecar) - before


def is_given_back(sidecar: RunningSidecar, before: int) -> bool:
    """Tell whether the process takes little more by now, and reset the peak."""
    reset_peak(sidecar)
    return growth(sidecar, before) < 32 * MIB


@pytest.fixture
def before(sidecar: RunningSidecar) -> int:
    """Return what the process takes before the bomb."""
    reset_peak(sidecar)
    return peak(sidecar)


def below_the_limit(name: str) -> bool:
    return "below the limit" in name


@pytest.mark.parametrize("name", [name for name in (*BOMBS, *JSON_BOMBS) if not below_the_limit(name)])
def test_a_bomb_takes_no_memory_and_the_next_sender_is_served(sidecar: RunningSidecar, before: int, name: str) -> None:
    http_port, grpc_port = port_of(sidecar.http), port_of(sidecar.grpc)
    if name in BOMBS:
        assert post(http_port, BOMBS[name], Content_Encoding="gzip").status in {200, 400, 413}
        assert call(grpc_port, BOMBS[name]).code in {"OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
    else:
        assert post(http_port, JSON_BOMBS[name], JSON, Content_Encoding="gzip").status in {400, 413}
    assert growth(sidecar, before) < 64 * MIB
    assert post(http_port, GOOD).status == 200
    assert call(grpc_port, GOOD).code == "OK"


@pytest.mark.parametrize("name", [name for name in (*BOMBS, *JSON_BOMBS) if below_the_limit(name)])
def test_what_is_below_the_limit_takes_a_few_times_its_size_and_gives_it_back(sidecar: RunningSidecar, before: int, name: str) -> None:
    kind, body = (PROTOBUF, BOMBS[name]) if name in BOMBS else (JSON, JSON_BOMBS[name])
    assert post(port_of(sidecar.http), body, kind, Content_Encoding="gzip").status == 413  # too many parts
    assert growth(sidecar, before) < 4 * 64 * MIB

    wait_for(lambda: is_given_back(sidecar, before), "memory that is given back")


@pytest.mark.slow
def test_floods_of_headers_requests_and_plain_bytes_take_no_memory(sidecar: RunningSidecar, before: int) -> None:
    address = ("127.0.0.1", port_of(sidecar.http))
    begin = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"
    typed = begin + b"Content-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n"
    floods = {
        "short headers": (begin, b"X-A: a\r\n" * 10_000),
        "long headers": (begin, (b"X-A: " + b"a" * 8000 + b"\r\n") * 100),
        "one header without end": (begin + b"X-A: ", bytes(MIB).replace(b"\0", b"a")),
        "requests": (b"", b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" * 10_000),
        "an extension of a chunk": (typed + b"5;", b"a" * MIB),
    }
    for first, more in floods.values():
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(first)
            for _ in range(100):
                try:
                    connection.sendall(more)
                except OSError:
                    break  # cut, or no longer read
    assert growth(sidecar, before) < 64 * MIB
    assert "error" not in "".join(sidecar.log)


@pytest.mark.slow
def test_floods_of_metadata_take_no_memory(sidecar: RunningSidecar, before: int) -> None:
    many = tuple((f"key-{number}", "x" * 1000) for number in range(1000))
    with grpc.insecure_channel(f"127.0.0.1:{port_of(sidecar.grpc)}", options=[("grpc.max_metadata_size", 64 * MIB)]) as channel:
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACES, None, None)
        for _ in range(50):
            with pytest.raises(grpc.RpcError) as refused:
                export(GOOD, metadata=many, timeout=PATIENCE_SECONDS)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert growth(sidecar, before) < 64 * MIB
    assert call(port_of(sidecar.grpc), GOOD).code == "OK"


@pytest.mark.slow
def test_health_checks_of_the_largest_size_take_the_memory_of_one() -> None:
    """Whoever asks has no token. gRPC reads a message whole, so what bounds this is how many are read at a time."""
    largest = field(1, bytes(63 * MIB))
    codes: list[str] = []

    def ask_for_health(sidecar: RunningSidecar) -> None:
        codes.append(call(port_of(sidecar.grpc), largest, "/grpc.health.v1.Health/Check").code)

    def take_the_memory_of_one() -> bool:
        with running_sidecar() as sidecar:  # one for each try, since not all that was taken is given back
            warm_up(sidecar)
            reset_peak(sidecar)
            before = peak(sidecar)
            asking = [threading.Thread(target=ask_for_health, args=(sidecar,)) for _ in range(6)]
            for each in asking:
                each.start()
            for each in asking:
                each.join()
            return growth(sidecar, before) < 5 * 64 * MIB  # gRPC copies it; six took twice as much

    # On a busy machine, gRPC may hold one that was cut, since its turn was over, while it reads the next one.
    wait_for(take_the_memory_of_one, "turns that are kept")
    assert set(codes) <= {"RESOURCE_EXHAUSTED", "UNAVAILABLE", "CANCELLED"}
