"""The status page in a real browser: each view and filter, by keyboard alone, narrow and wide, light and dark, with hostile names.

Screenshots of all views are left in .build/e2e/status, to be looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browser import SCHEMES, WIDTHS, beyond, faint, opened, running
from tests.e2e.toolchain import BUILD
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.certificates import write_secret
from tests.sidecar_process import get, running_sidecar, send_json
from tests.status_traffic import (
    BAD,
    CRITERIA,
    EVIL,
    GOOD,
    HOSTILE,
    JUDGED,
    NOT_CAPTURED,
    ROOTLESS,
    SECRET,
    UNBOUND,
    VERDICTS,
    many,
    trace_id_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from tests.e2e.browser import Scheme
    from tests.sidecar_process import RunningSidecar

pytestmark = pytest.mark.e2e

TOKEN = "status-0123456789abcdef"  # noqa: S105 - a token of the test
MORE = 40
"""Further traces, of two passing verdicts each: enough for three pages."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A sidecar with something of each kind to show."""

    address: str

    def url(self, path: str = "") -> str:
        return f"http://{self.address}/status{path}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as found:
        yield found


def feed(sidecar: RunningSidecar) -> None:
    """Send traffic and wait until it is judged."""
    send_json(sidecar.http, many(1000, MORE))
    verdicts = [sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in range(2 * MORE)]
    for request in (*JUDGED, UNBOUND, ROOTLESS):
        send_json(sidecar.http, request)
    verdicts += [sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in range(VERDICTS + 1)]
    assert {verdict["label"] for verdict in verdicts} == {"pass", "fail", "inconclusive", "unbound"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    criteria = tmp_path_factory.mktemp("status") / "criteria.yaml"
    criteria.write_text(CRITERIA, encoding="utf-8")
    with running_sidecar("--criteria", str(criteria)) as sidecar:
        feed(sidecar)
        shown = [f"/status/traces/{trace_id_of(request)}" for request in JUDGED]
        wait_for(lambda: all(get(sidecar.http, path)[0] == 200 for path in shown), "the pages of all traces")
        yield Served(address=sidecar.http)


VIEWS = [
    pytest.param(("", "Recent verdicts"), id="verdicts"),
    pytest.param(("?label=fail&page=1", "Recent verdicts"), id="failures"),
    pytest.param((f"/traces/{trace_id_of(BAD)}", "Trace"), id="trace"),
    pytest.param((f"/traces/{trace_id_of(NOT_CAPTURED)}", "Trace"), id="inconclusive"),
    pytest.param((f"/traces/{trace_id_of(EVIL)}", "Trace"), id="hostile"),
    pytest.param(("/open", "Open traces"), id="open"),
    pytest.param(("/criteria", "Criteria"), id="criteria"),
]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_is_legible_and_has_nothing_to_complain_of(
    request: pytest.FixtureRequest, view: tuple[str, str], width: int, scheme: Scheme
) -> None:
    browser, served = request.getfixturevalue("browser"), request.getfixturevalue("served")
    path, title = view
    with opened(browser, width=width, scheme=scheme) as page:
        answer = page.goto(served.url(path))
        assert answer is not None
        assert answer.status == 200
        assert (page.locator("h1").text_content() or "").startswith(title)
        assert beyond(page) == []
        assert faint(page) == []
        assert page.locator("script").count() == 0
        assert SECRET not in page.content()
        BUILD.joinpath("status").mkdir(parents=True, exist_ok=True)
        page.screenshot(path=BUILD / "status" / f"{request.node.callspec.id}.png", full_page=True)


def rows(page: Page) -> list[tuple[str, str, str]]:
    """Return label, criteria and agent of the verdicts on the page."""
    found = []
    for row in page.locator("tbody tr").all():
        label = row.locator(".label").inner_text().split()[-1]
        criteria, agent = (row.locator("td").nth(column).locator("bdi").first.inner_text() for column in (2, 4))
        found.append((label, criteria, agent))
    return found


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param({"agent": "refunds"}, {(label, "refund_policy") for label in ("pass", "fail", "inconclusive")}, id="agent"),
        pytest.param({"service": "weather"}, {("pass", "forecast_first"), ("fail", "forecast_first")}, id="service"),
        pytest.param({"criteria": "hostile"}, {("fail", "hostile")}, id="criteria"),
        pytest.param({"label": "inconclusive"}, {("inconclusive", "refund_policy")}, id="label"),
        pytest.param({"agent": "forecaster", "label": "fail"}, {("fail", "forecast_first")}, id="two"),
        pytest.param({"agent": HOSTILE, "service": HOSTILE, "criteria": "hostile", "label": "fail"}, {("fail", "hostile")}, id="all"),
        pytest.param({"agent": "refunds", "criteria": "forecast_first"}, set(), id="nothing fits"),
    ],
)
def test_filters_are_chosen_and_hold_together(
    browser: Browser, served: Served, chosen: dict[str, str], expected: set[tuple[str, str]]
) -> None:
    with opened(browser) as page:
        page.goto(served.url())
        for field, value in chosen.items():
            page.locator(f"#filter-{field}").select_option(value=value)
        page.get_by_role("button", name="Filter").click()
        assert {(label, criteria) for label, criteria, _ in rows(page)} == expected
        for field, value in chosen.items():
            assert page.locator(f"#filter-{field}").input_value() == value
        if not expected:
            assert "No verdict fits these filters." in page.locator("main").inner_text()
        page.get_by_role("link", name="Clear").click()
        assert page.url == served.url()


