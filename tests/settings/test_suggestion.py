from __future__ import annotations

import pytest

from otel_toolcall_eval.settings.diagnostics import did_you_mean, quoted, use_one_of


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
