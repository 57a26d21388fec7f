"""Durations, sizes, numbers and addresses: what is taken, what is refused, and that JSON Schema says the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from otel_toolcall_eval.settings.config_model import in_our_words
from otel_toolcall_eval.settings.types import FROM_TEXT, Address, Duration, ListenAddress, Mebibytes, Natural, Positive, Size

SECOND_NS = 1_000_000_000


def schema_takes(kind: type[Any], value: object) -> bool:
    return bool(Draft202012Validator(TypeAdapter(kind).json_schema()).is_valid(value))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(Duration, "10s", 10 * SECOND_NS, id="seconds"),
        pytest.param(Duration, "500ms", SECOND_NS // 2, id="milliseconds"),
        pytest.param(Duration, "1.5m", 90 * SECOND_NS, id="minutes"),
        pytest.param(Duration, "1h30m", 5400 * SECOND_NS, id="several-units"),
        pytest.param(Duration, 0, 0, id="none"),
        pytest.param(Duration, 2.5, 2_500_000_000, id="number-of-seconds"),
        pytest.param(Duration, "2.5", 2_500_000_000, id="number-of-seconds-as-text"),
        pytest.param(Duration, "8784h", 366 * 24 * 3600 * SECOND_NS, id="a-year"),
        pytest.param(Size, 1, 1, id="one-byte"),
        pytest.param(Size, "64MiB", 64 * 1024**2, id="mebibytes"),
        pytest.param(Size, "8 KiB", 8192, id="kibibytes-with-a-blank"),
        pytest.param(Size, "2GiB", 2 * 1024**3, id="gibibytes"),
        pytest.param(Size, "7B", 7, id="bytes"),
        pytest.param(Size, "7", 7, id="number-of-bytes-as-text"),
        pytest.param(Positive, 1, 1, id="least-positive"),
        pytest.param(Natural, 0, 0, id="least-natural"),
        pytest.param(Mebibytes, 2, 2 * 1024**2, id="number-of-mebibytes"),
        pytest.param(ListenAddress, "127.0.0.1:4317", Address(host="127.0.0.1", port=4317), id="ipv4"),
        pytest.param(ListenAddress, "[::1]:0", Address(host="::1", port=0), id="ipv6-any-port"),
        pytest.param(ListenAddress, "localhost:65535", Address(host="localhost", port=65535), id="name-greatest-port"),
    ],
)
def test_right_values_are_taken(kind: type[Any], value: object, expected: object) -> None:
    assert TypeAdapter(kind).validate_python(value) == expected
    assert schema_takes(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        pytest.param(Duration, "5x", "'5x' is not a duration", id="unknown-unit"),
        pytest.param(Duration, "s", "'s' is not a duration", id="unit-alone"),
        pytest.param(Duration, "", "'' is not a duration", id="empty-duration"),
        pytest.param(Duration, "-5s", "'-5s' is not a duration", id="negative-text"),
        pytest.param(Duration, "5m5", "'5m5' is not a duration", id="unit-missing"),
        pytest.param(Duration, -1, "-1 is not at least 0.0", id="negative-number"),
        pytest.param(Duration, True, "this is a boolean, not a number", id="boolean-as-duration"),
        pytest.param(Duration, None, "this is null, not a number", id="null-as-duration"),
        pytest.param(Size, "8MB", "'8MB' is not a size", id="megabytes"),
        pytest.param(Size, "1.5MiB", "'1.5MiB' is not a size", id="part-of-a-mebibyte"),
        pytest.param(Size, 0, "0 is not at least 1", id="no-size"),
        pytest.param(Size, 1.5, "this is a decimal number, not a whole number", id="part-of-a-byte"),
        pytest.param(Positive, 0, "0 is not at least 1", id="zero"),
        pytest.param(Natural, -1, "-1 is not at least 0", id="negative"),
        pytest.param(Positive, "10", "this is text, not a whole number", id="number-as-text"),
        pytest.param(Positive, True, "this is a boolean, not a whole number", id="boolean-as-number"),
        pytest.param(Mebibytes, 0, "0 is not at least 1", id="no-mebibytes"),
        pytest.param(ListenAddress, "localhost", "'localhost' has no port from 0 to 65535", id="no-port"),
        pytest.param(ListenAddress, 4317, "this is a whole number, not an address", id="port-alone"),
    ],
)
def test_wrong_values_are_refused(kind: type[Any], value: object, what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert in_our_words(caught.value.errors()[0])[0] == what
    assert not schema_takes(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        pytest.param(Duration, "8785h", "3.1626e+07 seconds are more than a year", id="more-than-a-year"),
        pytest.param(Duration, 10**300, "1e+300 seconds are more than a year", id="more-than-ever"),
        pytest.param(Duration, float("inf"), "inf seconds are more than a year", id="for-ever"),
        pytest.param(Duration, float("nan"), "nan is not at least 0.0", id="nan"),
        pytest.param(Size, "999999999999999GiB", f"a huge number is not at most {2**62}", id="beyond-memory"),
        pytest.param(Positive, 10**13, "10000000000000 is not at most 1000000000000", id="too-large"),
        pytest.param(ListenAddress, "a:65536", "'a:65536' has no port from 0 to 65535", id="port-too-great"),
        pytest.param(ListenAddress, "a:٣", "'a:٣' has no port from 0 to 65535", id="port-in-another-script"),
        pytest.param(ListenAddress, ":4317", "':4317' has no host", id="no-host"),
        pytest.param(ListenAddress, "http://a:4317", "'http://a:4317' is a URL", id="url"),
        pytest.param(ListenAddress, "::1:4317", "'::1:4317' is an IPv6 address without brackets", id="no-brackets"),
        pytest.param(ListenAddress, "a b:1", "'a b:1' has no host", id="blank-in-host"),
        pytest.param(ListenAddress, "a/b:1", "'a/b:1' has no host", id="path-in-host"),
    ],
)
def test_what_json_schema_can_not_tell_is_refused_too(kind: type[Any], value: object, what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert in_our_words(caught.value.errors()[0])[0] == what


def test_variables_are_text_and_numbers_in_them_are_numbers() -> None:
    assert TypeAdapter(Positive).validate_python(" 10 ", context=FROM_TEXT) == 10
    with pytest.raises(ValidationError, match="Input should be a valid integer"):
        TypeAdapter(Positive).validate_python("ten", context=FROM_TEXT)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),  # noqa: S104 - that this is told apart is the test
        ("::", False),
        ("192.168.0.1", False),
        ("sidecar.example", False),
        ("localhost.example", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, loopback: bool) -> None:  # noqa: FBT001 - a table's column
    assert Address(host=host, port=1).is_loopback is loopback


@pytest.mark.parametrize("text", ["127.0.0.1:4317", "[::1]:4317", "localhost:0"])
def test_addresses_are_shown_as_they_are_written(text: str) -> None:
    assert str(TypeAdapter(ListenAddress).validate_python(text)) == text


@given(st.text(alphabet="0123456789.hms []:KMGiB-"))
def test_any_text_is_taken_or_refused_in_our_words(text: str) -> None:
    for kind in (Duration, Size, ListenAddress):
        try:
            TypeAdapter(kind).validate_python(text)
        except ValidationError as error:
            assert in_our_words(error.errors()[0])[0] != "a key is not text"  # noqa: PT017 - both ways out are right; that is what an unforeseen error turns into


@pytest.mark.parametrize(
    ("listened", "reached"),
    [
        pytest.param("0.0.0.0", "127.0.0.1:4318", id="every address"),  # noqa: S104 - nothing is bound
        pytest.param("::", "[::1]:4318", id="every IPv6 address"),
        pytest.param("0:0:0:0:0:0:0:0", "[::1]:4318", id="written out"),
        pytest.param("10.0.0.7", "10.0.0.7:4318", id="one address"),
        pytest.param("sidecar", "sidecar:4318", id="name"),
    ],
)
def test_what_clients_on_this_machine_connect_to(listened: str, reached: str) -> None:
    assert str(Address(host=listened, port=4318).from_here) == reached
