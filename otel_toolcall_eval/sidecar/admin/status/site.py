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
from collections import defaultdict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode

from otel_toolcall_eval.model.errors import IntakeError
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.receivers.http.pages import Page
from otel_toolcall_eval.sidecar.admin.status import labels
from otel_toolcall_eval.sidecar.admin.status.history import FILTERS

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


WIDTH: Final = 1000.0
"""Of the time line, in units of the drawing."""

LEAST_BAR: Final = 4.0
MAX_DEPTH: Final = 8
"""Of indentation; deeper spans stand as deep as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """One span.

    Attributes:
        depth: 0 for a span whose parent is not shown.
        left: of its bar, 0 to WIDTH.
        width: at least LEAST_BAR, and never beyond WIDTH.
        seconds: that it took; None if it ended before it began, by its producer's clock.
        calls: numbers of the tool calls that were found in it, from 1.
        merged: numbers of the calls that it says something of, and another span shows.
        reason: why it is no call; empty if it is one.
        dialects: those that read it.
    """

    span_id: str
    name: str
    depth: int
    left: float
    width: float
    seconds: float | None
    error: bool
    evaluated: bool
    calls: tuple[int, ...] = ()
    merged: tuple[int, ...] = ()
    reason: str = ""
    dialects: tuple[str, ...] = ()


def lay_out(document: Mapping[str, Any], *, evaluated: str) -> Sequence[TimelineBar]:
    """Return the bars of a stored trace, each below its parent, siblings by their start."""
    spans = document["spans"]
    if not spans:
        return []
    shown: defaultdict[str, list[int]] = defaultdict(list)
    merged: defaultdict[str, list[int]] = defaultdict(list)
    dialects: dict[str, list[str]] = {}
    for number, call in enumerate(document["calls"], start=1):
        if call["span"] is not None:
            shown[call["span"]].append(number)
            dialects[call["span"]] = call["dialects"]
        for span_id in call["merged"]:
            merged[span_id].append(number)
            dialects.setdefault(span_id, call["dialects"])
    ignored = {span["span"]: span for span in document["ignored"]}
    began = min(span["start"] for span in spans)
    whole = max(1, max(span["end"] for span in spans) - began)
    bars = []
    for span, depth in _in_order(spans):
        span_id, length = span["id"], span["end"] - span["start"]
        width = min(WIDTH, max(LEAST_BAR, WIDTH * length / whole))
        left_out = ignored.get(span_id)
        family = [] if left_out is None or left_out["dialect"] is None else [left_out["dialect"]]
        bars.append(
            TimelineBar(
                span_id=span_id,
                name=span["name"],
                depth=min(depth, MAX_DEPTH),
                left=min(WIDTH - width, WIDTH * (span["start"] - began) / whole),
                width=width,
                seconds=length / 1e9 if length >= 0 else None,
                error=span["error"],
                evaluated=span_id == evaluated,
                calls=tuple(shown.get(span_id, ())),
                merged=tuple(merged.get(span_id, ())),
                reason="" if left_out is None else left_out["reason"],
                dialects=tuple(dialects.get(span_id, family)),
            )
        )
    return bars


def whole_seconds(document: Mapping[str, Any]) -> float:
    """Return how long the time line is."""
    spans = document["spans"]
    return (max(span["end"] for span in spans) - min(span["start"] for span in spans)) / 1e9 if spans else 0.0


def _in_order(spans: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Return the spans with their depths, parents first. Spans that are each other's ancestors stand at the end, flat."""
    known = {span["id"] for span in spans}
    below: defaultdict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for span in spans:
        below[span["parent"] if span["parent"] in known and span["parent"] != span["id"] else None].append(span)
    ordered: list[tuple[Mapping[str, Any], int]] = []
    waiting = [(span, 0) for span in reversed(below[None])]
    while waiting:
        span, depth = waiting.pop()
        ordered.append((span, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(span["id"], ()))]
    placed = {span["id"] for span, _ in ordered}
    return ordered + [(span, 0) for span in spans if span["id"] not in placed]
