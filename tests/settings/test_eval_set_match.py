"""Which traces an item evaluates."""

from __future__ import annotations

from typing import Any

import pytest

from otel_toolcall_eval.model.criteria import Selector, SelectorScope
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.eval_set_file import selector_of
from tests.settings.loading import said, top

NOBODY: frozenset[str] = frozenset()


def select(match: object, inputs: dict[str, Any] | None = None, services: frozenset[str] = NOBODY) -> tuple[Selector, list[str]]:
    diagnostics = Diagnostics()
    place = top().shown_as("tokyo").at("match")
    selector = selector_of(match, inputs or {}, place, diagnostics, services=services, unconditional=SelectorScope.UNNAMED)
    return selector, said(diagnostics)


@pytest.mark.parametrize(
    ("match", "inputs", "services", "expected"),
    [
        pytest.param(None, {}, NOBODY, Selector(reach=SelectorScope.UNNAMED), id="nothing"),
        pytest.param(None, {"city": "Tokyo"}, NOBODY, Selector(reach=SelectorScope.MATCHED, inputs={"city": "Tokyo"}), id="inputs"),
        pytest.param("all", {}, NOBODY, Selector(reach=SelectorScope.EVERY), id="all"),
        pytest.param(
            "all", {"city": "Tokyo"}, NOBODY, Selector(reach=SelectorScope.MATCHED, inputs={"city": "Tokyo"}), id="all-with-inputs"
        ),
        pytest.param("named", {}, NOBODY, Selector(reach=SelectorScope.NAMED), id="named"),
        pytest.param("named", {"city": "Tokyo"}, NOBODY, Selector(reach=SelectorScope.NAMED), id="named-whatever-the-inputs"),
        pytest.param({"service": "a"}, {}, NOBODY, Selector(reach=SelectorScope.MATCHED, services=frozenset({"a"})), id="service"),
        pytest.param(
            {"service": ["a", "b"]}, {}, NOBODY, Selector(reach=SelectorScope.MATCHED, services=frozenset({"a", "b"})), id="services"
        ),
        pytest.param(
            {"resource": {"a": 1}, "rootSpanName": "r", "agent_name": "g", "attributes": {"b": [1, {"c": [2]}]}, "inputs": {"d": None}},
            {},
            NOBODY,
            Selector(
                reach=SelectorScope.MATCHED,
                resource={"a": 1},
                root_span_name="r",
                agent_name="g",
                attributes={"b": (1, {"c": (2,)})},
                inputs={"d": None},
            ),
            id="every-condition",
        ),
        pytest.param(
            {"agent_name": "g"},
            {"d": 1},
            NOBODY,
            Selector(reach=SelectorScope.MATCHED, agent_name="g", inputs={"d": 1}),
            id="match-and-inputs",
        ),
        pytest.param(
            {"inputs": {"d": 1, "e": 2}},
            {"d": 1, "f": 3},
            NOBODY,
            Selector(reach=SelectorScope.MATCHED, inputs={"d": 1, "e": 2, "f": 3}),
            id="inputs-twice",
        ),
        pytest.param(
            None, {}, frozenset({"a"}), Selector(reach=SelectorScope.UNNAMED, services=frozenset({"a"})), id="services-of-the-path"
        ),
        pytest.param("all", {}, frozenset({"a"}), Selector(reach=SelectorScope.EVERY, services=frozenset({"a"})), id="all-within-the-path"),
        pytest.param(
            {"service": ["a", "b"]},
            {},
            frozenset({"b", "c"}),
            Selector(reach=SelectorScope.MATCHED, services=frozenset({"b"})),
            id="services-of-both",
        ),
        pytest.param(
            {"agent_name": "g"},
            {},
            frozenset({"a"}),
            Selector(reach=SelectorScope.MATCHED, agent_name="g", services=frozenset({"a"})),
            id="path-and-match",
        ),
    ],
)
def test_conditions_are_joined(match: object, inputs: dict[str, Any], services: frozenset[str], expected: Selector) -> None:
    assert select(match, inputs, services) == (expected, [])


WORDS = "write all, named, or an object of conditions"


@pytest.mark.parametrize(
    ("match", "inputs", "services", "complaint"),
    [
        pytest.param("al", {}, NOBODY, "'al' is not known here; did you mean 'all'?", id="misspelt-word"),
        pytest.param("zzz", {}, NOBODY, f"'zzz' is not known here; {WORDS}", id="unknown-word"),
        pytest.param(True, {}, NOBODY, f"this is a boolean; {WORDS}", id="boolean"),
        pytest.param({}, {}, NOBODY, f"no condition is given; {WORDS}", id="no-condition"),
        pytest.param({"resource": {}}, {"a": 1}, NOBODY, f"no condition is given; {WORDS}", id="an-empty-condition"),
        pytest.param(
            {"inputs": {"d": 1}},
            {"d": 2},
            NOBODY,
            "the input 'd' differs from the one in the item's inputs; keep one of them",
            id="inputs-at-odds",
        ),
        pytest.param(
            {"service": "a"},
            {},
            frozenset({"b"}),
            "the service is none of those that this path is for; name one of them, or none",
            id="nobody",
        ),
    ],
)
def test_what_can_match_nothing_is_refused(match: object, inputs: dict[str, Any], services: frozenset[str], complaint: str) -> None:
    assert select(match, inputs, services)[1] == [f"f.yaml: tokyo.match: {complaint}"]


def test_misspelt_conditions_are_refused() -> None:
    assert select({"agentname": "g"})[1] == ["f.yaml: tokyo.match.agentname: unknown key 'agentname'; did you mean 'agent_name'?"]
