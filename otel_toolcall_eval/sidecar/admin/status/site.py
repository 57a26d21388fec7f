"""The pages: their paths, and the templates that make them.

No script is served: filters are forms, and each page is loaded in full.

Choice: Jinja2. It escapes everything by default, reports unknown names (StrictUndefined), and keeps markup in readable files; it is in the
``sidecar`` extra, pure Python with one dependency. Rejected: ``html.escape`` around pieces of text, where one forgotten call is a hole, and
``string.Template``, which escapes nothing.
Threads: any.
"""

from __future__ import annotations

import re
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode

from otel_toolcall_eval.model.errors import IntakeError
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.receivers.http.pages import Page
from otel_toolcall_eval.sidecar.admin.status import labels
from otel_toolcall_eval.sidecar.admin.status.history import FILTERS
from otel_toolcall_eval.sidecar.admin.status.timeline import WIDTH, lay_out, whole_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.receivers.http.pages import SiteRequest
    from otel_toolcall_eval.sidecar.admin.status.history import History
    from otel_toolcall_eval.sidecar.admin.status.recent import RecentReports


ROOT: Final = "/status"
MAX_OPEN: Final = 200
MAX_CRITERIA: Final = 500
MAX_FILTER_CHARS: Final = 300
_MAX_NUMBER: Final = 2**62

