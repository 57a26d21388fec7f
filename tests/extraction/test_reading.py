from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.call_reader import read_call, text_of
from otel_toolcall_eval.extraction.dialect import Dialect, Match, ReadStep, Source, Subject, Test, ValueOrigin
from otel_toolcall_eval.extraction.lookup_plan import LookupPlan, places
from otel_toolcall_eval.extraction.reading import find_content, find_direct, find_in, grown
from tests.extraction.spans import make, tree_of

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Value

PARENT = make(1, name="parent", attributes={"k": "above"})
SPAN = make(
    2,
    parent=1,
    name="run.get_weather.tool",
    events=[("e", {"f": 1}), ("e", {"g": 2}), ("other", {"f": 3})],
    attributes={"k": "here", "p.a": 1, "p.b.0": 2, "p.": 9},
)
CHILDREN = [make(3, parent=2, attributes={"k": "below"}), make(4, parent=2, start=1)]
TREE = tree_of(PARENT, SPAN, *CHILDREN)
HAS_K = Match(every=(Test(subject=Subject.ATTR, key="k"),))


@pytest.mark.parametrize(
    ("source", "values"),
    [
        pytest.param(Source(origin=ValueOrigin.ATTR, key="k"), ["here"], id="attribute"),
        pytest.param(Source(origin=ValueOrigin.ATTR, key="none"), [], id="missing attribute"),
        pytest.param(Source(origin=ValueOrigin.ATTR_PREFIX, key="p."), [{"a": 1, "b": (2,)}], id="flattened keys"),
        pytest.param(Source(origin=ValueOrigin.ATTR_PREFIX, key="q."), [], id="no flattened keys"),
        pytest.param(Source(origin=ValueOrigin.EVENT, key="e", field="f"), [1], id="event"),
        pytest.param(Source(origin=ValueOrigin.EVENT, key="e", field="*"), [{"f": 1}, {"g": 2}], id="whole events"),
        pytest.param(Source(origin=ValueOrigin.VALUE, key="v"), ["v"], id="constant"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME), ["run.get_weather.tool"], id="span name"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, strip_prefix="run.", strip_suffix=".tool"), ["get_weather"], id="stripped name"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, strip_prefix="no"), [], id="another prefix"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, strip_suffix="no"), [], id="another suffix"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, before_last="."), ["run.get_weather"], id="before the last"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, before_last="/"), [], id="nothing to stand before"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, pattern=re.compile(r"\.(\w+)\.")), ["get_weather"], id="group of a pattern"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, pattern=re.compile(r"get\w+")), ["get_weather"], id="pattern without a group"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, pattern=re.compile("x")), [], id="pattern that is not there"),
        pytest.param(Source(origin=ValueOrigin.ATTR, key="k", step=ReadStep.PARENT), ["above"], id="parent"),
        pytest.param(Source(origin=ValueOrigin.ATTR, key="k", step=ReadStep.CHILD), ["below"], id="children"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, step=ReadStep.CHILD, only_if=HAS_K), ["span"], id="only if"),
        pytest.param(Source(origin=ValueOrigin.SPAN_NAME, unless=HAS_K), [], id="unless"),
    ],
)
def test_sources_find_what_they_name(source: Source, values: list[Value]) -> None:
    assert list(find_in(SPAN, TREE, source)) == values


def test_a_root_has_no_parent_to_look_at() -> None:
    assert list(find_in(PARENT, TREE, Source(origin=ValueOrigin.ATTR, key="k", step=ReadStep.PARENT))) == []


def test_placeholders_are_left_out_and_blanks_stand_last() -> None:
    sources = tuple(Source(origin=ValueOrigin.ATTR, key=key) for key in ("blank", "placeholder", "value"))
    dialect = Dialect(name="d", family="d", match=HAS_K, output_from=sources, placeholders={"output": frozenset({"N/A"})})
    span = make(attributes={"blank": "", "placeholder": " N/A ", "value": 0})
    assert [found.value for found in find_content(span, tree_of(span), places([dialect], "output"))] == [0, ""]


@pytest.mark.parametrize(("value", "found"), [(" N/A ", []), ("", [""]), (0, [0]), (None, [None])])
def test_the_only_place_is_read_at_once_like_one_of_several(value: Value, found: list[Value]) -> None:
    source = Source(origin=ValueOrigin.ATTR, key="only")
    dialect = Dialect(name="d", family="d", match=HAS_K, output_from=(source,), placeholders={"output": frozenset({"N/A"})})
    (place,) = places([dialect], "output")
    assert place.direct == "only"
    for attributes, expected in (({"only": value}, found), ({}, [])):
        span = make(attributes=attributes)
        founds = find_content(span, tree_of(span), (place,))
        assert [one.value for one in founds] == expected
        assert find_direct(span, place, "only") == (founds[0] if founds else None)


@pytest.mark.parametrize("first", ["N/A", ""], ids=["placeholder", "blank"])
def test_of_several_places_of_a_payload_the_first_that_holds_something_counts(first: str) -> None:
    sources = tuple(Source(origin=ValueOrigin.ATTR, key=key) for key in ("a", "b"))
    dialect = Dialect(
        name="d",
        family="d",
        match=HAS_K,
        name_from=(Source(origin=ValueOrigin.SPAN_NAME),),
        output_from=sources,
        placeholders={"output": frozenset({"N/A"})},
    )
    span = make(attributes={"a": first, "b": "x"})
    call = read_call(span, tree_of(span), LookupPlan.of([dialect], span))
    assert call is not None
    assert call.output.content.value == "x"


def test_a_text_is_the_first_that_is_no_placeholder_wherever_the_source_looks() -> None:
    source = Source(origin=ValueOrigin.ATTR, key="k", step=ReadStep.CHILD)
    dialect = Dialect(name="d", family="d", match=HAS_K, name_from=(source,), placeholders={"name": frozenset({"N/A"})})
    children = [
        make(number, parent=1, start=number, attributes={"k": text}) for number, text in ((2, "N/A"), (3, ""), (4, "first"), (5, "x"))
    ]
    top = make(1)
    assert text_of(top, tree_of(top, *children), places([dialect], "name")) == "first"
    assert text_of(top, tree_of(top, *children[:2]), places([dialect], "name")) is None


def test_a_value_that_the_producer_cut_off_is_marked() -> None:
    source = Source(origin=ValueOrigin.ATTR, key="k", cut_when=HAS_K)
    dialect = Dialect(name="d", family="d", match=HAS_K, output_from=(source,))
    (found,) = find_content(SPAN, TREE, places([dialect], "output"))
    assert found.cut


@pytest.mark.parametrize(
    ("flat", "value"),
    [
        pytest.param({"0": "a", "1": "b"}, ("a", "b"), id="list"),
        pytest.param({"1": "a"}, {"1": "a"}, id="list with a hole"),
        pytest.param({"a": 1, "a.b": 2}, {"a": {"b": 2}}, id="leaf and branch"),
        pytest.param({"a.b": 2, "a": 1}, {"a": {"b": 2}}, id="branch and leaf"),
        pytest.param({"a": {"x": 1}}, {"a": {"x": 1}}, id="a recorded object"),
        pytest.param({"a.0.b": 1, "a.0.c": 2}, {"a": ({"b": 1, "c": 2},)}, id="objects in a list"),
    ],
)
def test_flattened_keys_are_rebuilt(flat: dict[str, Value], value: Value) -> None:
    assert grown(flat) == value
