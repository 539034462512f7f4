"""Holdfast behind the proxies of deploy/, as the guide says: portal, sockets, uploads, streams and addresses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from .proxies import PROGRAMS, Proxy, find_program
from .server import TIMEOUT, Server

PASSWORD = "correct horse battery"
SMALL = "resources: {cpu: 0.1, memory: 64Mi}"
MIB = 1024 * 1024


@dataclass
class Site:
    server: Server
    proxy: Proxy

    def api(self, source: str = "127.0.0.2", *, is_admin: bool = True) -> httpx.Client:
        client = self.proxy.connect(source, **({"Authorization": f"Bearer {self.server.token}"} if is_admin else {}))
        client.base_url = httpx.URL(f"{self.proxy.url}/api/v1")
        return client

    def browser(self, source: str = "127.0.0.2") -> httpx.Client:
        """Says what browsers say."""
        headers = {"Origin": self.proxy.url, "Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
        return self.proxy.connect(source, **headers)

    def add_user(self, name: str) -> str:
        with self.api() as api:
            made = api.post("/users", json={"name": name, "password": PASSWORD, "groups": ["default"]})
            assert made.status_code == 201, made.text
        return name


@pytest.fixture(scope="module", params=PROGRAMS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    program = request.param
    if find_program(program) is None:
        pytest.skip(f"{program} is missing: sh scripts/test-components.sh installs it")
    folder = tmp_path_factory.mktemp(program)
    proxy = Proxy(folder, program)
    settings = {"HOLDFAST_SERVER_PUBLIC_URL": proxy.url, "HOLDFAST_SERVER_TRUSTED_PROXIES": "127.0.0.1"}
    server = Server(folder / "home", **settings)
    server.start()
    try:
        with proxy.running(server):
            yield Site(server, proxy)
    finally:
        server.stop()


def log_in(browser: httpx.Client, user: str, password: str = PASSWORD) -> httpx.Response:
    return browser.post("/login", data={"user": user, "password": password})


@pytest.mark.release_after(1)
def test_a_browser_logs_in_and_its_live_page_opens(site: Site) -> None:
    user = site.add_user("ann")
    with site.browser() as browser:
        answer = log_in(browser, user)
        assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
        assert all("; Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))
        assert "ann" in browser.get("/me").text
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)
    with site.proxy.open_websocket("/live/jobs", site.proxy.url, cookies) as socket:
        assert socket.ping().wait(TIMEOUT)
    with pytest.raises(InvalidStatus) as caught:
        site.proxy.open_websocket("/live/jobs", "https://evil.example", cookies)
    assert caught.value.response.status_code == 403


@pytest.mark.release_after(1)
def test_a_large_file_is_uploaded(site: Site) -> None:
    data = os.urandom(5 * MIB)
    with site.api() as api:
        put = api.put("/groups/default/files/large.bin", content=data)
        assert put.status_code == 200, put.text
        assert api.get("/groups/default/files/large.bin").content == data


@pytest.mark.release_after(1)
def test_a_log_is_followed_and_a_task_is_entered_while_it_runs(site: Site, tmp_path: Path) -> None:
    job = site.server.submit(f"name: talk\n{SMALL}\ncommand: 'echo first line; sleep 300'")["id"]
    with site.api() as api:
        with api.stream("GET", f"/jobs/{job}/log/follow") as stream:
            assert any("first line" in line for line in stream.iter_lines())  # before the job has ended
        assert api.get(f"/jobs/{job}").json()["state"] == "Running"
        env = {
            **os.environ,
            "HOLDFAST_HOME": str(tmp_path),
            "HOLDFAST_URL": site.proxy.url,
            "HOLDFAST_TOKEN": site.server.token,
            "SSL_CERT_FILE": str(site.proxy.certificate),
        }
        argv = [sys.executable, "-m", "holdfast", "exec", job, "--", "echo", "from inside"]
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert (ran.returncode, ran.stdout.strip()) == (0, "from inside"), ran.stderr
        api.post(f"/jobs/{job}/stop")


def test_wrong_passwords_of_one_client_do_not_lock_out_another(site: Site) -> None:
    user = site.add_user("bob")
    wrong = {"user": user, "password": "wrong"}
    claim = {"X-Forwarded-For": "127.0.0.3"}  # by the attacker: the proxy replaces it
    with site.browser("127.0.0.3") as browser:
        assert log_in(browser, user).status_code == 303
        device = {name: value for name, value in browser.cookies.items() if name.endswith("_device")}
    with site.api("127.0.0.2", is_admin=False) as attacker:
        answered = [attacker.post("/login", json=wrong, headers=claim).status_code for _ in range(10)]
    assert set(answered) == {401, 429}
    with site.browser("127.0.0.3") as browser:  # all of the loopback is one address to the limits: its cookie counts
        browser.cookies.update(device)
        assert log_in(browser, user).status_code == 303
    with site.api() as api:
        events = api.get("/audit", params={"kind": "login", "subject": user}).json()["items"]
    seen = {(event["act"], event["address"]) for event in events if event["subject"] == user}
    assert seen == {("failed", "127.0.0.2"), ("begun", "127.0.0.3")}


def test_the_log_of_the_server_says_nothing_of_it(site: Site) -> None:
    assert not re.search(r"WARNING|ERROR", site.server.log()), site.server.log()
