"""Authorization at a registry: anonymous, with a password, or with a token from the server that the registry names."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from holdfast.core.messages import msg
from holdfast.engines.base import RegistryCredentials

from .pull_errors import make_denied_error, make_invalid_error, make_rate_limit_error, make_response_error
from .registry_http import RegistryHttp, is_same_origin, parse_retry_time, read_body

_MAX_HEADER_LENGTH = 8192  # characters of one WWW-Authenticate header
_MAX_TOKEN_SIZE = 256 * 1024  # bytes of a response with a token
# `NAME="VALUE"`, `NAME=VALUE`, or the name of a scheme.
_CHALLENGE_PATTERN = re.compile(r'[\s,]*(?:([\w-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))|([\w-]+))')


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to authorize that a server offers."""

    scheme: str  # lower case
    parameters: dict[str, str] = field(default_factory=dict)


def parse_challenges(header: str) -> list[Challenge]:
    """Parse a WWW-Authenticate header; what follows an error is left out."""
    found: list[Challenge] = []
    position, text = 0, header[:_MAX_HEADER_LENGTH]
    while match := _CHALLENGE_PATTERN.match(text, position):
        position = match.end()
        name, quoted, plain, scheme = match.groups()
        if scheme:
            found.append(Challenge(scheme.lower()))
        elif found:
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            found[-1].parameters.setdefault(name.lower(), value)
    return found


class RegistryAuthorizer:
    """Authorizes the requests of one user to one repository."""

    def __init__(
        self, http: RegistryHttp, host: str, repository: str, credentials: RegistryCredentials | None, name: str
    ) -> None:
        self._http = http
        self._host = host
        self._repository = repository
        self._credentials = credentials
        self._name = name  # of the image, for messages
        self._lock = asyncio.Lock()
        self.authorization: str | None = None

    async def authorize(self, response: httpx.Response, used: str | None) -> bool:
        """Get a new authorization after a response 401 to a request with `used`. False if there is none."""
        if not is_same_origin(response.url, httpx.URL(f"{response.url.scheme}://{self._host}")):
            return False  # a server that we were redirected to
        async with self._lock:
            if self.authorization != used:
                return True  # another request got it meanwhile
            self.authorization = await self._answer_challenges(response.headers.get_list("www-authenticate"))
            return self.authorization is not None and self.authorization != used

    async def _answer_challenges(self, headers: list[str]) -> str | None:
        challenges = {each.scheme: each for header in reversed(headers) for each in reversed(parse_challenges(header))}
        if "bearer" in challenges:
            return f"Bearer {await self._fetch_token(challenges['bearer'].parameters)}"
        if "basic" in challenges and self._credentials is not None:
            return _make_basic_authorization(self._credentials)
        return None

    async def _fetch_token(self, parameters: dict[str, str]) -> str:
        """Ask the token server for access to this repository only, whatever the registry proposes."""
        realm = httpx.URL(parameters.get("realm", "")).copy_with(userinfo=b"", fragment=None)
        url = realm.copy_merge_params(
            {"service": parameters.get("service", ""), "scope": f"repository:{self._repository}:pull"}
        )
        authorization = _make_basic_authorization(self._credentials) if self._credentials is not None else None
        response = await self._http.send_to("GET", str(url), {"Accept": "application/json"}, authorization)
        body = await read_body(response, _MAX_TOKEN_SIZE, self._name)
        self._check_token_status(response)
        token = _parse_token(body)
        if token is None:
            raise make_invalid_error(self._name, msg("The token server sent no token."))
        return token

    def _check_token_status(self, response: httpx.Response) -> None:
        status, now = response.status_code, datetime.now(UTC)
        if status == 429:
            raise make_rate_limit_error(self._host, parse_retry_time(response.headers, now))
        if status in (400, 401, 403, 404):
            raise make_denied_error(self._name, self._host, has_credentials=self._credentials is not None)
        if status != 200:
            raise make_response_error(self._host, status)


def _make_basic_authorization(credentials: RegistryCredentials) -> str:
    pair = f"{credentials.username}:{credentials.password}"
    return f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"


def _parse_token(body: bytes) -> str | None:
    try:
        fields: Any = json.loads(body)
        token = fields.get("token") or fields.get("access_token")
    except (ValueError, AttributeError, RecursionError):
        return None
    return token if isinstance(token, str) and token.isascii() and token.isprintable() else None
