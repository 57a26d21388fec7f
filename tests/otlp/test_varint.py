from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.otlp.varint import MalformedError, fields_of, read_varint
from tests.otlp.otlp_requests import varint


@given(number=st.integers(0, 2**64 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_a_number_is_read_back_where_it_was_written(number: int, before: bytes, after: bytes) -> None:
    data = before + varint(number) + after
    assert read_varint(data, len(before), len(data)) == (number, len(data) - len(after))


@pytest.mark.parametrize(
    ("data", "end"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"\x80", 1, id="one byte that continues"),
        pytest.param(b"\x80\x80\x01", 2, id="cut by what it stands in"),
        pytest.param(b"\x80" * 10 + b"\x01", 11, id="eleven bytes"),
    ],
)
def test_a_number_that_does_not_end_is_malformed(data: bytes, end: int) -> None:
    with pytest.raises(MalformedError):
        read_varint(data, 0, end)


def test_more_than_64_bits_are_cut() -> None:
    assert read_varint(b"\xff" * 9 + b"\x7f", 0, 10) == (2**64 - 1, 10)


def test_fields_of_every_wire_type_are_found() -> None:
    data = b"\x0a\x02ab" + b"\x10\x96\x01" + b"\x19" + bytes(8) + b"\x25" + bytes(4)
    assert list(fields_of(data, 0, len(data))) == [(0x0A, 2, 4), (0x10, 5, 7), (0x19, 8, 16), (0x25, 17, 21)]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x03ab", id="text cut"),
        pytest.param(b"\x19" + bytes(7), id="fixed64 cut"),
        pytest.param(b"\x25" + bytes(3), id="fixed32 cut"),
        pytest.param(b"\x0b\x0c", id="group"),
        pytest.param(b"\x0e", id="wire type 6"),
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0a" + varint(2**63), id="length beyond everything"),
    ],
)
def test_a_field_that_can_not_be_framed_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        list(fields_of(data, 0, len(data)))