def test_the_tally_filters_by_label_and_keeps_the_other_filters(browser: Browser, served: Served) -> None:
    with opened(browser) as page:
        page.goto(served.url("?agent=refunds"))
        page.locator(".tally a", has_text="fail").click()
        assert page.locator("#filter-agent").input_value() == "refunds"
        assert {label for label, _, _ in rows(page)} == {"fail"}
        assert page.locator(".tally [aria-current]").inner_text().split()[-2:] == ["fail", "4"]


def test_pages_go_through_all_verdicts_and_back(browser: Browser, served: Served) -> None:
    with opened(browser) as page:
        page.goto(served.url())
        numbers = [len(rows(page))]
        while (older := page.get_by_role("link", name="Older")).count():
            older.click()
            numbers.append(len(rows(page)))
        assert sum(numbers) == 2 * MORE + VERDICTS
        assert len(numbers) == 2
        page.get_by_role("link", name="Newer").click()
        assert len(rows(page)) == numbers[0]


def test_a_trace_shows_expected_against_actual_and_leads_from_calls_to_spans(browser: Browser, served: Served) -> None:
    with opened(browser) as page:
        page.goto(served.url("?agent=refunds&label=fail"))
        page.locator("tbody a").first.click()
        assert page.url.startswith(served.url("/traces/"))
        text = page.locator("main").inner_text()
        for part in (
            "root_span",
            "complete",
            "delete_order",
            "exactly 0 calls",
            "$.amount is text, expected a number",
            "otel_genai",
            "not called",
        ):
            assert part in text
        assert page.locator("article.verdict").count() == 4
        assert page.locator("svg.bar").count() == 4
        widths = [float(page.locator("svg.bar rect.bar-call").nth(index).get_attribute("width") or 0) for index in range(2)]
        assert 0 < widths[0] < widths[1] < 1000, "the first call took less time than the second"
        page.locator("article a", has_text="see call").first.click()
        target = page.locator("tr:target")
        assert target.count() == 1
        assert "execute_tool" in target.inner_text()


def test_open_traces_and_criteria_say_what_is_asked_of_them(browser: Browser, served: Served) -> None:
    with opened(browser) as page:
        page.goto(served.url())
        page.get_by_role("link", name="Open traces").click()
        waiting = page.locator("table").first.inner_text()
        assert trace_id_of(ROOTLESS) in waiting
        assert "its root span" in waiting
        assert "idle_timeout" in waiting
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Criteria").click()
        text = page.locator("main").inner_text()
        for part in ("refund_policy", "3 expectations", "criteria.yaml", "newsletter", "sent_once", trace_id_of(UNBOUND)):
            assert part in text
        page.locator("tr", has_text="forecast_first").get_by_role("link", name="show").click()
        assert {criteria for _, criteria, _ in rows(page)} == {"forecast_first"}


