"""A span that is compared with earlier ones of its name comes out as one that is read attribute by attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue

from otel_toolcall_eval.model.trace import Projection, Resource, Scope, Span
from otel_toolcall_eval.wire import patterns
from otel_toolcall_eval.wire.attribute_reader import AttributeReader
from otel_toolcall_eval.wire.limits import DEFAULT_LIMITS, Limits, MemberBudget
from otel_toolcall_eval.wire.patterns import Pattern, Patterns, Place
from otel_toolcall_eval.wire.schema import parse_span
from otel_toolcall_eval.wire.span_factory import Kept, origin_of, text_bytes
from otel_toolcall_eval.wire.span_reader import SpanReader
from otel_toolcall_eval.wire.varint import MalformedError
from tests.wire.otlp_requests import KEEP, attribute, field, nested, nested_bytes, numbered, varint

if TYPE_CHECKING:
    from collections.abc import Sequence

ORIGIN = origin_of(Resource(), Scope(), spans=1)
LONG = "v" * 100


def text(key: str, value: str) -> bytes:
    return field(9, attribute(key, value).SerializeToString())


def number(key: str, value: int) -> bytes:
    return field(9, attribute(key, AnyValue(int_value=value)).SerializeToString())


def overlong(content: bytes) -> bytes:
    """Return an attribute whose length is written in one byte more than it needs."""
    return b"\x4a" + bytes((len(content) | 0x80, 0)) + content


def encoded(*attributes: bytes, name: str = "step", behind: bytes = b"") -> bytes:
    return numbered(1, name=name).SerializeToString() + b"".join(attributes) + behind


def scan(reader: AttributeReader, data: bytes) -> Span:
    found = SpanReader(reader, MemberBudget(DEFAULT_LIMITS)).scan(data, ORIGIN)
    assert isinstance(found, Span)
    return found


def parse(reader: AttributeReader, data: bytes) -> Span:
    found = SpanReader(reader, MemberBudget(DEFAULT_LIMITS)).parse(parse_span(data), ORIGIN)
    assert isinstance(found, Span)
    return found


def pattern_of(reader: AttributeReader, name: str = "step") -> Pattern:
    return reader._patterns.by_name[name.encode()]  # noqa: SLF001 - what is remembered is not visible otherwise


def learned(*attributes: bytes, again: Sequence[bytes] | None = None) -> AttributeReader:
    """Return a reader that has seen a span often enough to know it, if need be the second time with other values."""
    reader = AttributeReader(KEEP)
    for each in (attributes, attributes, *([] if again is None else [again] * 2)):
        scan(reader, encoded(*each))
    return reader


KEY_VALUES = st.builds(
    field,
    st.just(9),
    st.builds(
        lambda key, value: attribute(key, value).SerializeToString(),
        st.sampled_from(["tool.name", "id", "input.value", "other", "x.made.up", "k" * 200, ""]),
        st.sampled_from(
            [
                "a",
                "b",
                "",
                "é",
                LONG,
                LONG + "!",
                "v" * 20_000,
                *(AnyValue(int_value=value) for value in (0, 1, -1)),
                AnyValue(bool_value=True),
                AnyValue(double_value=1.0),
                AnyValue(bytes_value=b"b" * 80),
                AnyValue(),
                nested(2),
                nested(1, kvlist=True),
            ]
        ),
    ),
)
ODD = st.sampled_from(
    [
        overlong(attribute("tool.name", "a").SerializeToString()),
        overlong(attribute("id", "a").SerializeToString()),
        field(9, field(1, b"id") + field(2, nested_bytes(101))),
        field(9, field(1, b"id") + field(2, field(1, b"a" * 80) + b"\x18\x07")),
        field(9, field(1, b"tool.name") + field(2, field(1, b"a" * 80)) + field(1, b"id")),
        field(9, field(1, b"tool.name") + field(2, field(1, b"a")) + field(1, b"id")),
        field(9, field(2, field(1, b"first")) + field(1, b"id")),
        field(9, field(1, b"id") + field(2, field(1, b"\xff"))),
        field(9, field(1, b"id") + field(2, field(1, b"\xff" * 80))),
        field(9, field(1, b"id")),
        field(9, b""),
    ]
)
ATTRIBUTES = KEY_VALUES | ODD
SPANS = st.lists(ATTRIBUTES, max_size=6)


@settings(max_examples=300)
@given(
    bases=st.lists(st.tuples(st.sampled_from(["step", "tool"]), SPANS), min_size=1, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.none() | ATTRIBUTES), max_size=25),
)
def test_what_is_read_never_hangs_on_what_was_read_before(
    bases: list[tuple[str, list[bytes]]], changes: list[tuple[int, int, bytes | None]]
) -> None:
    reader, one_by_one = AttributeReader(KEEP), AttributeReader(KEEP)
    for base, place, changed in changes:
        name, attributes = bases[base % len(bases)]
        given_ones = list(attributes)
        if changed is not None:
            given_ones[place : place + 1] = [changed]
        data = encoded(*given_ones, name=name, behind=b"\x7a\x00")
        one_by_one._patterns.by_name.clear()  # noqa: SLF001
        expected = scan(one_by_one, data)
        pattern = reader._patterns.by_name.get(name.encode())  # noqa: SLF001
        found = scan(reader, data)
        assert found == expected == parse(AttributeReader(KEEP), data)
        # A value that equals another one may be of another type.
        assert repr(list(found.attributes.items())) == repr(list(expected.attributes.items()))
        fits = pattern is not None and found.name is pattern.name
        assert found.size_bytes == expected.size_bytes - (text_bytes(name) if fits else 0)


def test_spans_that_are_alike_are_compared_and_share_what_is_the_same() -> None:
    reader = learned(text("tool.name", "search"), text("other", "o"), number("id", 1000), text("input.value", LONG), text("id.2", "x"))
    pattern = pattern_of(reader)
    assert [piece.is_whole for piece in pattern.pieces] == [True, False, True]
    data = encoded(text("tool.name", "search"), text("other", "o"), number("id", 1000), text("input.value", LONG + "!"), text("id.2", "x"))
    one, other = scan(reader, data), scan(reader, data)
    assert pattern.has_fitted
    assert list(one.attributes.items()) == [("tool.name", "search"), ("id", 1000), ("input.value", LONG + "!")]
    for shared in ("tool.name", "id"):
        assert one.attributes[shared] is other.attributes[shared]
    assert one.name is other.name
    assert one.attributes["input.value"] is not other.attributes["input.value"]
    assert one.attributes is not other.attributes
    assert one.size_bytes == parse(reader, data).size_bytes - text_bytes("step")


def test_what_comes_behind_the_pattern_is_read_and_a_second_of_a_name_counts() -> None:
    reader = learned(text("tool.name", "a"))
    assert scan(reader, encoded(text("tool.name", "a"), text("id", "b"))).attributes == {"tool.name": "a", "id": "b"}
    assert pattern_of(reader).has_fitted
    assert scan(reader, encoded(text("tool.name", "a"), text("tool.name", LONG))).attributes == {"tool.name": LONG}
    assert scan(reader, encoded(text("tool.name", "a"))).attributes == {"tool.name": "a"}


def test_of_a_name_that_stands_twice_the_second_is_not_part_of_the_pattern() -> None:
    twice = (text("tool.name", LONG), text("tool.name", "a"), text("id", "b"))
    reader = learned(*twice)
    assert len(pattern_of(reader).places) == 1
    assert scan(reader, encoded(*twice)).attributes == {"tool.name": "a", "id": "b"}


def test_spans_without_a_name_are_compared_with_each_other() -> None:
    reader = AttributeReader(KEEP)
    for _ in range(3):
        assert scan(reader, encoded(text("tool.name", "a"), name="")).attributes == {"tool.name": "a"}
    assert pattern_of(reader, "").has_fitted


def test_a_value_that_changes_is_read_each_time_from_then_on() -> None:
    reader = learned(text("tool.name", "a"), text("id", "1"), again=(text("tool.name", "a"), text("id", "2")))
    pattern = pattern_of(reader)
    assert [piece.name for piece in pattern.pieces] == ["", "id"]
    for value in ("3", "4", "1", LONG):
        assert scan(reader, encoded(text("tool.name", "a"), text("id", value))).attributes == {"tool.name": "a", "id": value}
    assert pattern_of(reader) is pattern
    assert pattern.has_fitted


def test_a_pattern_that_fits_outlasts_some_spans_that_differ_and_one_that_does_not_is_made_anew_more_and_more_seldom() -> None:
    reader = learned(text("tool.name", "a"))
    alike, other = encoded(text("tool.name", "a")), encoded(text("id", "b"))
    kept = pattern_of(reader)
    for _ in range(50):
        scan(reader, alike)
    for _ in range(patterns.MAX_TRUST):
        scan(reader, other)
        assert pattern_of(reader) is kept
    scan(reader, other)
    assert pattern_of(reader) is not kept
    patience = []
    for count in range(400):
        scan(reader, encoded(text(f"other.{count}", "x")))
        patience.append(pattern_of(reader).patience)
    assert sorted(set(patience)) == patience[:1] + [each for each in (1, 3, 7, 15, 31, 63) if each not in patience[:1]]
    assert patience == sorted(patience)
    assert patience.count(31) == 32


def test_a_name_that_comes_once_makes_no_pattern() -> None:
    reader = AttributeReader(KEEP)
    scan(reader, encoded(text("tool.name", "a")))
    assert pattern_of(reader).places == []
    scan(reader, encoded(text("tool.name", "a")))
    assert len(pattern_of(reader).places) == 1


def test_invented_names_are_forgotten_again_and_long_ones_never_remembered() -> None:
    reader = AttributeReader(KEEP)
    for count in range(3 * patterns.MAX_PATTERNS):
        for _ in range(2):
            scan(reader, encoded(text("tool.name", "a"), name=f"step {count}"))
        assert len(reader._patterns.by_name) == count % patterns.MAX_PATTERNS + 1  # noqa: SLF001
    last = f"step {3 * patterns.MAX_PATTERNS - 1}"
    scan(reader, encoded(text("tool.name", "b"), name=last))  # one that is there is no more than before
    assert len(reader._patterns.by_name) == patterns.MAX_PATTERNS  # noqa: SLF001
    for length in (patterns.MAX_NAME_BYTES, patterns.MAX_NAME_BYTES + 1):
        scan(reader, encoded(text("tool.name", "a"), name="n" * length))
    assert b"n" * patterns.MAX_NAME_BYTES in reader._patterns.by_name  # noqa: SLF001
    assert b"n" * (patterns.MAX_NAME_BYTES + 1) not in reader._patterns.by_name  # noqa: SLF001


def test_a_pattern_holds_so_many_attributes_and_bytes() -> None:
    many = [text(f"x{count}", "a") for count in range(patterns.MAX_PLACES + 5)]
    reader = learned(*many)
    assert len(pattern_of(reader).places) == patterns.MAX_PLACES
    assert len(scan(reader, encoded(*many)).attributes) == patterns.MAX_PLACES + 5
    large = [text("other" + "k" * 45 + str(count), "a") for count in range(30)]
    places = pattern_of(learned(*large)).places
    size = sum(len(place.head) + len(place.whole) for place in places)
    assert size <= patterns.MAX_PATTERN_BYTES < size + 2 * len(large[0])
    long = [text("k" * 100 + str(count), LONG) for count in range(30)]
    assert len(pattern_of(learned(*long)).places) == patterns.MAX_PATTERN_BYTES // len(b"\x0a\x65" + b"k" * 101)


def test_what_was_forgotten_meanwhile_is_not_learned() -> None:
    found = Patterns()
    found.learn(b"step", "step", [Place(b"\x0a\x02id", "id", b"", None)])
    assert found.by_name == {}


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b"\x4a", id="tag-alone"),
        pytest.param(b"\x4a\x80", id="length-cut"),
        pytest.param(b"\x4a\x80\x80\x80\x80\x80\x80\x01", id="length-without-end"),
        pytest.param(b"\x4a\x7f\x0a\x0binput.value", id="cut"),
        pytest.param(b"\x4a\x04\x0a\x0binput.value", id="key-longer-than-attribute"),
        pytest.param(b"\x4a\x0d\x0a\x0binput.value", id="key-alone"),
        pytest.param(b"\x30\x01", id="another-field"),
        pytest.param(b"", id="nothing"),
        pytest.param(text("input.other", LONG), id="another-key"),
        pytest.param(field(9, field(1, b"input.value") + field(2, nested_bytes(101))), id="nested-too-deep"),
        pytest.param(field(9, field(1, b"input.value") + field(2, nested_bytes(101)[-30:])), id="short-and-broken"),
        pytest.param(field(9, field(1, b"input.value") + field(1, b"input.value")), id="second-key"),
    ],
)
def test_a_span_that_differs_is_read_as_by_a_reader_that_knows_nothing(odd: bytes) -> None:
    outcomes = []
    for reader in (AttributeReader(KEEP), learned(text("tool.name", "a"), text("input.value", LONG))):
        budget = MemberBudget(DEFAULT_LIMITS)
        try:
            found: object = SpanReader(reader, budget).scan(encoded(text("tool.name", "a"), odd), ORIGIN)
        except Exception as error:  # noqa: BLE001 - any, as long as it is the same
            found = type(error)
        outcomes.append((found, budget.left))
    assert outcomes[0] == outcomes[1]


def test_members_that_a_span_spends_before_it_differs_are_spent_once() -> None:
    numbers = AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)] * 60))
    array = field(9, attribute("id", numbers).SerializeToString())
    reader = learned(array, text("tool.name", "a"))
    budget = MemberBudget(Limits(members=100))
    found = SpanReader(reader, budget).scan(encoded(array, text("tool.name", "b")), ORIGIN)
    assert isinstance(found, Span)
    assert budget.left == 40


def test_what_is_remembered_of_a_span_before_it_differs_is_charged_to_it() -> None:
    reader = learned(text("id", "1"), text("tool.name", "a"), again=(text("id", "2"), text("tool.name", "a")))
    data = encoded(text("id", "made for this test"), text("tool.name", "b"))
    assert scan(reader, data).size_bytes == scan(AttributeReader(KEEP), data).size_bytes


def test_a_name_behind_the_attributes_is_left_to_the_parser() -> None:
    reader = learned(text("tool.name", "a"))
    data = encoded(text("tool.name", "a"), behind=field(5, b"later"))
    assert SpanReader(reader, MemberBudget(DEFAULT_LIMITS)).scan(data, ORIGIN) is None


def test_each_projection_has_patterns_of_its_own() -> None:
    data = encoded(text("tool.name", "a"), text("id", "b"))
    readers = [AttributeReader(Projection(keys=frozenset({key}))) for key in ("tool.name", "id")]
    for _ in range(4):
        assert [dict(scan(reader, data).attributes) for reader in readers] == [{"tool.name": "a"}, {"id": "b"}]


def test_what_is_kept_starts_again_with_what_a_reader_remembers_of_it() -> None:
    kept = Kept()
    kept.attributes, kept.too_deep, kept.size_bytes, kept.remembered_bytes = {"a": 1}, 2, 30, 20
    kept.start_again()
    assert (kept.attributes, kept.too_deep, kept.size_bytes, kept.remembered_bytes) == ({}, 0, 20, 20)


def test_lengths_of_three_bytes_are_read() -> None:
    reader = learned(text("input.value", "v" * 20_000))
    assert len(varint(20_000)) == 3
    assert scan(reader, encoded(text("input.value", "w" * 20_000))).attributes == {"input.value": "w" * 20_000}
    assert pattern_of(reader).has_fitted


def test_a_key_that_is_expected_and_reaches_beyond_its_attribute_is_refused_though_it_is_not_kept() -> None:
    data = encoded(text("tool.name", "a"), b"\x4a\x04\x0a\x0binput.other")
    for reader in (AttributeReader(KEEP), learned(text("tool.name", "a"), text("input.other", LONG))):
        with pytest.raises(MalformedError):
            scan(reader, data)


def test_another_attribute_in_the_place_of_one_is_compared_whole() -> None:
    reader = learned(text("tool.name", "a"), text("id", "1"), again=(text("id", "1"), text("tool.name", "a")))
    assert [piece.is_whole for piece in pattern_of(reader).pieces] == [True]
    assert list(pattern_of(reader).attributes) == ["id", "tool.name"]
