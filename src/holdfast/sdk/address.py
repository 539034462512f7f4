"""Address and token of the server: from arguments, the environment, a saved login, or a server on this machine.

A token is only sent to the address it was issued for. The token in a state folder is only sent while that server runs:
afterwards any process on the machine, also a job, can listen on its port.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import __version__

from .errors import CannotConnect, InvalidClientConfig

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    token: str | None = field(repr=False)
    source: str  # where the address came from, for messages
    lock: Path | None = None  # locked by the server while it runs; None: not a server on this machine

    @property
    def is_server_running(self) -> bool:
        """Whether its server runs. Check before each connection: it can stop at any time."""
        return self.lock is None or _is_locked(self.lock)

    def require_running_server(self) -> None:
        if not self.is_server_running:
            raise self.build_connection_error("no server is running there")

    def build_connection_error(self, reason: str, *, lost: bool = False, silent: bool = False) -> CannotConnect:
        """Build the error of a failed connection; its hint says where the address comes from, and what to try."""
        return CannotConnect(self.url, reason, lost=lost, silent=silent, hint=_build_connection_hint(self))

    def build_headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        authorization = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"User-Agent": f"holdfast/{__version__}", **authorization}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLogin:
    url: str
    token: str = field(repr=False)
    user: str = ""
    lock: Path | None = None


def find_address(
    url: str | None = None,
    token: str | None = None,
    *,
    home: Path | None = None,
    anonymous: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Address:
    """Find the address and token to use. `home`: state folder of a server on this machine. `anonymous`: without a
    token."""
    found = _resolve_address(url, token, home, os.environ if environ is None else environ)
    return replace(found, token=None) if anonymous else found


def _resolve_address(url: str | None, token: str | None, home: Path | None, env: Mapping[str, str]) -> Address:
    token = _normalize_token(token or env.get("HOLDFAST_TOKEN") or None)
    chosen, source = (url, "given") if url else (env.get("HOLDFAST_URL"), "HOLDFAST_URL")
    if chosen:
        return _resolve_explicit_address(normalize_url(chosen), token, source, home, env)
    saved = load_saved_login(environ=env)
    if saved is not None:
        return Address(saved.url, token or saved.token, "saved login")
    local = load_local_login(home, env)
    if local is not None:
        return Address(local.url, token or local.token, "server on this machine", local.lock)
    return Address(DEFAULT_URL, token, "default")


def _resolve_explicit_address(
    url: str, token: str | None, source: str, home: Path | None, env: Mapping[str, str]
) -> Address:
    local = load_local_login(home, env)
    if token is None:
        known = (load_saved_login(url, environ=env), local)
        token = next((login.token for login in known if login is not None and login.url == url), None)
    machines = local is not None and (local.url, local.token) == (url, token)
    return Address(url, token, source, local.lock if local is not None and machines else None)


def normalize_url(text: str) -> str:
    """Normalize an address: lower-case scheme and host, no default port, no trailing slash."""
    text = text.strip()
    if "://" not in text:
        text = "http://" + text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidClientConfig(
            f"{text!r} is not a server address: {error}", hint="Use the form http://host:8080."
        ) from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise InvalidClientConfig(f"{text!r} is not a server address", hint="Use the form http://host:8080.")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidClientConfig(
            "A server address cannot contain a user, password, query or fragment",
            hint="Set HOLDFAST_TOKEN, or run `holdfast login`.",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = "" if port is None or port == DEFAULT_PORTS[parts.scheme] else f":{port}"
    return f"{parts.scheme}://{host}{shown}{parts.path.rstrip('/')}"


def load_local_login(home: Path | None = None, environ: Mapping[str, str] | None = None) -> SavedLogin | None:
    """Return the login that a server on this machine saved in its state folder."""
    env = os.environ if environ is None else environ
    folder = home or Path(env.get("HOLDFAST_HOME") or Path.home() / ".holdfast")
    data = _read_json(folder / "client.json")
    if not isinstance(data.get("url"), str) or not isinstance(data.get("token"), str):
        return None
    return SavedLogin(url=normalize_url(data["url"]), token=data["token"], lock=folder / "server.lock")


def _is_locked(lock: Path) -> bool:
    import fcntl  # not available on platforms without a server

    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


# Saved logins: one file with a token per address; the last login is the current one.


def get_login_path(environ: Mapping[str, str] | None = None) -> Path:
    env = os.environ if environ is None else environ
    config = Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return config / "holdfast" / "login.json"


def load_saved_login(url: str | None = None, *, environ: Mapping[str, str] | None = None) -> SavedLogin | None:
    """Return the login saved for `url`, or the current one."""
    data = _read_json(get_login_path(environ))
    wanted = url or data.get("current")
    entry = _copy_entries(data, "logins").get(wanted) if isinstance(wanted, str) else None
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return None
    return SavedLogin(url=str(wanted), token=entry["token"], user=str(entry.get("user") or ""))


def save_login(
    url: str,
    token: str,
    user: str,
    expires_at: datetime | None,
    *,
    device: str = "",
    environ: Mapping[str, str] | None = None,
) -> Path:
    """Save a token for `url`, readable only by this user, and make it the current one. `device`: for the next login;
    kept after a logout."""
    path = get_login_path(environ)
    data = _read_json(path)
    logins, devices = _copy_entries(data, "logins"), _copy_entries(data, "devices")
    expires = expires_at.isoformat() if expires_at else None
    logins[normalize_url(url)] = {"token": token, "user": user, "expires_at": expires}
    if device:
        devices[_build_device_key(url, user)] = device
    _write_private_json(path, {"current": normalize_url(url), "logins": logins, "devices": devices})
    return path


def load_device_token(url: str, user: str, *, environ: Mapping[str, str] | None = None) -> str:
    """Return the device token of the last login of `user` at `url`; empty if there is none."""
    found = _copy_entries(_read_json(get_login_path(environ)), "devices").get(_build_device_key(url, user))
    return found if isinstance(found, str) else ""


def _build_device_key(url: str, user: str) -> str:
    return f"{normalize_url(url)} {user}"


def remove_login(url: str | None = None, *, environ: Mapping[str, str] | None = None) -> SavedLogin | None:
    """Remove the login saved for `url`, or the current one, and return it."""
    path = get_login_path(environ)
    found = load_saved_login(url, environ=environ)
    if found is None:
        return None
    data = _read_json(path)
    logins = _copy_entries(data, "logins")
    del logins[found.url]
    current = data.get("current") if data.get("current") != found.url else None
    _write_private_json(path, {"current": current, "logins": logins, "devices": _copy_entries(data, "devices")})
    return found


def _copy_entries(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return dict(found) if isinstance(found, dict) else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # ignore the state folder of another user
    except (OSError, ValueError) as error:
        raise InvalidClientConfig(f"Cannot read {path}: {error}", hint="Remove the file and log in again.") from None
    return data if isinstance(data, dict) else {}


def _write_private_json(path: Path, data: dict[str, Any]) -> None:
    """Write a file atomically, never readable by other users."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".login-")  # created with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _normalize_token(token: str | None) -> str | None:
    if token is None:
        return None
    token = token.strip()
    if not token or not all(33 <= ord(char) < 127 for char in token):
        raise InvalidClientConfig(
            "The token contains invalid characters",
            hint="Copy it again, or create a new one with `holdfast token create NAME`.",
        )
    return token


def is_loopback(url: str) -> bool:
    from ipaddress import ip_address  # slow to load

    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_SOURCE_HINTS = {
    "HOLDFAST_URL": "The address is set by HOLDFAST_URL. ",
    "saved login": "The address is from your saved login. ",
    "server on this machine": "The address is that of your local server. ",
    "default": "No address is set; this is the default. ",
}


def _build_start_command(url: str) -> str:
    """Return the command that starts a server at this address."""
    port = urlsplit(url).port
    return f"holdfast up --port {port}" if port and url != DEFAULT_URL else "holdfast up"


def _build_connection_hint(address: Address) -> str:
    """Return the hint for a failed connection: the source of the address, and what to try."""
    why = _SOURCE_HINTS.get(address.source, "")
    login = "choose another server with `holdfast login URL`"
    if address.source == "HOLDFAST_URL":
        login += " after unsetting HOLDFAST_URL"
    if is_loopback(address.url):
        return f"{why}Start a server with `{_build_start_command(address.url)}`, or {login}."
    return f"{why}Check the address and the network, or {login}."
