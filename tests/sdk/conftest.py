"""One server per test, and every call made through both clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.sdk import AsyncClient, Client

from .scripted import ScriptedServer


@pytest.fixture(autouse=True)
def _no_settings_of_my_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server or login of whoever runs the tests is ever seen."""
    for name in ("HOLDFAST_URL", "HOLDFAST_TOKEN", "HOLDFAST_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.stop()


Ask = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, server: ScriptedServer) -> Ask:
    """ask("get_job", "job-1") calls the method on a client and returns what it gives; streams as a list."""

    def blocking(method: str, *args: Any, client: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        with Client(server.url, "hf_a_secret", **(client or {})) as made:
            found = getattr(made, method)(*args, **kwargs)
            return list(found) if isinstance(found, Iterator) else found

    def awaiting(method: str, *args: Any, client: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        async def run() -> Any:
            async with AsyncClient(server.url, "hf_a_secret", **(client or {})) as made:
                found = getattr(made, method)(*args, **kwargs)
                if isinstance(found, AsyncIterator):
                    return [item async for item in found]
                return await found

        return asyncio.run(run())

    return blocking if request.param == "blocking" else awaiting
