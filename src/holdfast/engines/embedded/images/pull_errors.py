"""Reasons why an image cannot be pulled, each with what to do about it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from holdfast.core.messages import msg
from holdfast.engines.base import PullError, PullFailure

from .image_config import get_architecture
from .tars import BadArchive, NoDiskSpace, NoShell


def make_name_error(name: str) -> PullError:
    return PullError(
        PullFailure.INVALID,
        msg("{name} is not a valid image name", name=repr(name[:100])),
        hint=msg("Use a name such as debian:12 or registry.example.com/team/app:1.0."),
    )


def make_registry_error(registry: str, allowed: Collection[str]) -> PullError:
    return PullError(
        PullFailure.DENIED,
        msg("Images cannot be pulled from the registry {registry} on this server", registry=registry),
        hint=msg("Use an image of {allowed}, or ask an admin to allow it.", allowed=", ".join(sorted(allowed))),
    )


def make_not_found_error(name: str, registry: str) -> PullError:
    return PullError(
        PullFailure.NOT_FOUND,
        msg("Image {name} was not found in the registry {registry}", name=name, registry=registry),
        hint=msg("Check the name and the tag of the image."),
    )


def make_denied_error(name: str, registry: str, *, has_credentials: bool) -> PullError:
    if has_credentials:
        return PullError(
            PullFailure.DENIED,
            msg("The registry {registry} denies access to {name} with your secret", name=name, registry=registry),
            hint=msg("Check the user name and password in the secret, and its access to this repository."),
        )
    return PullError(
        PullFailure.DENIED,
        msg(
            "The registry {registry} denies access to {name}, or the image does not exist", name=name, registry=registry
        ),
        hint=msg("Check the name. If the image is private, add a registry secret for {registry}.", registry=registry),
    )


def make_rate_limit_error(registry: str, retry_at: datetime | None) -> PullError:
    if retry_at is None:
        message = msg("The registry {registry} limits the number of pulls, and the limit is reached", registry=registry)
    else:
        until = f"{retry_at:%Y-%m-%d %H:%M:%S} UTC"
        message = msg("The registry {registry} accepts no more pulls until {time}", registry=registry, time=until)
    hint = msg("Wait, add a registry secret for a higher limit, or ask an admin to set up a mirror.")
    return PullError(PullFailure.RATE_LIMITED, message, hint=hint, retry_at=retry_at)


def make_unreachable_error(registry: str, reason: str, *, is_permanent: bool = False) -> PullError:
    return PullError(
        PullFailure.UNREACHABLE,
        msg("Cannot reach the registry {registry}: {reason}", registry=registry, reason=reason),
        hint=msg("Check the registry's name. If it is correct, ask an admin to check the network of the server."),
        is_permanent=is_permanent,
    )


def make_response_error(registry: str, status: int, retry_at: datetime | None = None) -> PullError:
    """Return the error for a response that no other one describes. Errors of the server itself are transient."""
    kind = PullFailure.UNREACHABLE if status >= 500 else PullFailure.INVALID
    return PullError(
        kind,
        msg("The registry {registry} responded with the error {status}", registry=registry, status=status),
        hint=msg("Try again later. If the error stays, ask the operator of the registry."),
        retry_at=retry_at,
    )


def make_invalid_error(name: str, reason: str) -> PullError:
    return PullError(
        PullFailure.INVALID,
        msg("Image {name} is damaged or not supported: {reason}", name=name, reason=reason),
        hint=msg("Build and push the image again, or use another one."),
    )


def make_architecture_error(name: str, built_for: str) -> PullError:
    return PullError(
        PullFailure.WRONG_ARCHITECTURE,
        msg(
            "Image {name} is built for {built_for}, but this machine is {architecture}",
            name=name,
            built_for=built_for,
            architecture=get_architecture(),
        ),
        hint=msg("Use a tag or an image that is built for {architecture}.", architecture=get_architecture()),
    )


def make_space_error(name: str) -> PullError:
    return PullError(
        PullFailure.NO_SPACE,
        msg("The server does not have enough disk space for the image {name}", name=name),
        hint=msg("Free disk space first: run `holdfast prune` to see what uses it."),
    )


def make_shell_error(name: str) -> PullError:
    return PullError(
        PullFailure.NO_SHELL,
        msg(
            "Image {name} has no shell: it contains neither bash nor sh. Jobs run their commands in a shell", name=name
        ),
        hint=msg("Use a base image with a shell, such as debian:stable-slim or alpine."),
    )


def translate_archive_error(name: str, error: BadArchive) -> PullError:
    """Return the error for a layer that cannot be unpacked."""
    if isinstance(error, NoDiskSpace):
        return make_space_error(name)
    if isinstance(error, NoShell):
        return make_shell_error(name)
    return make_invalid_error(name, error.message)
