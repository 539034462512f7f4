"""The page of a new job, as the server makes it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.catalogue import ImageAlias, ImageKind, InstanceType
from holdfast.core.job import GIB
from holdfast.core.records import Dataset
from tests.fake_engine import FakeEngine
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

from .page_client import PASSWORD, Desk, open_desk, text_of

pytestmark = pytest.mark.anyio

OURS = "name: mine\ncommand: echo hi\n"
SECRET = "name: hush\ncommand: echo $KEY\nsecrets: {KEY: hunter2, OTHER: swordfish}\n"
OPENPAI_V2 = """protocolVersion: 2
name: old_job
type: job
prerequisites: [{type: dockerimage, name: img, uri: host}]
taskRoles:
  worker:
    instances: 2
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands: [echo a, echo b]
"""
OPENPAI_V1 = '{"jobName": "older", "image": "host", "taskRoles": [{"name": "main", "command": "echo hi"}]}'
PRIMEHUB = "displayName: form\ninstanceType: cpu-1\nimage: host\ncommand: echo hi\n"
SBATCH = "#!/bin/bash\n#SBATCH --job-name=script\n#SBATCH --time=10\necho hi\n"


async def check(desk: Desk, text: str, **more: str) -> dict[str, Any]:
    answer = await desk.post("/jobs/new/check", {"text": text, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def typed(page: str) -> str:
    found = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert found
    return html.unescape(found.group(1))


def hidden(page: str, name: str) -> str:
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)">', page)
    assert found
    return html.unescape(found.group(1))


# -- the page


async def test_a_new_job_begins_with_a_text_that_would_run(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        page = await desk.get("/jobs/new")
        assert page.status_code == 200
        found = await check(desk, typed(page.text))
        assert found["verdict"] == "now"
        assert found["problems"] == []
        assert found["dialect"] == "holdfast"


async def test_one_who_is_in_several_groups_begins_with_one_of_them(rig: Rig) -> None:
    await rig.house.user("bob", "blue", "red", password=PASSWORD)
    async with open_desk(rig, "bob") as desk:
        assert "group: blue" in typed((await desk.get("/jobs/new")).text)
        assert "group: red" in typed((await desk.get("/jobs/new?group=red")).text)
        assert "green" not in typed((await desk.get("/jobs/new?group=green")).text)


async def test_one_in_no_group_is_told_so(rig: Rig) -> None:
    await rig.house.user("eve", password=PASSWORD)
    async with open_desk(rig, "eve") as desk:
        assert "You are not in a group" in text_of((await desk.get("/jobs/new")).text)


async def test_without_login_it_leads_to_the_login_page(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        desk.client.cookies.clear()
        answer = await desk.get("/jobs/new?group=x")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=/jobs/new")


# -- choices


async def test_choices_are_those_of_the_group(rig: Rig) -> None:
    services, admin = rig.house.services, rig.house.admin
    await rig.house.user("bob", "blue", password=PASSWORD)
    await rig.house.add_group("red")
    await services.instance_types.create(
        admin, InstanceType(name="big", memory=4 * GIB, cpu=2, gpu=1, everyone=False, groups=("blue",))
    )
    await services.instance_types.create(
        admin, InstanceType(name="secret-size", memory=GIB, everyone=False, groups=("red",))
    )
    await services.image_aliases.create(
        admin, ImageAlias(name="torch", url="torch:1", kind=ImageKind.GPU, groups=("blue",))
    )
    await services.datasets.create(
        admin, Dataset(name="mnist", path="", kind="env", groups=("blue",)), variables={"A": "b"}
    )
    async with open_desk(rig, "bob") as desk:
        found = (await desk.get("/jobs/new/choices?group=blue")).json()
        sizes = {size["name"]: size for size in found["types"]}
        assert sizes["big"]["tip"] == "CPU: 2 / Memory: 4 GiB / GPU: 1"
        assert "secret-size" not in sizes
        images = {image["name"]: image for image in found["images"]}
        assert images["torch"]["needs_gpu"]
        assert images["torch"]["tip"] == "Group / GPU"
        assert "host" in images
        assert [dataset["name"] for dataset in found["datasets"]] == ["mnist"]
        assert "mnist" in found["panel"]
        other = (await desk.get("/jobs/new/choices?group=red")).json()
        assert (other["group"], other["types"], other["images"], other["datasets"]) == ("", [], [], [])


@pytest.mark.parametrize("has_host", [True, False])
async def test_the_host_system_is_offered_where_an_engine_has_it(tmp_path: Path, has_host: bool) -> None:
    engine = FakeEngine(images=("torch",), has_host_image=has_host)
    async with open_house(tmp_path / "home", engine=engine) as house, open_rig(house) as rig, open_desk(rig) as desk:
        found = (await desk.get("/jobs/new/choices?group=default")).json()
        assert [image["name"] for image in found["images"]] == (["host", "torch"] if has_host else ["torch"])


async def test_names_of_the_place_cannot_break_out_of_the_page(rig: Rig) -> None:
    evil = '"><script>alert(1)</script>'
    await rig.house.services.instance_types.create(
        rig.house.admin, InstanceType(name="odd", memory=GIB, display_name=evil, description=evil)
    )
    async with open_desk(rig) as desk:
        page = (await desk.get("/jobs/new")).text
        assert "<script>alert" not in page
        assert evil in html.unescape(page)


# -- checking


@pytest.mark.parametrize(
    ("text", "dialect", "name"),
    [
        (OURS, "holdfast", "mine"),
        (json.dumps({"name": "mine", "command": "echo hi"}), "holdfast", "mine"),
        (OPENPAI_V2, "openpai-v2", "old_job"),
        (OPENPAI_V1, "openpai-v1", "older"),
        (PRIMEHUB, "primehub", "form"),
        (SBATCH, "sbatch", "script"),
    ],
)
async def test_every_dialect_is_recognised_and_told_in_our_own(rig: Rig, text: str, dialect: str, name: str) -> None:
    async with open_desk(rig) as desk:
        found = await check(desk, text)
        assert found["dialect"] == dialect
        assert found["yaml"] == "" if dialect == "holdfast" else f"name: {name}" in found["yaml"]
        assert found["verdict"] == "now"


@pytest.mark.parametrize(
    ("text", "field", "line"),
    [
        ("command: x\n", "name", None),
        ("name: x\n", "command", None),
        ("name: x\ncommand: y\nresources:\n  cpu: much\n", "resources.cpu", 4),
        ("name: x\ncommand: y\ntime_limit: soon\n", "time_limit", 3),
        ("name: x\nroles:\n  a:\n    command: y\n    instances: 0\n", "roles.a.instances", 5),
        ("name: x\ncommand: y\ncolour: red\n", "colour", 3),
        ("name: x\ncommand: [\n", "", 3),
        ("name: x\ncommand: y\nenv:\n  1A: b\n", "env.1A", 4),
        ("name: x\ncommand: y\ndatasets: [nothing]\n", "datasets", 3),
        ("name: x\ncommand: y\nsecrets: {A: '******'}\n", "secrets", 3),
        ("name: x\ncommand: y\ninstance_type: huge\n", "instance_type", 3),
        (OPENPAI_V2.replace("instances: 2", "instances: none"), "taskRoles.worker.instances", 7),
        (SBATCH.replace("=10", "=soon"), "--time", 3),
        (SBATCH.replace("echo", "#HOLDFAST datasets: [nothing]\necho"), "datasets", 4),
    ],
)
async def test_each_mistake_is_told_with_its_field_and_line(rig: Rig, text: str, field: str, line: int | None) -> None:
    async with open_desk(rig) as desk:
        found = await check(desk, text)
        assert found["verdict"] == ""
        told = {(problem["field"], problem["line"]) for problem in found["problems"]}
        if line is None:
            assert field in {name for name, _ in told}
        else:
            assert any(name.startswith(field) and at == line for name, at in told), told
        assert all(problem["message"] for problem in found["problems"])
        assert found["headline"].startswith(str(len(found["problems"])))


async def test_whether_it_would_run_is_told_with_reasons(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        found = await check(desk, OURS + "resources: {cpu: 100000}\n")
        assert found["verdict"] == "never"
        assert found["headline"] == "It can never run on this server."
        assert found["reasons"]


async def test_warnings_are_told_before_submitting(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert (await check(desk, OURS + "hold: 365d\n"))["warnings"]


async def test_a_check_needs_the_proof_of_the_page(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert (await desk.client.post("/jobs/new/check", data={"text": OURS})).status_code == 403


async def test_a_check_after_the_login_ended_says_where_to_go(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        desk.client.cookies.clear()
        answer = await desk.client.post("/jobs/new/check", data={"text": OURS}, headers={"HX-Request": "true"})
        assert answer.headers["hx-redirect"] == "/login"


async def test_a_file_beyond_the_limit_is_refused_in_words(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        found = await check(desk, "name: x\ncommand: |\n" + "  漢字漢字\n" * 6000)
        assert "at most 65536 bytes" in found["problems"][0]["message"]
        answer = await desk.post("/jobs/new", {"text": "x" * 70_000})
        assert answer.status_code == 413
        assert "at most 65536 bytes" in text_of(answer.text)


@pytest.mark.parametrize(
    "text", ["\0", "&a [*a]", "a: &a [x]\nb: [*a, *a]", "!!python/object:os.system x", "{" * 5000, "", "- 1"]
)
async def test_hostile_texts_are_only_refused(rig: Rig, text: str) -> None:
    async with open_desk(rig) as desk:
        assert (await check(desk, text))["problems"]
        assert (await desk.post("/jobs/new", {"text": text})).status_code == 400


# -- submitting


async def test_submitting_leads_to_the_job(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/jobs/new", {"text": OURS, "key": "k"})
        assert answer.status_code == 303
        job = await rig.house.services.jobs.get(rig.house.admin, answer.headers["location"].removeprefix("/jobs/"))
        assert (job.record.summary.name, job.record.summary.user) == ("mine", "admin")


async def test_the_same_page_with_the_same_text_is_one_job_and_a_changed_text_another(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        key = hidden((await desk.get("/jobs/new")).text, "key")
        fields = {"text": OURS, "key": key}
        first, again = await desk.post("/jobs/new", fields), await desk.post("/jobs/new", fields)
        assert first.headers["location"] == again.headers["location"]
        changed = await desk.post("/jobs/new", {"text": OURS.replace("hi", "ho"), "key": key})
        assert changed.headers["location"] != first.headers["location"]
        other = hidden((await desk.get("/jobs/new")).text, "key")
        assert other != key
        assert (await desk.post("/jobs/new", {"text": OURS, "key": other})).headers["location"] != first.headers[
            "location"
        ]


async def test_a_refused_file_comes_back_as_it_was_with_its_problems(rig: Rig) -> None:
    text = "name: <b>x</b>\ncommand: y\ntime_limit: soon # </textarea><script>\n"
    async with open_desk(rig) as desk:
        answer = await desk.post("/jobs/new", {"text": text, "key": "k1"})
        assert answer.status_code == 400
        assert typed(answer.text) == text
        assert hidden(answer.text, "key") == "k1"
        assert "Line 3 time_limit" in text_of(answer.text)
        assert "<script>" not in answer.text.replace('<script type="module"', "")


async def test_line_ends_of_browsers_and_a_first_empty_line_change_nothing(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/jobs/new", {"text": "\r\nname: x\r\ncommand: y\r\nnothing: z\r\n"})
        assert typed(answer.text) == "\nname: x\ncommand: y\nnothing: z\n"


async def test_a_group_one_is_not_in_is_refused(rig: Rig) -> None:
    await rig.house.user("bob", "blue", password=PASSWORD)
    await rig.house.add_group("red")
    async with open_desk(rig, "bob") as desk:
        for fields in ({"text": OURS, "group": "red"}, {"text": OURS + "group: red\n"}):
            found = await check(desk, **fields)
            assert found["problems"][0]["field"] == "group"
            assert (await desk.post("/jobs/new", fields)).status_code in (400, 403)


async def test_a_group_beside_the_file_counts_for_every_dialect(rig: Rig) -> None:
    await rig.house.user("bob", "blue", "red", password=PASSWORD)
    async with open_desk(rig, "bob") as desk:
        for text in (OURS, OPENPAI_V2, OPENPAI_V1, PRIMEHUB, SBATCH):
            answer = await desk.post("/jobs/new", {"text": text, "group": "red"})
            assert answer.status_code == 303, answer.text
            ref = answer.headers["location"].removeprefix("/jobs/")
            assert (await rig.house.services.jobs.load_detail(rig.house.admin, ref)).summary.group == "red"


async def test_a_form_of_elsewhere_submits_nothing(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert (await desk.client.post("/jobs/new", data={"text": OURS})).status_code == 403
        strange = {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil"}
        assert (await desk.post("/jobs/new", {"text": OURS}, headers=strange)).status_code == 403
        assert (await rig.get("/jobs")).json()["items"] == []


# -- clones


async def test_a_clone_asks_for_its_secrets_again_and_is_refused_without(rig: Rig) -> None:
    job = await rig.house.submit(SECRET)
    async with open_desk(rig) as desk:
        for way in ("clone", "rerun"):
            page = await desk.get(f"/jobs/new?{way}={job.id}")
            assert "hunter2" not in page.text
            assert "swordfish" not in page.text
            assert "Enter them again: KEY, OTHER" in text_of(page.text)
            text = typed(page.text)
            assert text.count("******") == 2
            found = await check(desk, text)
            assert found["problems"][0]["field"] == "secrets"
            assert (await desk.post("/jobs/new", {"text": text})).status_code == 400
            filled = text.replace("******", "new", 1)
            assert (await desk.post("/jobs/new", {"text": filled})).status_code == 400
            assert (await desk.post("/jobs/new", {"text": filled.replace("******", "two")})).status_code == 303


async def test_a_rerun_is_offered_as_it_was_where_its_secrets_are_ones_own(rig: Rig) -> None:
    await rig.house.user("bob", "default", password=PASSWORD)
    job, plain = await rig.house.submit(SECRET), await rig.house.submit(OURS)
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/new?rerun={job.id}")).text
        assert f'action="/jobs/{job.id}/rerun"' in page
        assert "unchanged with its secrets" in page
        assert "/rerun" not in (await desk.get(f"/jobs/new?clone={job.id}")).text
    async with open_desk(rig, "bob") as desk:
        assert "unchanged" not in (await desk.get(f"/jobs/new?rerun={job.id}")).text
        assert f'action="/jobs/{plain.id}/rerun"' in (await desk.get(f"/jobs/new?rerun={plain.id}")).text


async def test_a_check_never_says_a_secret(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/jobs/new/check", {"text": SECRET})
        assert "hunter2" not in answer.text
        wrong = await desk.post("/jobs/new/check", {"text": SECRET + "nothing: x\n"})
        assert "hunter2" not in wrong.text


async def test_a_clone_begins_with_the_text_as_it_was_written(rig: Rig) -> None:
    written = "# why it is so\ncommand: echo hi   # first\nname: mine\n"
    job = await rig.house.submit(written)
    async with open_desk(rig) as desk:
        for way in ("clone", "rerun"):
            assert typed((await desk.get(f"/jobs/new?{way}={job.id}")).text) == written


async def test_a_clone_of_a_script_is_the_script(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        job = await rig.house.submit(SBATCH)
        assert typed((await desk.get(f"/jobs/new?clone={job.id}")).text) == SBATCH
        facts = (await desk.get(f"/jobs/{job.id}")).text
        assert ">sbatch</dd>" in facts


async def test_a_clone_names_the_group_that_its_text_did_not(rig: Rig) -> None:
    await rig.house.add_group("other")
    job = await rig.house.submit("# mine\n" + OURS, group="other")
    async with open_desk(rig) as desk:
        text = typed((await desk.get(f"/jobs/new?clone={job.id}")).text)
        assert "group: other" in text
        assert (await check(desk, text))["group"] == "other"


async def test_a_clone_of_an_openpai_job_gets_a_name_of_its_own(rig: Rig) -> None:
    job = await rig.house.submit(OPENPAI_V2.replace("old_job", "old_job_0123abcd"))
    async with open_desk(rig) as desk:
        name = re.search(r"^name: (.*)$", typed((await desk.get(f"/jobs/new?clone={job.id}")).text), re.MULTILINE)
        assert name is not None
        assert re.fullmatch(r"old_job_[0-9a-f]{8}", name.group(1))
        assert name.group(1) != "old_job_0123abcd"
        again = typed((await desk.get(f"/jobs/new?rerun={job.id}")).text)
        assert "name: old_job_0123abcd" in again


async def test_what_a_clone_named_and_is_gone_is_told(rig: Rig) -> None:
    services, admin = rig.house.services, rig.house.admin
    await services.instance_types.create(admin, InstanceType(name="passing", memory=GIB))
    job = await rig.house.submit(OURS + "instance_type: passing\nimage: never-imported\n")
    await services.instance_types.delete(admin, "passing")
    async with open_desk(rig) as desk:
        text = text_of((await desk.get(f"/jobs/new?clone={job.id}")).text)
        assert "The instance type passing was deleted" in text
        assert "The image never-imported no longer exists." in text


async def test_a_job_of_another_group_cannot_be_cloned(rig: Rig) -> None:
    job = await rig.house.submit(SECRET)
    await rig.house.user("bob", "blue", password=PASSWORD)
    async with open_desk(rig, "bob") as desk:
        for way in ("clone", "rerun"):
            answer = await desk.get(f"/jobs/new?{way}={job.id}")
            assert answer.status_code == 404
            assert "hush" not in answer.text


# -- old addresses


async def test_old_addresses_lead_here(rig: Rig) -> None:
    job = await rig.house.submit(OPENPAI_V2)
    await rig.house.add_group("Team_A")
    async with open_desk(rig) as desk:
        assert (await desk.get("/submit.html")).headers["location"] == "/jobs/new"
        old = "/submit.html?op=resubmit&type=job&user=admin&jobName=old_job"
        assert (await desk.get(old)).headers["location"] == f"/jobs/new?clone={job.id}"
        assert (await desk.get(old.replace("old_job", "none"))).status_code == 404
        assert (await desk.get("/console/g/team-a/job/create")).headers["location"] == "/jobs/new?group=Team_A"
        assert (await desk.get("/console/g/nobody/job/create")).status_code == 404
