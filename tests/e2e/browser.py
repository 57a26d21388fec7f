"""A headless Chromium of the system's, driven by Playwright, and what it complains of."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from playwright.sync_api import sync_playwright

from tests.e2e.chromium import found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Dialog, Page, Request

OPTIONS: Final = (
    "--no-sandbox",  # CI runs as root, where Chromium has none; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

WIDTHS: Final = (390, 1440)
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")


@contextmanager
def running() -> Iterator[Browser]:
    """Run a browser until the end of the block, with a profile of its own."""
    path = found()
    assert path is not None, "no Chromium; run `make e2e`, which says how to get one"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, *, width: int = 1440, scheme: Scheme = "light") -> Iterator[Page]:
    """Open a page in a context of its own.

    At the end of the block it must have had nothing to complain of: no errors, no violations of its policy, no requests that failed,
    no dialogs.
    """
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))

    def note_failure(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the test went on to another page, or closed this one, while it was under way
            complaints.append(f"failed: {request.url}: {request.failure}")

    page.on("requestfailed", note_failure)

    def dismiss(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    try:
        yield page
    finally:
        context.close()
    assert complaints == [], complaints


# The contrast of every visible text with what is behind it, where it is less than WCAG 2.2 asks for (1.4.3): 4.5, or 3 for large text.
_CONTRAST = """
() => {
  const parse = (text) => { const m = text.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1]; };
  const light = ([r, g, b]) => {
    const part = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color[3] === 1) return color;
    }
    return [255, 255, 255, 1];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    if (!walker.currentNode.textContent.trim() || box.width < 2 || box.bottom < 0 || element.tagName === "OPTION") continue;
    const style = getComputedStyle(element);
    let opacity = 1;
    for (let one = element; one; one = one.parentElement) opacity *= Number(getComputedStyle(one).opacity);
    const back = behind(element), ink = parse(style.color).map((v, i) => i < 3 ? v * opacity + back[i] * (1 - opacity) : 1);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) low.push(`${ratio.toFixed(2)}: ${walker.currentNode.textContent.trim().slice(0, 60)}`);
  }
  return low;
}
"""

# Elements that reach beyond the right edge, but for those that only readers of screens see.
_BEYOND = """
() => [...document.body.querySelectorAll("*")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && one.getBoundingClientRect().width > 2)
  .filter((one) => { for (; one; one = one.parentElement) if (getComputedStyle(one).clipPath !== "none") return false; return true; })
  .map((one) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 60)}`)
"""


def faint(page: Page) -> list[str]:
    """Return the texts that stand out too little."""
    texts: list[str] = page.evaluate(_CONTRAST)
    return texts


def beyond(page: Page) -> list[str]:
    """Return what does not fit into the width."""
    elements: list[str] = page.evaluate(_BEYOND)
    return elements
