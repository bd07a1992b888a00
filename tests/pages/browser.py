"""What pages hold, and fixtures that open a page in headless Chromium."""

import base64
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

_FLAGS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ),
)

#: WebGL without a graphics card, for pages that draw volumes.
_SOFTWARE_GL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")


@dataclass
class Page:
    """A report in a browser."""

    driver: object
    url: str

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return self.one(selector).text

    def column(self, number: int) -> list[str]:
        """The shown cells of a column of the case table."""
        return self.run(
            "return [...document.querySelectorAll('#casetable tbody tr')]"
            ".map(row => row.children[arguments[0]].firstChild.data)",
            number,
        )

    def scroll_to(self, element) -> None:
        """Scroll to an element, and wait until the page knows."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )

    def resize(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, **features: str) -> None:
        given = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": given})

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened, its own file left out."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        sent = [
            m["params"]["request"]["url"]
            for m in messages
            if m["method"] == "Network.requestWillBeSent"
        ]
        # chrome: is the browser's own first page.
        own = ("data:", "chrome:", "chrome-untrusted:")
        return [url for url in sent if not url.startswith(own) and url.split("#")[0] != self.url]

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def check(self, width: int | None = None) -> None:
        """Check that no name was run as markup, nothing was asked for and nothing failed, nor
        sticks out at a width."""
        assert self.run("return window.hurt === undefined")
        assert self.requests() == []
        assert self.errors() == []
        if width is not None:
            self.resize(width)
        assert self.run("return document.documentElement.scrollWidth <= window.innerWidth")


class Parts(HTMLParser):
    """Every start tag of a page, its scripts and its style; whatever is opened must be closed
    again."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.scripts, self.style, self._open = [], [], "", []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "link", "br", "input", "img", "wbr"):
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] == ["script"]:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._open[-1:] == ["style"]:
            self.style += data


def payload(html: str) -> dict:
    """What the script of a page gets, which is packed where there are many data."""
    kind, text = re.search(
        r'<script type="application/(json|zlib)" id="data">(.*?)</script>', html, re.DOTALL
    ).groups()
    if kind == "zlib":
        text = zlib.decompress(base64.b64decode(text))
    return json.loads(text)


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Iterator[object]:
    """Headless Chromium; tests that need it are skipped where it is not installed."""
    yield from _started(tmp_path_factory, "--disable-gpu")


@pytest.fixture(scope="session")
def gl_driver(tmp_path_factory) -> Iterator[object]:
    """Headless Chromium with WebGL2."""
    yield from _started(tmp_path_factory, *_SOFTWARE_GL)


def _started(tmp_path_factory, *flags: str) -> Iterator[object]:
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, *flags, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.get("about:blank")
    yield driver
    driver.quit()


@pytest.fixture
def open_page(driver, tmp_path) -> Callable[[str], Page]:
    """Open HTML from a file, as a reader does, in a fresh state of the browser."""

    def open_html(html: str, *, width: int = 1200, **features: str) -> Page:
        path: Path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        return open_file(driver, path, width=width, **features)

    return open_html


def open_file(
    driver, path: Path, *, fragment: str = "", width: int = 1200, **features: str
) -> Page:
    """Open a page from disk, in a fresh state of the browser."""
    page = Page(driver, path.as_uri())
    for log in ("browser", "performance"):
        driver.get_log(log)
    page.resize(width)
    page.prefer(**{"prefers_color_scheme": "light", "prefers_reduced_motion": "reduce", **features})
    # An address that differs in its fragment alone would not load the page again.
    driver.get("about:blank")
    driver.get(page.url + fragment)
    return page
