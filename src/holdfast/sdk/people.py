"""Calls about logins, users, groups and tokens."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .calls import Call, Reply, build_call, build_path, drop_none, endpoint, ignore_body, make_list_parser, parse_json
from .json_conversion import from_json


class PeopleCalls:
    @endpoint
    def login(self, user: str, password: str, *, device: str = "") -> Call[api.people.Login]:
        """Return a token for a user and password. It is not saved: create a client with it. `device`: from an earlier
        login of this client, so that failed logins of other clients do not block it."""
        body = api.people.Credentials(user=user, password=password, device=device)
        return build_call("POST", "/login", api.people.Login, body=body, repeatable=True)

    @endpoint
    def logout(self) -> Call[None]:
        """Revoke the login token of this client."""
        return build_call("POST", "/logout", ignore_body)

    @endpoint
    def get_current_user(self) -> Call[api.people.Me]:
        """Return the user of this client."""
        return build_call("GET", "/me", api.people.Me)

    @endpoint
    def change_my_password(self, old: str, new: str) -> Call[None]:
        return build_call(
            "PUT", "/me/password", ignore_body, body=api.people.PasswordChange(old=old, new=new), repeatable=False
        )

    @endpoint
    def list_users(self) -> Call[tuple[api.people.User, ...]]:
        return build_call("GET", "/users", make_list_parser(api.people.User))

    @endpoint
    def get_user(self, name: str) -> Call[api.people.User]:
        return build_call("GET", build_path("users", name), api.people.User)

    @endpoint
    def add_user(
        self, name: str, password: str | None = None, **fields: Unpack[api.people.NewUserFields]
    ) -> Call[api.people.User]:
        """Add a user. `groups` maps groups to whether the user is an admin; default: the group `default`. Without a
        password, only tokens work."""
        return build_call("POST", "/users", api.people.User, body=drop_none(name=name, password=password, **fields))

    @endpoint
    def change_user(self, name: str, **fields: Unpack[api.people.UserChange]) -> Call[api.people.User]:
        return build_call("PATCH", build_path("users", name), api.people.User, body=fields, repeatable=True)

    @endpoint
    def remove_user(self, name: str) -> Call[None]:
        return build_call("DELETE", build_path("users", name), ignore_body)

    @endpoint
    def set_password(self, name: str, password: str) -> Call[None]:
        """Set the password of another user; admins only."""
        return build_call(
            "PUT", build_path("users", name, "password"), ignore_body, body=api.people.NewPassword(password=password)
        )

    @endpoint
    def list_tokens(self) -> Call[tuple[api.people.Token, ...]]:
        return build_call("GET", "/tokens", make_list_parser(api.people.Token))

    @endpoint
    def add_token(self, name: str, **fields: Unpack[api.people.TokenFields]) -> Call[api.people.CreatedToken]:
        """Create an API token that expires in `expires_in` seconds, or never. It is returned only once."""
        return build_call("POST", "/tokens", api.people.CreatedToken, body=drop_none(name=name, **fields))

    @endpoint
    def remove_token(self, id: str) -> Call[None]:
        return build_call("DELETE", build_path("tokens", id), ignore_body)

    @endpoint
    def list_groups(self) -> Call[tuple[api.groups.Group, ...]]:
        return build_call("GET", "/groups", make_list_parser(api.groups.Group))

    @endpoint
    def get_group(self, name: str) -> Call[api.groups.Group]:
        return build_call("GET", build_path("groups", name), api.groups.Group)

    @endpoint
    def add_group(self, name: str, **fields: Unpack[api.groups.GroupFields]) -> Call[api.groups.Group]:
        return build_call("POST", "/groups", api.groups.Group, body=drop_none(name=name, **fields))

    @endpoint
    def change_group(self, name: str, **fields: Unpack[api.groups.GroupFields]) -> Call[api.groups.Group]:
        """Change the given fields. A quota is replaced as a whole. `time_limit=None`: the server's default.
        `hold=None`: no default hold."""
        return build_call("PATCH", build_path("groups", name), api.groups.Group, body=fields, repeatable=True)

    @endpoint
    def get_mlflow(self, group: str) -> Call[api.groups.Mlflow | None]:
        """Return the MLflow configuration of a group; None: not set."""
        return build_call("GET", build_path("groups", group, "mlflow"), _parse_mlflow)

    @endpoint
    def set_mlflow(self, group: str, tracking_uri: str, **fields: Unpack[api.groups.MlflowFields]) -> Call[None]:
        """Replace the MLflow configuration of a group, for new jobs."""
        body = drop_none(tracking_uri=tracking_uri, **fields)
        return build_call("PUT", build_path("groups", group, "mlflow"), ignore_body, body=body)

    @endpoint
    def remove_mlflow(self, group: str) -> Call[None]:
        return build_call("DELETE", build_path("groups", group, "mlflow"), ignore_body)

    @endpoint
    def remove_group(self, name: str) -> Call[None]:
        return build_call("DELETE", build_path("groups", name), ignore_body)

    @endpoint
    def set_member(self, group: str, user: str, *, admin: bool = False) -> Call[None]:
        """Add a member to a group, or change their admin role."""
        return build_call(
            "PUT", build_path("groups", group, "members", user), ignore_body, body=api.groups.Membership(admin=admin)
        )

    @endpoint
    def remove_member(self, group: str, user: str) -> Call[None]:
        return build_call("DELETE", build_path("groups", group, "members", user), ignore_body)


def _parse_mlflow(reply: Reply) -> api.groups.Mlflow | None:
    found = parse_json(reply)
    return None if found is None else from_json(api.groups.Mlflow, found)
