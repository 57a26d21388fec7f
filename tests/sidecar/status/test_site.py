"""The pages: what each shows, that names stay text, and that bad addresses are answered in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot, WaitingTrace
from otel_toolcall_eval.model.criteria import Check, CountCriteria, CountExpectation, CriteriaSet, Operator, Selector, SelectorScope
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from otel_toolcall_eval.receivers.http.pages import Page, SiteRequest
from otel_toolcall_eval.sidecar.admin.status.history import History
from otel_toolcall_eval.sidecar.admin.status.recent import RecentReports
from otel_toolcall_eval.sidecar.admin.status.site import MAX_CRITERIA, ROOT, StatusSite
from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore
from tests.exporters.reports import CANARY, BrokenJustification, evaluated_span, inconclusive, report, score, verdict
from tests.patience import PATIENCE_SECONDS
from tests.sidecar.status.rows import NOW_NS, TELL, judged, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.score import TraceReport

HOSTILE = "<script>alert('x')</script>\"><b onmouseover=alert(1)>\u202e{{7*7}}"
PASS, FAIL, UNSURE = Label.PASS, Label.FAIL, Label.INCONCLUSIVE


def waiting_trace(number: int, *, decided: bool = False, orphans: bool = False) -> WaitingTrace:
    return WaitingTrace(
        trace_id=trace_id(number),
        unit_span_id=b"unit-id!" if decided else None,
        state="decided" if decided else "active",
        waits_for="late spans" if decided else "its root span",
        seconds=-1.0 if orphans else 12.0,
        trigger=None if decided else Trigger.IDLE_TIMEOUT,
        age_seconds=3.0,
        spans=2,
        size_bytes=2048,
        root_seen=decided,
        orphans=orphans,
        open_spans=2 if orphans else 0,
        agents=1 if orphans else 0,
        truncated=orphans,
        revisions=1 if decided else 0,
    )


@dataclass
class PlainSidecar:
    """Has what it was given."""

    sets: Sequence[CriteriaSet] = ()
    open_traces: Sequence[WaitingTrace] = ()
    decided: Sequence[WaitingTrace] = ()
    busy: bool = False

    def waiting(self, *, limit: int) -> OpenTracesSnapshot:
        if self.busy:
            raise OverloadedError(where="traces", what="too busy", fix="wait")
        shown = tuple(self.open_traces[:limit])
        return OpenTracesSnapshot(
            open_traces=len(self.open_traces), revisable=len(self.decided), size_bytes=4096, open=shown, decided=tuple(self.decided)
        )

    def criteria(self) -> Sequence[CriteriaSet]:
        return self.sets


@pytest.fixture
def sidecar() -> PlainSidecar:
    return PlainSidecar()


@pytest.fixture
def recent() -> Iterator[RecentReports]:
    found = RecentReports(HistoryStore(None, traces=1000, limit_bytes=1 << 30, max_age_ns=10**15), tell=TELL, clock=lambda: NOW_NS)
    yield found
    found.shutdown(PATIENCE_SECONDS)


@pytest.fixture
def site(recent: RecentReports, sidecar: PlainSidecar) -> StatusSite:
    return StatusSite(recent=recent, history=History(recent.store), sidecar=sidecar, version="1.2", clock=lambda: NOW_NS)


class Tags(HTMLParser):
    """Collects tags and attributes, and complains of tags that are not closed in order."""

    EMPTY = frozenset({"meta", "link", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def text_of(page: Page) -> str:
    """Return a page's text, after a look at what holds for all pages."""
    text = page.body.decode()
    assert page.content_type == "text/html; charset=utf-8"
    tags = Tags(text)
    assert not {"script", "style", "iframe", "object", "base"} & {tag for tag, _ in tags.found}
    for tag, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        links = [attributes[name] for name in ("href", "src", "action") if attributes.get(name)]
        assert all(re.match(r"(/status|#)", link or "") for link in links), links
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    return text


def get(site: StatusSite, path: str, query: Mapping[str, str] | None = None, *, status: int = 200) -> str:
    page = site.page(SiteRequest(path=path, query=query or {}))
    assert page.status == status
    return text_of(page)


