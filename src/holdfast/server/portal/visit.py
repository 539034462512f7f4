"""One request of a browser: who looks, in which language, and the ways to answer."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.core.access import Actor
from holdfast.core.errors import UserError
from holdfast.services import Services

from ..compression import compress
from ..sessions import make_proof
from .languages import Words, choose_language, words_in
from .numbers import MAX_SIZE, whole_number
from .rendering import render

THEMES = ("auto", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE, SAID_COOKIE = "holdfast_language", "holdfast_theme", "holdfast_said"
YEAR = 365 * 86400
MAX_SAID_LENGTH = 3800  # bytes as a cookie; browsers take 4096 with its name
PART_HEADER = "hx-request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    request: Request
    services: Services
    words: Words
    theme: str
    actor: Actor | None  # None before login, on the few pages that are for all
    session: str | None  # the text of the login token
    mark: str  # of changes, taken before anything was read: see services.changes
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(16))  # for styles that scripts add

    @property
    def who(self) -> Actor:
        assert self.actor is not None
        return self.actor

    @property
    def wants_part(self) -> bool:
        """A script asks for a piece of the page; a browser that goes back asks for all of it."""
        headers = self.request.headers
        return PART_HEADER in headers and "hx-history-restore-request" not in headers and "hx-boosted" not in headers

    def number(self, name: str, most: int = MAX_SIZE) -> int | None:
        """The whole number of this name in the address; None where there is none, or more than `most`."""
        return whole_number(self.request.query_params.get(name, ""), most)

    def say(self, text: str, **names: Any) -> str:
        """Our own text, written in English at this very place, in the visitor's language."""
        said = self.words.say(text)
        return said.format(**names) if names else said

    def tell(self, text: str) -> str:
        """What a service said, in the visitor's language."""
        return self.words.tell(text)

    def tell_error(self, error: UserError) -> str:
        """What is wrong and what to do about it, as sentences."""
        gap = "" if self.words.code.startswith("zh") else " "
        parts = [self.tell(text) for text in (error.message, error.hint) if text]
        return parts[0] if len(parts) == 1 else gap.join(map(self.words.ended, parts))

    @property
    def here(self) -> str:
        """This page's address, to come back to; home for what was answered to a form."""
        url = self.request.url
        return "/" if self.request.method != "GET" else url.path + (f"?{url.query}" if url.query else "")

    @property
    def proof(self) -> str:
        return make_proof(self.session) if self.session else ""

    @property
    def said(self) -> str:
        """What was done just before, told once."""
        return self._told()[0]

    @property
    def said_link(self) -> str:
        """The page of ours that it is about, if it says so."""
        link = self._told()[1]
        return own_path(link) if link else ""

    def _told(self) -> tuple[str, str]:
        """Another server of this host may have set the cookie: what is none of ours is not told."""
        try:
            text, link = json.loads(bytes.fromhex(self.request.cookies.get(SAID_COOKIE, "")[:4096]))
        except (ValueError, TypeError, RecursionError):
            return "", ""
        plain = isinstance(text, str) and isinstance(link, str)
        return (text.encode("utf-8", "replace").decode(), link) if plain else ("", "")

    # -- answers

    def render(self, template: str, page: Any) -> str:
        return render(template, self.words.code, page=page, visit=self)

    async def show(self, template: str, page: Any, status: int = 200) -> Response:
        """A page, or with a name that begins with _ a part of one. The template reads `page` and `visit` alone."""
        response = Response(self.render(template, page), status, media_type="text/html")
        response.headers["Content-Security-Policy"] = self.policy()
        response.headers["Vary"] = "HX-Request, Cookie"
        response.headers["Referrer-Policy"] = "same-origin"
        if SAID_COOKIE in self.request.cookies and not self.wants_part:
            response.delete_cookie(SAID_COOKIE, path="/")
        await compress(self.request, response)
        return response

    def go(self, path: str, said: str = "", *, link: str = "") -> Response:
        """After something was done: to another page, which tells it, with a link to what it is about. Only ever to our
        own."""
        if self.wants_part:
            response = Response(status_code=204, headers={"HX-Redirect": own_path(path)})
        else:
            response = RedirectResponse(own_path(path), 303)
        if said:
            text = _fitting(said, link)
            response.set_cookie(SAID_COOKIE, text, max_age=60, path="/", httponly=True, samesite="lax")
        return response

    def policy(self) -> str:
        return (
            "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; "
            f"style-src 'self' 'nonce-{self.nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )


def _fitting(said: str, link: str) -> str:
    """Both as a cookie, shortened until they fit into one."""
    while True:
        text = json.dumps([said, link[:300]], ensure_ascii=False).encode("utf-8", "replace").hex()
        if len(text) <= MAX_SAID_LENGTH or not said:
            return text
        said = said[: len(said) * MAX_SAID_LENGTH // len(text)]


def visit_of(
    request: Request, services: Services, *, actor: Actor | None = None, session: str | None = None, mark: str = ""
) -> Visit:
    """In the language and the theme that the browser says."""
    theme = request.cookies.get(THEME_COOKIE, "auto")
    code = choose_language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))
    return Visit(
        request=request,
        services=services,
        words=words_in(code),
        theme=theme if theme in THEMES else "auto",
        actor=actor,
        session=session,
        mark=mark,
    )


def own_path(path: str) -> str:
    """A path of this portal; anything that leads elsewhere becomes its first page."""
    if not path.startswith("/") or path.startswith("//") or "\\" in path or not path.isprintable():
        return "/"
    return quote(path, safe="/?&=%#:,~+@!$'()*;-._")
