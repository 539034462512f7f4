"""Language and theme: in cookies, so that a page knows them before it knows who looks; and with the user, so that they
come back in another browser."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from holdfast.core.access import Actor

from ..origin import origin_of
from .forms import Form
from .languages import CODES
from .visit import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, YEAR, Visit

CHOSEN_COOKIE = "holdfast_chosen"  # somebody chose just now, before they logged in
CHOSEN_FOR = 600  # seconds
_COOKIES = {"language": LANGUAGE_COOKIE, "theme": THEME_COOKIE}
_KNOWN: Mapping[str, tuple[str, ...]] = {"language": tuple(CODES), "theme": THEMES}


def preferences_in(form: Form) -> dict[str, str]:
    return _sane({name: form.text(name) for name in _COOKIES})


def keep_in_browser(visit: Visit, response: Response, preferences: Mapping[str, str]) -> None:
    for name, value in preferences.items():
        _set(visit, response, _COOKIES[name], value, YEAR)
    if visit.actor is None:
        _set(visit, response, CHOSEN_COOKIE, "1", CHOSEN_FOR)


async def bring_back(visit: Visit, response: Response, user: str) -> None:
    """At a login: what the user chose before, unless they have just chosen otherwise."""
    actor = Actor(name=user)
    if CHOSEN_COOKIE in visit.request.cookies:
        chosen = _sane({name: visit.request.cookies.get(cookie, "") for name, cookie in _COOKIES.items()})
        await visit.services.users.set_preferences(actor, chosen)
        response.delete_cookie(CHOSEN_COOKIE, path="/")
        return
    kept = _sane(await visit.services.users.preferences(actor))
    for name, value in kept.items():
        _set(visit, response, _COOKIES[name], value, YEAR)


def _sane(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name, known in _KNOWN.items() if given.get(name) in known}


def _set(visit: Visit, response: Response, name: str, value: str, seconds: int) -> None:
    secure = origin_of(visit.request).startswith("https:")
    response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")
