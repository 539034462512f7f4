"""Lists of a task's logs, and the logs behind their addresses."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from holdfast.core.states import JobState
from holdfast.engines.base import LogStream
from holdfast.server.openpai.jobs.log_manager import TAIL_SIZE
from holdfast.store.jobs import records as job_rows

from .job_files import job, role
from .pai import Pai, open_pai, refused

pytestmark = pytest.mark.anyio

GONE = "Log of task is not found."


def logs_of(
    name: str, *, user: str = "alice", role: str = "worker", index: Any = 0, attempt: Any = 0, number: Any = 0
) -> str:
    return f"/v2/jobs/{user}~{name}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{number}/logs"


async def run(pai: Pai, name: str, *commands: str, **more: Any) -> str:
    """The id of the only task's try."""
    roles = {"worker": role(*commands, **more)}
    sent = await pai.user.post("/v2/jobs", content=job(name, roles), headers={"Content-Type": "text/yaml"})
    assert sent.status_code == 202, sent.text
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", name)
    await pai.house.until(found.id, JobState.RUNNING)
    return f"{found.id}.0.worker-0.0"


async def locations(client: httpx.AsyncClient, path: str) -> dict[str, str]:
    listed = await client.get(path)
    assert listed.status_code == 200, listed.text
    return {each["name"]: each["uri"] for each in listed.json()["locations"]}


async def read(pai: Pai, uri: str, **headers: str) -> httpx.Response:
    """As anybody, without a login."""
    return await pai.guest.get(f"http://test{uri}", headers=headers)


async def test_a_task_has_three_logs(pai: Pai) -> None:
    await run(pai, "talks", "echo out", "echo err >&2")
    found = await locations(pai.user, logs_of("talks"))
    assert list(found) == ["stdout", "stderr", "all"]
    texts = {name: (await read(pai, uri)).text for name, uri in found.items()}
    assert texts == {"stdout": "out\n", "stderr": "err\n", "all": "out\nerr\n"}
    asked = parse_qs(urlsplit(found["stdout"]).query)
    assert asked["username"] == ["alice"]
    assert asked["taskrole"] == ["worker"]
    assert urlsplit(found["stderr"]).path.endswith("/api/v1/logs/user-stderr")
    whole = await read(pai, found["stdout"])
    assert whole.status_code == 200
    assert whole.headers["content-disposition"].startswith("attachment; filename=")
    assert whole.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("spelling", ["tail-mode", "tailMode"])
async def test_tail_mode_sends_the_end(pai: Pai, spelling: str) -> None:
    task = await run(pai, "long", "sleep 100")
    pai.house.engine.write_log(task, b"x" * 5 + b"y" * TAIL_SIZE)
    found = await locations(pai.user, logs_of("long") + f"?{spelling}=true")
    tail = await read(pai, found["stdout"])
    assert tail.status_code == 206
    assert tail.content == b"y" * TAIL_SIZE
    assert tail.headers["content-range"] == f"bytes 5-{TAIL_SIZE + 4}/{TAIL_SIZE + 5}"
    empty = await read(pai, found["stderr"])
    assert (empty.status_code, empty.content) == (200, b"")


async def test_parts_can_be_asked_for(pai: Pai) -> None:
    await run(pai, "parts", "echo 0123456789")
    uri = (await locations(pai.user, logs_of("parts")))["stdout"]
    part = await read(pai, uri, Range="bytes=2-4")
    assert (part.status_code, part.text, part.headers["content-range"]) == (206, "234", "bytes 2-4/11")
    nothing = await read(pai, uri, Range="bytes=50-")
    refused(nothing, 416, "InvalidParametersError")
    assert nothing.headers["content-range"].startswith("bytes */")
    head = await pai.guest.head(f"http://test{uri}")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("path", ["", "pages/x", "pages/x/user.pai.stdout", "%2e%2e/a/b", "m/api/v1/logs/user-stdout"])
async def test_nothing_else_is_below_log_manager(pai: Pai, path: str) -> None:
    uri = f"http://test/log-manager/{path}"
    refused(await pai.guest.post(uri), 404, "NoApiError")
    if "user" not in path:
        refused(await pai.guest.get(uri), 404, "NoApiError")


async def test_links_are_soon_over(pai: Pai) -> None:
    await run(pai, "brief", "echo hi")
    uri = (await locations(pai.user, logs_of("brief")))["all"]
    pai.house.clock.forward(119)
    assert (await read(pai, uri)).status_code == 200
    pai.house.clock.forward(2)
    assert "expired" in refused(await read(pai, uri), 403, "ForbiddenUserError")


@pytest.mark.parametrize("change", ["", "x", "a.b", "é.é", "A" * 5000, "eyJ9.eyJ9", "."])
async def test_made_up_links_open_nothing(pai: Pai, change: str) -> None:
    await run(pai, "guarded", "echo secret")
    uri = (await locations(pai.user, logs_of("guarded")))["all"]
    forged = uri.partition("token=")[0] + f"token={change}"
    refused(await read(pai, forged), 403, "ForbiddenUserError")


