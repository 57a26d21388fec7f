from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError
from otel_toolcall_eval.otlp.unpacking import Gunzip, gunzip, is_packed

LIMIT = 1 << 22


@given(members=st.lists(st.binary(max_size=200), max_size=4), chunk=st.integers(1, 50), padding=st.integers(0, 3))
def test_what_was_packed_is_unpacked_however_it_is_cut_into_members_and_chunks(members: list[bytes], chunk: int, padding: int) -> None:
    packed = b"".join(map(gzip.compress, members)) + bytes(padding if members else 0)
    unpacker = Gunzip(LIMIT)
    pieces = [piece for start in range(0, len(packed), chunk) for piece in unpacker.feed(packed[start : start + chunk])]
    unpacker.finish()
    assert b"".join(pieces) == b"".join(members) == gunzip(packed, LIMIT)


def test_large_bodies_come_in_pieces_of_bounded_size() -> None:
    data = bytes(LIMIT)
    pieces = list(Gunzip(LIMIT).feed(gzip.compress(data)))
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) == 1 << 20
    assert gunzip(gzip.compress(data), LIMIT) == data


def test_what_is_larger_than_is_held_at_once_is_unpacked_all_the_same() -> None:
    data = bytes(range(256)) * (5 << 12)  # 5 MiB
    assert gunzip(gzip.compress(data), len(data)) == data


def test_deflate_is_unpacked_too() -> None:
    assert gunzip(zlib.compress(b"data"), LIMIT) == b"data"


@pytest.mark.parametrize(
    ("size", "fits"), [pytest.param(1000, True, id="exactly the limit"), pytest.param(1001, False, id="one byte more")]
)
def test_the_limit_counts_unpacked_bytes_over_all_members(size: int, fits: bool) -> None:  # noqa: FBT001 - a column of the table
    packed = gzip.compress(bytes(size - 10)) + gzip.compress(bytes(10))
    if fits:
        assert len(gunzip(packed, 1000)) == size
    else:
        with pytest.raises(TooLargeError, match="exceeds 1000 bytes"):
            gunzip(packed, 1000)


def test_a_bomb_is_refused_after_as_much_as_is_allowed() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    unpacker = Gunzip(1 << 20)
    given_out: list[bytes] = []
    with pytest.raises(TooLargeError):
        given_out.extend(unpacker.feed(bomb))
    assert sum(map(len, given_out)) <= 1 << 20


def test_members_without_end_are_refused() -> None:
    with pytest.raises(DecodeError, match="more than 1000 gzip members"):
        gunzip(gzip.compress(b"") * 1001, LIMIT)
    assert gunzip(gzip.compress(b"a") * 1000, LIMIT) == b"a" * 1000


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"not gzip at all", id="text"),
        pytest.param(gzip.compress(b"data" * 100)[:-1], id="one byte short"),
        pytest.param(b"\x1f\x8b", id="magic alone"),
        pytest.param(gzip.compress(b"data")[:-4] + b"\xff\xff\xff\xff", id="wrong length in the trailer"),
        pytest.param(gzip.compress(b"data") + b"rubbish", id="rubbish behind"),
    ],
)
def test_bad_gzip_is_a_decode_error(packed: bytes) -> None:
    with pytest.raises(DecodeError, match="gzip") as refused:
        gunzip(packed, LIMIT)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("data", "packed"),
    [
        pytest.param(gzip.compress(b"x"), True, id="gzip"),
        pytest.param(zlib.compress(b"x"), True, id="zlib"),
        pytest.param(b"\x78\x00", False, id="a letter"),
        pytest.param(b"\x0a\x00", False, id="a request"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_packed_data_is_told_by_its_first_bytes(data: bytes, packed: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_packed(data) is packed
