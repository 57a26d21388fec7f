"""The pages that an HTTP receiver serves beside OTLP: health, metrics, and whatever else is handed in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Protocol, TypeAlias

from otel_toolcall_eval.model.errors import IntakeError

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

LOCAL_PATHS = "/debug/"
"""Pages below it show users' traces one by one, if only their IDs; they are served to clients on this machine alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is sent for a GET."""

    body: bytes
    content_type: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


PageSource: TypeAlias = Callable[[str], Page]
"""Makes a page; gets the request's Accept header. Called on a thread of its own, so it may take its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRequest:
    """A GET of a page of a site.

    Attributes:
        path: unquoted.
        query: unquoted; of a name that stands several times, the first value.
        logged_in: by a session, which may be ended.
    """

    path: str
    query: Mapping[str, str]
    logged_in: bool = False


class StatusPages(Protocol):
    """Pages for people, below one path. Who may see them is the affair of ``PageAccess``."""

    @property
    def root(self) -> str:
        """Return the path of the first page, without a slash at its end; all others lie below."""
        ...

    @property
    def open_paths(self) -> frozenset[str]:
        """Return the paths of what says nothing of anybody, such as style sheets: the login page needs them."""
        ...

    def page(self, request: SiteRequest) -> Page:
        """Make a page, an error in the form of one if need be. Called on a thread of its own, so it may take its time."""
        ...

    def login_page(self, *, back_to: str, refused: bool) -> Page:
        """Make the form that sends ``token`` and ``back_to`` to ``login`` below the root. Likewise."""
        ...


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


def json_page(document: Callable[[], Mapping[str, object]]) -> PageSource:
    """Return a page of a JSON document; 503 with the reason if it can't be had now."""

    def page(_accept: str) -> Page:
        try:
            return Page(body=json.dumps(document()).encode() + b"\n", content_type=JSON)
        except IntakeError as error:
            return Page(body=f"{error}\n".encode(), status=503)

    return page


def may_see(path: str, client: str | None) -> bool:
    """Tell whether a client, by its address, may see a page."""
    return not path.startswith(LOCAL_PATHS) or is_local(client or "")


def is_local(address_text: str) -> bool:
    """Tell whether a text is a loopback address."""
    try:
        address = ip_address(address_text.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
