from __future__ import annotations

import asyncio
import gc
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, NotLoggedIn, UserError
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from holdfast.engines.base import Isolation
from holdfast.services.errors import TooManyRequests
from holdfast.services.people import login_throttle, tokens
from holdfast.services.people.access_tokens import CACHE_TTL
from holdfast.services.people.groups import GroupChange
from holdfast.services.people.users import UserChange
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

HERE = "10.0.0.1"


# -- the first start


async def test_the_first_admin_gets_a_password_once(house: House) -> None:
    made = await house.services.tokens.login("admin", house.admin_password, HERE)
    assert (await house.services.tokens.resolve_actor(made.text)).admin
    assert await house.services.users.ensure_first_admin() is None


async def test_the_machines_token_is_an_admins_and_there_is_one(house: House) -> None:
    first = await house.services.tokens.create_machine_token()
    assert (await house.services.tokens.resolve_actor(first)).admin
    second = await house.services.tokens.create_machine_token()
    assert (await house.services.tokens.resolve_actor(second)).admin
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(first)


async def test_of_many_logins_the_one_that_rested_longest_ends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_LOGINS", 3)
    await house.user("ann", "default")
    found = house.services.tokens
    program = await found.create(Actor(name="ann"), name="program")
    texts = []
    for _ in range(3):
        house.clock.forward(660)
        texts.append((await found.login_authenticated_user("ann", "test")).text)
        await found.resolve_actor(texts[0])  # in use all the time
    texts.append((await found.login_authenticated_user("ann", "test")).text)
    for text in (texts[0], texts[2], texts[3], program.text):
        assert (await found.resolve_actor(text)).name == "ann"
    with pytest.raises(NotLoggedIn):
        await found.resolve_actor(texts[1])


