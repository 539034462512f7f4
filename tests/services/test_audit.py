"""Every change to the place leaves an event, in the same write; nothing else does, and no secret is ever in one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditEvent, AuditKind, AuditQuery
from holdfast.core.catalogue import ImageAlias, InstanceType, Secret, SecretKind
from holdfast.core.errors import Forbidden, NotLoggedIn, UserError
from holdfast.core.records import Dataset, Group, Mlflow
from holdfast.core.schedule import Recurrence, RecurrenceKind
from holdfast.core.scheduling.placement import Quota
from holdfast.engines.base import ImageSummary
from holdfast.services.audit import CLIENT_ADDRESS, AuditedStore
from holdfast.services.catalogue.image_aliases import ImageAliasChange
from holdfast.services.catalogue.instance_types import InstanceTypeChange
from holdfast.services.catalogue.secrets import SecretChange
from holdfast.services.datasets.service import DatasetChange
from holdfast.services.errors import TooManyRequests
from holdfast.services.people.failed_logins import MAX_ENTRIES_PER_HOUR, REPEAT_INTERVAL
from holdfast.services.people.groups import GroupChange
from holdfast.services.people.users import UserChange
from holdfast.services.schedules.service import ScheduleChange
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3FOZgDx2DGuNLLzK4ydj1Hmh3Emr3SvNPXd7CGcTCU ann@home"
SECRET = "hunter2-hunter2"
JOB = "name: nightly\ncommand: echo hi\n"
DAILY = Recurrence(kind=RecurrenceKind.DAILY)
Trying = Callable[["House", Path], Awaitable[object]]


async def events(house: House, **asked: object) -> tuple[AuditEvent, ...]:
    found = await house.services.audit.list(house.admin, AuditQuery(limit=500, **asked))  # type: ignore[arg-type]
    return found.items


# -- every verb


async def _schedule(house: House) -> str:
    return (await house.services.schedules.create(house.admin, JOB, DAILY)).schedule.id


async def _login(house: House) -> str:
    return (await house.services.tokens.login("ann", SECRET, "here")).text


async def _token(house: House) -> str:
    return (await house.services.tokens.create(house.admin, name="t")).token.id


async def _key(house: House) -> str:
    return (await house.services.keys.add(house.admin, KEY)).id


async def _recipient(house: House) -> str:
    return (
        await house.services.notifications.add_recipient(
            house.admin, "webhook", f"https://example.org/{SECRET}/long/path"
        )
    ).id


def own(house: House) -> Actor:
    return Actor(name="ann")


# service.verb -> (how to do it, the event it leaves). Group red, user ann and one of everything are there before.
VERBS: dict[str, tuple[Trying, tuple[AuditKind, AuditAction]]] = {
    "users.create": (
        lambda h, _: h.services.users.create(h.admin, name="new", password=SECRET),
        (AuditKind.USER, AuditAction.CREATED),
    ),
    "users.change": (
        lambda h, _: h.services.users.change(h.admin, "ann", admin=True),
        (AuditKind.USER, AuditAction.CHANGED),
    ),
    "users.apply_change": (
        lambda h, _: h.services.users.apply_change(h.admin, "ann", UserChange(groups=frozenset())),
        (AuditKind.USER, AuditAction.CHANGED),
    ),
    "users.update_extension": (
        lambda h, _: h.services.users.update_extension(own(h), "ann", {"k": SECRET}),
        (AuditKind.USER, AuditAction.CHANGED),
    ),
    "users.delete": (lambda h, _: h.services.users.delete(h.admin, "ann"), (AuditKind.USER, AuditAction.REMOVED)),
    "users.set_password": (
        lambda h, _: h.services.users.set_password(h.admin, "ann", SECRET + "2"),
        (AuditKind.PASSWORD, AuditAction.CHANGED),
    ),
    "users.change_own_password": (
        lambda h, _: h.services.users.change_own_password(own(h), SECRET, SECRET + "2", "here"),
        (AuditKind.PASSWORD, AuditAction.CHANGED),
    ),
    "groups.create": (
        lambda h, _: h.services.groups.create(h.admin, Group(name="new", quota=Quota(gpu=2))),
        (AuditKind.GROUP, AuditAction.CREATED),
    ),
    "groups.change": (
        lambda h, _: h.services.groups.change(h.admin, "red", GroupChange(quota=Quota(gpu=4))),
        (AuditKind.GROUP, AuditAction.CHANGED),
    ),
    "groups.update_extension": (
        lambda h, _: h.services.groups.update_extension(h.admin, "red", {"x": 1}),
        (AuditKind.GROUP, AuditAction.CHANGED),
    ),
    "groups.set_mlflow": (
        lambda h, _: h.services.groups.set_mlflow(
            h.admin, "red", Mlflow(tracking_uri="http://m", tracking_envs={"A": SECRET})
        ),
        (AuditKind.GROUP, AuditAction.CHANGED),
    ),
    "groups.delete": (lambda h, _: h.services.groups.delete(h.admin, "red"), (AuditKind.GROUP, AuditAction.REMOVED)),
    "groups.set_member": (
        lambda h, _: h.services.groups.set_member(h.admin, "red", "admin", admin=True),
        (AuditKind.MEMBER, AuditAction.CHANGED),
    ),
    "groups.remove_member": (
        lambda h, _: h.services.groups.remove_member(h.admin, "red", "ann"),
        (AuditKind.MEMBER, AuditAction.REMOVED),
    ),
    "tokens.login": (lambda h, _: _login(h), (AuditKind.LOGIN, AuditAction.BEGUN)),
    "tokens.login_authenticated_user": (
        lambda h, _: h.services.tokens.login_authenticated_user("ann", "link"),
        (AuditKind.LOGIN, AuditAction.BEGUN),
    ),
    "tokens.create": (lambda h, _: _token(h), (AuditKind.TOKEN, AuditAction.CREATED)),
    "tokens.delete_logins": (
        lambda h, _: h.services.tokens.delete_logins(own(h)),
        (AuditKind.LOGIN, AuditAction.ENDED),
    ),
    "keys.add": (lambda h, _: _key(h), (AuditKind.KEY, AuditAction.CREATED)),
    "codes.issue_login_code": (
        lambda h, _: h.services.codes.issue_login_code(h.admin),
        (AuditKind.LOGIN, AuditAction.CREATED),
    ),
    "instance_types.create": (
        lambda h, _: h.services.instance_types.create(h.admin, InstanceType(name="new", cpu=1, memory=1 << 30)),
        (AuditKind.INSTANCE_TYPE, AuditAction.CREATED),
    ),
    "instance_types.change": (
        lambda h, _: h.services.instance_types.change(h.admin, "cpu-1", InstanceTypeChange(cpu=3)),
        (AuditKind.INSTANCE_TYPE, AuditAction.CHANGED),
    ),
    "instance_types.delete": (
        lambda h, _: h.services.instance_types.delete(h.admin, "cpu-1"),
        (AuditKind.INSTANCE_TYPE, AuditAction.REMOVED),
    ),
    "instance_types.grant": (
        lambda h, _: h.services.instance_types.grant(h.admin, "cpu-1", "red"),
        (AuditKind.INSTANCE_TYPE, AuditAction.GRANTED),
    ),
    "image_aliases.create": (
        lambda h, _: h.services.image_aliases.create(h.admin, ImageAlias(name="new", url="host")),
        (AuditKind.IMAGE_ALIAS, AuditAction.CREATED),
    ),
    "image_aliases.change": (
        lambda h, _: h.services.image_aliases.change(h.admin, "host", ImageAliasChange(description="x")),
        (AuditKind.IMAGE_ALIAS, AuditAction.CHANGED),
    ),
    "image_aliases.delete": (
        lambda h, _: h.services.image_aliases.delete(h.admin, "host"),
        (AuditKind.IMAGE_ALIAS, AuditAction.REMOVED),
    ),
    "image_aliases.grant": (
        lambda h, _: h.services.image_aliases.grant(h.admin, "host", "red"),
        (AuditKind.IMAGE_ALIAS, AuditAction.GRANTED),
    ),
    "datasets.create": (
        lambda h, f: h.services.datasets.create(
            h.admin, Dataset(name="new", path="", kind="env"), variables={"A": SECRET}
        ),
        (AuditKind.DATASET, AuditAction.CREATED),
    ),
    "datasets.change": (
        lambda h, _: h.services.datasets.change(h.admin, "vars", DatasetChange(variables={"A": SECRET})),
        (AuditKind.DATASET, AuditAction.CHANGED),
    ),
    "datasets.delete": (
        lambda h, _: h.services.datasets.delete(h.admin, "vars"),
        (AuditKind.DATASET, AuditAction.REMOVED),
    ),
    "datasets.grant": (
        lambda h, _: h.services.datasets.grant(h.admin, "vars", "red"),
        (AuditKind.DATASET, AuditAction.GRANTED),
    ),
    "secrets.create": (
        lambda h, _: h.services.secrets.create(h.admin, Secret(name="new", kind=SecretKind.OPAQUE), SECRET),
        (AuditKind.SECRET, AuditAction.CREATED),
    ),
    "secrets.change": (
        lambda h, _: h.services.secrets.change(h.admin, "git", SecretChange(value=SECRET)),
        (AuditKind.SECRET, AuditAction.CHANGED),
    ),
    "secrets.delete": (lambda h, _: h.services.secrets.delete(h.admin, "git"), (AuditKind.SECRET, AuditAction.REMOVED)),
    "schedules.create": (lambda h, _: _schedule(h), (AuditKind.SCHEDULE, AuditAction.CREATED)),
    "notifications.add_recipient": (lambda h, _: _recipient(h), (AuditKind.RECIPIENT, AuditAction.CREATED)),
}


# Those that undo one of the above: what they undo is done first.
async def _undo(house: House, verb: str) -> None:
    services, admin = house.services, house.admin
    if verb == "tokens.logout":
        await services.tokens.logout(await _login(house))
    elif verb == "tokens.delete":
        await services.tokens.delete(admin, await _token(house))
    elif verb == "keys.remove":
        await services.keys.remove(admin, await _key(house))
    elif verb == "notifications.remove_recipient":
        await services.notifications.remove_recipient(admin, await _recipient(house))
    elif verb == "notifications.set_events":
        await services.notifications.set_events(admin, await _recipient(house), ["failed"])
    elif verb == "codes.redeem_login_code":
        await services.codes.redeem_login_code(await services.codes.issue_login_code(admin))
    elif verb == "codes.redeem_token_code":
        await services.codes.redeem_token_code(await services.codes.issue_token_code_for_actor(admin), name="x")
    elif verb.endswith(".revoke"):
        service = getattr(services, verb.partition(".")[0])
        name = {"datasets": "vars", "instance_types": "cpu-1", "image_aliases": "host"}[verb.partition(".")[0]]
        await service.grant(admin, name, "red")
        await service.revoke(admin, name, "red")
    else:
        id = await _schedule(house)
        if verb == "schedules.change":
            await services.schedules.change(admin, id, ScheduleChange(paused=True))
        else:
            await getattr(services.schedules, verb.partition(".")[2])(admin, id)


UNDOING: dict[str, tuple[AuditKind, AuditAction]] = {
    "tokens.logout": (AuditKind.LOGIN, AuditAction.ENDED),
    "tokens.delete": (AuditKind.TOKEN, AuditAction.REMOVED),
    "keys.remove": (AuditKind.KEY, AuditAction.REMOVED),
    "notifications.remove_recipient": (AuditKind.RECIPIENT, AuditAction.REMOVED),
    "notifications.set_events": (AuditKind.RECIPIENT, AuditAction.CHANGED),
    "codes.redeem_login_code": (AuditKind.LOGIN, AuditAction.BEGUN),
    "codes.redeem_token_code": (AuditKind.TOKEN, AuditAction.CREATED),
    "datasets.revoke": (AuditKind.DATASET, AuditAction.REVOKED),
    "instance_types.revoke": (AuditKind.INSTANCE_TYPE, AuditAction.REVOKED),
    "image_aliases.revoke": (AuditKind.IMAGE_ALIAS, AuditAction.REVOKED),
    "schedules.change": (AuditKind.SCHEDULE, AuditAction.CHANGED),
    "schedules.pause": (AuditKind.SCHEDULE, AuditAction.CHANGED),
    "schedules.resume": (AuditKind.SCHEDULE, AuditAction.CHANGED),
    "schedules.delete": (AuditKind.SCHEDULE, AuditAction.REMOVED),
}
# Verbs that change nothing about the place: they look, or their doing is told elsewhere.
SILENT = {
    "datasets.list_usable_datasets", "schedules.get_changeable_schedule", "schedules.load_schedule_names",  # only look
    "users.list", "users.get", "users.load_users_by_group", "users.get_preferences", "users.update_preferences",
    "users.ensure_first_admin", "groups.list", "groups.get", "groups.get_mlflow", "tokens.resolve_actor",
    "tokens.get_token", "tokens.resolve_actor_by_id", "tokens.prove_token",
    "pruning.prune_storage",  # notes each kind of which something was removed: tests/server/test_storage_api.py
    "tokens.wait_for_change", "tokens.has_user", "tokens.get_guest", "tokens.verify_password",
    "tokens.load_password_fingerprint", "tokens.list", "tokens.issue_device_token",
    "tokens.count_tokens", "tokens.delete_expired_tokens", "tokens.create_machine_token", "keys.list",
    "codes.issue_token_code", "codes.issue_token_code_for_actor", "codes.find_code_user",
    "image_pulls.close", "image_pulls.pull",  # noted when it is done: tests/e2e/test_image_pulls.py
    "images.list", "images.check_import", "images.delete_partial_uploads",
    "secrets.list", "secrets.get", "secrets.load_value",
    "schedules.list", "schedules.get", "schedules.list_runs", "schedules.preview_times", "schedules.run_schedule_now",
    "schedules.load_newest_runs", "notifications.list_recipients", "notifications.get_webhook_secret",
    "notifications.list", "notifications.delete_old_notifications",
    "notifications.send_test",  # it is among the notifications
}  # fmt: skip
LOOKING = ("list", "get", "load_all", "invalidate")
SILENT |= {f"{name}.{verb}" for name in ("instance_types", "image_aliases") for verb in LOOKING}
SILENT |= {"instance_types.seed_types", "instance_types.list_usable_types"}
SILENT |= {"image_aliases.seed_aliases", "image_aliases.list_usable_aliases"}
SILENT |= {
    f"datasets.{verb}"
    for verb in ("list_group_datasets", "list", "get", "exists", "get_variables", "load_variables", "wait_until_ready")
} | {"datasets.get_git_state", "datasets.sync_dataset", "datasets.remove_purged_data"}
BY_FILES = {"images.add", "images.remove"}  # tried below


async def _furnish(house: House) -> None:
    await house.user("ann", "red", password=SECRET)
    await house.services.datasets.create(house.admin, Dataset(name="vars", path="", kind="env"), variables={})
    await house.services.secrets.create(house.admin, Secret(name="git", kind=SecretKind.OPAQUE), SECRET)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_change_leaves_one_event(house: House, tmp_path: Path, verb: str) -> None:
    await _furnish(house)
    before = len(await events(house))
    do, expected = VERBS[verb]
    CLIENT_ADDRESS.set("10.0.0.9")
    await do(house, tmp_path)
    newest, *rest = await events(house)
    assert len(rest) == before
    assert (newest.kind, newest.act) == expected
    assert newest.actor in ("admin", "ann")
    assert newest.subject
    assert newest.address == "10.0.0.9"
    assert SECRET not in repr(newest)


@pytest.mark.parametrize("verb", UNDOING)
async def test_an_undoing_leaves_one_event(house: House, verb: str) -> None:
    await _furnish(house)
    await _undo(house, verb)
    newest = (await events(house))[0]
    assert (newest.kind, newest.act) == UNDOING[verb]


async def test_no_verb_is_forgotten(house: House) -> None:
    """Of every service that writes through the audited store; a new verb belongs into one of the tables above."""
    told = set(VERBS) | set(UNDOING) | SILENT | BY_FILES
    found = set()
    for name in house.services.__slots__:
        service = getattr(house.services, name)
        if not isinstance(getattr(service, "_store", None), AuditedStore):
            continue
        methods = inspect.getmembers(type(service), inspect.isfunction)
        found |= {f"{name}.{verb}" for verb, _ in methods if not verb.startswith("_")}
    assert found - told == set()
    assert told - found == set()


class Shelf(FakeEngine):
    """Keeps images, by name alone."""

    async def import_image(self, name: str, file: Path) -> ImageSummary:
        return ImageSummary(name=name, size=1, created_at=None, source="")

    async def remove_image(self, name: str) -> bool:
        return True


async def test_images_leave_events(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"tar"

    async with open_house(tmp_path / "home", engine=Shelf()) as house:
        await house.services.images.add(house.admin, "tiny:1", chunks(), lambda work: work)
        await house.services.images.remove(house.admin, "tiny:1")
        found = await events(house, kind=AuditKind.IMAGE)
        assert [(event.act, event.subject) for event in found] == [
            (AuditAction.REMOVED, "tiny:1"),
            (AuditAction.CREATED, "tiny:1"),
        ]


# -- what is in an event


async def test_what_was_set_is_told(house: House) -> None:
    await house.add_group("red")
    change = GroupChange(quota=Quota(gpu=4, cpu=1.5), time_limit=timedelta(hours=1), extension={"a": 1})
    await house.services.groups.change(house.admin, "red", change)
    await house.services.groups.change(house.admin, "red", GroupChange(time_limit=None))
    cleared, changed, _ = await events(house, kind=AuditKind.GROUP)
    assert changed.detail == {"quota": "cpu: 1.5, gpu: 4", "time_limit": "1 hour", "extension": "…"}
    assert cleared.detail == {"time_limit": "–"}


async def test_what_is_refused_leaves_nothing(house: House) -> None:
    await house.user("ann", "red")
    before = await events(house)
    for refused in (
        house.services.users.create(house.admin, name="ann"),
        house.services.users.delete(house.admin, "admin"),
        house.services.groups.delete(Actor(name="ann"), "red"),
        house.services.secrets.delete(house.admin, "none"),
    ):
        with pytest.raises(UserError):
            await refused
    assert await events(house) == before


async def test_only_admins_look(house: House) -> None:
    ann = await house.user("ann", "red")
    with pytest.raises(Forbidden):
        await house.services.audit.list(ann)
    for limit in (0, 501):
        with pytest.raises(UserError):
            await house.services.audit.list(house.admin, AuditQuery(limit=limit))


async def test_old_events_and_tokens_go(house: House) -> None:
    await house.user("ann", "red", password=SECRET)
    await _login(house)
    house.clock.forward(366 * 86400)
    await house.user("bob", "red")
    assert await house.services.audit.delete_expired() > 0
    assert await house.services.tokens.delete_expired_tokens() == 1
    assert [event.subject for event in await events(house)] == ["bob"]


# -- failed logins


async def _fail(house: House, user: str, address: str) -> None:
    with pytest.raises((NotLoggedIn, TooManyRequests)):
        await house.services.tokens.verify_password(user, "no", address)


async def test_failed_logins_are_told_once_and_counted(house: House) -> None:
    await house.user("ann", "red", password=SECRET)
    for _ in range(4):
        await _fail(house, "ann", "10.1.1.1")
    (first,) = await events(house, kind=AuditKind.LOGIN)
    assert (first.act, first.subject, first.actor, first.detail) == (AuditAction.FAILED, "ann", "", {})
    house.clock.forward(REPEAT_INTERVAL + 1)
    await _fail(house, "ann", "10.1.1.1")
    assert (await events(house, kind=AuditKind.LOGIN))[0].detail == {"more": "3"}


async def test_what_was_typed_in_place_of_a_user_is_not_kept(house: House) -> None:
    await _fail(house, SECRET, "10.1.1.1")
    (event,) = await events(house, kind=AuditKind.LOGIN)
    assert event.subject == ""
    assert SECRET not in repr(event)


async def test_whoever_guesses_fills_no_disk(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no(hashed: str | None, password: str, *, user: str, client: str) -> bool:
        return False

    monkeypatch.setattr(house.services.tokens._passwords, "verify_password", no)
    for number in range(MAX_ENTRIES_PER_HOUR + 40):
        await _fail(house, f"nobody{number}", f"10.0.0.{number}")
    assert len(await events(house, kind=AuditKind.LOGIN)) == MAX_ENTRIES_PER_HOUR
    house.clock.forward(3601)
    await _fail(house, "nobody", "10.0.1.1")
    assert (await events(house, kind=AuditKind.LOGIN))[0].detail == {"others": "40"}
