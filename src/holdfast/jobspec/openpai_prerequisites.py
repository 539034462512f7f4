"""OpenPAI's prerequisites: named images, scripts, data and outputs that task roles refer to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from holdfast.core.messages import msg

from .fields import FieldKind, Fields, FieldValue, InvalidValue, build_name_hint, describe_node
from .kinds import ANY_KIND, OBJECT_KIND, make_choice_kind, make_list_kind, make_text_kind, read_text_scalar
from .paths import clip_text
from .rules import IMAGE_KIND
from .templates import PASSWORDS_KEY, format_secret_reference, list_secret_references

NAME_KIND = make_text_kind(
    most=255, pattern=r"^[a-zA-Z0-9_-]+$", rule=msg("must contain only letters, digits, _ and -")
)
LABEL_KIND = make_text_kind(least=0)
DOCKER_HUB_URL = "https://index.docker.io/v1/"
PLUGIN_PREFIX = "com.microsoft.pai.runtimeplugin"
SUPPORTED_PLUGINS = ("cmd", "git", "ssh", "tensorboard", "teamwise_storage")

_PREREQUISITE_TYPES = ("dockerimage", "script", "output", "data")
_TYPE_KIND = make_choice_kind(*_PREREQUISITE_TYPES)
_STRINGS_KIND = make_list_kind(LABEL_KIND)
_URIS_KIND: FieldKind[Any] = _STRINGS_KIND


def _read_version(at: FieldValue) -> str | float:
    value = at.node.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue(
            msg("must be a string or a number, not {node}", node=describe_node(at.node)),
            rule="type",
            expected="string,number",
        )
    return value


VERSION_KIND = FieldKind(_read_version, {"type": ["string", "number"]})


@dataclass(frozen=True, slots=True)
class Prerequisite:
    type: str
    name: str
    values: dict[str, Any]  # as written
    uri: str = ""  # dockerimage only
    auth: dict[str, str] = field(default_factory=dict)  # dockerimage only


class Prerequisites:
    """Prerequisites by type and name: an image and a script can have the same name."""

    def __init__(self, items: Iterable[Prerequisite] = ()) -> None:
        self.by_key = {(item.type, item.name): item for item in items}

    def get_by_type(self, kind: str, at: FieldValue) -> Prerequisite:
        name = read_text_scalar(at)
        if (kind, name) not in self.by_key:
            raise _build_missing_error(name, (other for type_, other in self.by_key if type_ == kind))
        return self.by_key[kind, name]

    def list_by_name(self, at: FieldValue) -> list[Prerequisite]:
        name = read_text_scalar(at)
        found = [self.by_key[kind, name] for kind in _PREREQUISITE_TYPES if (kind, name) in self.by_key]
        if not found:
            raise _build_missing_error(name, (other for _, other in self.by_key))
        return found


def read_prerequisites(at: FieldValue) -> Prerequisites:
    found = Prerequisites()
    items = at.list_items()
    if not items:
        raise InvalidValue(msg("must have at least one item"), rule="minItems", expected=1)
    for item in items:
        prerequisite = item.apply_reader(_read_prerequisite, None)
        if prerequisite is None:
            continue
        key = prerequisite.type, prerequisite.name
        if key in found.by_key:
            message = msg("Duplicate {type} prerequisites {name}.", type=prerequisite.type, name=prerequisite.name)
            item.add_problem(message, rule="uniqueNames", expected=prerequisite.name)
        found.by_key[key] = prerequisite
    return found


def _read_prerequisite(at: FieldValue) -> Prerequisite | None:
    fields = Fields(at)
    type_ = fields.read_required("type", _TYPE_KIND, None)
    name = fields.read_required("name", NAME_KIND, "")
    fields.read_optional("protocolVersion", ANY_KIND, None)
    fields.read_optional("version", VERSION_KIND, None)
    for key in ("contributor", "description"):
        fields.read_optional(key, LABEL_KIND, None)
    if type_ is None:
        return None
    if type_ == "dockerimage":
        uri, auth = fields.read_required("uri", IMAGE_KIND, ""), fields.read_optional("auth", _AUTH_KIND, {})
        fields.report_unknown_keys()
        return Prerequisite(type_, name, OBJECT_KIND.read(at), uri, auth)
    fields.read_optional("uri", _URIS_KIND if type_ == "data" else LABEL_KIND, None)
    plugin = fields.get_field("plugin")
    if plugin is not None and plugin.read_as_kind(LABEL_KIND, "").startswith(f"{PLUGIN_PREFIX}."):
        warn_unknown_plugin(plugin, read_text_scalar(plugin).removeprefix(f"{PLUGIN_PREFIX}."))
    fields.read_optional("require", _STRINGS_KIND, None)
    return Prerequisite(type_, name, OBJECT_KIND.read(at))


def _read_auth(at: FieldValue) -> dict[str, str]:
    """Read credentials; messages never show the password."""
    fields = Fields(at)
    auth = {"registryuri": fields.read_optional("registryuri", LABEL_KIND, DOCKER_HUB_URL)}
    username = fields.read_optional("username", LABEL_KIND, None)
    password = fields.get_field("password")
    if username is not None:
        auth["username"] = username
    if password is not None:
        if isinstance(password.node.value, dict | list):
            password.add_problem(msg("must be text"), rule="type", expected="string")
        else:
            auth["password"] = _read_password(password)
    fields.report_unknown_keys()
    return auth


def _read_password(at: FieldValue) -> str:
    password = read_text_scalar(at)
    if not list_secret_references(password):
        at.add_warning(
            msg("is plain text; it is stored as a secret"),
            msg("Move it to secrets and write <% $secrets.name %> instead."),
        )
    return password


_AUTH_KIND = FieldKind(_read_auth, {})


def move_passwords_to_secrets(prerequisites: Prerequisites, secrets: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the registries by image. Plain-text passwords are moved to `secrets`."""
    registries: dict[str, dict[str, str]] = {}
    hidden = PASSWORDS_KEY
    while hidden in secrets:
        hidden += "_"
    for (type_, name), item in prerequisites.by_key.items():
        if type_ != "dockerimage" or not item.auth:
            continue
        password = item.auth.get("password")
        if password and not list_secret_references(password):
            secrets.setdefault(hidden, {})[name] = password
            item.auth["password"] = format_secret_reference(hidden, name)
        if "password" in item.auth:
            item.values["auth"] = {**item.values["auth"], "password": item.auth["password"]}
        registries[name] = item.auth
    return registries


def build_plugin_call(item: Prerequisite) -> dict[str, Any] | None:
    """Build the plugin call of a prerequisite, for each role that lists it."""
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


def warn_unknown_plugin(at: FieldValue, name: Any) -> None:
    """Warn that its tasks will fail, as with OpenPAI, unless the file ignores it."""
    if isinstance(name, str) and name not in SUPPORTED_PLUGINS:
        message = msg(
            "uses the runtime plugin {name}, which is not available: its tasks fail", name=repr(clip_text(name))
        )
        at.add_warning(
            msg("{detail} unless failurePolicy is ignore", detail=message),
            partial(build_name_hint, name, SUPPORTED_PLUGINS),
        )


def _build_missing_error(name: str, known: Iterable[str]) -> InvalidValue:
    message = msg("Prerequisite {name} does not exist.", name=clip_text(name))
    return InvalidValue(
        message, lambda: build_name_hint(name, list(islice(known, 100))), rule="reference", expected=name
    )
