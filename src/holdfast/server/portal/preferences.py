"""Language and theme: in cookies, so that they apply before login; and with the user, so that they apply in every
browser."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from holdfast.core.access import Actor

from ..origin import get_origin
from .forms import Form
from .translations import LANGUAGE_NAMES
from .visit import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, YEAR_SECONDS, Visit

PREFERENCES_CHOSEN_COOKIE = "holdfast_chosen"  # set when a visitor chooses before login
PREFERENCES_CHOSEN_COOKIE_MAX_AGE = 600  # seconds
_PREFERENCE_COOKIES = {"language": LANGUAGE_COOKIE, "theme": THEME_COOKIE}
_ALLOWED_VALUES: Mapping[str, tuple[str, ...]] = {"language": tuple(LANGUAGE_NAMES), "theme": THEMES}


def read_preferences(form: Form) -> dict[str, str]:
    return _filter_valid_preferences({name: form.get_text(name) for name in _PREFERENCE_COOKIES})


def set_preference_cookies(visit: Visit, response: Response, preferences: Mapping[str, str]) -> None:
    for name, value in preferences.items():
        _set_cookie(visit, response, _PREFERENCE_COOKIES[name], value, YEAR_SECONDS)
    if visit.actor is None:
        _set_cookie(visit, response, PREFERENCES_CHOSEN_COOKIE, "1", PREFERENCES_CHOSEN_COOKIE_MAX_AGE)


async def sync_preferences_at_login(visit: Visit, response: Response, user: str) -> None:
    """At login, restore the saved preferences of the user, except those just chosen."""
    actor = Actor(name=user)
    if PREFERENCES_CHOSEN_COOKIE in visit.request.cookies:
        chosen = _filter_valid_preferences(
            {name: visit.request.cookies.get(cookie, "") for name, cookie in _PREFERENCE_COOKIES.items()}
        )
        await visit.services.users.update_preferences(actor, chosen)
        response.delete_cookie(PREFERENCES_CHOSEN_COOKIE, path="/")
        return
    saved = _filter_valid_preferences(await visit.services.users.get_preferences(actor))
    for name, value in saved.items():
        _set_cookie(visit, response, _PREFERENCE_COOKIES[name], value, YEAR_SECONDS)


def _filter_valid_preferences(preferences: Mapping[str, str]) -> dict[str, str]:
    return {name: preferences[name] for name, known in _ALLOWED_VALUES.items() if preferences.get(name) in known}


def _set_cookie(visit: Visit, response: Response, name: str, value: str, seconds: int) -> None:
    secure = get_origin(visit.request).startswith("https:")
    response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")
