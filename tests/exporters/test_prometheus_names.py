from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.prometheus_names import family_name, label_name, label_value, labels
from otel_toolcall_eval.exporters.names import InstrumentKind


# What the Collector (otlptranslator, escaping underscores, with suffixes) makes of the same; a counter's samples add _total.
@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        pytest.param("gen_ai.evaluation.score", "1", "", "gen_ai_evaluation_score", id="histogram-of-unit-1"),
        pytest.param("cache.hits", "1", "gauge", "cache_hits_ratio", id="gauge-of-unit-1"),
        pytest.param("cache.ratio.hits", "1", "gauge", "cache_hits_ratio", id="ratio-moves-to-the-end"),
        pytest.param("requests", "1", "counter", "requests", id="counter-of-unit-1"),
        pytest.param("toolcall_eval.spans.received", "{span}", "counter", "toolcall_eval_spans_received", id="annotation-is-dropped"),
        pytest.param("total.errors", "{error}", "counter", "errors", id="total-moves-to-the-end"),
        pytest.param("toolcall_eval.traces.memory", "By", "gauge", "toolcall_eval_traces_memory_bytes", id="bytes"),
        pytest.param("toolcall_eval.completion.delay", "s", "", "toolcall_eval_completion_delay_seconds", id="seconds"),
        pytest.param("delay.seconds.max", "s", "", "delay_seconds_max", id="unit-is-not-said-twice"),
        pytest.param("delay", "fortnight", "", "delay", id="unknown-unit"),
        pytest.param("delay", "", "", "delay", id="no-unit"),
        pytest.param("2xx", "", "", "_2xx", id="digit-first"),
        pytest.param("a..b__c-d", "", "", "a_b_c_d", id="runs-of-signs"),
        pytest.param("temp\u00e9rature", "", "", "temp_rature", id="not-ascii"),
    ],
)
def test_family_name_is_the_collectors(name: str, unit: str, kind: str, expected: str) -> None:
    assert family_name(name, unit=unit, is_gauge=kind == "gauge", is_counter=kind == "counter") == expected


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        pytest.param("gen_ai.evaluation.name", "gen_ai_evaluation_name", id="dots"),
        pytest.param("2nd", "key_2nd", id="digit-first"),
        pytest.param("a--b", "a_b", id="runs-of-signs"),
    ],
)
def test_label_name_is_the_collectors(attribute: str, expected: str) -> None:
    assert label_name(attribute) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("text", "text", id="text"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(7, "7", id="integer"),
        pytest.param(0.5, "0.5", id="double"),
        pytest.param(("a", "b"), '["a", "b"]', id="sequence"),
        pytest.param("a\0b", "a\ufffdb", id="nul"),
        pytest.param("a\ud800b", "a?b", id="lone-surrogate"),
        pytest.param('quote " backslash \\ newline \n', 'quote " backslash \\ newline \n', id="left-to-the-writer"),
    ],
)
def test_label_value(value: object, expected: str) -> None:
    assert label_value(value) == expected


def test_values_of_labels_that_coincide_are_joined() -> None:
    assert labels([("a.b", 2), ("c", "x")], [("a_b", 1)]) == {"a_b": "2;1", "c": "x"}


@given(st.text(min_size=1))
def test_labels_and_families_are_always_well_formed(text: str) -> None:
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label_name(text))
    for kind in ("gauge", "counter", ""):
        assert re.fullmatch(
            r"([a-zA-Z_:][a-zA-Z0-9_:]*)?", family_name(text, unit="1", is_gauge=kind == "gauge", is_counter=kind == "counter")
        )


def test_our_own_families_are_distinct() -> None:
    instruments = (*names.RECORDED, *names.OBSERVED)
    families = {
        family_name(
            item.name, unit=item.unit, is_gauge=item.kind is InstrumentKind.OBSERVABLE_GAUGE, is_counter="counter" in item.kind.value
        )
        for item in instruments
    }
    assert len(families) == len(instruments)
