"""SSH keys of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.services.people.ssh_keys import SshKey

from ..forms import Form
from ..routes import build_form_route, build_page_route
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPage:
    keys: Sequence[SshKey]
    title: str = ""
    value: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_keys(visit: Visit) -> Response:
    return await visit.render_response(
        "me/keys.html", KeysPage(keys=await visit.services.keys.list(visit.current_actor))
    )


async def add_key(visit: Visit, form: Form) -> Response:
    title, value = form.get_text("title"), form.get_text("value")
    try:
        made = await visit.services.keys.add(visit.current_actor, value, title=title)
    except UserError as error:
        kept = "" if "PRIVATE KEY" in value else value[:20_000]  # never send a private key back
        found = KeysPage(
            keys=await visit.services.keys.list(visit.current_actor),
            title=title[:200],
            value=kept,
            problems={error.field if error.field in ("title", "value") else "value": visit.translate_error(error)},
        )
        return await visit.render_response("me/keys.html", found, 400)
    return visit.redirect("/me/keys", visit.translate_text("The key {name} was added.", name=made.title))


async def remove_key(visit: Visit, form: Form) -> Response:
    removed = await visit.services.keys.remove(visit.current_actor, visit.path_params["id"])
    return visit.redirect("/me/keys", visit.translate_text("The key {name} was deleted.", name=removed.title))


routes = [
    build_page_route("/me/keys", show_keys),
    build_form_route("/me/keys", add_key),
    build_form_route("/me/keys/{id}/remove", remove_key),
]
