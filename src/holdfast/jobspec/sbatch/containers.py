"""Options of Pyxis, Slurm's plugin for containers: the image and its mounts."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.job import Mount
from holdfast.core.messages import msg

from .. import rules
from ..document import DocumentNode
from ..fields import FieldValue, InvalidValue
from ..kinds import check_count
from .options import OptionValues
from .values import get_text

MAX_MOUNTS = 100


def read_image(options: OptionValues) -> str:
    """Return the name of the image; empty: none is given."""
    option = options.get("container-image")
    return option.apply_reader(_read_image, "") if option else ""


def _read_image(option: FieldValue) -> str:
    """Read name:tag, registry#name:tag or docker://name."""
    name = get_text(option).removeprefix("docker://").replace("#", "/", 1)
    if name.startswith(("/", ".", "~")):
        raise InvalidValue(
            msg("is a file, which is not supported as an image"),
            msg("Write `#HOLDFAST image: NAME` to choose an image."),
            rule="not",
        )
    return rules.IMAGE_KIND.read(_replace_value(option, name))


def read_mounts(options: OptionValues) -> tuple[Mount, ...]:
    option = options.get("container-mounts")
    return option.apply_reader(_read_mounts, ()) if option else ()


def _read_mounts(option: FieldValue) -> tuple[Mount, ...]:
    parts = get_text(option).split(",")
    check_count(len(parts), "entries", 0, MAX_MOUNTS, ("minItems", "maxItems"))
    found = (_replace_value(option, part.strip()).apply_reader(_read_mount, None) for part in parts)
    return tuple(mount for mount in found if mount is not None)


def _read_mount(option: FieldValue) -> Mount:
    """Read /source:/target[:ro]; as in Pyxis, the task can write to it otherwise."""
    mount = rules.MOUNT_KIND.read(option)
    return replace(mount, read_only=get_text(option).endswith(":ro"))


def _replace_value(option: FieldValue, value: str) -> FieldValue:
    return FieldValue(DocumentNode(value, option.node.line), option.path, option.report)
