"""Options for Slurm in the forms of groups and instance types, on servers with that engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.services.catalogue.instance_types import InstanceTypeChange
from holdfast.services.people.groups import GroupChange
from tests.fake_engine import FakeEngine
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

from .form_parser import fill, problem_at, values_in
from .page_client import open_desk, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_house(tmp_path / "home", engine=FakeEngine(name="slurm")) as house, open_rig(house) as opened:
        yield opened


async def test_a_group_gets_a_partition(cluster: Rig) -> None:
    groups, admin = cluster.house.services.groups, cluster.house.admin
    async with open_desk(cluster) as desk:
        answer = await fill(desk, "/admin/groups/new", name="lab", slurm__partition="gpu, ", slurm__qos="high")
        assert "without spaces" not in text_of(answer.text)
        assert (await groups.get(admin, "lab")).slurm == {"partition": "gpu,", "qos": "high"}
        assert values_in((await desk.get("/admin/groups/lab/edit")).text)["slurm.qos"] == ["high"]
        assert (await fill(desk, "/admin/groups/lab/edit", slurm__qos="")).status_code == 303
        assert (await groups.get(admin, "lab")).slurm == {"partition": "gpu,"}
        wrong = await fill(desk, "/admin/groups/lab/edit", slurm__constraint="--wrap")
        assert "without - at the start" in text_of(problem_at(wrong.text, "slurm.constraint"))
        assert "slurm.gres" not in values_in(wrong.text)


async def test_an_instance_type_gets_a_partition_and_gres(cluster: Rig) -> None:
    types, admin = cluster.house.services.instance_types, cluster.house.admin
    async with open_desk(cluster) as desk:
        size = {"name": "a100", "cpu": "4", "memory": "8 GiB", "gpu": "1"}
        answer = await fill(desk, "/admin/instance-types/new", **size, slurm__gres="gpu:a100:2")
        assert "gres has 2 GPUs, but gpu is 1" in text_of(problem_at(answer.text, "slurm.gres"))
        answer = await fill(desk, "/admin/instance-types/new", **size, slurm__gres="gpu:a100:1", slurm__partition="gpu")
        assert answer.status_code == 303, text_of(answer.text)
    assert (await types.get(admin, "a100")).slurm == {"partition": "gpu", "gres": "gpu:a100:1"}


async def test_forms_of_other_servers_keep_the_options(rig: Rig) -> None:
    house = rig.house
    await house.services.groups.change(house.admin, "default", GroupChange(slurm={"partition": "gpu"}))
    await house.services.instance_types.change(house.admin, "cpu-1", InstanceTypeChange(slurm={"partition": "cpu"}))
    async with open_desk(rig) as desk:
        for page in ("/admin/groups/default/edit", "/admin/instance-types/cpu-1/edit"):
            assert not [name for name in values_in((await desk.get(page)).text) if name.startswith("slurm.")]
            assert (await fill(desk, page, description="changed")).status_code == 303
    assert (await house.services.groups.get(house.admin, "default")).slurm == {"partition": "gpu"}
    assert (await house.services.instance_types.get(house.admin, "cpu-1")).slurm == {"partition": "cpu"}


async def test_the_page_of_a_job_shows_its_options(cluster: Rig) -> None:
    text = "name: j\nroles: {a: {command: sleep 60, slurm: {partition: gpu}}, b: {command: sleep 60}}\n"
    job = await cluster.house.submit(text)
    async with open_desk(cluster) as desk:
        page = (await desk.get(f"/jobs/{job.id}")).text
    assert page.count("partition=gpu") == 1
    assert "partition=gpu" in text_of(page)
