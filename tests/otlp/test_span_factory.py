from __future__ import annotations

import copy
import itertools
import pickle
import sys
from dataclasses import fields

import pytest

from otel_toolcall_eval.model.trace import Projection, Resource, Scope, Span, SpanEvent, StatusCode
from otel_toolcall_eval.otlp.protobuf_traces import decode_traces
from otel_toolcall_eval.otlp.span_factory import NO_ATTRIBUTES, value_bytes
from tests.otlp.otlp_requests import KEEP, attribute, nested, numbered, request_of

NUMBERS = itertools.count()


def test_a_decoded_span_is_a_span_in_every_respect() -> None:
    request = request_of(numbered(1, name="n", flags=3, kind=4))
    (span,) = decode_traces(request.SerializeToString(), KEEP).spans
    assert all(hasattr(span, field.name) for field in fields(Span))
    assert pickle.loads(pickle.dumps(span)) == span == copy.deepcopy(span)  # noqa: S301 - our own bytes


def never_run_but_type_checked(span: Span) -> None:
    """Type checkers hold values frozen: strict mypy complains of an ignore that is not needed."""
    span.name = "other"  # type: ignore[misc]


def deep_size(thing: object, seen: set[int]) -> int:
    """Add up an object and all that only it holds."""
    if id(thing) in seen or thing is None or isinstance(thing, (bool, StatusCode)):
        return 0
    seen.add(id(thing))
    size = sys.getsizeof(thing)
    if isinstance(thing, dict):
        return size + sum(deep_size(key, seen) + deep_size(value, seen) for key, value in thing.items())
    if isinstance(thing, tuple):
        return size + sum(deep_size(member, seen) for member in thing)
    if isinstance(thing, (Span, SpanEvent, Resource, Scope)):
        return size + sum(deep_size(getattr(thing, field.name), seen) for field in fields(thing))
    return size


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(request_of(*(numbered(number) for number in range(1, 101))), id="bare spans"),
        pytest.param(
            request_of(numbered(1), attributes=[attribute(f"resource.{n}", "v" * 50) for n in range(20)]), id="one span, much resource"
        ),
        pytest.param(
            request_of(
                *(numbered(number) for number in range(1, 11)), attributes=[attribute(f"resource.{n}", "v" * 50) for n in range(20)]
            ),
            id="ten spans share a resource",
        ),
    ],
)
@pytest.mark.parametrize(
    "kept", [pytest.param("v" * 5000, id="long text"), pytest.param("é" * 100, id="wide text"), pytest.param("", id="none")]
)
def test_the_size_estimate_is_close_to_what_the_objects_take(request_: object, kept: str) -> None:
    request = copy.deepcopy(request_)
    # A resource that an earlier request had would be accounted for already.
    request.resource_spans[0].resource.attributes.append(attribute("process.pid", f"{kept[:1]}{next(NUMBERS)}"))  # type: ignore[attr-defined]
    for span in request.resource_spans[0].scope_spans[0].spans:  # type: ignore[attr-defined]
        if kept:
            span.attributes.append(attribute("input.value", kept))
            span.attributes.append(attribute("id", nested(3, kvlist=True)))
            span.events.add(name="exception").attributes.append(attribute("exception.message", kept))
            span.status.message = "failed"
    decoded = decode_traces(request.SerializeToString(), KEEP)  # type: ignore[attr-defined]
    shared = {id(key) for key in KEEP.keys} | {id(NO_ATTRIBUTES), id("")}
    actual = sum(deep_size(span, shared) for span in decoded.spans)
    assert 0.9 * actual <= decoded.size_bytes <= 1.2 * actual + 400  # the interpreter shares short texts and small integers


def test_a_resource_is_accounted_for_by_the_first_request_that_has_it() -> None:
    request = request_of(numbered(1), attributes=[attribute("process.command", "x" * 1000)])
    first, second = (decode_traces(request.SerializeToString(), KEEP) for _ in range(2))
    assert first == second
    assert first.size_bytes >= second.size_bytes + 1000


def test_what_is_not_kept_costs_nothing() -> None:
    request = request_of(numbered(1))
    first, bare = (decode_traces(request.SerializeToString(), Projection()) for _ in range(2))
    assert bare.size_bytes <= first.size_bytes  # the resource is accounted for once
    request.resource_spans[0].scope_spans[0].spans[0].attributes.append(attribute("gen_ai.input.messages", "x" * 100_000))
    assert decode_traces(request.SerializeToString(), Projection()).size_bytes == bare.size_bytes


@pytest.mark.parametrize("value", [pytest.param(None, id="null"), pytest.param(True, id="true")])
def test_shared_constants_take_no_memory(value: bool | None) -> None:  # noqa: FBT001 - a value
    assert value_bytes(value) == 0
