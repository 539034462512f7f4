"""A group's pages, for members and for those who look after it; its shared files; addresses people kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import quote

import pytest

from holdfast.core.access import Actor
from holdfast.core.job import GIB, Hold, HoldScope
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota
from holdfast.services.people.groups import GroupChange
from tests.server.rig import Rig

from .form_parser import fill, problem_at, values_in
from .page_client import PASSWORD, Desk, open_desk, text_of

pytestmark = pytest.mark.anyio
HOSTILE = '<img src=x onerror=alert(1)>" \u202e\n%2e%2e ?#&.txt'


async def people(rig: Rig) -> None:
    """A member of red, bob; and its admin, ann."""
    await rig.house.user("bob", "red", password=PASSWORD)
    await rig.house.user("ann", "red", password=PASSWORD)
    await rig.house.services.groups.set_member(rig.house.admin, "red", "ann", admin=True)


async def put(rig: Rig, path: str, data: bytes = b"hello") -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield data

    await rig.house.services.files.upload(rig.house.admin, "red", path, chunks())


# -- looking


async def test_members_see_their_groups_with_quota_and_use(rig: Rig) -> None:
    await people(rig)
    await rig.house.add_group("blue")
    change = GroupChange(quota=Quota(cpu=4, gpu=2, memory=8 * GIB), display_name="The <i>reds</i>")
    await rig.house.services.groups.change(rig.house.admin, "red", change)
    async with open_desk(rig, "bob") as desk:
        page = (await desk.get("/groups")).text
        assert "The &lt;i&gt;reds" in page
        assert "blue" not in text_of(page)
        assert "0 / 4" in text_of(page)
        assert "/ 8 GiB" in text_of(page)
        one = text_of((await desk.get("/groups/red")).text)
        for said in ("The <i>reds</i>", "ann · group admin", "cpu-1", "host", "Shared files"):
            assert said in one, said
        assert "Members and settings" not in one
        assert "Quotas and volume" not in one
    async with open_desk(rig, "ann") as desk:
        one = text_of((await desk.get("/groups/red")).text)
        assert "Members and settings" in one
        assert "Quotas and volume" not in one


async def test_somebody_in_no_group_is_told_what_to_do(rig: Rig) -> None:
    await rig.house.services.users.create(rig.house.admin, name="eve", password=PASSWORD, groups={})
    async with open_desk(rig, "eve") as desk:
        assert "Ask an admin to add you to a group." in text_of((await desk.get("/groups")).text)


async def test_an_address_of_mlflow_that_would_run_a_script_is_no_link(rig: Rig) -> None:
    await people(rig)
    evil = Mlflow(tracking_uri="http://x", ui_url="javascript:alert(1)")
    await rig.house.services.groups.set_mlflow(rig.house.admin, "red", evil)
    async with open_desk(rig, "bob") as desk:
        page = (await desk.get("/groups/red")).text
        assert "javascript:alert(1)" in page
        assert 'href="javascript' not in page


# -- what admins of a group change


async def test_an_admin_of_a_group_manages_its_members(rig: Rig) -> None:
    await people(rig)
    await rig.house.user("cid")
    path = "/groups/red/settings"
    async with open_desk(rig, "ann") as desk:
        assert (await desk.post(f"{path}/members/add", {"user": "cid", "admin": "on"})).status_code == 303
        assert "cid is now a member." in text_of((await desk.get(path)).text)
        for typed, says in (("nobody", "User nobody not found"), ("cid", "cid is already a member")):
            wrong = await desk.post(f"{path}/members/add", {"user": typed})
            assert wrong.status_code == 400
            assert says in problem_at(wrong.text, "user")
            assert f'value="{typed}"' in wrong.text
        assert (await desk.post(f"{path}/members/change", {"user": "cid", "verb": "lower"})).status_code == 303
        assert (await desk.post(f"{path}/members/change", {"user": "bob", "verb": "remove"})).status_code == 303
        gone = await desk.post(f"{path}/members/change", {"user": "bob", "verb": "raise"})
        assert gone.status_code == 404  # taken out by another admin meanwhile
        members = (await rig.house.services.groups.get(rig.house.admin, "red")).members
        assert dict(members) == {"ann": True, "cid": False}
        left = await desk.post(f"{path}/members/change", {"user": "ann", "verb": "lower"})
        assert left.headers["location"] == "/groups/red"
        assert (await desk.get(path)).status_code == 404


async def test_an_admin_of_a_group_sets_its_time_limit(rig: Rig) -> None:
    await people(rig)
    async with open_desk(rig, "ann") as desk:
        assert (await desk.post("/groups/red/settings/time-limit", {"time_limit": "90m"})).status_code == 303
        assert (await rig.house.services.groups.get(rig.house.admin, "red")).time_limit == timedelta(minutes=90)
        wrong = await desk.post("/groups/red/settings/time-limit", {"time_limit": "soon"})
        assert wrong.status_code == 400
        assert "soon is not a valid duration" in problem_at(wrong.text, "time_limit")
        assert (await desk.post("/groups/red/settings/time-limit", {"time_limit": ""})).status_code == 303
        assert (await rig.house.services.groups.get(rig.house.admin, "red")).time_limit is None


async def test_an_admin_of_a_group_says_how_failed_tasks_are_kept(rig: Rig) -> None:
    await people(rig)
    groups, admin = rig.house.services.groups, rig.house.admin
    async with open_desk(rig, "ann") as desk:
        assert (await desk.post("/groups/red/settings/hold", {"hold": "files:2d"})).status_code == 303
        assert (await groups.get(admin, "red")).hold == Hold(duration=timedelta(days=2), keep=HoldScope.FILES)
        assert 'value="files:2d"' in (await desk.get("/groups/red/settings")).text
        wrong = await desk.post("/groups/red/settings/hold", {"hold": "<b>"})
        assert wrong.status_code == 400
        assert "is not a valid hold" in problem_at(wrong.text, "hold")
        for word in ("off", ""):
            assert (await desk.post("/groups/red/settings/hold", {"hold": word})).status_code == 303
            assert (await groups.get(admin, "red")).hold is None


async def test_an_admin_of_a_group_sets_mlflow(rig: Rig) -> None:
    await people(rig)
    ann = Actor(name="ann", groups={"red": True})
    groups = rig.house.services.groups
    async with open_desk(rig, "ann") as desk:
        path = "/groups/red/settings/mlflow"
        wrong = await fill(desk, path, tracking_uri="")
        assert "requires the address" in problem_at(wrong.text, "tracking_uri")
        wrong = await fill(desk, path, tracking_uri="http://m", tracking_envs="1=2")
        assert "is not a valid variable name" in text_of(problem_at(wrong.text, "tracking_envs"))
        assert (await fill(desk, path, tracking_uri="http://m", artifact_envs="KEY=secret")).status_code == 303
        found = await groups.get_mlflow(ann, "red")
        assert found
        assert (found.tracking_uri, dict(found.artifact_envs)) == ("http://m", {"KEY": "secret"})
        assert "secret" not in text_of((await desk.get("/groups/red/settings")).text).replace("Secrets", "")
        assert (await desk.post(f"{path}/remove")).status_code == 303
        assert await groups.get_mlflow(ann, "red") is None


async def test_an_admin_of_a_group_keeps_its_own_images(rig: Rig) -> None:
    await people(rig)
    await rig.house.add_group("blue")
    aliases = rig.house.services.image_aliases
    async with open_desk(rig, "ann") as desk:
        assert "Allowed groups" not in text_of((await desk.get("/groups/red/images/new")).text)
        forged = await fill(desk, "/groups/red/images/new", name="ours", url="host", everyone="on", groups=["blue"])
        assert forged.status_code == 303
        made = await aliases.get(rig.house.admin, "ours")
        assert (made.owner, made.groups, made.everyone) == ("red", ("red",), False)
        assert (await fill(desk, "/groups/red/images/ours/edit", description="x")).status_code == 303
        assert (await desk.get("/groups/red/images/host/edit")).status_code == 404
        assert (await desk.get("/groups/blue/images/new")).status_code == 404
        assert "ours" in text_of((await desk.get("/groups/red/settings")).text)
        assert (await fill(desk, "/groups/red/images/ours/delete")).headers["location"] == "/groups/red/settings"
    assert "ours" not in await aliases.load_all()


# -- shared files


async def test_files_are_browsed_folder_by_folder(rig: Rig) -> None:
    await people(rig)
    await put(rig, "models/first/weights.bin", b"x" * 2048)
    await put(rig, "notes.txt")
    async with open_desk(rig, "bob") as desk:
        top = (await desk.get("/groups/red/files")).text
        assert 'href="/groups/red/files?path=models"' in top
        assert "holdfast files ls --group red" in text_of(top)
        assert "files: true . They are mounted at /phfs" in text_of(top)
        assert 'href="/api/v1/groups/red/files/notes.txt?inline=true"' in top
        assert 'data-copy="phfs:///notes.txt"' in top
        inner = (await desk.get("/groups/red/files?path=models/first")).text
        assert "2 KiB" in text_of(inner)
        assert 'href="/groups/red/files?path=models"' in inner
        assert 'data-to="/api/v1/groups/red/files/models/first/"' in inner
        got = await desk.get("/api/v1/groups/red/files/models/first/weights.bin")
        assert got.content == b"x" * 2048
        missing = await desk.get("/groups/red/files?path=not/there")
        assert missing.status_code == 200
        assert "created when you add the first file" in text_of(missing.text)
        new = await desk.get("/groups/red/files/new-folder?path=models&folder=second")
        assert new.headers["location"] == "/groups/red/files?path=models/second"
        for bad in ("..", "a/../b", "%00"):
            assert (await desk.get(f"/groups/red/files?path={bad}")).status_code == 400


async def test_long_folders_come_in_pages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await people(rig)
    monkeypatch.setattr("holdfast.server.portal.pages.groups.files.MAX_FILE_ROWS", 2)
    for name in ("a b", "c&d", "e"):
        await put(rig, f"x/{name}")
    async with open_desk(rig, "bob") as desk:
        first = (await desk.get("/groups/red/files?path=x")).text
        assert 'href="/groups/red/files?path=x&amp;after=c%26d"' in first
        second = text_of((await desk.get("/groups/red/files?path=x&after=c%26d")).text)
        assert " e " in second
        assert "a b" not in second


async def test_a_hostile_name_is_only_a_name(rig: Rig) -> None:
    await people(rig)
    await put(rig, f"odd/{HOSTILE}")
    async with open_desk(rig, "bob") as desk:
        page = (await desk.get("/groups/red/files?path=odd")).text
        assert "<img" not in page
        assert f"/api/v1/groups/red/files/odd/{quote(HOSTILE, safe='')}" in page
        path = f"/groups/red/files/delete?path={quote('odd/' + HOSTILE, safe='')}"
        asked = (await desk.get(path)).text
        assert "<img" not in asked
        assert values_in(asked)["path"] == [f"odd/{HOSTILE}"]
        answer = await desk.post("/groups/red/files/delete", {"path": f"odd/{HOSTILE}", "kind": "file"})
        assert answer.status_code == 303
        assert "1 file was deleted." in text_of((await desk.get("/groups/red/files")).text)


async def test_a_folder_goes_only_when_it_was_shown_as_one(rig: Rig) -> None:
    await people(rig)
    await put(rig, "models/a")
    await put(rig, "models/b/c")
    async with open_desk(rig, "bob") as desk:
        asked = await desk.get("/groups/red/files/delete?path=models")
        assert "It contains 2 files." in text_of(asked.text)
        refused = await desk.post("/groups/red/files/delete", {"path": "models", "kind": "file"})
        assert refused.status_code == 409
        assert "is a folder" in text_of(refused.text)
        assert (await desk.post("/groups/red/files/delete", {"path": "", "kind": "folder"})).status_code == 400
        assert (await desk.post("/groups/red/files/delete", {"path": "/", "kind": "folder"})).status_code == 400
        done = await desk.post("/groups/red/files/delete", {"path": "models", "kind": "folder"})
        assert done.headers["location"] == "/groups/red/files"
        assert (await desk.get("/groups/red/files/delete?path=models")).status_code == 404


async def test_strangers_have_no_files_here(rig: Rig) -> None:
    await people(rig)
    await rig.house.user("eve", "blue", password=PASSWORD)
    await put(rig, "a")
    async with open_desk(rig, "eve") as desk:
        assert (await desk.get("/groups/red/files")).status_code == 404
        assert (await desk.get("/groups/red/files/delete?path=a")).status_code in (403, 404)
        assert (await desk.post("/groups/red/files/delete", {"path": "a"})).status_code in (403, 404)


async def test_uploading_from_the_page_needs_its_proof(rig: Rig) -> None:
    await people(rig)
    async with open_desk(rig, "bob") as desk:
        address = "/api/v1/groups/red/files/up.txt"
        assert (await desk.client.put(address, content=b"x")).status_code == 403
        proof = {"X-CSRF-Token": await desk.proof()}
        assert (await desk.client.put(address, content=b"x", headers=proof)).status_code == 200


# -- addresses people kept


async def _leads(desk: Desk, path: str) -> str:
    answer = await desk.get(path)
    return answer.headers.get("location", str(answer.status_code))


async def test_old_addresses_lead_to_the_new_ones(rig: Rig) -> None:
    await rig.house.services.groups.create(rig.house.admin, Group(name="Team_A"))
    await rig.house.user("bob", password=PASSWORD)
    await rig.house.services.groups.set_member(rig.house.admin, "Team_A", "bob", admin=False)
    async with open_desk(rig, "bob") as desk:
        assert await _leads(desk, "/console/g/team-a/browse") == "/groups/Team_A/files"
        assert await _leads(desk, "/console/g/team-a/browse/a%20b/c/") == "/groups/Team_A/files?path=a%20b/c"
        assert await _leads(desk, "/console/g/team-a/datasets") == "/groups/Team_A#datasets"
        assert await _leads(desk, "/console/g/team-a/images") == "/groups/Team_A#images"
        assert await _leads(desk, "/console/g/team-a/settings") == "/groups/Team_A"
        assert await _leads(desk, "/virtual-clusters.html") == "/groups"
        assert await _leads(desk, "/console/g/team-a/api-token") == "/me/tokens"
        assert await _leads(desk, "/console/g/team-a/home") == "/"
        assert await _leads(desk, "/user-profile.html") == "/me"
        assert await _leads(desk, "/cluster-view/hardware.html") == "404"
        assert await _leads(desk, "/console/admin/user") == "404"
        assert await _leads(desk, "/console/g/others/browse") in ("403", "404")
    async with open_desk(rig) as desk:
        assert await _leads(desk, "/console/g/team-a/settings") == "/groups/Team_A/settings"
        assert await _leads(desk, "/console/admin/instanceType/add") == "/admin/instance-types"
        assert await _leads(desk, "/console/admin") == "/admin/users"
        assert await _leads(desk, "/user-view.html") == "/admin/users"
        assert await _leads(desk, "/batch-register.html") == "/admin/users/import"
        assert await _leads(desk, "/cluster-view/hardware.html") == "/admin/installation"
