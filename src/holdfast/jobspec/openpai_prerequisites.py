"""OpenPAI's prerequisites: named images, scripts, data and outputs that task roles refer to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from holdfast.core.messages import msg

from .fields import At, Fields, Kind, Wrong, describe, guess, guess_or_list, list_known
from .kinds import ANYTHING, OBJECT, choice, list_of, spelled, text
from .paths import clip
from .rules import IMAGE
from .templates import PASSWORDS, secret_reference, secrets_in

NAME = text(most=255, pattern=r"^[a-zA-Z0-9_-]+$", rule=msg("must be made of letters, digits, _ and -"))
LABEL = text(least=0)
DOCKER_HUB = "https://index.docker.io/v1/"
PLUGIN_PREFIX = "com.microsoft.pai.runtimeplugin"
PLUGINS = ("cmd", "git", "ssh", "tensorboard", "teamwise_storage")

_TYPES = ("dockerimage", "script", "output", "data")
_TYPE = choice(*_TYPES)
_STRINGS = list_of(LABEL)
_URIS: Kind[Any] = _STRINGS


def _read_version(at: At) -> str | float:
    value = at.node.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Wrong(
            msg("must be text or a number, not {node}", node=describe(at.node)), rule="type", expected="string,number"
        )
    return value


VERSION = Kind(_read_version, {"type": ["string", "number"]})


@dataclass(frozen=True, slots=True)
class Prerequisite:
    type: str
    name: str
    values: dict[str, Any]  # as written
    uri: str = ""  # dockerimage only
    auth: dict[str, str] = field(default_factory=dict)  # dockerimage only


class Prerequisites:
    """By type and name: the same name may stand for an image and for a script."""

    def __init__(self, items: Iterable[Prerequisite] = ()) -> None:
        self.all = {(item.type, item.name): item for item in items}

    def find(self, kind: str, at: At) -> Prerequisite:
        name = spelled(at)
        if (kind, name) not in self.all:
            known = (other for type_, other in self.all if type_ == kind)
            raise _dangling(name, known)
        return self.all[kind, name]

    def find_any(self, at: At) -> list[Prerequisite]:
        name = spelled(at)
        found = [self.all[kind, name] for kind in _TYPES if (kind, name) in self.all]
        if not found:
            known = (other for _, other in self.all)
            raise _dangling(name, known)
        return found


def read_prerequisites(at: At) -> Prerequisites:
    found = Prerequisites()
    items = at.items()
    if not items:
        raise Wrong(msg("must have at least one item"), rule="minItems", expected=1)
    for item in items:
        prerequisite = item.apply(_read_one, None)
        if prerequisite is None:
            continue
        key = prerequisite.type, prerequisite.name
        if key in found.all:
            said = msg("Duplicate {type} prerequisites {name}.", type=prerequisite.type, name=prerequisite.name)
            item.problem(said, rule="uniqueNames", expected=prerequisite.name)
        found.all[key] = prerequisite
    return found


def _read_one(at: At) -> Prerequisite | None:
    fields = Fields(at)
    type_ = fields.need("type", _TYPE, None)
    name = fields.need("name", NAME, "")
    fields.take("protocolVersion", ANYTHING, None)
    fields.take("version", VERSION, None)
    for key in ("contributor", "description"):
        fields.take(key, LABEL, None)
    if type_ is None:
        return None
    if type_ == "dockerimage":
        uri, auth = fields.need("uri", IMAGE, ""), fields.take("auth", _AUTH, {})
        fields.close()
        return Prerequisite(type_, name, OBJECT.read(at), uri, auth)
    fields.take("uri", _URIS if type_ == "data" else LABEL, None)
    plugin = fields.get("plugin")
    if plugin is not None and plugin.read(LABEL, "").startswith(f"{PLUGIN_PREFIX}."):
        warn_of_unknown_plugin(plugin, spelled(plugin).removeprefix(f"{PLUGIN_PREFIX}."))
    fields.take("require", _STRINGS, None)
    return Prerequisite(type_, name, OBJECT.read(at))


def _read_auth(at: At) -> dict[str, str]:
    """Messages about a password never show it."""
    fields = Fields(at)
    auth = {"registryuri": fields.take("registryuri", LABEL, DOCKER_HUB)}
    username = fields.take("username", LABEL, None)
    password = fields.get("password")
    if username is not None:
        auth["username"] = username
    if password is not None:
        if isinstance(password.node.value, dict | list):
            password.problem(msg("must be text"), rule="type", expected="string")
        else:
            auth["password"] = _read_password(password)
    fields.close()
    return auth


def _read_password(at: At) -> str:
    password = spelled(at)
    if not secrets_in(password):
        at.warn(
            msg("is written in the open; it is kept as a secret"), msg("Write <% $secrets.name %> and put it there.")
        )
    return password


_AUTH = Kind(_read_auth, {})


def hide_passwords(prerequisites: Prerequisites, secrets: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The registries of the job's images, by image. Passwords in the open move into `secrets`."""
    registries: dict[str, dict[str, str]] = {}
    hidden = PASSWORDS
    while hidden in secrets:
        hidden += "_"
    for (type_, name), item in prerequisites.all.items():
        if type_ != "dockerimage" or not item.auth:
            continue
        password = item.auth.get("password")
        if password and not secrets_in(password):
            secrets.setdefault(hidden, {})[name] = password
            item.auth["password"] = secret_reference(hidden, name)
        if "password" in item.auth:
            item.values["auth"] = {**item.values["auth"], "password": item.auth["password"]}
        registries[name] = item.auth
    return registries


def plugin_call(item: Prerequisite) -> dict[str, Any] | None:
    """A prerequisite with a runtime plugin is a call of it in each role that lists it."""
    plugin = item.values.get("plugin")
    if not isinstance(plugin, str) or not plugin.startswith(f"{PLUGIN_PREFIX}."):
        return None
    own = ("plugin", "type", "failurePolicy")
    return {
        "plugin": plugin.removeprefix(f"{PLUGIN_PREFIX}."),
        "parameters": {key: value for key, value in item.values.items() if key not in own},
        "failurePolicy": item.values.get("failurePolicy", "fail"),
        "taskroles": [],
        "prerequisite": item.name,
    }


def warn_of_unknown_plugin(at: At, name: Any) -> None:
    """Its tasks fail, unless the file says to ignore that, as they did with OpenPAI."""
    if isinstance(name, str) and name not in PLUGINS:
        said = msg(
            "names the runtime plugin {name}, which there is none of here: its tasks will fail", name=repr(clip(name))
        )
        at.warn(msg("{said} unless failurePolicy is ignore", said=said), partial(guess_or_list, name, PLUGINS))


def _dangling(name: str, known: Iterable[str]) -> Wrong:
    said = msg("Prerequisite {name} does not exist.", name=clip(name))
    return Wrong(said, partial(_known, name, known), rule="reference", expected=name)


def _known(name: str, known: Iterable[str]) -> str | None:
    names = list(islice(known, 100))
    return guess(name, names) or (list_known(names) if names else None)