async def test_one_user_has_only_so_many_tokens_for_programs(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_API_TOKENS", 2)
    ann, bea = await house.user("ann", "default"), await house.user("bea", "default")
    made = [await house.services.tokens.create(ann, name="x") for _ in range(2)]
    with pytest.raises(Conflict, match="already has the maximum of 2 tokens"):
        await house.services.tokens.create(ann, name="x")
    await house.services.tokens.create(bea, name="x")
    await house.services.tokens.delete(ann, made[0].token.id)
    await house.services.tokens.create(ann, name="x", expires_in=timedelta(hours=1))
    house.clock.forward(3601)
    await house.services.tokens.create(ann, name="x")  # in place of the one that ended
    with pytest.raises(Conflict, match="already has the maximum of 2 tokens"):
        await house.services.tokens.create(ann, name="x")


# -- logging in


async def test_wrong_passwords_and_unknown_users_sound_the_same(house: House) -> None:
    texts = set()
    for user, password in [("admin", "wrong"), ("nobody", "wrong"), ("x" * 5000, "y" * 5000), ("a\0b", "p\0q")]:
        with pytest.raises(NotLoggedIn) as caught:
            await house.services.tokens.login(user, password, HERE)
        texts.add(caught.value.message)
    assert len(texts) == 1


async def test_guessing_is_slowed_down(house: House) -> None:
    for _ in range(5):
        with pytest.raises(NotLoggedIn):
            await house.services.tokens.login("admin", "wrong", HERE)
    with pytest.raises(TooManyRequests):
        await house.services.tokens.login("admin", house.admin_password, HERE)
    house.clock.forward(login_throttle.ADDRESS_LIMIT.interval)
    await house.services.tokens.login("admin", house.admin_password, HERE)


async def test_guesses_at_one_moment_all_count(house: House) -> None:
    tries = [house.services.tokens.login("admin", f"guess{n}", HERE) for n in range(40)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(outcome, NotLoggedIn) for outcome in outcomes) == 5
    assert sum(isinstance(outcome, TooManyRequests) for outcome in outcomes) == 35


async def test_a_login_ends_after_its_days_and_on_logout(house: House) -> None:
    made = await house.services.tokens.login("admin", house.admin_password, HERE)
    house.clock.forward(6.9 * 86400)
    await house.services.tokens.resolve_actor(made.text)
    house.clock.forward(0.2 * 86400)
    with pytest.raises(NotLoggedIn, match="expired"):
        await house.services.tokens.resolve_actor(made.text)
    again = await house.services.tokens.login("admin", house.admin_password, HERE)
    await house.services.tokens.logout(again.text)
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(again.text)


# -- tokens


@pytest.mark.parametrize(
    "text", ["", "hf_", "hf_a_b", "x" * 100_000, "hf_abcdefgh_" + "A" * 43, "hf_../../x_" + "A" * 43]
)
async def test_what_is_no_token_is_refused(house: House, text: str) -> None:
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(text)


async def test_the_id_of_a_token_is_not_enough(house: House) -> None:
    made = await house.services.tokens.create(house.admin, name="ci")
    await house.services.tokens.resolve_actor(made.text)  # now it is in memory
    forged = f"hf_{made.token.id}_{'A' * 43}"
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(forged)


async def test_secrets_of_tokens_are_not_kept(house: House) -> None:
    made = await house.services.tokens.create(house.admin, name="ci")
    secret = made.text.rsplit("_", 1)[-1] if made.text.count("_") == 2 else made.text.split("_", 2)[2]
    await house.store.write(lambda conn: None)
    kept = b"".join(path.read_bytes() for path in house.home.glob("holdfast.db*"))
    assert made.token.id.encode() in kept
    assert secret.encode() not in kept


async def test_a_known_token_costs_no_read(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await house.services.tokens.create(house.admin, name="ci")
    await house.services.tokens.resolve_actor(made.text)
    reads = []
    read = house.store.read

    async def counting(fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        reads.append(fn)
        return await read(fn, *args, **kwargs)

    monkeypatch.setattr(house.store, "read", counting)
    await house.services.tokens.resolve_actor(made.text)
    assert reads == []
    house.clock.forward(CACHE_TTL + 1)
    await house.services.tokens.resolve_actor(made.text)
    assert len(reads) == 1


async def test_use_is_noted_now_and_then(house: House) -> None:
    made = await house.services.tokens.create(house.admin, name="ci")
    await house.services.tokens.resolve_actor(made.text)
    (token,) = [t for t in await house.services.tokens.list(house.admin) if t.id == made.token.id]
    assert token.last_used_at == house.clock.now()


async def test_users_have_their_own_tokens(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "lab")
    made = await house.services.tokens.create(alice, name="hers", expires_in=timedelta(hours=1))
    assert (await house.services.tokens.resolve_actor(made.text)).name == "alice"
    assert await house.services.tokens.list(bob) == []
    with pytest.raises(NotFound):
        await house.services.tokens.delete(bob, made.token.id)
    with pytest.raises(Forbidden):
        await house.services.tokens.create(bob, name="x", user="alice")
    with pytest.raises(Forbidden):
        await house.services.tokens.list(bob, "alice")
    theirs = await house.services.tokens.create(house.admin, name="x", user="alice")
    assert theirs.token.user == "alice"
    await house.services.tokens.delete(alice, made.token.id)
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(made.text)


# -- changes are felt at once


async def test_disabled_and_deleted_users_are_out_at_once(house: House) -> None:
    for end in ("disable", "delete"):
        user = await house.user(f"user-{end}", "lab", password="long enough")
        made = await house.services.tokens.create(user, name="t")
        await house.services.tokens.resolve_actor(made.text)
        if end == "disable":
            await house.services.users.change(house.admin, user.name, disabled=True)
        else:
            await house.services.users.delete(house.admin, user.name)
        with pytest.raises(NotLoggedIn):
            await house.services.tokens.resolve_actor(made.text)
        with pytest.raises(NotLoggedIn):
            await house.services.tokens.login(user.name, "long enough", HERE)


async def test_a_disabled_user_is_told_so_and_nobody_else_is(house: House) -> None:
    user = await house.user("alice", "lab", password="long enough")
    made = await house.services.tokens.create(user, name="t")
    await house.services.users.change(house.admin, "alice", disabled=True)
    for _ in ("read", "remembered"):
        with pytest.raises(NotLoggedIn, match="account is disabled"):
            await house.services.tokens.resolve_actor(made.text)
    with pytest.raises(NotLoggedIn, match="account is disabled"):
        await house.services.tokens.login("alice", "long enough", HERE)
    with pytest.raises(NotLoggedIn, match="token is not valid"):
        await house.services.tokens.resolve_actor(made.text[:-3] + ("abc" if made.text[-3:] != "abc" else "def"))
    with pytest.raises(NotLoggedIn, match="Incorrect user name or password"):
        await house.services.tokens.login("alice", "wrong enough", HERE)
    await house.services.users.change(house.admin, "alice", disabled=False)
    assert (await house.services.tokens.resolve_actor(made.text)).name == "alice"


async def test_a_new_password_ends_logins_but_not_tokens(house: House) -> None:
    alice = await house.user("alice", "lab", password="old password")
    login = await house.services.tokens.login("alice", "old password", HERE)
    token = await house.services.tokens.create(alice, name="ci")
    await house.services.users.change_own_password(alice, "old password", "new password", HERE)
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(login.text)
    assert (await house.services.tokens.resolve_actor(token.text)).name == "alice"
    await house.services.tokens.login("alice", "new password", HERE)
    second = await house.services.tokens.login("alice", "new password", HERE)
    await house.services.users.set_password(house.admin, "alice", "third password")
    with pytest.raises(NotLoggedIn):
        await house.services.tokens.resolve_actor(second.text)


async def test_the_old_password_has_to_be_right(house: House) -> None:
    alice = await house.user("alice", "lab", password="old password")
    with pytest.raises(Forbidden):
        await house.services.users.change_own_password(alice, "wrong", "new password", HERE)
    for bad in ("short", "x" * 2000, "with\0nul and more"):
        with pytest.raises(UserError):
            await house.services.users.set_password(house.admin, "alice", bad)


@pytest.mark.parametrize("bad", ["        ", "aaaaaaaa", "Password", "12345678", " 12345678 ", "Alice.Archer"])
async def test_passwords_that_are_tried_first_are_refused(house: House, bad: str) -> None:
    user = await house.user("alice.archer", "lab", password="old password")
    with pytest.raises(UserError, match="too easy to guess"):
        await house.services.users.set_password(house.admin, user.name, bad)
    with pytest.raises(UserError, match="too easy to guess"):
        await house.services.users.change_own_password(user, "old password", bad, HERE)
    with pytest.raises(UserError, match="too easy to guess"):
        await house.services.users.create(house.admin, name=bad.lower() if "." in bad else "bob", password=bad)
    await house.services.tokens.login(user.name, "old password", HERE)


async def test_memberships_are_felt_at_once(house: House) -> None:
    alice = await house.user("alice", "lab")
    made = await house.services.tokens.create(alice, name="t")
    assert set((await house.services.tokens.resolve_actor(made.text)).groups) == {"lab"}
    await house.services.groups.set_member(house.admin, "default", "alice", admin=False)
    assert set((await house.services.tokens.resolve_actor(made.text)).groups) == {"default", "lab"}


# -- users


async def test_only_admins_manage_users(house: House) -> None:
    alice = await house.user("alice", "lab")
    users = house.services.users
    for refused in (
        users.create(alice, name="eve"),
        users.change(alice, "alice", admin=True),
        users.change(alice, "admin", email="x"),
        users.change(alice, "alice", disabled=False),
        users.delete(alice, "admin"),
        users.set_password(alice, "alice", "new password"),
    ):
        with pytest.raises(Forbidden):
            await refused
    assert (await users.change(alice, "alice", email="a@b.c")).email == "a@b.c"
    assert [user.name for user in await users.list(alice)] == ["alice"]
    assert [user.name for user in await users.list(house.admin)] == ["admin", "alice"]
    with pytest.raises(NotFound):
        await users.get(alice, "admin")


async def test_the_last_admin_stays(house: House) -> None:
    users = house.services.users
    for refused in (
        users.delete(house.admin, "admin"),
        users.change(house.admin, "admin", admin=False),
        users.change(house.admin, "admin", disabled=True),
    ):
        with pytest.raises(Conflict):
            await refused
    await users.create(house.admin, name="second", admin=True)
    await users.change(house.admin, "admin", admin=False)


async def test_a_user_with_unfinished_jobs_stays(house: House) -> None:
    alice = await house.user("alice", "lab")
    job = await house.submit("name: s\ncommand: sleep 9\n", alice)
    with pytest.raises(Conflict):
        await house.services.users.delete(house.admin, "alice")
    await house.until(job.id, JobState.RUNNING)
    await house.services.jobs.stop(alice, job.id)
    await house.until(job.id)
    await house.services.users.delete(house.admin, "alice")


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "x" * 64, "é", "-a", "@a", "a\0", "holdfast", "Me", "a\n"])
async def test_odd_names_are_refused(house: House, name: str) -> None:
    with pytest.raises(UserError):
        await house.services.users.create(house.admin, name=name)
    with pytest.raises(UserError):
        await house.services.groups.create(house.admin, Group(name=name))


async def test_users_may_be_called_by_their_email_address(house: House) -> None:
    jane = await house.user("jane.doe@example.org", "lab", password="correct-horse-1")
    login = await house.services.tokens.login(jane.name, "correct-horse-1", HERE)
    assert (await house.services.tokens.resolve_actor(login.text)).name == jane.name
    job = await house.until((await house.submit("name: a\ncommand: 'true'\n", jane)).id)
    assert job.user == jane.name
    with pytest.raises(UserError, match="is not a valid name for a group"):
        await house.services.groups.create(house.admin, Group(name="lab@example.org"))


async def test_names_are_taken_once(house: House) -> None:
    await house.user("alice", "lab")
    with pytest.raises(Conflict):
        await house.services.users.create(house.admin, name="alice")
    with pytest.raises(NotFound):
        await house.services.users.create(house.admin, name="bob", groups={"nowhere": False})
    assert [user.name for user in await house.services.users.list(house.admin)] == ["admin", "alice"]


async def test_no_second_user_without_isolation(tmp_path: Path) -> None:
    engine = FakeEngine(isolation=Isolation.NONE)
    async with open_house(tmp_path / "a", engine=engine) as house:
        with pytest.raises(Conflict, match="isolate") as caught:
            await house.services.users.create(house.admin, name="alice")
        assert caught.value.hint is not None
        assert 'sandbox.isolation = "off"' in caught.value.hint


async def test_no_user_while_it_is_not_known_whether_jobs_are_isolated(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with open_house(tmp_path / "a", engine=engine) as house:
        blocked = Condition(kind=ConditionKind.SANDBOX, message="Jobs do not start.", blocks_starts=True)
        engine.set_conditions(blocked)
        with pytest.raises(Conflict, match="has not been verified"):
            await house.user("ann")
        engine.set_conditions()
        await house.user("ann")


async def test_a_second_user_without_isolation_when_an_admin_says_so(tmp_path: Path) -> None:
    engine = FakeEngine(isolation=Isolation.NONE)
    async with open_house(tmp_path / "b", engine=engine, settings={"sandbox": {"isolation": "off"}}) as house:
        await house.services.users.create(house.admin, name="alice")


# -- groups


async def test_group_admins_manage_members(house: House) -> None:
    await house.user("alice", "lab")
    bob = await house.user("bob", "shop")
    await house.services.groups.set_member(house.admin, "lab", "alice", admin=True)
    alice = Actor(name="alice", groups={"lab": True})
    groups = house.services.groups
    await groups.set_member(alice, "lab", "bob", admin=False)
    assert (await groups.get(alice, "lab")).members == {"alice": True, "bob": False}
    with pytest.raises(NotFound):
        await groups.set_member(alice, "shop", "alice", admin=True)
    with pytest.raises(Forbidden):
        await groups.set_member(Actor(name="bob", groups={"lab": False}), "lab", "bob", admin=True)
    with pytest.raises(Forbidden):
        await groups.change(alice, "lab", GroupChange(quota=Quota()))
    with pytest.raises(Forbidden):
        await groups.delete(alice, "lab")
    with pytest.raises(NotFound):
        await groups.set_member(alice, "lab", "nobody", admin=False)
    await groups.remove_member(alice, "lab", "bob")
    with pytest.raises(NotFound):
        await groups.remove_member(alice, "lab", "bob")
    assert [group.name for group in await groups.list(bob)] == ["shop"]


async def test_quotas_reach_the_controller(house: House) -> None:
    await house.services.groups.change(house.admin, "default", GroupChange(quota=Quota(cpu=1)))
    planned = await house.services.jobs.plan(house.admin, "name: x\ncommand: exit 0\nresources: {cpu: 2}\n")
    assert planned.verdict.answer == "never"
    assert any("quota" in reason for reason in planned.verdict.reasons)


async def test_a_change_leaves_the_rest_alone(house: House) -> None:
    await house.services.groups.create(
        house.admin, Group(name="lab", description="x", quota=Quota(cpu=3), time_limit=timedelta(hours=1))
    )
    await house.services.groups.change(house.admin, "lab", GroupChange(description="y"))
    group = await house.services.groups.get(house.admin, "lab")
    assert (group.description, group.quota, group.time_limit) == ("y", Quota(cpu=3), timedelta(hours=1))
    await house.services.groups.change(house.admin, "lab", GroupChange(time_limit=None))
    assert (await house.services.groups.get(house.admin, "lab")).time_limit is None


async def test_groups_in_use_stay(house: House) -> None:
    with pytest.raises(Conflict):
        await house.services.groups.delete(house.admin, "default")
    alice = await house.user("alice", "lab")
    await house.submit("name: s\ncommand: sleep 9\n", alice)
    with pytest.raises(Conflict):
        await house.services.groups.delete(house.admin, "lab")
    await house.services.groups.create(house.admin, Group(name="empty"))
    await house.services.groups.delete(house.admin, "empty")


async def test_the_name_of_a_group_that_had_jobs_is_not_given_out_again(house: House) -> None:
    """Its new members would see what the old ones ran."""
    groups = house.services.groups
    await house.run("name: s\ncommand: 'true'\n", await house.user("alice", "lab"))
    await groups.delete(house.admin, "lab")
    with pytest.raises(Conflict, match="deleted group lab still exist"):
        await groups.create(house.admin, Group(name="lab"))
    assert "lab" not in {group.name for group in await groups.list(house.admin)}


async def test_one_write_sets_all_groups_and_who_is_an_admin_there(house: House) -> None:
    await house.user("ann", "red", "blue")
    await house.add_group("green")
    wanted = {"red": True, "green": False}
    user = await house.services.users.apply_change(house.admin, "ann", UserChange(standing=wanted))
    assert dict(user.groups) == wanted
    with pytest.raises(NotFound, match="Group gone not found"):
        await house.services.users.apply_change(house.admin, "ann", UserChange(standing={"gone": False}))
    assert dict((await house.services.users.get(house.admin, "ann")).groups) == wanted
    with pytest.raises(Forbidden):
        await house.services.users.apply_change(Actor(name="ann"), "ann", UserChange(standing={"blue": True}))


async def test_a_usual_group_stays_when_others_add_the_user_to_more(house: House) -> None:
    """Whoever leads a group may add anyone; where their jobs go stays the user's own affair."""
    text = "name: mine\ncommand: 'true'\n"
    for group in ("vision", "trap"):
        await house.add_group(group)
    ann = await house.user("ann", "vision")
    boss = await house.user("boss", "trap")
    await house.services.groups.set_member(house.admin, "trap", "boss", admin=True)
    await house.services.groups.set_member(house.admin, "default", "boss", admin=True)

    async def submitted_to() -> str:
        made = await house.services.tokens.create(ann, name="x")
        return (await house.submit(text, await house.services.tokens.resolve_actor(made.text))).group

    leader = Actor(name=boss.name, groups={"trap": True, "default": True})
    assert await submitted_to() == "vision"
    await house.services.groups.set_member(leader, "trap", "ann", admin=False)
    assert await submitted_to() == "vision"
    await house.services.groups.set_member(leader, "default", "ann", admin=False)
    assert await submitted_to() == "vision"
    await house.services.groups.remove_member(house.admin, "vision", "ann")
    assert await submitted_to() == "default"
    await house.services.groups.remove_member(house.admin, "default", "ann")
    assert await submitted_to() == "trap"


async def test_a_refusal_that_nobody_waits_for_any_more_is_no_error(house: House) -> None:
    """Pages that are closed while their token is read again leave the answer to nobody."""
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    access = house.services.tokens._access
    asking = asyncio.create_task(access.resolve_actor_by_id("laqvsn73zcmhjpxu"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    while access._pending_reads:
        await asyncio.sleep(0.01)
    gc.collect()
    assert unheard == []
