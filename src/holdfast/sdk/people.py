"""Calls about who may do what: logins, users, groups, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.groups import Group, Mlflow
from holdfast.api.people import Login, Me, NewToken, Token, User
from holdfast.api.resources import Quota

from .exchange import Call, Reply, as_a, as_items, as_nothing, call, endpoint, given, parse, segment
from .reading import dump

UNCHANGED: Any = object()  # for fields where None means something


class PeopleCalls:
    @endpoint
    def login(self, user: str, password: str, *, device: str = "") -> Call[Login]:
        """A token for a user and password. It is not kept: make a client with it. `device`: what an earlier login
        from here answered with, so that failed logins of other clients do not hold up this one."""
        body = {"user": user, "password": password, **({"device": device} if device else {})}
        return call("POST", "/login", as_a(Login), body=body, repeatable=True)

    @endpoint
    def logout(self) -> Call[None]:
        """End the login whose token this client uses."""
        return call("POST", "/logout", as_nothing)

    @endpoint
    def me(self) -> Call[Me]:
        """Who this client is to the server."""
        return call("GET", "/me", as_a(Me))

    @endpoint
    def change_my_password(self, old: str, new: str) -> Call[None]:
        return call("PUT", "/me/password", as_nothing, body={"old": old, "new": new}, repeatable=False)

    @endpoint
    def users(self) -> Call[tuple[User, ...]]:
        return call("GET", "/users", as_items(User))

    @endpoint
    def user(self, name: str) -> Call[User]:
        return call("GET", _user(name), as_a(User))

    @endpoint
    def add_user(
        self,
        name: str,
        password: str | None = None,
        *,
        admin: bool = False,
        email: str | None = None,
        groups: Mapping[str, bool] | None = None,
    ) -> Call[User]:
        """A new user. `groups` maps each of their groups to whether they are its admin; by default the group `default`.
        Without a password they can only use tokens."""
        body = given(name=name, password=password, admin=admin, email=email, groups=groups)
        return call("POST", "/users", as_a(User), body=body)

    @endpoint
    def change_user(
        self, name: str, *, admin: bool | None = None, email: str | None = None, disabled: bool | None = None
    ) -> Call[User]:
        body = given(admin=admin, email=email, disabled=disabled)
        return call("PATCH", _user(name), as_a(User), body=body, repeatable=True)

    @endpoint
    def remove_user(self, name: str) -> Call[None]:
        return call("DELETE", _user(name), as_nothing)

    @endpoint
    def set_password(self, name: str, password: str) -> Call[None]:
        """Set another user's password, as an admin."""
        return call("PUT", f"{_user(name)}/password", as_nothing, body={"password": password})

    @endpoint
    def tokens(self) -> Call[tuple[Token, ...]]:
        return call("GET", "/tokens", as_items(Token))

    @endpoint
    def add_token(self, name: str, *, expires_in: float | None = None, user: str | None = None) -> Call[NewToken]:
        """A new token for scripts; `expires_in` seconds from now, or never. Its text is told this once."""
        body = given(name=name, expires_in=expires_in, user=user)
        return call("POST", "/tokens", as_a(NewToken), body=body)

    @endpoint
    def remove_token(self, id: str) -> Call[None]:
        return call("DELETE", f"/tokens/{segment(id)}", as_nothing)

    @endpoint
    def groups(self) -> Call[tuple[Group, ...]]:
        return call("GET", "/groups", as_items(Group))

    @endpoint
    def group(self, name: str) -> Call[Group]:
        return call("GET", _group(name), as_a(Group))

    @endpoint
    def add_group(
        self,
        name: str,
        *,
        description: str | None = None,
        quota: Quota | None = None,
        user_quota: Quota | None = None,
        time_limit: float | None = None,
        display_name: str | None = None,
        shared_volume: bool | None = None,
        volume_capacity: int | None = None,
        launch_only: bool | None = None,
        home_symlink: bool | None = None,
        hold: str | None = None,
    ) -> Call[Group]:
        body = given(
            name=name,
            display_name=display_name,
            description=description,
            shared_volume=shared_volume,
            volume_capacity=volume_capacity,
            launch_only=launch_only,
            home_symlink=home_symlink,
            quota=dump(quota),
            user_quota=dump(user_quota),
            time_limit=time_limit,
            hold=hold,
        )
        return call("POST", "/groups", as_a(Group), body=body)

    @endpoint
    def change_group(
        self,
        name: str,
        *,
        description: str | None = None,
        quota: Quota | None = None,
        user_quota: Quota | None = None,
        time_limit: float | None = UNCHANGED,
        display_name: str | None = None,
        shared_volume: bool | None = None,
        volume_capacity: int | None = UNCHANGED,
        launch_only: bool | None = None,
        home_symlink: bool | None = None,
        hold: str | None = UNCHANGED,
    ) -> Call[Group]:
        """Change what is given. A quota is replaced as a whole; `time_limit=None` goes back to the admin's default, and
        `hold=None` keeps no failed tasks of jobs that do not say."""
        body = given(
            display_name=display_name,
            description=description,
            quota=dump(quota),
            user_quota=dump(user_quota),
            shared_volume=shared_volume,
            launch_only=launch_only,
            home_symlink=home_symlink,
        )
        none_means = {"time_limit": time_limit, "volume_capacity": volume_capacity, "hold": hold}
        body |= {key: value for key, value in none_means.items() if value is not UNCHANGED}
        return call("PATCH", _group(name), as_a(Group), body=body, repeatable=True)

    @endpoint
    def mlflow(self, group: str) -> Call[Mlflow | None]:
        """Where a group's jobs report their experiments; None: nowhere that the group was told of."""
        return call("GET", f"{_group(group)}/mlflow", _as_mlflow)

    @endpoint
    def set_mlflow(
        self,
        group: str,
        tracking_uri: str,
        *,
        ui_url: str | None = None,
        tracking_envs: Mapping[str, str] | None = None,
        artifact_envs: Mapping[str, str] | None = None,
    ) -> Call[None]:
        """All of it, for jobs that start from now on."""
        body = given(tracking_uri=tracking_uri, ui_url=ui_url, tracking_envs=tracking_envs, artifact_envs=artifact_envs)
        return call("PUT", f"{_group(group)}/mlflow", as_nothing, body=body)

    @endpoint
    def remove_mlflow(self, group: str) -> Call[None]:
        return call("DELETE", f"{_group(group)}/mlflow", as_nothing)

    @endpoint
    def remove_group(self, name: str) -> Call[None]:
        return call("DELETE", _group(name), as_nothing)

    @endpoint
    def set_member(self, group: str, user: str, *, admin: bool = False) -> Call[None]:
        """Make a user a member of a group, or change whether they are its admin."""
        return call("PUT", f"{_group(group)}/members/{segment(user)}", as_nothing, body={"admin": admin})

    @endpoint
    def remove_member(self, group: str, user: str) -> Call[None]:
        return call("DELETE", f"{_group(group)}/members/{segment(user)}", as_nothing)


def _as_mlflow(reply: Reply) -> Mlflow | None:
    return None if parse(reply) is None else as_a(Mlflow)(reply)


def _user(name: str) -> str:
    return f"/users/{segment(name)}"


def _group(name: str) -> str:
    return f"/groups/{segment(name)}"
