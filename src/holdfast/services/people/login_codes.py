"""One-time login codes, valid for a few minutes: a program redeems a code shown by a browser for a token, or a browser
logs in with a code created by a program."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Forbidden, NotLoggedIn
from holdfast.core.messages import msg

from ..audit import AuditedStore, AuditEntry
from .tokens import NewToken, Tokens

CODE_TTL = 600.0  # seconds
MAX_CODES = 1000  # in total; the oldest are dropped first
MAX_CODES_PER_USER = 5  # so that a user cannot displace the codes of others


class CodePurpose(StrEnum):
    """What a code can be used for."""

    TOKEN = "token"  # noqa: S105 - the word
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class _IssuedCode:
    user: str
    purpose: CodePurpose
    mark: str | None  # identifies the password at creation
    until: float


class LoginCodes:
    """Login codes, stored only in memory: a restart invalidates them."""

    def __init__(self, store: AuditedStore, tokens: Tokens, *, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._tokens = tokens
        self._monotonic = monotonic
        self._issued_codes: dict[bytes, _IssuedCode] = {}  # by the digest of the code

    async def issue_token_code(self, user: str, password: str, address: str, *, device: str = "") -> str:
        """Create a token code after checking the password; raise NotLoggedIn if it is wrong."""
        return await self._create_code(
            await self._tokens.verify_password(user, password, address, device=device), CodePurpose.TOKEN
        )

    async def issue_token_code_for_actor(self, actor: Actor) -> str:
        return await self._create_code(actor.name, CodePurpose.TOKEN)

    async def issue_login_code(self, actor: Actor) -> str:
        """For a browser. Not for API tokens, which have fewer permissions than a login."""
        if actor.application:
            raise Forbidden(
                msg("An API token cannot be used to log in with a browser"), hint=msg("Log in first: `holdfast login`.")
            )
        code = await self._create_code(actor.name, CodePurpose.LOGIN)
        detail = {"by": msg("one-time link")}
        entry = AuditEntry(actor.name, AuditKind.LOGIN, AuditAction.CREATED, actor.name, detail)
        await self._store.record_entry(entry)
        return code

    async def _create_code(self, user: str, purpose: CodePurpose) -> str:
        mark = await self._tokens.load_password_fingerprint(user)
        self._drop_oldest_codes(user)
        code = secrets.token_urlsafe(24)
        self._issued_codes[_hash_code(code)] = _IssuedCode(user, purpose, mark, self._monotonic() + CODE_TTL)
        return code

    def _drop_oldest_codes(self, user: str) -> None:
        own = [digest for digest, code in self._issued_codes.items() if code.user == user]
        for digest in own[: max(0, len(own) + 1 - MAX_CODES_PER_USER)]:
            del self._issued_codes[digest]
        while len(self._issued_codes) >= MAX_CODES:
            del self._issued_codes[next(iter(self._issued_codes))]

    async def redeem_token_code(self, code: str, *, name: str) -> NewToken:
        """Exchange a code for a token called `name`. A changed password or a disabled user invalidates the code."""
        found = await self._consume_code(code, CodePurpose.TOKEN)
        return await self._tokens.create(Actor(name=found.user), name=name)

    async def find_code_user(self, code: str) -> str:
        """Return the user of a login code without consuming it."""
        found = self._issued_codes.get(_hash_code(code))
        if found is None or not await self._is_valid_code(found, CodePurpose.LOGIN):
            raise _build_invalid_code_error()
        return found.user

    async def redeem_login_code(self, code: str) -> NewToken:
        found = await self._consume_code(code, CodePurpose.LOGIN)
        return await self._tokens.login_authenticated_user(found.user, msg("one-time link"))

    async def _consume_code(self, code: str, purpose: CodePurpose) -> _IssuedCode:
        digest = _hash_code(code)
        known = self._issued_codes.get(digest)
        if known is None or known.purpose is not purpose:
            raise _build_invalid_code_error()
        del self._issued_codes[digest]
        if not await self._is_valid_code(known, purpose):
            raise _build_invalid_code_error()
        return known

    async def _is_valid_code(self, code: _IssuedCode, purpose: CodePurpose) -> bool:
        if code.purpose is not purpose or self._monotonic() > code.until or code.mark is None:
            return False
        return await self._tokens.load_password_fingerprint(code.user) == code.mark


def _build_invalid_code_error() -> NotLoggedIn:
    return NotLoggedIn(msg("This code is not valid or has expired"), hint=msg("Log in again to get a new code."))


def _hash_code(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
