"""Where the server is and who we are there: arguments, else the environment, a saved login, a server of our own.

A token is only ever sent to the address it came with, and the one a server left for its own user only while that server
runs: after its end anyone on the machine, a job of it too, may listen on its port.
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

from .errors import BadAddress

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    token: str | None = field(repr=False)
    source: str  # where the address came from, for people
    lock: Path | None = None  # held by the server while it runs; None: not a server of ours, and not ours to watch

    @property
    def served(self) -> bool:
        """Whether it is safe to talk to it. Look before each connection: a server may end at any moment."""
        return self.lock is None or _is_held(self.lock)


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
    """The server to talk to and the token to show it. `home` names the state folder of a server on this machine;
    `anonymous`: no token, whatever is known."""
    found = _find_address(url, token, home, os.environ if environ is None else environ)
    return replace(found, token=None) if anonymous else found


def _find_address(url: str | None, token: str | None, home: Path | None, env: Mapping[str, str]) -> Address:
    token = _clean_token(token or env.get("HOLDFAST_TOKEN") or None)
    chosen, source = (url, "given") if url else (env.get("HOLDFAST_URL"), "HOLDFAST_URL")
    if chosen:
        return _with_known_token(normal_url(chosen), token, source, home, env)
    saved = saved_login(environ=env)
    if saved is not None:
        return Address(saved.url, token or saved.token, "saved login")
    local = local_login(home, env)
    if local is not None:
        return Address(local.url, token or local.token, "server on this machine", local.lock)
    return Address(DEFAULT_URL, token, "default")


def _with_known_token(url: str, token: str | None, source: str, home: Path | None, env: Mapping[str, str]) -> Address:
    local = local_login(home, env)
    if token is None:
        known = (saved_login(url, environ=env), local)
        token = next((login.token for login in known if login is not None and login.url == url), None)
    machines = local is not None and (local.url, local.token) == (url, token)
    return Address(url, token, source, local.lock if local is not None and machines else None)


def normal_url(text: str) -> str:
    """One spelling for one address: scheme and host in lower case, no default port, no slash at the end."""
    text = text.strip()
    if "://" not in text:
        text = "http://" + text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{text!r} is not an address: {error}", hint="Write it as http://host:8080.") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise BadAddress(f"{text!r} is not an address of a server", hint="Write it as http://host:8080.")
    if parts.username is not None or parts.query or parts.fragment:
        raise BadAddress(
            "An address holds no user, password, query or fragment",
            hint="Put the token in HOLDFAST_TOKEN, or use `holdfast login`.",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = "" if port is None or port == DEFAULT_PORTS[parts.scheme] else f":{port}"
    return f"{parts.scheme}://{host}{shown}{parts.path.rstrip('/')}"


def local_login(home: Path | None = None, environ: Mapping[str, str] | None = None) -> SavedLogin | None:
    """What a server on this machine left for its own user, in its state folder."""
    env = os.environ if environ is None else environ
    folder = home or Path(env.get("HOLDFAST_HOME") or Path.home() / ".holdfast")
    data = _read_json(folder / "client.json")
    if not isinstance(data.get("url"), str) or not isinstance(data.get("token"), str):
        return None
    return SavedLogin(url=normal_url(data["url"]), token=data["token"], lock=folder / "server.lock")


def _is_held(lock: Path) -> bool:
    import fcntl  # only where there is a server, and so such locks

    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


# Saved logins: one file, a token per address, the last login is the current one.


def login_file(environ: Mapping[str, str] | None = None) -> Path:
    env = os.environ if environ is None else environ
    config = Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return config / "holdfast" / "login.json"


def saved_login(url: str | None = None, *, environ: Mapping[str, str] | None = None) -> SavedLogin | None:
    """The login saved for `url`, or the current one."""
    data = _read_json(login_file(environ))
    wanted = url or data.get("current")
    entry = _entries(data, "logins").get(wanted) if isinstance(wanted, str) else None
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
    """Keep a token for `url`, readable by this user alone, and make it the current one. `device`: for the next login
    of this user there; it is kept after a logout, too."""
    path = login_file(environ)
    data = _read_json(path)
    logins, devices = _entries(data, "logins"), _entries(data, "devices")
    expires = expires_at.isoformat() if expires_at else None
    logins[normal_url(url)] = {"token": token, "user": user, "expires_at": expires}
    if device:
        devices[_device_key(url, user)] = device
    _write_private(path, {"current": normal_url(url), "logins": logins, "devices": devices})
    return path


def saved_device(url: str, user: str, *, environ: Mapping[str, str] | None = None) -> str:
    """The device token of the last login of `user` at `url` from here; empty where there was none."""
    found = _entries(_read_json(login_file(environ)), "devices").get(_device_key(url, user))
    return found if isinstance(found, str) else ""


def _device_key(url: str, user: str) -> str:
    return f"{normal_url(url)} {user}"


def forget_login(url: str | None = None, *, environ: Mapping[str, str] | None = None) -> SavedLogin | None:
    """Remove the login saved for `url`, or the current one; returns what was removed."""
    path = login_file(environ)
    found = saved_login(url, environ=environ)
    if found is None:
        return None
    data = _read_json(path)
    logins = _entries(data, "logins")
    del logins[found.url]
    current = data.get("current") if data.get("current") != found.url else None
    _write_private(path, {"current": current, "logins": logins, "devices": _entries(data, "devices")})
    return found


def _entries(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return dict(found) if isinstance(found, dict) else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # another user's state folder is as good as none
    except (OSError, ValueError) as error:
        raise BadAddress(f"Cannot read {path}: {error}", hint="Remove the file and log in again.") from None
    return data if isinstance(data, dict) else {}


def _write_private(path: Path, data: dict[str, Any]) -> None:
    """Replaced in one step and never readable by others, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".login-")  # made with mode 0600
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


def _clean_token(token: str | None) -> str | None:
    if token is None:
        return None
    token = token.strip()
    if not token or not all(33 <= ord(char) < 127 for char in token):
        raise BadAddress(
            "The token holds characters that no token has",
            hint="Copy it again; `holdfast token create NAME` makes a new one.",
        )
    return token


def is_loopback(url: str) -> bool:
    from ipaddress import ip_address  # slow to load

    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_SOURCES = {
    "HOLDFAST_URL": "HOLDFAST_URL names this address. ",
    "saved login": "This address is that of the saved login. ",
    "server on this machine": "This is where your own server on this machine was last. ",
    "default": "No address was given, so the usual one was tried. ",
}


def hint_for(address: Address) -> str:
    """For those who could not connect: where the address came from, what most can do, and last what only whoever runs
    the server can."""
    why = _SOURCES.get(address.source, "")
    login = "`holdfast login URL` chooses another server"
    if address.source == "HOLDFAST_URL":
        login += ", once HOLDFAST_URL is unset"
    if is_loopback(address.url):
        return f"{why}{login}; `holdfast up` starts one here."
    return f"{why}Check it and the network; {login}."
