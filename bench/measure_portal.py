"""The portal with a million jobs in the store: response times of pages, transferred sizes, and updates of a list in a
browser. The last two need Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.portal.browser import CHROMIUM, open_chromium

from .client import Connection
from .fill_store import GROUPS
from .harness import BenchServer, Options, create_bench_folder
from .measure_scale import fill_home
from .rows import Row, below, percentile

USER, PASSWORD = "bench", "bench of the portal"
KB = 1000
ROW_COUNT = 200
UPDATE_COUNT = 60


def measure(options: Options) -> list[Row]:
    jobs, requests = options.pick_size(1_000_000, 50_000), options.pick_size(60, 20)
    with create_bench_folder("portal", options) as folder:
        fill_home(folder / "home", jobs)
        server = BenchServer(folder / "home")
        try:
            server.start()
            cookie, job_ids = _log_in(server)
            rows = [
                _measure_page(server, cookie, name, get_path, requests)
                for name, get_path in _make_page_paths(job_ids).items()
            ]
            return [*rows, *_measure_browser(server, cookie)]
        finally:
            server.stop()


def _log_in(server: BenchServer) -> tuple[str, list[str]]:
    """Return the cookie of an admin, and ids of some jobs."""
    base = f"http://127.0.0.1:{server.port}"
    headers = {"Authorization": f"Bearer {server.token}"}
    created = httpx.post(
        f"{base}/api/v1/users", json={"name": USER, "password": PASSWORD, "admin": True}, headers=headers
    )
    created.raise_for_status()
    login = httpx.post(f"{base}/login", data={"user": USER, "password": PASSWORD})
    jobs = httpx.get(f"{base}/api/v1/jobs?limit=50", headers=headers).json()["items"]
    [(name, value)] = [item for item in login.cookies.items() if item[1].startswith("hf_")]
    return f"{name}={value}", [job["id"] for job in jobs]


def _make_page_paths(job_ids: list[str]) -> dict[str, Any]:
    return {
        "home": lambda n: "/",
        "job list": lambda n: "/jobs",
        "job list of 200": lambda n: "/jobs?limit=200",
        "job list by state and text": lambda n: f"/jobs?state=Failed&text={('train', 'bert', 'zz')[n % 3]}",
        "job list by group": lambda n: f"/jobs?group={GROUPS[n % len(GROUPS)]}",
        "job page": lambda n: f"/jobs/{job_ids[n % len(job_ids)]}",
        "job page, events": lambda n: f"/jobs/{job_ids[n % len(job_ids)]}?section=events",
    }


def _measure_page(server: BenchServer, cookie: str, name: str, get_path: Any, requests: int) -> Row:
    latencies, sizes = [], []
    with Connection(server.port, "") as connection:
        connection.header_lines = f"Host: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\nAccept-Encoding: gzip\r\n"
        connection.request("GET", get_path(0))  # compiles the templates
        for number in range(requests):
            started = time.perf_counter()
            status, body = connection.request("GET", get_path(number))
            latencies.append((time.perf_counter() - started) * 1000)
            sizes.append(len(body))
            if status not in (200, 404):
                raise RuntimeError(f"{get_path(number)}: {status}")
    note = f"p50 {percentile(latencies, 50):.1f} ms, worst {max(latencies):.1f} ms, {max(sizes) / KB:.0f} KB compressed"
    return Row(f"portal: {name}, p95", percentile(latencies, 95), "ms", below(50), note)


# -- in a browser


def _measure_browser(server: BenchServer, cookie: str) -> list[Row]:
    if CHROMIUM is None:
        return [Row("portal: in a browser", None, "", None, "skipped: Chromium is not installed")]
    with _open_page(server, cookie) as page:
        first_size, repeated_size = _measure_transfer(page), _measure_transfer(page)
        latencies = _measure_updates(page)
    p50, worst = percentile(latencies, 50), max(latencies)
    note = f"p50 {p50:.1f} ms, worst {worst:.1f} ms of {UPDATE_COUNT}; a tenth of the rows changed"
    return [
        Row("portal: job list, first visit", first_size / KB, "KB", below(400), "transferred, with styles and scripts"),
        Row("portal: job list, after that", repeated_size / KB, "KB", below(30), "transferred"),
        Row(f"portal: live update of {ROW_COUNT} rows, p95", percentile(latencies, 95), "ms", below(50), note),
    ]


@contextmanager
def _open_page(server: BenchServer, cookie: str) -> Iterator[Any]:
    with open_chromium() as browser:
        base = f"http://127.0.0.1:{server.port}"
        context = browser.new_context(base_url=base)
        name, _, value = cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": base}])
        yield context.new_page()


def _measure_transfer(page: Any) -> float:
    """Return the bytes transferred for the job list."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto("/jobs", wait_until="networkidle")
    session.detach()
    return sum(sizes)


def _measure_updates(page: Any) -> list[float]:
    """Return the milliseconds of each update of a job list, from the response to the end of the layout."""
    page.goto(f"/jobs?limit={ROW_COUNT}", wait_until="networkidle")
    return [
        float(milliseconds)
        for milliseconds in page.evaluate(_UPDATE_SCRIPT, [page.evaluate(_MODULE_URL_SCRIPT), UPDATE_COUNT])
    ]


_MODULE_URL_SCRIPT = "new URL('./table_rows.js', document.querySelector('script[src$=\"/js/portal.js\"]').src).href"
_UPDATE_SCRIPT = """async ([module, count]) => {
  const { mergeRows } = await import(module);
  const body = document.querySelector("tbody[data-rows]");
  const copy = body.cloneNode(true);
  const renderUpdate = (round) => {
    [...copy.rows].forEach((row, number) => {
      if (number % 10 !== round % 10) return;
      row.dataset.v = `round-${round}`;
      row.cells[1].firstChild.textContent = `round ${round}`;
    });
    return copy.innerHTML;
  };
  const latencies = [];
  for (const html of Array.from({ length: count }, (_, round) => renderUpdate(round))) {
    const start = performance.now();
    mergeRows(body, html);
    body.getBoundingClientRect();
    latencies.push(performance.now() - start);
    await new Promise((done) => setTimeout(done, 100));
  }
  return latencies;
}"""
