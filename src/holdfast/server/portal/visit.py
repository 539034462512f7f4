"""One request of a browser: its user and language, and responses to it."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.core.access import Actor
from holdfast.core.errors import UserError
from holdfast.services import Services

from ..compression import compress_response
from ..sessions import create_csrf_token
from .numbers import MAX_INTEGER, parse_integer
from .rendering import render_template
from .translations import Translations, choose_language, get_translations

THEMES = ("auto", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE, FLASH_COOKIE = "holdfast_language", "holdfast_theme", "holdfast_said"
YEAR_SECONDS = 365 * 86400
MAX_FLASH_LENGTH = 3800  # bytes as a cookie; browsers accept 4096 including the name
HTMX_REQUEST_HEADER = "hx-request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    request: Request
    services: Services
    words: Translations
    theme: str
    actor: Actor | None  # None before login, on public pages
    session: str | None  # the text of the login token
    mark: str  # change mark from before the first read: see services.changes
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(16))  # for styles that scripts add

    @property
    def current_actor(self) -> Actor:
        assert self.actor is not None
        return self.actor

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    @property
    def path_params(self) -> dict[str, Any]:
        return self.request.path_params

    @property
    def wants_part(self) -> bool:
        """Whether a script requests a part of the page; browser navigation requests all of it."""
        headers = self.request.headers
        return (
            HTMX_REQUEST_HEADER in headers
            and "hx-history-restore-request" not in headers
            and "hx-boosted" not in headers
        )

    def get_query_integer(self, name: str, most: int = MAX_INTEGER) -> int | None:
        """Return an integer query parameter; None if it is missing, invalid or greater than `most`."""
        return parse_integer(self.query.get(name, ""), most)

    def translate_text(self, text: str, **names: Any) -> str:
        """Translate a text of the portal, written in English in the call."""
        message = self.words.translate_text(text)
        return message.format(**names) if names else message

    def translate_plural(self, one: str, many: str, number: int, /, **names: Any) -> str:
        return self.words.translate_plural(one, many, number).format(**names)

    def translate_message(self, text: str) -> str:
        """Translate a message of a service."""
        return self.words.translate_message(text)

    def translate_error(self, error: UserError) -> str:
        """Translate an error and its hint, as sentences."""
        gap = "" if self.words.code.startswith("zh") else " "
        parts = [self.translate_message(text) for text in (error.message, error.hint) if text]
        return parts[0] if len(parts) == 1 else gap.join(map(self.words.end_sentence, parts))

    @property
    def current_path(self) -> str:
        """The path of this page, to return to; the home page after a form."""
        url = self.request.url
        return "/" if self.request.method != "GET" else url.path + (f"?{url.query}" if url.query else "")

    @property
    def csrf_token(self) -> str:
        return create_csrf_token(self.session) if self.session else ""

    @property
    def flash_message(self) -> str:
        """The message about the last action, shown once."""
        return self._read_flash_cookie()[0]

    @property
    def flash_link(self) -> str:
        """The portal page that the flash message links to, if any."""
        link = self._read_flash_cookie()[1]
        return sanitize_path(link) if link else ""

    def _read_flash_cookie(self) -> tuple[str, str]:
        """Read the cookie. Ignore an invalid one: another server on this host may have set it."""
        try:
            text, link = json.loads(bytes.fromhex(self.request.cookies.get(FLASH_COOKIE, "")[:4096]))
        except (ValueError, TypeError, RecursionError):
            return "", ""
        plain = isinstance(text, str) and isinstance(link, str)
        return (text.encode("utf-8", "replace").decode(), link) if plain else ("", "")

    # -- responses

    def render(self, template: str, page: Any) -> str:
        return render_template(template, self.words.code, page=page, visit=self)

    async def render_response(self, template: str, page: Any, status: int = 200) -> Response:
        """Render a page, or a part if the template name begins with _. The template gets only `page` and `visit`."""
        response = Response(self.render(template, page), status, media_type="text/html")
        response.headers["Content-Security-Policy"] = self.build_content_security_policy()
        response.headers["Vary"] = "HX-Request, Cookie"
        response.headers["Referrer-Policy"] = "same-origin"
        if FLASH_COOKIE in self.request.cookies and not self.wants_part:
            response.delete_cookie(FLASH_COOKIE, path="/")
        await compress_response(self.request, response)
        return response

    def redirect(self, path: str, message: str = "", *, link: str = "") -> Response:
        """Redirect after an action to a portal page, which shows `message` with a link."""
        if self.wants_part:
            response = Response(status_code=204, headers={"HX-Redirect": sanitize_path(path)})
        else:
            response = RedirectResponse(sanitize_path(path), 303)
        if message:
            text = _build_flash_cookie(message, link)
            response.set_cookie(FLASH_COOKIE, text, max_age=60, path="/", httponly=True, samesite="lax")
        return response

    def build_content_security_policy(self) -> str:
        return (
            "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; "
            f"style-src 'self' 'nonce-{self.nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )


def _build_flash_cookie(message: str, link: str) -> str:
    """Encode both as a cookie value, shortened to fit."""
    while True:
        text = json.dumps([message, link[:300]], ensure_ascii=False).encode("utf-8", "replace").hex()
        if len(text) <= MAX_FLASH_LENGTH or not message:
            return text
        message = message[: len(message) * MAX_FLASH_LENGTH // len(text)]


def create_visit(
    request: Request, services: Services, *, actor: Actor | None = None, session: str | None = None, mark: str = ""
) -> Visit:
    """Create a visit with the language and theme of the browser's cookies."""
    theme = request.cookies.get(THEME_COOKIE, "auto")
    code = choose_language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))
    return Visit(
        request=request,
        services=services,
        words=get_translations(code),
        theme=theme if theme in THEMES else "auto",
        actor=actor,
        session=session,
        mark=mark,
    )


def sanitize_path(path: str) -> str:
    """Return the path if it is in this portal; else the home page."""
    if not path.startswith("/") or path.startswith("//") or "\\" in path or not path.isprintable():
        return "/"
    return quote(path, safe="/?&=%#:,~+@!$'()*;-._")
