"""What every store must do with users, groups and tokens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.job import Hold, HoldScope
from holdfast.core.records import Group, Token
from holdfast.core.scheduling.placement import Quota
from holdfast.store import people, tokens
from tests.store.open_store import NOW, Opened, a_user, later

RED = Group(
    name="red",
    description="The reds, 紅",
    quota=Quota(cpu=1.5, memory=2**50, gpu=3),
    user_quota=Quota(cpu=None, memory=0, gpu=None),
    time_limit=timedelta(hours=1, microseconds=1),
    hold=Hold(duration=timedelta(days=2), keep=HoldScope.FILES),
)


class PeopleContract:
    # -- users

    def test_a_user_is_kept_whole(self, opened: Opened) -> None:
        opened.write(people.create_group, group=RED)
        ann = a_user("änn", admin=True, groups={"red": True})
        opened.write(people.create_user, user=ann, password_hash="$argon2$x")
        assert opened.read(people.get_user, "änn") == ann
        assert opened.read(people.list_users) == [ann]
        assert opened.read(people.load_password_hash, "änn") == "$argon2$x"

    def test_what_clients_keep_is_kept_as_it_is(self, opened: Opened) -> None:
        kept = {"keys": ["ä\0", {"x": None}], "n": 1.5}
        opened.write(people.create_group, group=replace(RED, extension=kept))
        opened.write(people.create_user, user=a_user("ann", extension=kept), password_hash=None)
        for extension in (kept, {"other": {}}, {}):
            opened.write(people.set_user_extension, "ann", extension)
            opened.write(people.set_group_extension, "red", extension)
            opened.write(people.update_user, "ann", email="new@example.org")
            opened.write(people.update_group, group=replace(RED, description="new"))
            (user,), (group,) = opened.read(people.list_users), opened.read(people.list_groups)
            assert (user.extension, group.extension) == (extension, extension)
            assert opened.read(people.get_user, "ann") == user
            assert opened.read(people.get_group, "red") == group
        for change in (people.set_user_extension, people.set_group_extension):
            with pytest.raises(NotFound):
                opened.write(change, "nobody", {})

    def test_a_name_is_taken_once(self, opened: Opened) -> None:
        self._people(opened, "ann")
        with pytest.raises(Conflict, match="User ann already exists"):
            self._people(opened, "ann")
        self._people(opened, "Ann")  # another name
        assert [user.name for user in opened.read(people.list_users)] == ["Ann", "ann"]

    def test_a_user_of_a_missing_group_is_not_made(self, opened: Opened) -> None:
        with pytest.raises(NotFound, match="Group none not found"):
            opened.write(people.create_user, user=a_user("ann", groups={"none": False}), password_hash=None)
        assert opened.read(people.list_users) == []

    def test_only_what_is_said_changes(self, opened: Opened) -> None:
        self._people(opened, "ann")
        assert opened.write(people.update_user, "ann", admin=True) == a_user("ann", admin=True)
        changed = opened.write(people.update_user, "ann", email="", disabled=True)
        assert changed == a_user("ann", admin=True, email="", disabled=True)
        assert opened.write(people.update_user, "ann", admin=False, disabled=False).admin is False

    def test_a_password_is_set_and_taken_away(self, opened: Opened) -> None:
        self._people(opened, "ann")
        opened.write(people.set_password_hash, "ann", "new")
        assert opened.read(people.load_password_hash, "ann") == "new"
        opened.write(people.set_password_hash, "ann", None)
        assert opened.read(people.load_password_hash, "ann") is None
        assert opened.read(people.load_password_hash, "nobody") is None

    def test_what_is_not_there_cannot_be_changed(self, opened: Opened) -> None:
        for write in (
            lambda: opened.write(people.update_user, "no", admin=True),
            lambda: opened.write(people.set_password_hash, "no", "x"),
            lambda: opened.write(people.delete_user, "no"),
            lambda: opened.write(people.update_group, group=RED),
            lambda: opened.write(people.delete_group, "no"),
            lambda: opened.write(people.set_group_member, "no", "no", admin=False),
        ):
            with pytest.raises(NotFound):
                write()
        for name in ("no", "", "a\0b", "\ud800"):
            assert opened.read(people.get_user, name) is None
            assert opened.read(people.get_group, name) is None

    def test_a_deleted_user_leaves_groups_and_tokens(self, opened: Opened) -> None:
        opened.write(people.create_group, group=RED)
        self._people(opened, "ann", "bob", groups={"red": False})
        self._token(opened, "t1", "ann")
        opened.write(people.delete_user, "ann")
        assert opened.read(people.get_user, "ann") is None
        group = opened.read(people.get_group, "red")
        assert group is not None
        assert group.members == {"bob": False}
        assert opened.read(tokens.load_token_with_owner, "t1") is None

    # -- groups

    def test_a_group_is_kept_whole(self, opened: Opened) -> None:
        self._people(opened, "ann", "bob")
        red = replace(RED, members={"ann": True, "bob": False})
        opened.write(people.create_group, group=red)
        opened.write(people.create_group, group=Group(name="blue"))
        assert opened.read(people.get_group, "red") == red
        assert opened.read(people.list_groups) == [Group(name="blue"), red]
        with pytest.raises(Conflict, match="Group red already exists"):
            opened.write(people.create_group, group=RED)

    def test_a_changed_group_keeps_its_members(self, opened: Opened) -> None:
        self._people(opened, "ann")
        opened.write(people.create_group, group=replace(RED, members={"ann": True}))
        opened.write(people.update_group, group=Group(name="red", description="new"))
        expected = Group(name="red", description="new", members={"ann": True})
        assert opened.read(people.get_group, "red") == expected

    def test_members_come_rise_and_go(self, opened: Opened) -> None:
        opened.write(people.create_group, group=RED)
        self._people(opened, "ann")
        opened.write(people.set_group_member, "red", "ann", admin=False)
        opened.write(people.set_group_member, "red", "ann", admin=True)
        user = opened.read(people.get_user, "ann")
        assert user is not None
        assert user.groups == {"red": True}
        assert opened.write(people.remove_group_member, "red", "ann") is True
        assert opened.write(people.remove_group_member, "red", "ann") is False
        with pytest.raises(NotFound, match="User bob not found"):
            opened.write(people.set_group_member, "red", "bob", admin=False)

    def test_a_deleted_group_lets_its_members_go(self, opened: Opened) -> None:
        opened.write(people.create_group, group=RED)
        self._people(opened, "ann", groups={"red": True})
        opened.write(people.delete_group, "red")
        assert opened.read(people.get_user, "ann") == a_user("ann")

    # -- tokens

    def test_a_token_leads_to_its_user_and_keeps_no_secret(self, opened: Opened) -> None:
        self._people(opened, "ann")
        token = self._token(opened, "t1", "ann", secret="s3cret")
        found = opened.read(tokens.load_token_with_owner, "t1")
        assert found == (tokens.hash_secret("s3cret"), token, a_user("ann"))
        assert "s3cret" not in repr(found)
        for id in ("t2", "", "a\0", "\ud800"):
            assert opened.read(tokens.load_token_with_owner, id) is None

    def test_a_token_needs_a_user(self, opened: Opened) -> None:
        with pytest.raises(NotFound, match="User ann not found"):
            self._token(opened, "t1", "ann")

    def test_tokens_are_listed_touched_and_deleted(self, opened: Opened) -> None:
        self._people(opened, "ann", "bob")
        for number, user in enumerate(("ann", "ann", "bob")):
            self._token(opened, f"t{number}", user, created_at=later(hours=number))
        opened.write(tokens.record_token_use, "t0", later(days=1))
        listed = opened.read(tokens.list_tokens, "ann")
        assert [(token.id, token.last_used_at) for token in listed] == [("t1", None), ("t0", later(days=1))]
        assert opened.write(tokens.delete_token, "t0") is True
        assert opened.write(tokens.delete_token, "t0") is False
        assert opened.write(tokens.delete_user_tokens, "ann") == 1
        assert [token.id for token in opened.read(tokens.list_tokens, "bob")] == ["t2"]

    def test_expired_tokens_are_cleared_away(self, opened: Opened) -> None:
        self._people(opened, "ann")
        self._token(opened, "forever", "ann")
        self._token(opened, "old", "ann", expires_at=later(hours=1))
        self._token(opened, "new", "ann", expires_at=later(hours=3))
        assert opened.write(tokens.delete_expired_tokens, later(hours=2)) == 1
        assert {token.id for token in opened.read(tokens.list_tokens, "ann")} == {"forever", "new"}

    # -- helpers

    @staticmethod
    def _people(opened: Opened, *names: str, **more: object) -> None:
        for name in names:
            opened.write(people.create_user, user=a_user(name, **more), password_hash=None)

    @staticmethod
    def _token(opened: Opened, id: str, user: str, secret: str = "x", **more: object) -> Token:
        values = {"created_at": NOW, "expires_at": None, "last_used_at": None, **more}
        token = Token(id=id, user=user, name=f"token {id}", **values)
        opened.write(tokens.create_token, token=token, secret_hash=tokens.hash_secret(secret))
        return token