def test_recent_verdicts_have_their_justification(site: StatusSite, recent: RecentReports) -> None:
    recent.emit(judged(1, FAIL, UNSURE, PASS))
    text = get(site, ROOT)
    assert text.count("search: called once, expected twice") == 3
    assert [text.count(f'class="label {word}"') for word in ("fail", "inconclusive", "pass")] == [2, 2, 2]
    assert f"{ROOT}/traces/{trace_id(1).hex()}" in text
    assert "<strong>3</strong> verdicts" in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"agent": "a"}, [1]),
        ({"service": "s"}, [2]),
        ({"criteria": "c"}, [3]),
        ({"label": "fail"}, [4]),
        ({"label": "pass", "agent": "b"}, [2, 3]),
    ],
)
def test_filters_are_kept_in_the_form_and_in_links(
    site: StatusSite, recent: RecentReports, query: dict[str, str], shown: list[int]
) -> None:
    recent.emit(judged(1, PASS, agent="a"))
    recent.emit(judged(2, PASS, agent="b", service="s"))
    recent.emit(judged(3, PASS, agent="b", criteria="c"))
    recent.emit(judged(4, FAIL, agent="b"))
    text = get(site, ROOT, query)
    assert sorted(int(found, 16) for found in re.findall(r"/traces/([0-9a-f]{32})\"", text)) == shown
    for value in query.values():
        assert f'<option value="{value}" selected>' in text
    assert '<a class="button plain" href="/status">Clear</a>' in text


def test_a_filter_that_nothing_fits_says_so_and_stays_to_be_seen(site: StatusSite, recent: RecentReports) -> None:
    recent.emit(judged(1, PASS))
    text = get(site, ROOT, {"agent": HOSTILE, "page": "x", "until": "-1"})
    assert "No verdict fits these filters." in text
    assert " selected>&lt;script&gt;" in text


def test_pages_lead_to_each_other(site: StatusSite, recent: RecentReports) -> None:
    for number in range(120):
        recent.emit(judged(number, PASS, agent="a b"))
    first = get(site, ROOT, {"agent": "a b"})
    assert "Page 1 of 3" in first
    assert 'rel="next" href="/status?agent=a+b&amp;until=120&amp;page=2"' in first
    second = get(site, ROOT, {"agent": "a b", "until": "120", "page": "2"})
    assert 'rel="prev" href="/status?agent=a+b&amp;until=120&amp;page=1"' in second
    assert 'rel="next"' not in get(site, ROOT, {"until": "120", "page": "3"})


def test_an_empty_page_says_what_to_look_at(site: StatusSite, recent: RecentReports) -> None:
    assert "Nothing was evaluated yet. A trace is evaluated once" in get(site, ROOT)
    recent.emit(judged(1))
    text = get(site, ROOT)
    assert "traces were received, but no criteria select them" in text
    assert re.search(r"1 trace had\s+<a", text) or "1 trace had <a" in text


def test_what_was_left_out_is_said(site: StatusSite, recent: RecentReports) -> None:
    for number in range(301):
        recent.emit(judged(number, PASS))
    for number in range(703):
        recent.emit(judged(number + 1000, FAIL))
    text = " ".join(get(site, ROOT).split())
    assert "of 1004 since the start. Of 301 that passed, 1 came too fast to be stored" in text
    assert "Of 703 that did not pass, 3 were left out likewise." in text
    assert text.count("since the start.") == 1
    assert text.index("since the start.") < text.index("Verdicts, newest first")  # beside the numbers, which are of a part then


def test_a_file_that_fails_is_said(site: StatusSite, recent: RecentReports) -> None:
    assert "could not be written" not in get(site, ROOT)
    recent.store.ask("SELECT nothing FROM nowhere")
    assert "1 time the file could not be written or read" in get(site, ROOT)


def test_a_trace_shows_why_it_was_judged_when_and_what_was_expected(site: StatusSite, recent: RecentReports) -> None:
    found = judged(1, FAIL, UNSURE)
    recent.emit(
        replace(
            found,
            trigger=Trigger.IDLE_TIMEOUT,
            doubts=(IncompletenessReason.NO_ROOT,),
            decided_after_ns=300 * 10**9,
            unknown_criteria=("typo",),
        )
    )
    text = get(site, f"{ROOT}/traces/{trace_id(1).hex()}")
    assert "<code>idle_timeout</code> Its root span was missing" in text
    assert "<code>no_root</code> (its root span was never received)" in text
    assert "Waited since its first span</dt><dd>5 min 0 s" in text
    assert "exactly 2 calls" in text
    assert all(verdict.evaluation_id in text for verdict in found.verdicts)
    assert "typo" in text
    assert text.count("<svg") == 1


