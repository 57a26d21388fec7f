from __future__ import annotations

import math

import pytest
from hypothesis import given
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_toolcall_eval.model.errors import TooLargeError
from otel_toolcall_eval.otlp.any_value import MAX_NESTING, NestedTooDeepError, read_key_value, read_value, text_of
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, Limits, MemberBudget
from otel_toolcall_eval.otlp.varint import MalformedError
from tests.otlp.otlp_requests import any_values, nested_bytes, plain_value


def read(data: bytes, limits: Limits = DEFAULT_LIMITS) -> object:
    return read_value(data, 0, len(data), MemberBudget(limits))


@given(value=any_values)
def test_a_value_is_what_the_generated_classes_make_of_it(value: AnyValue) -> None:
    assert read(value.SerializeToString()) == plain_value(value)


def test_not_a_number_stays_not_a_number() -> None:
    found = read(AnyValue(double_value=math.nan).SerializeToString())
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b"", None, id="empty"),
        pytest.param(b"\x0a\x02\xff\xfe", "\ufffd\ufffd", id="text that is not UTF-8"),
        pytest.param(b"\x0a\x01a\x0a\x01b", "b", id="text twice: the last counts"),
        pytest.param(b"\x0a\x01a\x18\x05", 5, id="text, then a number: the last counts"),
        pytest.param(b"\x42\x01?\x0a\x01a", "a", id="unknown field first"),
        pytest.param(b"\x0a\x01a\x42\x01?", "a", id="unknown field last"),
        pytest.param(b"\x40\x01", None, id="an index into the table of texts, which profiles alone have"),
        pytest.param(b"\x0a\x01a\x40\x01", "a", id="text, then such an index"),
        pytest.param(b"\x08\x05", None, id="known number, another wire type"),
        pytest.param(b"\x10\x02", True, id="a boolean other than 0 and 1"),
        pytest.param(b"\x18" + b"\xff" * 9 + b"\x01", -1, id="negative"),
        pytest.param(b"\x2a\x02\x10\x01", (), id="array with an unknown field"),
        pytest.param(b"\x32\x02\x10\x01", {}, id="key-value list with an unknown field"),
        pytest.param(b"\x32\x03\x0a\x01\x40", MalformedError, id="key-value list with a broken member"),
        pytest.param(b"\x0a", MalformedError, id="text without length"),
        pytest.param(b"\x0a\x05a", MalformedError, id="text cut"),
        pytest.param(b"\x0a\x01ab", MalformedError, id="text too long"),
        pytest.param(b"\x21\x00", MalformedError, id="double cut"),
    ],
)
def test_odd_bytes_are_read_as_protobuf_says_or_are_malformed(data: bytes, value: object) -> None:
    if value is MalformedError:
        with pytest.raises(MalformedError):
            read(data)
    else:
        assert read(data) == value


def test_nesting_is_allowed_up_to_the_limit_and_no_further() -> None:
    value = read(nested_bytes(MAX_NESTING))
    for _ in range(MAX_NESTING):
        assert isinstance(value, tuple)
        (value,) = value
    assert value == 7
    with pytest.raises(NestedTooDeepError):
        read(nested_bytes(MAX_NESTING + 1))
    with pytest.raises(NestedTooDeepError):
        read(nested_bytes(20_000))


def test_members_are_counted_over_all_values() -> None:
    array = b"\x2a\x04" + b"\x0a\x00" * 2
    kvlist = b"\x32\x04" + b"\x0a\x00" * 2
    budget = MemberBudget(Limits(members=4))
    assert read_value(array, 0, len(array), budget) == (None, None)
    assert read_value(kvlist, 0, len(kvlist), budget) == {"": None}
    with pytest.raises(TooLargeError, match="more than 4 members of arrays"):
        read_value(array, 0, len(array), budget)


@pytest.mark.parametrize(
    ("data", "key", "value"),
    [
        pytest.param(KeyValue(key="a", value=AnyValue(int_value=1)).SerializeToString(), b"a", b"\x18\x01", id="as everyone writes it"),
        pytest.param(b"\x12\x02\x18\x01\x0a\x01a", b"a", b"\x18\x01", id="value first"),
        pytest.param(b"\x0a\x01b\x0a\x01a\x12\x02\x18\x01", b"a", b"\x18\x01", id="key twice: the last counts"),
        pytest.param(b"\x0a\x01a\x12\x02\x18\x01\x22\x01?", b"a", b"\x18\x01", id="unknown field"),
        pytest.param(b"\x0a\x01a", b"a", b"", id="no value"),
        pytest.param(b"\x0a\x01a\x12\x00", b"a", b"", id="empty value"),
        pytest.param(b"\x12\x02\x18\x01", b"", b"\x18\x01", id="no key"),
        pytest.param(b"", b"", b"", id="nothing"),
    ],
)
def test_a_key_and_its_value_are_found(data: bytes, key: bytes, value: bytes) -> None:
    found, start, end = read_key_value(data, 0, len(data))
    assert (found, data[start:end]) == (key, value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0a\x05a", id="key cut"),
        pytest.param(b"\x0a\x01a\x12", id="no length of the value"),
        pytest.param(b"\x0a\x01a\x12\x05\x18", id="value cut"),
    ],
)
def test_a_broken_attribute_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_key_value(data, 0, len(data))


def test_text_keeps_what_is_utf_8() -> None:
    assert text_of("Zürich €".encode() + b"\xc3") == "Zürich €\ufffd"
