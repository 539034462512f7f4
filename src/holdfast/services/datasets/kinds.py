"""What a dataset may say of itself, kind by kind. A table of rules; nothing here looks at a disk or a database."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit

from holdfast.core.errors import TooLarge, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Dataset

from ..names import check_text

FOLDER, NFS, VOLUME, GIT, ENV = "folder", "nfs", "volume", "git", "env"
OWN_FOLDER = (VOLUME, GIT)  # we know where they lie
MAX_VARIABLES = 200
MAX_BYTES = 65536  # of all variables together
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_TRANSPORTS = ("https", "http", "ssh", "git", "file")
_SHORT_SSH = re.compile(
    r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//|:|-)\S+"
)  # git@host:team/code


def tidy(dataset: Dataset) -> Dataset:
    """As it is kept: sorted, and read-only where nothing could be written."""
    groups = {*dataset.groups, *dataset.writable_groups}
    fixed = dataset.kind in (GIT, ENV)
    return replace(
        dataset,
        groups=tuple(sorted(groups)),
        writable_groups=() if fixed else tuple(sorted(set(dataset.writable_groups))),
        read_only=True if fixed else dataset.read_only,
    )


def check(dataset: Dataset) -> None:
    check_text(dataset.description, "description")
    check_text(dataset.display_name, "display_name")
    rule = _RULES.get(dataset.kind)
    if rule is None:
        hint = msg("folder, nfs, volume, git or env.")
        raise UserError(
            msg("There is no kind {kind} of datasets", kind=repr(dataset.kind[:50])), field="kind", hint=hint
        )
    for key, value in dataset.data.items():
        if not isinstance(value, str):
            raise UserError(msg("data.{key} must be text", key=key[:50]), field="data")
        check_text(value, "data")
    rule(dataset.data)
    if dataset.per_user and dataset.kind in (GIT, ENV):
        raise UserError(msg("The kind {kind} has no folder for each user", kind=dataset.kind), field="per_user")
    if dataset.default and dataset.kind == ENV:
        raise UserError(msg("Variables cannot be mounted, so they are no default storage"), field="default")


def check_path(dataset: Dataset) -> None:
    if dataset.path and dataset.kind not in (FOLDER, NFS):
        raise UserError(
            msg("The kind {kind} takes no path", kind=dataset.kind), field="path", hint=msg("Only folder and nfs do.")
        )


def nfs_path(data: Mapping[str, str], nfs_folder: str) -> str:
    return posixpath.join(nfs_folder, data["server"], data["path"].strip("/"))


def check_variables(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            hint = msg("Letters, digits, '_', '-' and '.'; first a letter or '_'.")
            raise UserError(
                msg("{name} cannot be the name of a variable", name=repr(str(name)[:80])), field="variables", hint=hint
            )
        if not isinstance(value, str) or "\0" in value:
            raise UserError(
                msg("The value of {name} must be text without NUL characters", name=name[:80]), field="variables"
            )
    texts = [*variables, *variables.values()]
    if len(variables) > MAX_VARIABLES or sum(len(text.encode(errors="replace")) for text in texts) > MAX_BYTES:
        raise TooLarge(
            msg(
                "At most {most_variables} variables of {most_bytes} bytes together",
                most_variables=MAX_VARIABLES,
                most_bytes=MAX_BYTES,
            ),
            field="variables",
        )


def check_git_url(url: str) -> None:
    """Only transports that fetch. Others, such as ext::, run whatever program the address names."""
    parts = _split(url)
    if parts is not None and parts.password is not None:
        hint = msg("Put it into a secret: holdfast secret add NAME.")
        raise UserError(msg("The address holds a password"), field="data", hint=hint)
    short = _SHORT_SSH.fullmatch(url) and url.partition(":")[0] not in _TRANSPORTS
    if not short and (parts is None or not _is_plain(url, parts)):
        hint = msg("Such as https://host/team/code.git, ssh://git@host/team/code.git or git@host:team/code.git.")
        raise UserError(msg("That is no address that git can fetch from here"), field="data", hint=hint)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        return None
    return parts


def _is_plain(url: str, parts: SplitResult) -> bool:
    if parts.scheme not in _TRANSPORTS or not url.startswith(f"{parts.scheme}://") or any(map(str.isspace, url)):
        return False
    if parts.scheme == "file":
        return not parts.netloc and parts.path.startswith("/")
    host, user = parts.hostname or "", parts.username or ""
    return bool(host) and not host.startswith("-") and not user.startswith("-")


# -- data, kind by kind


def _folder(data: Mapping[str, str]) -> None:
    if data:
        raise UserError(msg("A folder has no data"), field="data", hint=msg("The kinds nfs, git and volume have."))


def _nfs(data: Mapping[str, str]) -> None:
    if set(data) != {"server", "path"} or not all(data.values()):
        raise UserError(msg("data of the kind nfs is a server and a path"), field="data")
    if "/" in data["server"] or data["server"] in (".", ".."):
        raise UserError(msg("{server} is no server", server=repr(data["server"][:80])), field="data")
    if ".." in data["path"].split("/"):
        raise UserError(msg("The path on the server may not hold '..'"), field="data")


def _volume(data: Mapping[str, str]) -> None:
    if set(data) - {"size"} or not all(value.isdecimal() and value.isascii() for value in data.values()):
        raise UserError(msg("data of the kind volume is nothing, or its size in GB"), field="data")


def _git(data: Mapping[str, str]) -> None:
    if not data.get("url") or set(data) - {"url", "branch", "secret"} or not all(data.values()):
        hint = msg("url, and where needed branch and secret.")
        raise UserError(
            msg("data of the kind git is a url, with a branch and a secret or without"), field="data", hint=hint
        )
    check_git_url(data["url"])
    branch = data.get("branch", "")
    if branch and not _is_branch(branch):
        raise UserError(msg("{branch} cannot be a branch or a tag", branch=repr(branch[:80])), field="data")


def _is_branch(text: str) -> bool:
    """What git allows as the name of a ref, and nothing it would read as an option or a pattern."""
    if text.startswith(("-", "/", ".")) or text.endswith(("/", ".", ".lock")) or len(text) > 250:
        return False
    return not any(bad in text for bad in ("..", "//", "@{", "/.")) and not re.search(
        r"[\s~^:?*\[\\\x00-\x1f\x7f]", text
    )


def _env(data: Mapping[str, str]) -> None:
    if data:
        raise UserError(msg("The kind env has no data"), field="data", hint=msg("Give its variables."))


_RULES: dict[str, Callable[[Mapping[str, str]], None]] = {
    FOLDER: _folder,
    NFS: _nfs,
    VOLUME: _volume,
    GIT: _git,
    ENV: _env,
}
