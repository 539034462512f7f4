"""Users, one by one and from a table."""

from __future__ import annotations

import re

import pytest

from holdfast.core.job import DEFAULT_GROUP
from tests.server.rig import Rig

from .form_parser import fill, problem_at, send, values_in
from .page_client import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio
_ONCE = re.compile(r'class="one-time"[^>]*>([^<]+)<')
LONG_JOB = "name: long\nimage: host\ngroup: red\nresources: {cpu: 1, memory: 64Mi}\ncommand: sleep 1000\n"


async def test_the_list_is_narrowed_by_a_text(rig: Rig) -> None:
    await rig.house.user("grace", "red")
    await rig.house.user("alan", "blue")
    async with open_desk(rig) as desk:
        everybody = text_of((await desk.get("/admin/users")).text)
        assert "grace" in everybody
        assert "alan" in everybody
        some = text_of((await desk.get("/admin/users?text=RED")).text)
        assert "grace" in some
        assert "alan" not in some
        assert "No matching users." in text_of((await desk.get("/admin/users?text=<b>nothing&page=99999999")).text)


async def test_long_lists_come_in_pages(rig: Rig) -> None:
    for number in range(101):
        await rig.house.user(f"zed{number:03d}")
    async with open_desk(rig) as desk:
        first = (await desk.get("/admin/users?text=zed")).text
        assert "zed099" in first
        assert "zed100" not in first
        assert 'href="?text=zed&amp;page=2"' in first
        second = (await desk.get("/admin/users?text=zed&page=2")).text
        assert "zed100" in second
        assert "zed099" not in second


async def test_a_new_user_gets_a_password_that_is_shown_once(rig: Rig) -> None:
    await rig.house.add_group("red")
    async with open_desk(rig) as desk:
        answer = await fill(
            desk, "/admin/users/new", name="grace", email="g@x.org", groups=["red"], groups__flag=["red"]
        )
        assert answer.status_code == 200
        password = _ONCE.findall(answer.text)[0]
        assert password not in (await desk.get("/admin/users")).text
    user = await rig.house.services.users.get(rig.house.admin, "grace")
    assert (dict(user.groups), user.email, user.admin) == ({"red": True}, "g@x.org", False)
    async with open_desk(rig, "grace", password) as hers:
        assert (await hers.get("/groups/red/settings")).status_code == 200


