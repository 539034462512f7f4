"""The configuration of an image: which machine it is for, and how its programs run."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.messages import msg

_ARCHITECTURES_BY_MACHINE = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
# The variants that run on every machine of an architecture, the best first. Empty: none is named.
_VARIANTS = {"amd64": ("", "v1"), "arm64": ("v8", ""), "arm": ("v7", "v6", "v5", "")}
_MAX_USER_LENGTH = 256  # characters
_MAX_ARGUMENTS = 4096
_MAX_ARGUMENT_LENGTH = 128 * 1024  # characters of one argument, as in Linux


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What the image says about its programs. Tasks have their own commands: `entrypoint` and `cmd` are only stored."""

    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    kind: str = msg("root filesystem archive")


def get_architecture() -> str:
    """Return this machine's architecture, as images name it."""
    return _ARCHITECTURES_BY_MACHINE.get(platform.machine(), platform.machine())


def parse_image_config(settings: Mapping[str, Any]) -> ImageConfig:
    """Parse the JSON of an image's configuration. What is not valid is left out."""
    config = settings.get("config")
    if not isinstance(config, dict):
        return ImageConfig()
    lines = config.get("Env")
    pairs = [str(line).partition("=") for line in lines if "=" in str(line)] if isinstance(lines, list) else []
    env = {name: value for name, _, value in pairs if name and "\0" not in name + value}
    workdir = config.get("WorkingDir")
    usable = isinstance(workdir, str) and workdir.startswith("/") and "\0" not in workdir and workdir != "/"
    return ImageConfig(
        env=env,
        workdir=str(workdir) if usable else "",
        user=_parse_user(config.get("User")),
        entrypoint=_parse_arguments(config.get("Entrypoint")),
        cmd=_parse_arguments(config.get("Cmd")),
    )


def _parse_user(value: Any) -> str:
    usable = isinstance(value, str) and len(value) <= _MAX_USER_LENGTH and value.isprintable()
    return str(value) if usable else ""


def _parse_arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_ARGUMENTS:
        return ()
    usable = all(isinstance(each, str) and "\0" not in each and len(each) <= _MAX_ARGUMENT_LENGTH for each in value)
    return tuple(value) if usable else ()


def select_manifest(entries: Iterable[Any]) -> Any | None:
    """Return the entry of an image index for this machine, or None. Attestations are no images."""
    architecture = get_architecture()
    found: dict[str, Any] = {}
    for entry in entries:
        if not isinstance(entry, dict) or "attestation" in str(entry.get("annotations", "")):
            continue
        named = entry.get("platform")
        target = named if isinstance(named, dict) else {}
        is_ours = target.get("architecture", architecture) in (architecture, "")
        if is_ours and target.get("os", "linux") in ("linux", ""):
            found.setdefault(str(target.get("variant") or ""), entry)
    return next((found[variant] for variant in _VARIANTS.get(architecture, ("",)) if variant in found), None)


def list_architectures(entries: Iterable[Any]) -> list[str]:
    """Return the architectures in an image index, for a message."""
    targets = [entry.get("platform") for entry in entries if isinstance(entry, dict)]
    names = {str(target.get("architecture", ""))[:20] for target in targets if isinstance(target, dict)}
    return sorted(names - {"", "unknown"})[:10]
