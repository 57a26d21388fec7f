"""What is sent, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.errors import Problem
    from otel_toolcall_eval.wire.replies import Encoding, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """The body of one request, as it came, unpacked.

    Attributes:
        items: how many spans or records are in it, where somebody counts them.
    """

    signal: Signal
    encoding: Encoding
    body: bytes = field(repr=False)
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The downstream took it, but for ``rejected`` spans, records or data points."""

    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The downstream will not take it, however often it is sent. ``code`` is a status, never text of the answer."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain:
    """It may be taken later.

    Attributes:
        code: a status, or the kind of error that kept it from arriving.
        after_seconds: when the downstream wants to be asked again; None if it doesn't say.
    """

    code: str
    after_seconds: float | None = None


Outcome: TypeAlias = "Delivered | Refused | TryAgain"


class Client(Protocol):
    """Speaks to the downstream. ``send`` is called from several threads at a time."""

    @property
    def shown(self) -> str:
        """Return the downstream's address as it may be shown."""
        ...

    @property
    def takes_json(self) -> bool:
        """Tell whether a parcel may be in JSON."""
        ...

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what the operator should know about its files."""
        ...

    def refresh(self) -> None:
        """Read files again that have changed. Called by one thread."""
        ...

    def start(self) -> None:
        """Get ready."""
        ...

    def send(self, parcel: Parcel) -> Outcome:
        """Send one parcel and wait for the answer, within the time-out; never raises."""
        ...

    def close(self) -> None:
        """Cut what is under way, and let go of everything; may be called again."""
        ...
