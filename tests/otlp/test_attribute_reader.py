from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.otlp.attribute_reader import AttributeReader, read_all, reader_for
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, MemberBudget
from otel_toolcall_eval.otlp.varint import MalformedError
from tests.otlp.otlp_requests import attribute, nested, nested_bytes, varint

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Value
    from otel_toolcall_eval.otlp.span_factory import KeptAttributes

BUDGET = MemberBudget(DEFAULT_LIMITS)
TOO_DEEP = b"\x0a\x02id\x12" + varint(len(nested_bytes(101))) + nested_bytes(101)


def seen(kept: KeptAttributes) -> tuple[dict[str, Value], int]:
    return kept.attributes, kept.too_deep


def encoded(*keys: str) -> list[bytes]:
    return [attribute(key, AnyValue(int_value=number)).SerializeToString() for number, key in enumerate(keys)]


@given(
    kept=st.frozensets(st.text("ab.é", max_size=12), max_size=4),
    prefixes=st.frozensets(st.text("ab.", min_size=1, max_size=12), max_size=2),
    keys=st.lists(st.text("ab.é", max_size=14) | st.just("a" * 130), max_size=6),
    value_first=st.booleans(),
)
def test_exactly_the_attributes_of_the_projection_are_kept(
    kept: frozenset[str],
    prefixes: frozenset[str],
    keys: list[str],
    value_first: bool,  # noqa: FBT001 - drawn
) -> None:
    projection = Projection(keys=kept, prefixes=tuple(prefixes))
    attributes = encoded(*keys)
    if value_first:
        attributes = [each[len(each) - 4 :] + each[: len(each) - 4] if each[-4:-2] == b"\x12\x02" else each for each in attributes]
    expected = {key: number for number, key in enumerate(keys) if projection.keeps(key)}
    assert seen(AttributeReader(projection).read(attributes, BUDGET)) == (expected, 0)


def test_of_equal_keys_the_last_one_counts() -> None:
    reader = AttributeReader(Projection(keys=frozenset({"tool.name"})))
    assert seen(reader.read(encoded("tool.name", "other", "tool.name"), BUDGET)) == ({"tool.name": 2}, 0)


def test_a_value_nested_too_deep_is_left_out_alone() -> None:
    reader = AttributeReader(Projection(keys=frozenset({"id", "tool.name"})))
    assert seen(reader.read([TOO_DEEP, *encoded("tool.name")], BUDGET)) == ({"tool.name": 0}, 1)
    assert read_all([TOO_DEEP, *encoded("tool.name")], BUDGET) == ({"tool.name": 0}, 1)


def test_broken_attributes_matter_only_where_they_are_read() -> None:
    broken = b"\x0a\x09tool.name\x12\x7f"
    with pytest.raises(MalformedError):
        AttributeReader(Projection(keys=frozenset({"tool.name"}))).read([broken], BUDGET)
    assert seen(AttributeReader(Projection(keys=frozenset({"tool.time"}))).read([broken], BUDGET)) == ({}, 0)


def test_values_without_end_are_forgotten_again_and_equal_ones_are_one_object() -> None:
    reader = AttributeReader(Projection(keys=frozenset({"tool.name"})))
    for number in range(10_000):
        data = attribute("tool.name", f"made up {number}").SerializeToString()
        first = reader.read([data], BUDGET).attributes
        second = reader.read([bytes(bytearray(data))], BUDGET).attributes
        assert first == {"tool.name": f"made up {number}"}
        assert first["tool.name"] is second["tool.name"]
    assert len(reader._recent) <= 4096  # noqa: SLF001 - the bound is not visible otherwise


def test_a_structured_value_is_never_shared() -> None:
    reader = AttributeReader(Projection(keys=frozenset({"id"})))
    data = attribute("id", nested(1, kvlist=True)).SerializeToString()
    first, second = (reader.read([data], BUDGET).attributes["id"] for _ in range(2))
    assert first == second == {"k": 7}
    assert first is not second


def test_one_reader_serves_as_long_as_its_projection() -> None:
    assert reader_for(Projection(keys=frozenset({"a"}))) is reader_for(Projection(keys=frozenset({"a"})))
    assert reader_for(Projection(keys=frozenset({"a"}))) is not reader_for(Projection(keys=frozenset({"b"})))