async def test_a_link_opens_its_own_log_only(pai: Pai) -> None:
    """Whatever else the address says: the token alone decides."""
    await run(pai, "mine", "echo mine")
    await run(pai, "other", "echo other")
    mine = (await locations(pai.user, logs_of("mine")))["all"]
    other = (await locations(pai.user, logs_of("other")))["all"]
    mixed = other.partition("token=")[0] + "token=" + mine.partition("token=")[2]
    assert (await read(pai, mixed)).text == "mine\n"
    content, _, signature = mine.partition("token=")[2].partition(".")
    foreign = other.partition("token=")[2].partition(".")[0]
    forged = mine.partition("token=")[0] + f"token={foreign}.{signature}"
    assert content != foreign
    refused(await read(pai, forged), 403, "ForbiddenUserError")


async def test_links_of_another_server_open_nothing(pai: Pai, tmp_path: Path) -> None:
    await run(pai, "here", "echo hi")
    uri = (await locations(pai.user, logs_of("here")))["all"]
    async with open_pai(tmp_path / "other") as other:
        await run(other, "here", "echo hi")
        refused(await read(other, uri), 403, "ForbiddenUserError")


async def test_removed_logs_are_not_found(pai: Pai) -> None:
    task = await run(pai, "old", "echo hi")
    uri = (await locations(pai.user, logs_of("old")))["all"]
    await pai.house.engine.remove_logs(task)
    await pai.house.store.write(job_rows.mark_logs_removed, [task], pai.house.clock.now())
    refused(await pai.user.get(logs_of("old")), 404, "NoTaskLogError", GONE)
    refused(await read(pai, uri), 404, "NoTaskLogError", GONE)


@pytest.mark.parametrize(
    "where",
    [{"index": 7}, {"index": "x"}, {"role": "none"}, {"attempt": 3}, {"attempt": -1}, {"number": 2}, {"number": "1e3"}],
)
async def test_what_never_ran_has_no_log(pai: Pai, where: dict[str, Any]) -> None:
    await run(pai, "ran", "echo hi")
    refused(await pai.user.get(logs_of("ran", **where)), 404, "NoTaskLogError", GONE)


async def test_a_task_that_waits_has_no_log_yet(pai: Pai) -> None:
    await pai.user.post("/v2/jobs", content=job("waits", {"worker": role(asked={"cpu": 4000})}))
    refused(await pai.user.get(logs_of("waits")), 404, "NoTaskLogError", GONE)


async def test_unknown_jobs_and_streams(pai: Pai) -> None:
    refused(await pai.user.get(logs_of("never")), 404, "NoJobError", "Job alice~never is not found.")
    await run(pai, "known", "echo hi")
    uri = (await locations(pai.user, logs_of("known")))["stdout"].replace("user-stdout", "user-etc")
    refused(await read(pai, uri), 404, "NoTaskLogError", GONE)
    assert (await read(pai, "/log-manager/x/api/v1/logs/passwd")).status_code == 404


async def test_only_who_sees_the_job_gets_links(pai: Pai) -> None:
    await run(pai, "private", "echo hi")
    stranger = await pai.new_user("mallory", "vision")
    refused(await stranger.get(logs_of("private")), 404, "NoJobError")
    refused(await pai.guest.get(logs_of("private")), 401, "UnauthorizedUserError")


# -- the pages of the first clients


async def page_base(pai: Pai, name: str) -> str:
    detail = (await pai.user.get(f"/v1/user/alice/jobs/{name}")).json()
    return str(detail["taskRoles"]["worker"]["taskStatuses"][0]["containerLog"])


def text_in(page: httpx.Response) -> str:
    assert page.status_code == 200, page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text.count("<pre>") == page.text.count("</pre>") == 1
    return unescape(page.text.partition("<pre>")[2].partition("</pre>")[0])


async def test_pages_show_a_log(pai: Pai) -> None:
    await run(pai, "old-way", "echo </pre><script>alert(1)</script> & more", "echo err >&2")
    base = await page_base(pai, "old-way")
    assert base.startswith("http://test/log-manager/")
    assert base.endswith("/")
    page = await pai.guest.get(f"{base}user.pai.stdout/?start=0")
    assert "<script>" not in page.text
    assert text_in(page) == "</pre><script>alert(1)</script> & more\n"
    assert text_in(await pai.guest.get(f"{base}user.pai.stderr?start=0")) == "err\n"
    assert text_in(await pai.guest.get(f"{base}user.pai.all/?start=-4")) == "err\n"
    refused(await pai.guest.get(f"{base}runtime.docker.pai.log/"), 404, "NoTaskLogError", GONE)


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("0", "é12345"),
        ("2", "12345"),
        ("1", "\ufffd12345"),
        ("-3", "345"),
        ("-99", "é12345"),
        ("99", ""),
        ("x", "é12345"),
    ],
)
async def test_pages_begin_anywhere(pai: Pai, start: str, shown: str) -> None:
    task = await run(pai, "cut", "sleep 100")
    pai.house.engine.write_log(task, "é12345".encode())
    assert text_in(await pai.guest.get(f"{await page_base(pai, 'cut')}user.pai.stdout/?start={start}")) == shown


async def test_pages_without_a_start_show_the_end(pai: Pai) -> None:
    task = await run(pai, "ends", "sleep 100")
    pai.house.engine.write_log(task, b"x" * 10 + b"y" * 4096, LogStream.STDERR)
    assert text_in(await pai.guest.get(f"{await page_base(pai, 'ends')}user.pai.all/")) == "y" * 4096
