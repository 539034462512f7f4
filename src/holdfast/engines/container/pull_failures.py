"""What a container daemon says about a failed pull, in the same words as the embedded engine. Pure."""

from __future__ import annotations

import re

from holdfast.core.errors import EngineError, sanitize_output
from holdfast.core.image_names import get_registry_host
from holdfast.core.messages import msg
from holdfast.engines.base import PullError, PullFailure
from holdfast.engines.embedded.images.image_config import get_architecture
from holdfast.engines.embedded.images.pull_errors import make_denied_error, make_not_found_error, make_rate_limit_error

from .daemon import DaemonError

_MAX_REASON_SIZE = 500  # bytes of the daemon's own text

_DAEMON_HINT = msg(
    "Ask an admin to start Docker or Podman's service, or to set `engine.socket` to its socket. The server retries."
)
_NETWORK_HINT = msg(
    "Check the registry's name. If it is correct, ask an admin to check the network, DNS and proxy of the daemon."
)
_TLS_HINT = msg(
    "Ask an admin to install the registry's certificate for the daemon, or to add it to `insecure-registries`."
)
_NETWORK_REASONS = (  # in this order
    (re.compile(r"proxyconnect", re.I), msg("the daemon's proxy does not respond"), _NETWORK_HINT),
    (
        re.compile(r"no such host|name resolution|server misbehaving|\blookup \S+ on ", re.I),
        msg("its name cannot be resolved"),
        _NETWORK_HINT,
    ),
    (re.compile(r"HTTP response to HTTPS client", re.I), msg("it does not use TLS"), _TLS_HINT),
    (re.compile(r"x509|certificate", re.I), msg("its certificate is not valid"), _TLS_HINT),
    (re.compile(r"connection refused", re.I), msg("the connection was refused"), _NETWORK_HINT),
    (re.compile(r"timeout|deadline exceeded|awaiting headers", re.I), msg("it does not respond"), _NETWORK_HINT),
    (
        re.compile(r"dial tcp|no route to host|network is unreachable|connection reset|\bEOF\b", re.I),
        msg("the connection failed"),
        _NETWORK_HINT,
    ),
)
_FAILURES = (  # in this order
    (re.compile(r"no matching manifest|does not match the specified platform", re.I), PullFailure.WRONG_ARCHITECTURE),
    (re.compile(r"toomanyrequests|rate limit|too many requests", re.I), PullFailure.RATE_LIMITED),
    (
        re.compile(r"denied|unauthorized|authentication required|forbidden|no basic auth credentials", re.I),
        PullFailure.DENIED,
    ),
    (re.compile(r"manifest unknown|not found|repository name not known", re.I), PullFailure.NOT_FOUND),
    (re.compile(r"no space left", re.I), PullFailure.NO_SPACE),
    (re.compile(r"invalid reference|unsupported|digest", re.I), PullFailure.INVALID),
)


def translate_pull_error(name: str, error: EngineError, *, has_credentials: bool) -> PullError:
    """Return the error for what the daemon says. What is not known may pass."""
    if not isinstance(error, DaemonError):
        text = msg("Image {name} cannot be pulled now: the container daemon does not respond", name=name)
        return PullError(PullFailure.UNREACHABLE, text, hint=_DAEMON_HINT)
    text = str(error)
    registry = get_registry_host(name)
    for pattern, reason, hint in _NETWORK_REASONS:
        if pattern.search(text):
            message = msg("The container daemon cannot reach {registry}: {reason}", registry=registry, reason=reason)
            return PullError(PullFailure.UNREACHABLE, message, hint=hint)
    kind = next((kind for pattern, kind in _FAILURES if pattern.search(text)), PullFailure.UNREACHABLE)
    return _make_error(kind, name, registry, text, has_credentials=has_credentials)


def _make_error(kind: PullFailure, name: str, registry: str, text: str, *, has_credentials: bool) -> PullError:
    match kind:
        case PullFailure.WRONG_ARCHITECTURE:
            architecture = get_architecture()
            return PullError(
                kind,
                msg("Image {name} is not built for {architecture}", name=name, architecture=architecture),
                hint=msg("Use a tag or an image that is built for {architecture}.", architecture=architecture),
            )
        case PullFailure.RATE_LIMITED:
            return make_rate_limit_error(registry, None)
        case PullFailure.DENIED:
            return make_denied_error(name, registry, has_credentials=has_credentials)
        case PullFailure.NOT_FOUND:
            return make_not_found_error(name, registry)
        case PullFailure.NO_SPACE:
            return PullError(
                kind,
                msg("The container daemon does not have enough disk space for the image {name}", name=name),
                hint=msg("Ask an admin to free disk space in its data folder, for example with `docker image prune`."),
            )
        case _:
            reason = sanitize_output(text.encode()[:_MAX_REASON_SIZE]).rstrip(".")
            return PullError(kind, msg("Image {name} cannot be pulled: {reason}", name=name, reason=reason))
