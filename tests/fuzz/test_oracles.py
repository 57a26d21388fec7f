"""Each target holds on its seeds, on what broke it once and on mutations; and the oracles fail on what is wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.otlp.protobuf_traces import decode_traces
from tests.fuzz import oracles
from tests.fuzz.engine import mutated, run_plainly
from tests.fuzz.oracles import TARGETS, hold_memory, hold_refusal, hold_spans, projection
from tests.fuzz.seeds import found, seeds
from tests.otlp.otlp_requests import attribute, numbered, request_of

if TYPE_CHECKING:
    from pathlib import Path

GOOD = request_of(numbered(1)).SerializeToString()
TRIED = {"criteria_yaml": 60}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds_on_seeds_and_mutations(target: str) -> None:
    known = list(seeds(target))
    draw = random.Random(7)  # noqa: S311 - no secret
    for data in (*islice(known, 0, None, max(1, len(known) // 60)), *found(target)):
        TARGETS[target](data)
    for _ in range(TRIED.get(target, 600)):
        TARGETS[target](mutated(draw, known))


def test_without_atheris_targets_are_run_all_the_same_and_what_breaks_one_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_plainly("unpacking", tmp_path, seconds=0, runs=50) == 50

    def broken(data: bytes) -> None:
        assert len(data) < 300

    monkeypatch.setattr(oracles, "TARGETS", {"unpacking": broken})
    with pytest.raises(AssertionError):
        run_plainly("unpacking", tmp_path, seconds=0, runs=50)
    assert len((tmp_path / "crashes" / "crash").read_bytes()) >= 300


def test_the_oracles_fail_on_what_is_wrong() -> None:
    decoded = decode_traces(GOOD, projection())
    for wrong in ({"trace_id": bytes(16)}, {"span_id": b"short"}, {"start_unix_ns": 0}, {"attributes": {"no": 1}}, {"name": "\ud800"}):
        span = replace(decoded.spans[0], **wrong)
        with pytest.raises((AssertionError, UnicodeEncodeError)):
            hold_spans(replace(decoded, spans=(span,)), 1000)
    with pytest.raises(AssertionError, match="accounted for"):
        hold_memory((replace(decoded.spans[0], attributes={"tool.name": "x" * 5000}),), decoded.size_bytes, 5000)
    with pytest.raises(AssertionError, match="became"):
        hold_memory((replace(decoded.spans[0], attributes={"tool.name": "x" * 50_000}),), 50_000, 100)
    with pytest.raises(AssertionError, match="repeats"):
        hold_refusal(DecodeError(where="request", what="found secretive text", fix="mend it"), b"secretive")


def test_keys_that_are_kept_for_their_prefix_are_accounted_for() -> None:
    span = numbered(1)
    span.attributes.extend(attribute(f"gen_ai.prompt.{number}.{'x' * 3000}", "") for number in range(20))
    decoded = decode_traces(request_of(span).SerializeToString(), projection())
    assert decoded.size_bytes > 60_000
