from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import InvalidJob
from holdfast.core.job import Job, Mount, Role
from holdfast.core.volumes import HostFolder
from holdfast.services.datasets import mount_rules as mounts
from holdfast.services.datasets.mount_rules import MountRules
from holdfast.services.errors import Unavailable

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="admin", admin=True)
USER = Actor(name="alice", groups={"lab": True})


def job(*sources: str) -> Job:
    mounts = tuple(Mount(volume=HostFolder(source), target=f"/m{n}") for n, source in enumerate(sources))
    return Job(name="j", roles=(Role(name="main", commands=("true",), mounts=mounts),))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder in ("home/secret", "data/set", "other"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def rules(place: Path) -> MountRules:
    return MountRules(home=place / "home", allow=[str(place / "data")])


async def mounted(place: Path, source: str, actor: Actor) -> str:
    return (await rules(place).resolve_mounts(job(source), actor)).roles[0].mounts[0].source


async def refusal(place: Path, source: str, actor: Actor) -> str:
    with pytest.raises(InvalidJob) as caught:
        await rules(place).resolve_mounts(job(source), actor)
    assert caught.value.problems[0].field == "roles.main.mounts[0].source"
    return caught.value.problems[0].message


async def test_allowed_folders_are_for_all(place: Path) -> None:
    assert await mounted(place, f"{place}/data/set", USER) == f"{place}/data/set"
    assert await mounted(place, f"{place}/data", USER) == f"{place}/data"


async def test_other_folders_are_for_admins(place: Path) -> None:
    assert await mounted(place, f"{place}/other", ADMIN) == f"{place}/other"
    assert "is not allowed as a mount" in await refusal(place, f"{place}/other", USER)


@pytest.mark.parametrize(
    ("allow", "says"),
    [((), "Only admins can mount folders on this server"), (("/srv/data",), "You can mount folders under: /srv/data")],
)
async def test_who_may_not_mount_is_told_what_to_do_instead(place: Path, allow: tuple[str, ...], says: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        await MountRules(home=place / "home", allow=allow).resolve_mounts(job(f"{place}/other"), USER)
    hint = str(caught.value.problems[0].hint)
    assert says in hint
    assert "`holdfast files put FILE`" in hint
    assert "--files" in hint


async def test_links_are_followed_before_looking(place: Path) -> None:
    (place / "data/out").symlink_to(place / "other")
    (place / "data/in").symlink_to(place / "data/set")
    (place / "data/state").symlink_to(place / "home")
    assert await mounted(place, f"{place}/data/in", USER) == f"{place}/data/set"
    await refusal(place, f"{place}/data/out", USER)
    await refusal(place, f"{place}/data/state", ADMIN)


async def test_dots_lead_nowhere(place: Path) -> None:
    await refusal(place, f"{place}/data/../other", USER)
    await refusal(place, f"{place}/data/../home", ADMIN)


async def test_a_name_that_begins_like_an_allowed_one_is_not_allowed(place: Path) -> None:
    (place / "data-private").mkdir()
    await refusal(place, f"{place}/data-private", USER)


@pytest.mark.parametrize("source", ["home", "home/secret", "", "/"])
async def test_the_state_folder_is_for_nobody(place: Path, source: str) -> None:
    path = source if source == "/" else f"{place}/{source}"
    assert "state folder" in await refusal(place, path, ADMIN)


@pytest.mark.parametrize("source", ["relative", "", "/nul\0", "~/x"])
async def test_what_is_no_path_is_refused(place: Path, source: str) -> None:
    assert "absolute" in await refusal(place, source, ADMIN)


async def test_what_is_missing_is_told_to_admins_alone(place: Path) -> None:
    assert "does not exist" in await refusal(place, f"{place}/nowhere", ADMIN)
    missing, present = await refusal(place, f"{place}/nowhere", USER), await refusal(place, f"{place}/other", USER)
    assert missing.replace("nowhere", "other") == present


async def test_every_problem_is_told_at_once(place: Path) -> None:
    with pytest.raises(InvalidJob) as caught:
        await rules(place).resolve_mounts(job("a", f"{place}/data", "b"), ADMIN)
    assert len(caught.value.problems) == 2


async def test_a_loop_of_links_is_refused(place: Path) -> None:
    (place / "data/loop").symlink_to(place / "data/loop")
    await refusal(place, f"{place}/data/loop", ADMIN)


async def test_a_file_system_that_does_not_answer_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "FOLDER_RESPONSE_TIMEOUT", 0.05)
    answer = threading.Event()
    looking = rules(place)
    try:
        for _ in range(20):
            with pytest.raises(Unavailable, match="is not responding"):
                await looking.run_guarded([], answer.wait)
        monkeypatch.setattr(mounts, "FOLDER_RESPONSE_TIMEOUT", 60.0)
        assert await looking.resolve_mounts(job(f"{place}/data"), USER) == job(
            f"{place}/data"
        )  # others are not held up
    finally:
        answer.set()
