"""A real Chromium for the tests of pages; whatever a page asks of a network or complains of is kept."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Commands of which one must be there: `apt-get install chromium`."""


def executable() -> str:
    """Return the path of the browser."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found, f"the tests of pages need one of {', '.join(NAMES)}: apt-get install chromium"
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser, and end it."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


class Opened:
    """A page of a file, and what it did that it should not."""

    def __init__(self, browser: Browser, path: Path, *, view: str = "", width: int = 1400, **context: Any) -> None:
        """Open the file and wait until it shows its data."""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **context)
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{path.as_uri()}#{view}")
        self.page.wait_for_selector("html[data-ready]")

    @property
    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wider

    def status(self, text: str) -> None:
        """Wait until the page says what it shows."""
        self.page.locator("#status", has_text=text).wait_for()

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the visible elements."""
        return [found.inner_text() for found in self.page.locator(selector).all() if found.is_visible()]
