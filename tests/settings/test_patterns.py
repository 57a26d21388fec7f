from __future__ import annotations

import sys

import pytest

from otel_toolcall_eval.settings.patterns import compile_pattern


def test_patterns_take_linear_time_and_any_text() -> None:
    pattern = compile_pattern("^(a|a?)+$")
    assert pattern.search("a" * 10_000 + "b") is None
    found = pattern.search("aa")
    assert found is not None
    assert found.group(0) == "aa"
    assert compile_pattern("x").search("\ud800x") is not None


@pytest.mark.parametrize("text", ["(", "(?=x)", r"(x)\1", "x{1001}", "((((x{100}){100}){100}){100})", "\ud800"])
def test_a_pattern_that_re2_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_pattern(text)


def test_without_the_package_a_pattern_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ValueError, match="google-re2, which is not installed"):
        compile_pattern("x")


def test_what_a_pattern_finds_is_replaced_in_any_text() -> None:
    pattern = compile_pattern("[0-9]+")
    assert pattern.sub("[N]", "a1b22\ud800") == "a[N]b[N]?"
    assert pattern == compile_pattern("[0-9]+")
    assert pattern != compile_pattern("[0-8]+")
