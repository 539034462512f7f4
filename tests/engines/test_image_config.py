"""The configuration of an image, and which image of several is for this machine."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from holdfast.engines.embedded.images.image_config import ImageConfig, parse_image_config, select_manifest


def entry(architecture: str, variant: str = "", system: str = "linux", **fields: Any) -> dict[str, Any]:
    found = {"architecture": architecture, "os": system, **({"variant": variant} if variant else {})}
    return {"digest": f"{architecture}{variant}{system}", "platform": found, **fields}


@pytest.mark.parametrize(
    ("machine", "entries", "chosen"),
    [
        ("x86_64", [entry("arm64"), entry("amd64", "v3"), entry("amd64")], "amd64linux"),
        ("x86_64", [entry("amd64", system="windows"), entry("amd64", "v1")], "amd64v1linux"),
        ("x86_64", [entry("amd64", "v3")], None),
        ("aarch64", [entry("arm", "v7"), entry("arm64", "v9"), entry("arm64"), entry("arm64", "v8")], "arm64v8linux"),
        ("aarch64", [entry("arm64")], "arm64linux"),
        ("armv7l", [entry("arm", "v5"), entry("arm", "v6"), entry("arm64", "v8")], "armv6linux"),
        ("x86_64", [entry("amd64", annotations={"type": "attestation-manifest"})], None),
        ("x86_64", [5, None, {"platform": 5, "digest": "any"}], "any"),
        ("x86_64", [], None),
    ],
)
def test_the_manifest_for_this_machine_is_selected(
    monkeypatch: pytest.MonkeyPatch, machine: str, entries: list[Any], chosen: str | None
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    found = select_manifest(entries)
    assert (found["digest"] if found else None) == chosen


def test_a_configuration_is_read() -> None:
    config = {"User": "app:app", "Entrypoint": ["/init", "--"], "Cmd": ["run"], "Env": ["A=1"], "WorkingDir": "/app"}
    found = parse_image_config({"config": config})
    assert (found.user, found.entrypoint, found.cmd) == ("app:app", ("/init", "--"), ("run",))
    assert (found.env, found.workdir) == ({"A": "1"}, "/app")


@pytest.mark.parametrize(
    "value", [None, 5, "text", {}, [5], ["a\0b"], ["x" * 200_000], ["x"] * 5000, "a\nb", "x" * 300]
)
def test_what_is_not_valid_is_left_out(value: Any) -> None:
    user = value if value == "text" else ""
    names = ("User", "Entrypoint", "Cmd", "WorkingDir", "Env")
    assert parse_image_config({"config": dict.fromkeys(names, value)}) == ImageConfig(user=user)
    assert parse_image_config({"config": value}) == ImageConfig()
