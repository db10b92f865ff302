"""A window of the system's Chromium that records its page's errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Request, Response

from tests.conftest import ROOT

PICTURES = ROOT / "test-artifacts" / "browser"
"""Folder for screenshots."""
DESKTOP, PHONE, NARROW = (1280, 800), (390, 844), (320, 640)
LONGEST_MS = 120_000
"""Time for a page to load or to show something: MLflow's loads 10 MB of scripts, which a busy machine does slowly."""
SEVERE = ("serious", "critical")
"""Violations of this impact in axe-core's rating are errors here. Contrast is among them."""


class Window:
    """One page in a separate window."""

    def __init__(self, browser: Browser, size: tuple[int, int] = DESKTOP, **context: Any) -> None:
        viewport: Any = {"width": size[0], "height": size[1]}
        self.context = browser.new_context(viewport=viewport, **context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(LONGEST_MS)
        self.errors: list[str] = []
        """Console errors, exceptions and failed requests."""
        self.requests: list[str] = []
        """Addresses of all requests."""
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", self._on_failed)
        self.page.on("response", self._on_response)

    def open(self, address: str | Path) -> Window:
        """Go to an address or a file."""
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)
        return self

    def screenshot(self, name: str, *, whole: bool = True) -> None:
        """Save a screenshot of the whole page or of the visible part."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=whole, animations="disabled")

    def without_colour(self) -> None:
        """Show the page as people without colour vision see it."""
        session = self.context.new_cdp_session(self.page)
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": "achromatopsia"})

    def overhang(self) -> float:
        """Return by how many pixels the page is wider than its window."""
        return float(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def cut_tables(self) -> int:
        """Return the number of tables that are wider than their container."""
        script = "parts => parts.filter(part => part.scrollWidth > part.clientWidth + 1).length"
        return int(self.page.locator(".scroll").evaluate_all(script))

    def in_view(self, selector: str) -> bool:
        """Return True if the first matching element is completely visible without scrolling."""
        box = self.page.locator(selector).first.bounding_box()
        size = self.page.viewport_size
        assert box is not None
        assert size is not None
        return box["y"] >= 0 and box["y"] + box["height"] <= size["height"] and box["x"] + box["width"] <= size["width"]

    def severe_violations(self, name: str) -> list[str]:
        """Return axe-core's serious and critical violations. All violations are saved beside the screenshots."""
        audit = Axe().run(self.page, options={"resultTypes": ["violations", "passes"]}).response
        counts = {kind: {each["id"]: len(each["nodes"]) for each in audit[kind]} for kind in ("violations", "passes")}
        assert counts["passes"].get("color-contrast", 0) > 0, "contrast was not checked"
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.axe.json").write_text(json.dumps({**counts, "found": audit["violations"]}, indent=1))
        return [
            f"{each['id']}: {node['html'][:120]} {node['failureSummary']}"
            for each in audit["violations"]
            if each["impact"] in SEVERE
            for node in each["nodes"]
        ]

    def close(self) -> None:
        self.context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text} {message.location['url']}")

    def _on_failed(self, request: Request) -> None:
        # A request that the page cancels when it is left has not failed.
        if request.failure != "net::ERR_ABORTED":
            self.errors.append(f"{request.failure}: {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status}: {response.url}")
