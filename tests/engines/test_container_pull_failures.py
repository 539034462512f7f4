"""What users read when a container daemon cannot pull an image, or does not respond."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from holdfast.engines.base import PullError, PullFailure
from holdfast.engines.container.daemon import Daemon, DaemonError, DaemonUnavailable
from holdfast.engines.container.image_pulls import ContainerImages
from holdfast.engines.container.names import ContainerNames
from holdfast.engines.container.pull_failures import translate_pull_error

NAME = "registry.example.com/team/app:1"
URL = 'Get "https://registry.example.com/v2/"'


def open_daemon(path: Path) -> Daemon:
    return Daemon(str(path), ContainerNames("test"))


def pull_without_daemon(path: Path) -> tuple[PullError, DaemonUnavailable]:
    """Return what a job is told, and what admins are told."""

    async def pull() -> tuple[PullError, DaemonUnavailable]:
        daemon = open_daemon(path / "daemon.sock")
        try:
            with pytest.raises(PullError) as pulled:
                await ContainerImages(daemon, path, ()).pull_image(NAME, None, None)
            with pytest.raises(DaemonUnavailable) as listed:
                await daemon.list_images()
        finally:
            await daemon.close()
        return pulled.value, listed.value

    return asyncio.run(pull())


def test_a_daemon_without_a_socket(tmp_path: Path) -> None:
    pulled, listed = pull_without_daemon(tmp_path)
    assert pulled.message == f"Image {NAME} cannot be pulled now: the container daemon does not respond"
    assert (pulled.is_transient, "engine.socket" in (pulled.hint or "")) == (True, True)
    assert str(listed).endswith("daemon.sock does not respond: the socket does not exist")


def test_a_daemon_that_ended_and_left_its_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(tmp_path / "daemon.sock"))
    _, listed = pull_without_daemon(tmp_path)
    assert str(listed).endswith("does not respond: no process listens on the socket")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (f"{URL}: dial tcp: lookup registry.example.com on 10.0.0.2:53: no such host", "unreachable", "resolved"),
        (f"{URL}: dial tcp: lookup a.b on [::1]:53: dial udp: network is unreachable", "unreachable", "resolved"),
        (f"{URL}: dial tcp 10.0.0.1:443: connect: connection refused", "unreachable", "refused"),
        (f"{URL}: net/http: request canceled (Client.Timeout exceeded while awaiting headers)", "unreachable", "resp"),
        (f"{URL}: x509: certificate signed by unknown authority", "unreachable", "certificate is not valid"),
        (f"{URL}: http: server gave HTTP response to HTTPS client", "unreachable", "does not use TLS"),
        (f"{URL}: no basic auth credentials", "denied", "denies access"),
        ("pull access denied for team/app, repository does not exist", "denied", "denies access"),
        (f"manifest for {NAME} not found: manifest unknown", "not-found", "was not found in the registry"),
        ("no matching manifest for linux/s390x in the manifest list entries", "wrong-architecture", "not built for"),
        ("toomanyrequests: You have reached your pull rate limit", "rate-limited", "limits the number of pulls"),
        ("write /var/lib/docker/tmp/x: no space left on device", "no-space", "enough disk space"),
    ],
)
def test_known_texts_of_a_daemon_are_replaced_and_have_a_hint(text: str, kind: str, said: str) -> None:
    error = translate_pull_error(NAME, DaemonError(500, text), has_credentials=False)
    assert error.kind is PullFailure(kind)
    assert said in error.message
    assert text not in error.message
    assert error.hint


def test_unknown_texts_are_shown_on_one_line() -> None:
    error = translate_pull_error(NAME, DaemonError(500, "a new\nproblem\x1b[31m."), has_credentials=True)
    assert error.message == f"Image {NAME} cannot be pulled: a new problem?[31m"
    assert error.is_transient
