"""Where in a file, or in a mapping handed over in code, something stands; what is wrong there; and what was probably meant."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.model.errors import Problem, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


Step: TypeAlias = "str | int"

# Keys that say nothing to a reader who sees the evaluator's or the tool's name beside them.
_SILENT_STEPS = frozenset(
    {
        *("evaluations", "evaluators", "evaluationCriterias", "evaluation_criterias"),
        *("toolCallsCount", "toolCallsOrder", "toolCalls", "toolOutputs"),
        *("tool_calls_count", "tool_calls_order", "tool_calls", "tool_outputs"),
    },
)

MAX_REPORTED = 100
"""Problems that are reported one by one; a generated file may have one in every line."""


class Spelling(Enum):
    """How keys of several words are written where nothing else tells."""

    SNAKE = "snake_case"
    CAMEL = "camelCase"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A place in a document.

    Attributes:
        origin: the file as the user named it; empty for what comes from code.
        lines: line, from 1, of each path; empty where the format does not tell.
        path: steps from the top of the document.
        shown: the steps that a message shows; an item is shown by its ID in place of its number.
    """

    origin: str
    lines: Mapping[tuple[Step, ...], int] = field(default_factory=dict)
    path: tuple[Step, ...] = ()
    shown: tuple[Step, ...] = ()
    spelling: Spelling = Spelling.SNAKE

    def at(self, *steps: Step) -> SourceLocation:
        """Return the place that lies these steps further in."""
        # Not by dataclasses.replace, which takes five times as long: this is called for every value of a file.
        return SourceLocation(
            origin=self.origin,
            lines=self.lines,
            path=(*self.path, *steps),
            shown=(*self.shown, *steps),
            spelling=self.spelling,
        )

    def shown_as(self, name: str) -> SourceLocation:
        """Return the same place under a name of its own."""
        return replace(self, shown=(name,))

    @property
    def line(self) -> int | None:
        """Return the line of this place, or of the nearest place around it that has one."""
        for length in range(len(self.path), -1, -1):
            line = self.lines.get(self.path[:length])
            if line is not None:
                return line
        return None

    @property
    def file_and_line(self) -> str:
        """Return ``weather.yaml:12``, or ``weather.json`` where lines aren't known."""
        return self.origin if self.line is None else f"{self.origin}:{self.line}"

    def __str__(self) -> str:
        """Return ``weather.yaml:12: tokyo_forecast.ToolCallCountEvaluator.get_humidity``."""
        label = ""
        for position, step in enumerate(self.shown):
            if isinstance(step, int):
                label += f"[{step}]"
            elif step not in _SILENT_STEPS or position == len(self.shown) - 1:
                label += f".{step}" if label else step
        return ": ".join(part for part in (self.file_and_line, label) if part)


@dataclass(slots=True)
class Diagnostics:
    """Everything found while files are read: they are read to the end, so that a user mends all of it at once."""

    problems: list[Problem] = field(default_factory=list)
    _warnings: list[Problem] = field(default_factory=list)
    _repeated: Counter[tuple[str, str]] = field(default_factory=Counter)

    def problem(self, place: SourceLocation, what: str, fix: str) -> None:
        """Add something that makes the input unusable."""
        self.problems.append(Problem(where=str(place), what=what, fix=fix))

    def warn(self, place: SourceLocation, what: str, fix: str) -> None:
        """Add something that the user should know. The same thing in many places of a file is one warning."""
        if not self._repeated[place.origin, what]:
            self._warnings.append(Problem(where=str(place), what=what, fix=fix))
        self._repeated[place.origin, what] += 1

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Return the warnings, each with how often it came up."""
        counted = zip(self._warnings, self._repeated.values(), strict=True)
        return tuple(
            _capped(
                [
                    warning if times == 1 else replace(warning, what=f"{warning.what} (here and in {times - 1} more places)")
                    for warning, times in counted
                ],
            ),
        )

    def raise_any(self, error: type[SettingsError]) -> None:
        """Raise all problems as one error; do nothing if there are none."""
        if self.problems:
            raise error.of(_capped(self.problems))


def _capped(problems: Sequence[Problem]) -> Sequence[Problem]:
    rest = len(problems) - MAX_REPORTED
    if rest <= 0:
        return problems
    more = Problem(where="and", what=f"{rest} more", fix="mend those above first")
    return [*problems[:MAX_REPORTED], more]


_QUOTED_CHARACTERS = 60  # a message stays a line, whatever a file holds
_GUESSED_CHARACTERS = 80  # difflib takes quadratic time; no name of ours comes near
_LIKENESS = 0.6


def quoted(text: str) -> str:
    """Return the text in quotes, on one line, clipped, control characters escaped."""
    return repr(text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}...")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that comes closest, or None if none comes close. Case does not matter for closeness."""
    if len(word) > _GUESSED_CHARACTERS:
        return None
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_LIKENESS)
    return by_lower[found[0]] if found else None


def use_one_of(word: str, known: Iterable[str]) -> str:
    """Return the cure for an unknown word: the one that was probably meant, else all of them."""
    choices = sorted(known)
    guess = did_you_mean(word, choices)
    if guess is not None:
        return f"did you mean {quoted(guess)}?"
    return f"use one of {', '.join(choices)}" if choices else "remove it"