def test_hostile_names_are_text(browser: Browser, served: Served) -> None:
    shown = HOSTILE.replace("\u202e", r"\u202e")
    for path in ("?criteria=hostile", f"/traces/{trace_id_of(EVIL)}", "/criteria"):
        with opened(browser) as page:
            page.goto(served.url(path))
            assert shown in page.locator("main").inner_text()
            assert page.locator("img").count() == 0
            assert page.locator("main bdi script").count() == 0


def press_until(page: Page, target: Locator, *, most: int = 60) -> None:
    """Press Tab until an element has the focus; all that has it on the way must show it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("() => document.activeElement.outerHTML")
        if target.evaluate("(one) => one === document.activeElement"):
            return
    pytest.fail("the element can't be reached by keyboard")


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_is_done_by_keyboard_alone(browser: Browser, served: Served, width: int) -> None:
    with opened(browser, width=width) as page:
        page.goto(served.url())
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        press_until(page, page.locator("#filter-agent"))
        page.keyboard.type("refunds")
        press_until(page, page.locator("#filter-label"))
        page.keyboard.type("fail")
        press_until(page, page.get_by_role("button", name="Filter"))
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("label=fail"))
        assert {(label, agent) for label, _, agent in rows(page)} == {("fail", "refunds")}
        press_until(page, page.locator("tbody a").first)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/traces/"))
        press_until(page, page.locator("article a").first)
        page.keyboard.press("Enter")
        assert page.locator("tr:target").count() == 1
        page.keyboard.press("Home")
        page.goto(served.url())
        press_until(page, page.get_by_role("link", name="Criteria", exact=True).first)
        page.keyboard.press("Enter")
        page.wait_for_url(served.url("/criteria"))


def test_what_assistive_technology_is_told(browser: Browser, served: Served) -> None:
    with opened(browser, width=390) as page:
        page.goto(served.url(f"/traces/{trace_id_of(GOOD)}"))
        assert page.get_by_role("main").count() == 1
        assert page.get_by_role("navigation", name="Pages").count() == 1
        assert page.get_by_role("heading", level=1).count() == 1
        table = page.get_by_role("table", name="Tool calls")  # also where rows are shown one below the other
        assert table.get_by_role("row").count() == 4
        assert table.get_by_role("columnheader").count() == 6
        assert table.get_by_role("rowheader").all_inner_texts()[0].startswith("get_order")
        page.goto(served.url())
        for name in ("Agent", "Service", "Criteria", "Label"):
            assert page.get_by_role("combobox", name=name, exact=True).count() == 1


def test_a_browser_without_a_path_comes_to_the_page(browser: Browser, served: Served) -> None:
    with opened(browser) as page:
        page.goto(f"http://{served.address}/")
        assert page.url == served.url()


def test_where_there_are_tokens_a_browser_logs_in_and_out(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("guarded")
    tokens = write_secret(folder / "tokens", f"{TOKEN}\n".encode())
    with running_sidecar(environ={"OTEL_TOOLCALL_EVAL_LISTEN_TOKEN_FILE": str(tokens)}) as sidecar:
        served = Served(address=sidecar.http)
        context = browser.new_context()
        page = context.new_page()
        page.goto(served.url("/criteria"))
        assert page.url.startswith(served.url("/login"))
        page.keyboard.type("wrong")  # the field has the focus
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        assert "not valid" in page.get_by_role("alert").inner_text()
        assert context.cookies() == []
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(served.url("/criteria"))
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/status")
        assert TOKEN not in cookie["value"]
        assert page.evaluate("() => document.cookie") == ""
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(served.url("/login"))
        page.goto(served.url())
        assert page.url.startswith(served.url("/login"))
        assert context.cookies() == []
        page.screenshot(path=BUILD / "status" / "login.png")
        context.close()
        wait_for(lambda: get(sidecar.http, "/livez")[0] == 200, "the sidecar")
