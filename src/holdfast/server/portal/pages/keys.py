"""One's own SSH keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.services.people.ssh_keys import SshKey

from ..forms import Form
from ..routes import act, page
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPage:
    keys: Sequence[SshKey]
    title: str = ""
    value: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_keys(visit: Visit) -> Response:
    return await visit.show("me/keys.html", KeysPage(keys=await visit.services.keys.list(visit.who)))


async def add_key(visit: Visit, form: Form) -> Response:
    title, value = form.text("title"), form.text("value")
    try:
        made = await visit.services.keys.add(visit.who, value, title=title)
    except UserError as error:
        kept = "" if "PRIVATE KEY" in value else value[:20_000]  # such a thing goes back to nobody
        found = KeysPage(
            keys=await visit.services.keys.list(visit.who),
            title=title[:200],
            value=kept,
            problems={error.field if error.field in ("title", "value") else "value": visit.tell_error(error)},
        )
        return await visit.show("me/keys.html", found, 400)
    return visit.go("/me/keys", visit.say("The key {name} is added.", name=made.title))


async def remove_key(visit: Visit, form: Form) -> Response:
    removed = await visit.services.keys.remove(visit.who, visit.request.path_params["id"])
    return visit.go("/me/keys", visit.say("The key {name} is removed.", name=removed.title))


routes = [
    page("/me/keys", show_keys),
    act("/me/keys", add_key),
    act("/me/keys/{id}/remove", remove_key),
]