def test_a_revision_stands_for_its_trace_and_the_earlier_ones_below(site: StatusSite, recent: RecentReports) -> None:
    recent.emit(judged(1, FAIL))
    recent.emit(judged(1, PASS, revision=1))
    text = get(site, f"{ROOT}/traces/{trace_id(1).hex()}")
    now, _, earlier = text.partition("Earlier verdicts, superseded")
    assert ("Revision</dt><dd>1" in now, 'class="verdict pass"' in now, 'class="verdict fail"' in now) == (True, True, False)
    assert 'class="label fail"' in earlier
    assert '<span class="note">superseded</span>' in get(site, ROOT)


def test_agent_runs_of_one_trace_stand_beside_each_other(site: StatusSite, recent: RecentReports) -> None:
    found = judged(1, FAIL)
    assert found.evaluated_span is not None
    recent.emit(found)
    recent.emit(replace(found, evaluated_span=replace(found.evaluated_span, span_id=b"another!")))
    text = get(site, f"{ROOT}/traces/{trace_id(1).hex()}")
    assert text.count(">Agent run ") == 2
    assert "superseded" not in text


def test_a_trace_without_spans_or_calls_says_so(site: StatusSite, recent: RecentReports) -> None:
    found = judged(1, FAIL)
    recent.emit(replace(found, spans=(), evaluated_span=None, extraction=replace(found.extraction, calls=())))
    text = get(site, f"{ROOT}/traces/{trace_id(1).hex()}")
    assert "No tool call was found in this trace." in text
    assert "No spans are stored." in text


def test_open_traces_say_what_they_wait_for(site: StatusSite, sidecar: PlainSidecar) -> None:
    assert "No trace is open." in get(site, f"{ROOT}/open")
    sidecar.open_traces = [waiting_trace(number, orphans=number == 0) for number in range(250)]
    sidecar.decided = [waiting_trace(900, decided=True)]
    text = get(site, f"{ROOT}/open")
    assert "its root span" in text
    assert "then <code>idle_timeout</code>" in text
    assert "The oldest 200 of 250." in text
    assert "late spans" in text
    assert "4 KiB" in text
    assert "a parent is missing<br>2 open here<br>1 agent run<br>truncated<br>" in text
    assert ">due<" in text
    sidecar.busy = True
    assert "The sidecar is too busy" in get(site, f"{ROOT}/open", status=503)


def criteria_set(name: str, *, threshold: float = 1.0) -> CriteriaSet:
    criteria = CountCriteria(expectations=(CountExpectation(tool="a", operator=Operator.EQUAL, count=1),))
    check = Check(evaluator="Counting", evaluator_id="tool-call-count", criteria=criteria, pass_threshold=threshold)
    selector = Selector(reach=SelectorScope.EVERY)
    return CriteriaSet(
        name=name, checks=(check,), selector=selector, aliases=("Another name",), version="0123456789abcdef", source="policy.yaml"
    )


def test_criteria_and_unbound_services_are_listed(site: StatusSite, sidecar: PlainSidecar, recent: RecentReports) -> None:
    assert "No criteria are loaded" in get(site, f"{ROOT}/criteria")
    sidecar.sets = [criteria_set("a&b", threshold=0.5), *(criteria_set(f"c{number}") for number in range(MAX_CRITERIA))]
    recent.emit(replace(judged(5, service="newsletter"), unknown_criteria=("typo",)))
    recent.emit(judged(6, service=""))
    text = get(site, f"{ROOT}/criteria")
    assert f"Loaded now: {MAX_CRITERIA + 1}" in text
    assert f"The first {MAX_CRITERIA}." in text
    for part in (
        "a&amp;b",
        "1 expectation, passes from 0.50",
        "every trace",
        "0123456789ab<",
        "policy.yaml",
        "also <bdi>Another name",
        "?criteria=a%26b",
    ):
        assert part in text
    for part in ("newsletter", "typo", trace_id(5).hex(), "(no service.name)"):
        assert part in text


