"""Validation rules for each kind of dataset, without access to disk or database."""

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
MAX_VARIABLES = 200
MAX_VARIABLES_SIZE = 65536  # bytes of all variables together
_VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_TRANSPORTS = ("https", "http", "ssh", "git", "file")
_SCP_ADDRESS_PATTERN = re.compile(
    r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//|:|-)\S+"
)  # git@host:team/code


def normalize_dataset(dataset: Dataset) -> Dataset:
    """Return the dataset as stored: sorted, and read-only for kinds that cannot be written."""
    groups = {*dataset.groups, *dataset.writable_groups}
    fixed = dataset.kind in (GIT, ENV)
    return replace(
        dataset,
        groups=tuple(sorted(groups)),
        writable_groups=() if fixed else tuple(sorted(set(dataset.writable_groups))),
        read_only=True if fixed else dataset.read_only,
    )


def check_dataset(dataset: Dataset) -> None:
    check_text(dataset.description, "description")
    check_text(dataset.display_name, "display_name")
    rule = _DATA_CHECKS.get(dataset.kind)
    if rule is None:
        hint = msg("Use folder, nfs, volume, git or env.")
        raise UserError(msg("{kind} is not a dataset kind", kind=repr(dataset.kind[:50])), field="kind", hint=hint)
    for key, value in dataset.data.items():
        if not isinstance(value, str):
            raise UserError(msg("data.{key} must be a string", key=key[:50]), field="data")
        check_text(value, "data")
    rule(dataset.data)
    if dataset.per_user and dataset.kind in (GIT, ENV):
        raise UserError(
            msg("Datasets of kind {kind} do not support per-user folders", kind=dataset.kind), field="per_user"
        )
    if dataset.default and dataset.kind == ENV:
        raise UserError(
            msg("Datasets of kind env cannot be mounted, so they cannot be a default storage"), field="default"
        )


def check_dataset_path(dataset: Dataset) -> None:
    if not dataset.path and dataset.kind == FOLDER:
        raise UserError(msg("Datasets of kind folder need a path"), field="path")
    if dataset.path and dataset.kind not in (FOLDER, NFS):
        raise UserError(
            msg("Datasets of kind {kind} do not accept a path", kind=dataset.kind),
            field="path",
            hint=msg("Only the kinds folder and nfs accept a path."),
        )


def build_nfs_path(data: Mapping[str, str], nfs_folder: str) -> str:
    return posixpath.join(nfs_folder, data["server"], data["path"].strip("/"))


def check_variables(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not isinstance(name, str) or not _VARIABLE_NAME_PATTERN.fullmatch(name):
            hint = msg("Use letters, digits, '_', '-' and '.'; start with a letter or '_'.")
            raise UserError(
                msg("{name} is not a valid variable name", name=repr(str(name)[:80])), field="variables", hint=hint
            )
        if not isinstance(value, str) or "\0" in value:
            raise UserError(
                msg("The value of {name} must be text without NUL characters", name=name[:80]), field="variables"
            )
    texts = [*variables, *variables.values()]
    if len(variables) > MAX_VARIABLES or sum(len(text.encode(errors="replace")) for text in texts) > MAX_VARIABLES_SIZE:
        raise TooLarge(
            msg(
                "A dataset can have at most {max_variables} variables and {max_bytes} bytes in total",
                max_variables=MAX_VARIABLES,
                max_bytes=MAX_VARIABLES_SIZE,
            ),
            field="variables",
        )


def check_git_url(url: str) -> None:
    """Allow only transports that fetch; others, such as ext::, run a program that the address names."""
    parts = _split_url(url)
    if parts is not None and parts.password is not None:
        hint = msg("Store it in a secret: `holdfast secret add NAME`.")
        raise UserError(msg("The address contains a password"), field="data", hint=hint)
    short = _SCP_ADDRESS_PATTERN.fullmatch(url) and url.partition(":")[0] not in _TRANSPORTS
    if not short and (parts is None or not _is_fetchable(url, parts)):
        hint = msg(
            "Use an address such as https://host/team/code.git, ssh://git@host/team/code.git or git@host:team/code.git."
        )
        raise UserError(msg("The address is not a supported git address"), field="data", hint=hint)


def _split_url(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        return None
    return parts


def _is_fetchable(url: str, parts: SplitResult) -> bool:
    if parts.scheme not in _TRANSPORTS or not url.startswith(f"{parts.scheme}://") or any(map(str.isspace, url)):
        return False
    if parts.scheme == "file":
        return not parts.netloc and parts.path.startswith("/")
    host, user = parts.hostname or "", parts.username or ""
    return bool(host) and not host.startswith("-") and not user.startswith("-")


# -- data, kind by kind


def _check_folder_data(data: Mapping[str, str]) -> None:
    if data:
        raise UserError(
            msg("Datasets of kind folder do not accept data"),
            field="data",
            hint=msg("Only the kinds nfs, git and volume accept data."),
        )


def _check_nfs_data(data: Mapping[str, str]) -> None:
    if set(data) != {"server", "path"} or not all(data.values()):
        raise UserError(msg("Datasets of kind nfs need `server` and `path` in data"), field="data")
    if "/" in data["server"] or data["server"] in (".", ".."):
        raise UserError(
            msg("{server} is not a valid address of an NFS server", server=repr(data["server"][:80])), field="data"
        )
    if ".." in data["path"].split("/"):
        raise UserError(msg("The path on the NFS server must not contain '..'"), field="data")


def _check_volume_data(data: Mapping[str, str]) -> None:
    if set(data) - {"size"} or not all(value.isdecimal() and value.isascii() for value in data.values()):
        raise UserError(msg("Datasets of kind volume accept only `size` in data, a whole number of GB"), field="data")


def _check_git_data(data: Mapping[str, str]) -> None:
    if not data.get("url") or set(data) - {"url", "branch", "secret"} or not all(data.values()):
        hint = msg("Set url, and optionally branch and secret.")
        raise UserError(
            msg("Datasets of kind git need `url` in data, and accept `branch` and `secret`"), field="data", hint=hint
        )
    check_git_url(data["url"])
    branch = data.get("branch", "")
    if branch and not _is_ref_name(branch):
        raise UserError(msg("{branch} is not a valid branch or tag", branch=repr(branch[:80])), field="data")


def _is_ref_name(text: str) -> bool:
    """Return whether it is a valid git ref name that git does not read as an option or a pattern."""
    if text.startswith(("-", "/", ".")) or text.endswith(("/", ".", ".lock")) or len(text) > 250:
        return False
    return not any(bad in text for bad in ("..", "//", "@{", "/.")) and not re.search(
        r"[\s~^:?*\[\\\x00-\x1f\x7f]", text
    )


def _check_env_data(data: Mapping[str, str]) -> None:
    if data:
        raise UserError(
            msg("Datasets of kind env do not accept data"), field="data", hint=msg("Set variables instead.")
        )


_DATA_CHECKS: dict[str, Callable[[Mapping[str, str]], None]] = {
    FOLDER: _check_folder_data,
    NFS: _check_nfs_data,
    VOLUME: _check_volume_data,
    GIT: _check_git_data,
    ENV: _check_env_data,
}
