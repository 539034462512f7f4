"""Calls about who may do what: logins, users, groups, tokens."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .exchange import Call, Reply, as_a, as_items, as_nothing, call, endpoint, given, parse, segment


class PeopleCalls:
    @endpoint
    def login(self, user: str, password: str, *, device: str = "") -> Call[api.people.Login]:
        """A token for a user and password. It is not kept: make a client with it. `device`: what an earlier login
        from here answered with, so that failed logins of other clients do not hold up this one."""
        body = api.people.Credentials(user=user, password=password, device=device)
        return call("POST", "/login", as_a(api.people.Login), body=body, repeatable=True)

    @endpoint
    def logout(self) -> Call[None]:
        """End the login whose token this client uses."""
        return call("POST", "/logout", as_nothing)

    @endpoint
    def me(self) -> Call[api.people.Me]:
        """Who this client is to the server."""
        return call("GET", "/me", as_a(api.people.Me))

    @endpoint
    def change_my_password(self, old: str, new: str) -> Call[None]:
        return call(
            "PUT", "/me/password", as_nothing, body=api.people.PasswordChange(old=old, new=new), repeatable=False
        )

    @endpoint
    def users(self) -> Call[tuple[api.people.User, ...]]:
        return call("GET", "/users", as_items(api.people.User))

    @endpoint
    def user(self, name: str) -> Call[api.people.User]:
        return call("GET", _user(name), as_a(api.people.User))

    @endpoint
    def add_user(
        self, name: str, password: str | None = None, **fields: Unpack[api.people.NewUserFields]
    ) -> Call[api.people.User]:
        """A new user. `groups` maps each of their groups to whether they are its admin; by default the group `default`.
        Without a password they can only use tokens."""
        return call("POST", "/users", as_a(api.people.User), body=given(name=name, password=password, **fields))

    @endpoint
    def change_user(self, name: str, **fields: Unpack[api.people.UserChange]) -> Call[api.people.User]:
        return call("PATCH", _user(name), as_a(api.people.User), body=fields, repeatable=True)

    @endpoint
    def remove_user(self, name: str) -> Call[None]:
        return call("DELETE", _user(name), as_nothing)

    @endpoint
    def set_password(self, name: str, password: str) -> Call[None]:
        """Set another user's password, as an admin."""
        return call("PUT", f"{_user(name)}/password", as_nothing, body=api.people.NewPassword(password=password))

    @endpoint
    def tokens(self) -> Call[tuple[api.people.Token, ...]]:
        return call("GET", "/tokens", as_items(api.people.Token))

    @endpoint
    def add_token(self, name: str, **fields: Unpack[api.people.TokenFields]) -> Call[api.people.NewToken]:
        """A new token for scripts; `expires_in` seconds from now, or never. Its text is told this once."""
        return call("POST", "/tokens", as_a(api.people.NewToken), body=given(name=name, **fields))

    @endpoint
    def remove_token(self, id: str) -> Call[None]:
        return call("DELETE", f"/tokens/{segment(id)}", as_nothing)

    @endpoint
    def groups(self) -> Call[tuple[api.groups.Group, ...]]:
        return call("GET", "/groups", as_items(api.groups.Group))

    @endpoint
    def group(self, name: str) -> Call[api.groups.Group]:
        return call("GET", _group(name), as_a(api.groups.Group))

    @endpoint
    def add_group(self, name: str, **fields: Unpack[api.groups.GroupFields]) -> Call[api.groups.Group]:
        return call("POST", "/groups", as_a(api.groups.Group), body=given(name=name, **fields))

    @endpoint
    def change_group(self, name: str, **fields: Unpack[api.groups.GroupFields]) -> Call[api.groups.Group]:
        """Change what is given. A quota is replaced as a whole; `time_limit=None` goes back to the admin's default, and
        `hold=None` keeps no failed tasks of jobs that do not say."""
        return call("PATCH", _group(name), as_a(api.groups.Group), body=fields, repeatable=True)

    @endpoint
    def mlflow(self, group: str) -> Call[api.groups.Mlflow | None]:
        """Where a group's jobs report their experiments; None: nowhere that the group was told of."""
        return call("GET", f"{_group(group)}/mlflow", _as_mlflow)

    @endpoint
    def set_mlflow(self, group: str, tracking_uri: str, **fields: Unpack[api.groups.MlflowFields]) -> Call[None]:
        """All of it, for jobs that start from now on."""
        body = given(tracking_uri=tracking_uri, **fields)
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
        return call(
            "PUT", f"{_group(group)}/members/{segment(user)}", as_nothing, body=api.groups.Membership(admin=admin)
        )

    @endpoint
    def remove_member(self, group: str, user: str) -> Call[None]:
        return call("DELETE", f"{_group(group)}/members/{segment(user)}", as_nothing)


def _as_mlflow(reply: Reply) -> api.groups.Mlflow | None:
    return None if parse(reply) is None else as_a(api.groups.Mlflow)(reply)


def _user(name: str) -> str:
    return f"/users/{segment(name)}"


def _group(name: str) -> str:
    return f"/groups/{segment(name)}"
