"""The portal with a million jobs behind it: how fast its pages are made, what they weigh, and what a browser does with
a list that changes. The last two need Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.portal.browser import CHROMIUM, open_chromium

from .client import Connection
from .fill import GROUPS
from .harness import BenchServer, Options, folder
from .measure_scale import fill_home
from .rows import Row, below, percentile

USER, PASSWORD = "bench", "bench of the portal"
KB = 1000
ROWS = 200
MERGES = 60


def measure(options: Options) -> list[Row]:
    jobs, requests = options.pick(1_000_000, 50_000), options.pick(60, 20)
    with folder("portal", options) as place:
        fill_home(place / "home", jobs)
        running = BenchServer(place / "home")
        try:
            running.start()
            cookie, some = _log_in(running)
            rows = [_timed(running, cookie, name, path, requests) for name, path in _pages(some).items()]
            return [*rows, *_in_browser(running, cookie)]
        finally:
            running.stop()


def _log_in(running: BenchServer) -> tuple[str, list[str]]:
    """The cookie of an admin, and some jobs' ids."""
    base = f"http://127.0.0.1:{running.port}"
    bearer = {"Authorization": f"Bearer {running.token}"}
    made = httpx.post(f"{base}/api/v1/users", json={"name": USER, "password": PASSWORD, "admin": True}, headers=bearer)
    made.raise_for_status()
    answer = httpx.post(f"{base}/login", data={"user": USER, "password": PASSWORD})
    found = httpx.get(f"{base}/api/v1/jobs?limit=50", headers=bearer).json()["items"]
    [(name, value)] = [item for item in answer.cookies.items() if item[1].startswith("hf_")]
    return f"{name}={value}", [job["id"] for job in found]


def _pages(some: list[str]) -> dict[str, Any]:
    return {
        "home": lambda n: "/",
        "job list": lambda n: "/jobs",
        "job list of 200": lambda n: "/jobs?limit=200",
        "job list by state and text": lambda n: f"/jobs?state=Failed&text={('train', 'bert', 'zz')[n % 3]}",
        "job list by group": lambda n: f"/jobs?group={GROUPS[n % len(GROUPS)]}",
        "job page": lambda n: f"/jobs/{some[n % len(some)]}",
        "job page, events": lambda n: f"/jobs/{some[n % len(some)]}?section=events",
    }


def _timed(running: BenchServer, cookie: str, name: str, path: Any, requests: int) -> Row:
    took, sizes = [], []
    with Connection(running.port, "") as connection:
        connection.head = f"Host: 127.0.0.1:{running.port}\r\nCookie: {cookie}\r\nAccept-Encoding: gzip\r\n"
        connection.request("GET", path(0))  # templates are compiled at their first use
        for number in range(requests):
            began = time.perf_counter()
            status, body = connection.request("GET", path(number))
            took.append((time.perf_counter() - began) * 1000)
            sizes.append(len(body))
            if status not in (200, 404):
                raise RuntimeError(f"{path(number)}: {status}")
    note = f"p50 {percentile(took, 50):.1f} ms, worst {max(took):.1f} ms, {max(sizes) / KB:.0f} KB compressed"
    return Row(f"portal: {name}, p95", percentile(took, 95), "ms", below(50), note)


# -- in a browser


def _in_browser(running: BenchServer, cookie: str) -> list[Row]:
    if CHROMIUM is None:
        return [Row("portal: in a browser", None, "", None, "skipped: Chromium is not installed")]
    with _window(running, cookie) as page:
        first, again = _weigh(page), _weigh(page)
        merge = _merge(page)
    note = f"p50 {percentile(merge, 50):.1f} ms, worst {max(merge):.1f} ms of {MERGES}; a tenth of the rows changed"
    return [
        Row("portal: job list, first visit", first / KB, "KB", below(400), "transferred, with styles and scripts"),
        Row("portal: job list, after that", again / KB, "KB", below(30), "transferred"),
        Row(f"portal: live update of {ROWS} rows, p95", percentile(merge, 95), "ms", below(50), note),
    ]


@contextmanager
def _window(running: BenchServer, cookie: str) -> Iterator[Any]:
    with open_chromium() as browser:
        base = f"http://127.0.0.1:{running.port}"
        context = browser.new_context(base_url=base)
        name, _, value = cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": base}])
        yield context.new_page()


def _weigh(page: Any) -> float:
    """Bytes that came over the wire for the job list."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto("/jobs", wait_until="networkidle")
    session.detach()
    return sum(sizes)


def _merge(page: Any) -> list[float]:
    """Milliseconds of some updates of a list of ROWS rows, from the answer to the end of layout; with pauses."""
    page.goto(f"/jobs?limit={ROWS}", wait_until="networkidle")
    return [float(took) for took in page.evaluate(_MERGE, [page.evaluate(_MODULE), MERGES])]


_MODULE = "new URL('./table_rows.js', document.querySelector('script[src$=\"/js/portal.js\"]').src).href"
_MERGE = """async ([module, times]) => {
  const { mergeRows } = await import(module);
  const body = document.querySelector("tbody[data-rows]");
  const copy = body.cloneNode(true);
  const changed = (turn) => {
    [...copy.rows].forEach((row, number) => {
      if (number % 10 !== turn % 10) return;
      row.dataset.v = `turn-${turn}`;
      row.cells[1].firstChild.textContent = `turn ${turn}`;
    });
    return copy.innerHTML;
  };
  const took = [];
  for (const html of Array.from({ length: times }, (_, turn) => changed(turn))) {
    const began = performance.now();
    mergeRows(body, html);
    body.getBoundingClientRect();
    took.push(performance.now() - began);
    await new Promise((done) => setTimeout(done, 100));
  }
  return took;
}"""