async def test_a_password_that_was_typed_is_not_shown(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        answer = await fill(desk, "/admin/users/new", name="grace", password=PASSWORD, admin="on")
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/users")
        assert PASSWORD not in (await desk.get("/admin/users")).text
    user = await rig.house.services.users.get(rig.house.admin, "grace")
    assert user.admin
    assert dict(user.groups) == {DEFAULT_GROUP: False}


async def test_what_is_refused_is_told_at_its_field_and_what_was_typed_stays(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        answer = await fill(desk, "/admin/users/new", name="<script>", email="a@b.c", password="short", admin="on")
        assert answer.status_code == 400
        assert "is not a valid name for a user" in problem_at(answer.text, "name")
        assert "<script>alert" not in answer.text
        assert 'value="&lt;script&gt;"' in answer.text
        assert values_in(answer.text)["email"] == ["a@b.c"]
        assert "admin" in values_in(answer.text)
        assert values_in(answer.text)["password"] == [""]
        answer = await fill(desk, "/admin/users/new", name="grace", password="short")
        assert "at least 8 characters" in problem_at(answer.text, "password")
        answer = await fill(desk, "/admin/users/new", name="admin")
        assert "User admin already exists" in problem_at(answer.text, "name")
        answer = await fill(desk, "/admin/users/new", name="grace", groups=["gone"])
        assert answer.status_code in (400, 404)
        assert "Group gone not found" in text_of(answer.text)


async def test_an_admin_changes_rights_and_groups(rig: Rig) -> None:
    await rig.house.user("grace", "red", "blue", password=PASSWORD)
    async with open_desk(rig) as desk:
        answer = await fill(
            desk, "/admin/users/grace/edit", email="new@x.org", groups=["red", "default"], groups__flag=["red"]
        )
        assert answer.status_code == 303
        assert "User grace was changed." in text_of((await desk.get("/admin/users")).text)
        user = await rig.house.services.users.get(rig.house.admin, "grace")
        assert (dict(user.groups), user.email) == ({"red": True, "default": False}, "new@x.org")
        assert (await fill(desk, "/admin/users/grace/edit", enabled=None)).status_code == 303
        assert (await rig.house.services.users.get(rig.house.admin, "grace")).disabled
        last = await fill(desk, "/admin/users/admin/edit", admin=None)
        assert last.status_code == 400
        assert "admin is the last admin" in text_of(last.text)
        assert (await desk.get("/admin/users/nobody/edit")).status_code == 404


async def test_who_comes_second_sees_what_the_first_did(rig: Rig) -> None:
    await rig.house.user("grace", "red")
    async with open_desk(rig) as one, open_desk(rig) as other:
        opened = (await one.get("/admin/users/grace/edit")).text
        assert (await fill(other, "/admin/users/grace/edit", email="first@x.org")).status_code == 303
        answer = await send(one, "/admin/users/grace/edit", opened, email="second@x.org")
        assert answer.status_code == 409
        assert "Another user changed this while you were editing" in text_of(answer.text)
        assert "first@x.org" in problem_at(answer.text, "email")
        assert values_in(answer.text)["email"] == ["second@x.org"]
        assert (await send(one, "/admin/users/grace/edit", answer.text)).status_code == 303
    assert (await rig.house.services.users.get(rig.house.admin, "grace")).email == "second@x.org"


async def test_a_new_password_ends_the_logins(rig: Rig) -> None:
    await rig.house.user("grace", "red", password=PASSWORD)
    async with open_desk(rig) as desk, open_desk(rig, "grace") as hers:
        answer = await fill(desk, "/admin/users/grace/password")
        password = _ONCE.findall(answer.text)[0]
        assert (await hers.get("/groups")).status_code == 303
        async with open_desk(rig, "grace", password):
            pass
        wrong = await fill(desk, "/admin/users/grace/password", password="password")
        assert "too easy to guess. Choose a less common password." in problem_at(wrong.text, "password")
        assert (await fill(desk, "/admin/users/grace/password", password=PASSWORD)).status_code == 303


async def test_an_admin_takes_away_one_token_of_somebody(rig: Rig) -> None:
    grace = await rig.house.user("grace", "red", password=PASSWORD)
    tokens = rig.house.services.tokens
    lost = (await tokens.create(grace, name="laptop <b>")).token
    own = (await tokens.create(rig.house.admin, name="mine")).token
    async with open_desk(rig) as desk, open_desk(rig, "grace") as hers:
        page = (await desk.get("/admin/users/grace/tokens")).text
        assert 'href="/admin/users/grace/tokens"' in (await desk.get("/admin/users/grace/edit")).text
        assert "laptop &lt;b&gt;" in page
        assert "mine" not in text_of(page)
        assert "this browser" not in page
        answer = await desk.post(f"/admin/users/grace/tokens/{lost.id}/remove")
        assert answer.headers["location"] == "/admin/users/grace/tokens"
        await desk.post(f"/admin/users/grace/tokens/{own.id}/remove")  # not grace's
        assert lost.id not in [token.id for token in await tokens.list(rig.house.admin, "grace")]
        assert own.id in [token.id for token in await tokens.list(rig.house.admin, "admin")]
        assert (await hers.get("/groups")).status_code == 200  # her login is left alone
        assert (await desk.get("/admin/users/nobody/tokens")).status_code == 404


async def test_before_a_user_goes_it_is_said_what_becomes_of_their_jobs(rig: Rig) -> None:
    grace = await rig.house.user("grace", "red")
    job = await rig.house.submit(LONG_JOB, grace)
    async with open_desk(rig) as desk:
        asked = text_of((await desk.get("/admin/users/grace/delete")).text)
        assert "1 job is not finished and must be stopped first." in asked
        assert "Finished jobs are kept" in asked
        refused = await fill(desk, "/admin/users/grace/delete")
        assert refused.status_code == 409
        assert "grace has unfinished jobs" in text_of(refused.text)
        await rig.house.services.jobs.stop(grace, job.id)
        await rig.house.until(job.id)
        assert (await fill(desk, "/admin/users/grace/delete")).headers["location"] == "/admin/users"
        assert (await desk.post("/admin/users/grace/delete")).status_code == 404
    assert "grace" not in {user.name for user in await rig.house.services.users.list(rig.house.admin)}


# -- many at once

TABLE = """username,password,admin,vc,email
ann,,false,red|blue,ann@x.org
bob,correct horse battery,yes,,
<b>no</b>,,,,
ann,,,,
cid,,,nowhere,
dan,short,,,
eve,,perhaps,,
"""


async def test_a_table_is_looked_at_before_anybody_is_added(rig: Rig) -> None:
    await rig.house.user("x", "red", "blue")
    async with open_desk(rig) as desk:
        answer = await desk.post("/admin/users/import/preview", {"text": TABLE})
        assert answer.status_code == 200
        text = text_of(answer.text)
        for said in (
            "is not a valid name for a user",
            "User ann already exists",
            "Group nowhere not found",
            "at least 8 characters",
            "'perhaps' is neither true nor false",
            "5 lines have errors and are skipped.",
            "Add 2 users",
        ):
            assert said in text, said
        assert "<b>no</b>" not in answer.text
        assert len(await rig.house.services.users.list(rig.house.admin)) == 2


async def test_what_is_right_in_a_table_is_added(rig: Rig) -> None:
    await rig.house.user("x", "red", "blue")
    async with open_desk(rig) as desk:
        answer = await desk.post("/admin/users/import/create", {"text": TABLE})
        text = text_of(answer.text)
        assert "2 users were added" in text
        assert "1 user has the password you provided." in text
        passwords = _ONCE.findall(answer.text)
        assert len(passwords) == 1
        again = text_of((await desk.post("/admin/users/import/create", {"text": TABLE})).text)
        assert "0 users were added" in again
        assert "User bob already exists" in again
    ann = await rig.house.services.users.get(rig.house.admin, "ann")
    assert (dict(ann.groups), ann.email) == ({"red": False, "blue": False}, "ann@x.org")
    bob = await rig.house.services.users.get(rig.house.admin, "bob")
    assert bob.admin
    assert dict(bob.groups) == {DEFAULT_GROUP: False}
    async with open_desk(rig, "ann", passwords[0]):
        pass


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The input is empty"),
        ("email\nx", "The name column is missing"),
        ("name,shoe size\nx,3", "Unknown column"),
        ('name\n"open', "Invalid CSV"),
        ("name\n" + "x\n" * 501, "At most 500 users can be imported at once"),
    ],
)
async def test_what_is_no_table_of_users_is_refused(rig: Rig, text: str, says: str) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/admin/users/import/preview", {"text": text})
        assert answer.status_code == 400
        assert says in problem_at(answer.text, "text")
