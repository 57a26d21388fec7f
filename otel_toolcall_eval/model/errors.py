"""The one exception tree.

Every message reads ``where: what; fix``: where it went wrong, what is wrong there, how to mend it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a file, a setting or a request."""

    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        """Return ``where: what; fix``."""
        return f"{self.where}: {self.what}; {self.fix}"


class ToolCallEvalError(Exception):
    """Base of everything that this package raises on purpose.

    Attributes:
        problems: one entry for each thing that is wrong; never empty, so a file with three faults is reported once.
    """

    def __init__(self, *, where: str, what: str, fix: str) -> None:
        """Describe a single problem."""
        self.problems: tuple[Problem, ...] = (Problem(where=where, what=what, fix=fix),)
        super().__init__(str(self))

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> ToolCallEvalError:
        """Build one error out of several problems; raises ValueError if there are none."""
        first, *rest = problems
        error = cls(where=first.where, what=first.what, fix=first.fix)
        error.problems = (first, *rest)
        error.args = (str(error),)
        return error

    def __reduce__(self) -> tuple[Callable[[Sequence[Problem]], ToolCallEvalError], tuple[Sequence[Problem]]]:
        """Let it cross to another process, as what a worker of a pool raises does."""
        return type(self).of, (self.problems,)

    def __str__(self) -> str:
        """Return one line for each problem."""
        return "\n".join(str(problem) for problem in self.problems)


class SettingsError(ToolCallEvalError):
    """A setting is missing or wrong: start-up ends with exit code 2."""


class CriteriaError(SettingsError):
    """Criteria can't be used: start-up ends with exit code 2; a running service keeps the old set."""


class ExpectationError(ToolCallEvalError):
    """An expectation has no result: nothing ran inside, or the result can't be determined."""


class ExpectationTimeoutError(ExpectationError, TimeoutError):
    """An expectation has no result yet."""


class IntakeError(ToolCallEvalError):
    """A request can't be taken in.

    Attributes:
        http_status: status of the HTTP answer.
        grpc_code: name of the gRPC status code.
        retry_after_seconds: when the sender may resend; None means never, resending can't help.
    """

    http_status: int = 400
    grpc_code: str = "INVALID_ARGUMENT"
    retry_after_seconds: int | None = None


class DecodeError(IntakeError):
    """The bytes are not OTLP: 400, INVALID_ARGUMENT, do not resend."""


class TooLargeError(IntakeError):
    """The message exceeds the limit: 413, RESOURCE_EXHAUSTED, do not resend."""

    http_status = 413
    grpc_code = "RESOURCE_EXHAUSTED"


class OverloadedError(IntakeError):
    """The queue is full: 503, UNAVAILABLE, resend after a delay."""

    http_status = 503
    grpc_code = "UNAVAILABLE"
    retry_after_seconds = 1


class ForwardQueueFullError(OverloadedError):
    """The queue of requests to forward is full: 503, UNAVAILABLE, resend after a delay."""


class EmissionError(ToolCallEvalError):
    """A report could not be emitted: counted, and the next trace goes on."""
