"""The pages that an HTTP receiver serves beside OTLP: health, metrics, and whatever else is handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is sent for a GET."""

    body: bytes
    content_type: str = TEXT
    status: int = 200


PageSource: TypeAlias = Callable[[str], Page]
"""Makes a page; gets the request's Accept header. Called on a thread of its own, so it may take its time."""


def health_page(problems: Callable[[], Sequence[str]]) -> PageSource:
    """Return a page that says 200 ``ok`` if there are no problems, else 503 and the problems, one a line.

    ``problems`` names components (``draining``, ``forward queue``), never data.
    """

    def page(_accept: str) -> Page:
        found = problems()
        if not found:
            return Page(body=b"ok\n")
        return Page(body="".join(f"{problem}\n" for problem in found).encode(), status=503)

    return page


def metrics_page(render: Callable[[str], tuple[bytes, str]]) -> PageSource:
    """Return a page of ``render``, which gets the Accept header and gives body and content type."""

    def page(accept: str) -> Page:
        body, content_type = render(accept)
        return Page(body=body, content_type=content_type)

    return page
