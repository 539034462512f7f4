"""Addresses that everything admins manage has: of the form for a new one, of changing it, of removing it."""

from __future__ import annotations

from urllib.parse import quote

from starlette.routing import Route

from ...routes import Act, Show, act, page

Pair = tuple[Show, Act]  # shows the form, and does what it says


def edit_routes(base: str, *, new: Pair, edit: Pair, delete: Pair, admin: bool = True) -> list[Route]:
    pairs = {f"{base}/new": new, base + "/{name}/edit": edit, base + "/{name}/delete": delete}
    routes = [(page(path, show, admin=admin), act(path, do, admin=admin)) for path, (show, do) in pairs.items()]
    return [route for pair in routes for route in pair]


def edit_path(base: str, name: str, verb: str) -> str:
    return f"{base}/{quote(name, safe='')}/{verb}"