_HTML = "text/html; charset=utf-8"
_FILES: Mapping[str, str] = {f"{ROOT}/style.css": "text/css; charset=utf-8", f"{ROOT}/icon.svg": "image/svg+xml"}
_TRACE = re.compile(rf"{ROOT}/traces/([0-9a-f]{{32}})", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


class StatusSource(Protocol):
    """What the pages ask of the running sidecar, beside the stored verdicts."""

    def waiting(self, *, limit: int) -> OpenTracesSnapshot:
        """Return what is open; raises IntakeError if that is impossible now."""
        ...

    def criteria(self) -> Sequence[CriteriaSet]:
        """Return what is loaded."""
        ...


class StatusSite:
    """The status page and the pages below it."""

    root = ROOT
    open_paths = frozenset(_FILES)

    def __init__(
        self, *, recent: RecentReports, history: History, sidecar: StatusSource, version: str, clock: Callable[[], int] = time.time_ns
    ) -> None:
        """Show these.

        Args:
            recent: stores what is queued before a page is made.
            history: the stored verdicts.
            sidecar: what is open and loaded.
            version: of this package.
            clock: Unix time in nanoseconds.
        """
        self._recent = recent
        self._history = history
        self._sidecar = sidecar
        self._clock = clock
        self._version = version
        self._lock = Lock()
        self._templates: Templates | None = None  # guarded by _lock

    def load(self) -> Templates:
        """Load the templates, which the first page does otherwise, and return them: a twentieth of a start, which does not need them."""
        with self._lock:
            if self._templates is None:
                self._templates = Templates({"root": ROOT, "version": self._version})
            return self._templates

    def page(self, request: SiteRequest) -> Page:
        """Make a page; one that says so for a path that there is none at."""
        if request.path in _FILES:
            text = self.load().render(request.path.removeprefix(f"{ROOT}/"), {})
            return Page(body=text.encode(), content_type=_FILES[request.path])
        makers: Mapping[str, Callable[[SiteRequest], Page]] = {
            ROOT: self._verdicts,
            f"{ROOT}/open": self._open,
            f"{ROOT}/criteria": self._criteria,
        }
        if (make := makers.get(request.path)) is not None:
            return make(request)
        if (trace := _TRACE.fullmatch(request.path)) is not None:
            return self._trace(request, trace[1])
        return self._problem(request, title="No such page", text="Nothing is shown at this address.", status=404)

    def login_page(self, *, back_to: str, refused: bool) -> Page:
        """Make the form that takes a token."""
        return self._html("login.html", back_to=back_to, refused=refused, logged_in=False, status=403 if refused else 200)

    def _verdicts(self, request: SiteRequest) -> Page:
        self._recent.settle()
        filters = {name: value for name in FILTERS if (value := request.query.get(name, "")[:MAX_FILTER_CHARS])}
        shown = self._history.verdicts(filters, page=_number(request, "page") or 1, until=_number(request, "until"))
        choices = dict(self._history.choices()) | {"label": [label.value for label in (Label.FAIL, Label.INCONCLUSIVE, Label.PASS)]}
        for name, value in filters.items():
            if value not in choices[name]:
                choices[name] = [*choices[name], value]

        def link(**changes: str | int | None) -> str:
            query = {name: value for name, value in {**filters, **changes}.items() if value is not None}
            return ROOT + (f"?{urlencode(query, errors='replace')}" if query else "")

        return self._html(
            "verdicts.html",
            logged_in=request.logged_in,
            filters=filters,
            choices=choices,
            shown=shown,
            link=link,
            seen=self._recent.seen,
            remembered=self._history.count(),
            failures=self._history.failures,
        )

    def _trace(self, request: SiteRequest, trace_id: str) -> Page:
        self._recent.settle()
        reports = self._history.reports(bytes.fromhex(trace_id))
        if not reports:
            text = (
                "Nothing is stored of this trace: it was not evaluated, it passed and was left out since too many passed,"
                " or it is no longer among the traces that are kept."
            )
            return self._problem(request, title="Trace not found", text=text, status=404)
        current = [
            {
                "report": report,
                "bars": lay_out(report.document, evaluated=report.unit),
                "seconds": whole_seconds(report.document),
                "held": [_comparisons_of(call, report.verdicts) for call in report.document["calls"]],
                "numbers": {call["span"]: number for number, call in enumerate(report.document["calls"], start=1)},
            }
            for report in reports
            if not report.superseded
        ]
        earlier = [report for report in reports if report.superseded]
        return self._html(
            "trace.html", logged_in=request.logged_in, trace_id=trace_id, current=current, earlier=earlier, timeline_width=WIDTH
        )

    def _open(self, request: SiteRequest) -> Page:
        try:
            waiting = self._sidecar.waiting(limit=MAX_OPEN)
        except IntakeError:
            text = "The sidecar is too busy, or is shutting down. Load this page again in a moment."
            return self._problem(request, title="Open traces can't be shown now", text=text, status=503)
        return self._html("open.html", logged_in=request.logged_in, waiting=waiting)

    def _criteria(self, request: SiteRequest) -> Page:
        loaded = self._sidecar.criteria()
        found = [
            {
                "name": one.name,
                "aliases": one.aliases,
                "version": one.version,
                "source": one.source,
                "selects": labels.selects(one.selector, values=False),
                "checks": [(check.evaluator, labels.expectations(check.criteria), check.pass_threshold) for check in one.checks],
            }
            for one in loaded[:MAX_CRITERIA]
        ]
        unbound = sorted(self._recent.unbound.items(), key=lambda item: -item[1].latest_unix_ns)
        return self._html("criteria.html", logged_in=request.logged_in, criteria=found, total=len(loaded), unbound=unbound)

    def _problem(self, request: SiteRequest, *, title: str, text: str, status: int) -> Page:
        return self._html("problem.html", logged_in=request.logged_in, title=title, text=text, status=status)

    def _html(self, template: str, *, status: int = 200, **context: Any) -> Page:  # noqa: ANN401 - what the template needs
        text = self.load().render(template, {"now": self._clock(), "view": template.removesuffix(".html"), **context})
        return Page(body=text.encode(errors="replace"), content_type=_HTML, status=status)


def _number(request: SiteRequest, name: str) -> int | None:
    text = request.query.get(name, "")
    return min(int(text), _MAX_NUMBER) if _WHOLE.fullmatch(text) else None


def _comparisons_of(
    call: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]
) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the comparisons of a call, with their verdicts. An expectation that names no call is shown at all calls of its tool."""
    return [
        (verdict, one)
        for verdict in verdicts
        for one in verdict["comparisons"]
        if (one["label"] == call["name"] if one["span"] is None else one["span"] == call["span"])
    ]


class Templates:
    """The templates of the pages. From any thread."""

    def __init__(self, everywhere: Mapping[str, object]) -> None:
        """Let all templates know these, and the words."""
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - a twentieth of a start, which does not need it

        self._environment = Environment(
            loader=PackageLoader("otel_toolcall_eval.sidecar.admin.status"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "duration": labels.duration,
            "machine_moment": labels.machine_moment,
            "moment": labels.moment,
            "score": labels.score,
            "shown": labels.shown,
            "size": labels.size,
        }
        self._environment.globals |= {**everywhere, "doubt_words": labels.DOUBTS, "trigger_words": labels.TRIGGERS}

    def render(self, name: str, context: Mapping[str, object]) -> str:
        """Return a page, or a part of one."""
        return self._environment.get_template(name).render(context)
