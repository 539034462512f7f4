"""What plan and submit say of jobs that can never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.errors import UserError
from holdfast.core.records import Dataset
from holdfast.engines.base import Isolation
from holdfast.engines.engine_set import EngineSet
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

HELLO = "name: hello\ncommand: echo hello\n"


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[House]:
    """A node that cannot isolate jobs and has an image all the same."""
    engine = FakeEngine(images=("host", "torch:latest"), isolation=Isolation.NONE)
    async with open_house(tmp_path / "home", engine=engine) as opened:
        yield opened


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[House]:
    """A default engine without the image `host`, and another one that has it."""
    engine = EngineSet(
        [FakeEngine(name="boxes", images=("torch:latest",), has_host_image=False), FakeEngine(name="near")]
    )
    async with open_house(tmp_path / "home", engine=engine) as opened:
        yield opened


async def planned(house: House, text: str) -> tuple[str, tuple[str, ...]]:
    verdict = (await house.services.jobs.plan(house.admin, text)).verdict
    return verdict.answer, verdict.reasons


async def warned(house: House, text: str) -> tuple[str, ...]:
    return (await house.services.jobs.submit(house.admin, text)).warnings


async def test_an_unknown_image_never_runs(house: House) -> None:
    assert await planned(house, f"{HELLO}image: torch\n") == ("never", ("there is no image torch on this server",))


async def test_what_the_verdict_says_is_no_warning_too(house: House, tmp_path: Path) -> None:
    text = f"{HELLO}image: torch\n"
    assert (await house.services.jobs.plan(house.admin, text)).warnings == ()
    assert "torch is not on this server" in (await warned(house, text))[0]
    async with open_house(tmp_path / "other", settings={"images": {"unknown": "host"}}) as other:
        assert "host instead" in (await other.services.jobs.plan(other.admin, text)).warnings[0]


async def test_all_reasons_are_given(house: House) -> None:
    answer, reasons = await planned(house, f"{HELLO}image: torch\nresources: {{cpu: 48}}\n")
    assert (answer, len(reasons)) == ("never", 2)
    assert "48 cores" in reasons[0]


async def test_an_unknown_image_that_is_replaced_runs(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"images": {"unknown": "host"}}) as house:
        assert await planned(house, f"{HELLO}image: torch\n") == ("now", ())


@pytest.mark.parametrize("known", ["torch", "torch:latest"])
@pytest.mark.parametrize("asked", ["torch", "torch:latest"])
async def test_no_tag_means_latest(tmp_path: Path, known: str, asked: str) -> None:
    async with open_house(tmp_path / "home", engine=FakeEngine(images=("host", known))) as house:
        assert await planned(house, f"{HELLO}image: {asked}\n") == ("now", ())


async def test_without_isolation_only_the_host_image_runs(plain: House) -> None:
    answer, reasons = await planned(plain, f"{HELLO}image: torch\n")
    assert answer == "never"
    assert "only the image `host` can run" in reasons[0]
    assert any("only the image `host` can run" in warning for warning in await warned(plain, f"{HELLO}image: torch\n"))


async def test_without_isolation_folders_keep_their_names(plain: House, tmp_path: Path) -> None:
    moved = f"{HELLO}mounts: ['{tmp_path}/data:/data']\n"
    (tmp_path / "data").mkdir()
    answer, reasons = await planned(plain, moved)
    assert answer == "never"
    assert "must equal the source" in reasons[0]
    assert any("must equal the source" in warning for warning in await warned(plain, moved))
    assert await planned(plain, f"{HELLO}mounts: ['{tmp_path}/data']\n") == ("now", ())


async def test_without_isolation_datasets_of_primehub_jobs_are_found_by_links(plain: House, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    corpus = Dataset(name="corpus", path=str(tmp_path / "corpus"), everyone=True)
    await plain.services.datasets.create(plain.admin, corpus)
    form = '{"displayName": "x", "instanceType": "cpu-1", "image": "host", "command": "ls ~/datasets/corpus"}'
    assert await planned(plain, form) == ("now", ())
    assert await warned(plain, form) == ()
    assert (await planned(plain, f"{HELLO}datasets: [corpus]\n"))[0] == "never"


async def test_without_isolation_one_is_told_where_the_groups_files_are(plain: House) -> None:
    text = f"{HELLO}files: true\n"
    (warning,) = await warned(plain, text)
    assert "HOLDFAST_FILES" in warning
    assert await planned(plain, text) == ("now", ())


async def test_with_isolation_the_groups_files_are_where_they_should_be(house: House) -> None:
    assert await warned(house, f"{HELLO}files: true\n") == ()


async def test_with_isolation_folders_may_move(house: House, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert await planned(house, f"{HELLO}mounts: ['{tmp_path}/data:/data']\n") == ("now", ())


@pytest.mark.parametrize("gang", ["true", "false"])
async def test_a_job_that_is_too_large_is_taken_with_a_warning(house: House, gang: str) -> None:
    text = f"name: big\ngang: {gang}\nroles: {{w: {{instances: 3, command: 'true', resources: {{cpu: 48}}}}}}\n"
    (warning,) = await warned(house, text)
    assert warning == "this job can never run on this server: a task requests 48 cores, but the largest node has 4"


async def test_tasks_placed_one_by_one_need_not_fit_together(house: House) -> None:
    text = "name: many\ngang: false\nroles: {w: {instances: 9, command: 'true'}}\n"
    assert await warned(house, text) == ()


async def test_a_job_that_fits_has_no_warning(house: House) -> None:
    assert await warned(house, HELLO) == ()


async def test_an_engine_without_the_host_image_refuses_a_job_without_an_image(several: House) -> None:
    for action in (several.services.jobs.plan, several.services.jobs.submit):
        with pytest.raises(UserError, match="The engine boxes has no image `host`") as caught:
            await action(several.admin, HELLO)
        assert (caught.value.code, caught.value.field) == ("host_image_unavailable", "image")
        assert caught.value.hint == "Set `image`, or use `engine: near`."
    assert (await planned(several, f"{HELLO}image: torch\n"))[0] == "now"
    assert (await planned(several, f"{HELLO}engine: near\n"))[0] == "now"
    overridden = await several.services.jobs.plan(several.admin, f"{HELLO}engine: boxes\n", engine="near")
    assert (overridden.job.engine, overridden.verdict.answer) == ("near", "now")


async def test_without_another_engine_the_hint_lists_images(tmp_path: Path) -> None:
    engine = FakeEngine(name="boxes", images=("torch:latest",), has_host_image=False)
    async with open_house(tmp_path / "home", engine=engine, settings={"images": {"unknown": "host"}}) as house:
        with pytest.raises(UserError) as caught:
            await house.services.jobs.submit(house.admin, HELLO)
        assert "holdfast image ls" in (caught.value.hint or "")
        assert (await planned(house, f"{HELLO}image: jax\n"))[0] == "never"  # there is no `host` to replace it


@pytest.mark.parametrize("unknown", ["pull", "fail"])
async def test_images_are_not_called_missing_while_the_daemon_does_not_respond(tmp_path: Path, unknown: str) -> None:
    engine = FakeEngine(name="boxes", images=())
    async with open_house(tmp_path / "home", engine=engine, settings={"images": {"unknown": unknown}}) as house:
        text = f"{HELLO}image: torch\n"
        assert any("is not on this server" in warning for warning in await warned(house, text))
        engine.set_conditions(Condition(kind=ConditionKind.ENGINE, message="No daemon.", blocks_starts=True))
        assert await warned(house, text) == ("the engine boxes does not respond, so its images are not known",)
        answer, reasons = await planned(house, text)
        assert (answer, reasons[0]) == ("wait", "No daemon.")
        assert not any("torch" in reason for reason in reasons)
