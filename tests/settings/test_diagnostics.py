from __future__ import annotations

import pytest

from otel_toolcall_eval.model.errors import CriteriaError
from otel_toolcall_eval.settings.diagnostics import MAX_REPORTED, Diagnostics, SourceLocation, did_you_mean, quoted, use_one_of
from tests.settings.loading import top

WEATHER = SourceLocation(origin="weather.yaml", lines={(): 1, ("evaluations", 0): 3, ("evaluations", 0, "id"): 4})


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param(top(), "f.yaml", id="a-file"),
        pytest.param(WEATHER, "weather.yaml:1", id="its-first-line"),
        pytest.param(WEATHER.at("evaluations", 0, "id"), "weather.yaml:4: [0].id", id="a-line-of-its-own"),
        pytest.param(WEATHER.at("evaluations", 0, "name"), "weather.yaml:3: [0].name", id="the-nearest-line-around"),
        pytest.param(
            top("weather.json").at("evaluations", 0).shown_as("tokyo").at("evaluationCriterias", "Count", "toolCallsCount", "get_humidity"),
            "weather.json: tokyo.Count.get_humidity",
            id="keys-of-the-format-are-left-out",
        ),
        pytest.param(top().shown_as("tokyo").at("Count", "toolCallsCount"), "f.yaml: tokyo.Count.toolCallsCount", id="but-not-the-last"),
        pytest.param(SourceLocation(origin="", shown=("Count",)).at("strict"), "Count.strict", id="from-code"),
    ],
)
def test_place_reads_as_file_line_and_path(place: SourceLocation, expected: str) -> None:
    assert str(place) == expected


def test_findings_without_problems_raise_nothing() -> None:
    diagnostics = Diagnostics()
    diagnostics.warn(top(), "w", "f")
    diagnostics.raise_any(CriteriaError)


def test_findings_raise_all_problems_at_once() -> None:
    diagnostics = Diagnostics()
    diagnostics.problem(top(), "a", "b")
    diagnostics.problem(top().at("x"), "c", "d")
    with pytest.raises(CriteriaError) as caught:
        diagnostics.raise_any(CriteriaError)
    assert str(caught.value) == "f.yaml: a; b\nf.yaml: x: c; d"


def test_problems_beyond_the_bound_are_counted() -> None:
    diagnostics = Diagnostics()
    for number in range(MAX_REPORTED + 7):
        diagnostics.problem(top().at(number), "a", "b")
    with pytest.raises(CriteriaError) as caught:
        diagnostics.raise_any(CriteriaError)
    assert len(caught.value.problems) == MAX_REPORTED + 1
    assert str(caught.value.problems[-1]) == "and: 7 more; mend those above first"


def test_a_warning_that_comes_up_in_many_places_of_a_file_is_given_once() -> None:
    diagnostics = Diagnostics()
    for number in range(3):
        diagnostics.warn(top().at(number), "the unknown key 'x' is ignored", "remove it")
    diagnostics.warn(top("g.yaml"), "the unknown key 'x' is ignored", "remove it")
    assert [str(warning) for warning in diagnostics.warnings] == [
        "f.yaml: [0]: the unknown key 'x' is ignored (here and in 2 more places); remove it",
        "g.yaml: the unknown key 'x' is ignored; remove it",
    ]


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        pytest.param("evaluatons", ("evaluations", "evaluators"), "evaluations", id="one-letter-missing"),
        pytest.param("Strict", ("strict", "subset"), "strict", id="case-does-not-matter"),
        pytest.param("tolerance", ("strict", "subset"), None, id="nothing-comes-near"),
        pytest.param("x", (), None, id="nothing-is-known"),
        pytest.param("strict" * 20, ("strict",) * 3, None, id="too-long-to-be-a-slip"),
    ],
)
def test_nearest_word_is_found_if_one_comes_near(word: str, known: tuple[str, ...], expected: str | None) -> None:
    assert did_you_mean(word, known) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("=>", "'=>'", id="plain"),
        pytest.param("a\nb\x00", r"'a\nb\x00'", id="stays-one-line"),
        pytest.param("x" * 100, repr("x" * 60 + "..."), id="is-clipped"),
        pytest.param("気温", "'気温'", id="letters-of-any-script-stay"),
    ],
)
def test_quoted_text_is_one_short_line(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        pytest.param("maximun", ("maximum", "positional"), "did you mean 'maximum'?", id="guess"),
        pytest.param("zzz", ("maximum", "positional"), "use one of maximum, positional", id="no-guess"),
        pytest.param("zzz", (), "remove it", id="no-choice"),
    ],
)
def test_cure_names_what_was_meant_or_all_there_is(word: str, known: tuple[str, ...], expected: str) -> None:
    assert use_one_of(word, known) == expected
