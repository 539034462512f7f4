"""Anonymous requests to OpenPAI's addresses do not use up what users with a token may ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.openpai.pai import open_pai

pytestmark = pytest.mark.anyio

LIMIT = 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_flood_without_a_token_refuses_no_valid_token(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"openpai": {"requests_per_minute": LIMIT}}) as pai:
        stranger = await pai.client("hf_aaaaaaaaaaaaaaaa_" + "A" * 43)
        for _ in range(LIMIT):
            await pai.guest.get("/v2/jobs")
        assert (await pai.guest.get("/v2/jobs")).status_code == 429
        assert (await stranger.get("/v2/jobs")).status_code == 429  # a token that is none counts by address
        for _ in range(LIMIT):
            assert (await pai.user.get("/v2/jobs")).status_code == 200
        assert (await pai.user.get("/v2/jobs")).status_code == 429
        assert (await pai.admin.get("/v2/jobs")).status_code == 200


async def test_a_users_requests_are_counted_wherever_they_come_from(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"openpai": {"requests_per_minute": LIMIT}}) as pai:
        other = await pai.application()
        left = {(await client.get("/v2/users/alice")).headers["x-ratelimit-remaining"] for client in (pai.user, other)}
        assert left == {str(LIMIT - 1), str(LIMIT - 2)}