def test_hostile_names_are_text_on_every_page(site: StatusSite, recent: RecentReports, sidecar: PlainSidecar) -> None:
    found = judged(1, FAIL, agent=HOSTILE, service=HOSTILE, criteria=HOSTILE)
    hostile = replace(found.spans[0], name=HOSTILE)
    call = replace(found.extraction.calls[0], name=HOSTILE, agent=HOSTILE, dialects=(HOSTILE,), span_id=hostile.span_id)
    recent.emit(
        replace(
            found,
            spans=(hostile,),
            extraction=replace(found.extraction, calls=(call,), hints=(HOSTILE,)),
            unknown_criteria=(HOSTILE,),
            conversation_id=HOSTILE,
        )
    )
    recent.emit(replace(judged(2, service=HOSTILE), unknown_criteria=(HOSTILE,)))
    sidecar.sets = [replace(criteria_set(HOSTILE), aliases=(HOSTILE,), source=HOSTILE, version=HOSTILE)]
    for path in (ROOT, f"{ROOT}/traces/{trace_id(1).hex()}", f"{ROOT}/criteria"):
        text = get(site, path)  # which looks for scripts, handlers and tags that are not closed
        assert "&lt;script&gt;" in text
        assert "{{7*7}}" in text
        assert "\u202e" not in re.sub('value="[^"]*"|href="[^"]*"', "", text), "but for a filter's value, which has to be what it is"


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/nowhere",
        f"{ROOT}/",
        f"{ROOT}/traces/",
        f"{ROOT}/traces/xyz",
        f"{ROOT}/traces/{'A' * 32}",
        f"{ROOT}/templates/base.html",
        f"{ROOT}/base.html",
    ],
)
def test_an_address_without_a_page_says_so(site: StatusSite, path: str) -> None:
    assert "No such page" in get(site, path, status=404)


def test_a_trace_that_is_not_remembered_says_so(site: StatusSite) -> None:
    assert "Nothing is stored of this trace" in get(site, f"{ROOT}/traces/{'0' * 31}1", status=404)


@pytest.mark.parametrize(("path", "kind"), [("style.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml")])
def test_what_the_login_page_needs_is_open(site: StatusSite, path: str, kind: str) -> None:
    assert f"{ROOT}/{path}" in site.open_paths
    page = site.page(SiteRequest(path=f"{ROOT}/{path}", query={}))
    assert (page.status, page.content_type) == (200, kind)
    assert page.body


def test_the_login_page_is_a_form_that_keeps_where_to_go(site: StatusSite) -> None:
    page = site.login_page(back_to="/status?agent=<b>", refused=False)
    text = text_of(page)
    assert page.status == 200
    assert 'value="/status?agent=&lt;b&gt;"' in text
    assert "not valid" not in text
    refused = site.login_page(back_to=ROOT, refused=True)
    assert refused.status == 403
    assert "That token is not valid." in text_of(refused)


def test_only_who_logged_in_is_offered_to_log_out(site: StatusSite) -> None:
    assert "Log out" not in get(site, ROOT)
    page = site.page(SiteRequest(path=ROOT, query={}, logged_in=True))
    assert 'method="post" action="/status/logout"' in text_of(page)


def test_what_was_not_recorded_is_open_and_not_unmet(site: StatusSite, recent: RecentReports) -> None:
    recent.emit(judged(1, UNSURE))
    recent.emit(judged(2, FAIL))
    for number, shown in ((1, "met open"), (2, "met no")):
        assert f'class="{shown}"' in get(site, f"{ROOT}/traces/{trace_id(number).hex()}")


ODD = {
    "unbound": report(),
    "no span": report(verdict(), span=None, agent=None),
    "partial": report(inconclusive(IncompletenessReason.ORPHAN), doubts=[IncompletenessReason.ORPHAN]),
    "failed": report(verdict(UNSURE, failed=True)),
    "broken": report(verdict(given=score(justification=BrokenJustification()))),
    "not encodable": report(
        verdict(evaluator="\ud800", criteria="x" * 100_000), agent="\ud800" * 300, span=evaluated_span(end_unix_ns=2**70)
    ),
    "many": report(*(verdict(criteria=f"criteria-{number}") for number in range(140))),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_every_kind_of_report_is_shown(site: StatusSite, recent: RecentReports, odd: TraceReport) -> None:
    recent.emit(replace(odd, spans=() if odd.evaluated_span is None else (odd.evaluated_span,)))
    get(site, ROOT)
    get(site, f"{ROOT}/criteria")
    text = get(site, f"{ROOT}/traces/{odd.trace_id.hex()}", status=404 if odd.unbound else 200)
    assert CANARY not in text.replace(f"tool-{CANARY}", "the name of a tool")
