"""Names of images, read as Docker reads them."""

from __future__ import annotations

import pytest

from holdfast.core.image_names import get_registry_address, parse_reference
from holdfast.engines.embedded.images.registry_auth import parse_challenges

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("debian", "docker.io/library/debian:latest"),
        ("debian:12", "docker.io/library/debian:12"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/debian", "docker.io/library/debian:latest"),
        ("index.docker.io/library/debian", "docker.io/library/debian:latest"),
        ("ghcr.io/a/b/c:v1.2-x_y", "ghcr.io/a/b/c:v1.2-x_y"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:1", "localhost:5000/app:1"),
        ("Registry/app", "registry/app:latest"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("10.0.0.1:5000/a__b/c---d", "10.0.0.1:5000/a__b/c---d:latest"),
        (f"debian@{DIGEST}", f"docker.io/library/debian@{DIGEST}"),
        (f"debian:12@{DIGEST}", f"docker.io/library/debian:12@{DIGEST}"),
    ],
)
def test_a_name_means_what_it_means_to_docker(name: str, full: str) -> None:
    assert str(parse_reference(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "", "/", "a/", "/a", "a//b", "../a", "a/../b", "a/..", "UPPER", "a:", "a:-x", "a:b:c", "a@", "a@sha256:abc",
        f"a@md5:{'a' * 32}", "a b", "a\nb", "a\0b", "http://a.b/c", "docker://debian", "user:pw@host.com/a", "a?b",
        "a#b",
        "host.com:port/a", "host.com:999999/a", "-a.com/b", "a.com/B", "a" * 300, "x.com/" + "a/" * 200 + "a",
        "a.com%2f/b",
        "a:" + "t" * 129, "ä", "host.com/", f"a@{DIGEST}@{DIGEST}", "[::1/a", "a_.b",
    ],
)  # fmt: skip
def test_a_hostile_name_is_refused(name: str) -> None:
    assert parse_reference(name) is None


def test_another_default_registry_has_no_library() -> None:
    assert str(parse_reference("debian", "harbor.example.com")) == "harbor.example.com/debian:latest"


def test_docker_hub_is_served_by_another_host() -> None:
    assert get_registry_address("docker.io") == "registry-1.docker.io"
    assert get_registry_address("ghcr.io") == "ghcr.io"


def test_challenges_of_every_form_are_read() -> None:
    header = 'Bearer realm="https://auth.example.com/token",service="a \\"b\\"", scope=x:y , Basic realm="z"'
    bearer, basic = parse_challenges(header)
    assert (bearer.scheme, basic.scheme) == ("bearer", "basic")
    assert bearer.parameters == {"realm": "https://auth.example.com/token", "service": 'a "b"', "scope": "x:y"}
    assert parse_challenges("") == []
    assert parse_challenges("=" * 10_000) == []
    assert parse_challenges('Bearer realm="' + "\\" * 100_000)[0].scheme == "bearer"
