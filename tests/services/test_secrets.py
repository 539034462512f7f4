"""Secrets: values go in, and come out for what needs them alone."""

from __future__ import annotations

import base64
import logging
from dataclasses import asdict

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from sqlalchemy import text

from holdfast.core.catalogue import ImageAlias, Secret, SecretKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.records import Dataset
from holdfast.services.catalogue.secrets import SecretChange

from .house import House

pytestmark = pytest.mark.anyio

VALUE = "correct horse battery staple"
KEY = Secret(name="key", display_name="Deploy key")
REGISTRY = Secret(name="reg", kind=SecretKind.REGISTRY, registry_host="ghcr.io", username="ann")


async def test_a_secret_from_beginning_to_end(house: House) -> None:
    secrets = house.services.secrets
    assert await secrets.create(house.admin, KEY, VALUE) == KEY
    assert await secrets.get(house.admin, "key") == KEY
    assert await secrets.load_value("key") == VALUE
    changed = await secrets.change(house.admin, "key", SecretChange(display_name="other"))
    assert changed.display_name == "other"
    assert await secrets.load_value("key") == VALUE
    await secrets.change(house.admin, "key", SecretChange(value="new"))
    assert await secrets.load_value("key") == "new"
    await secrets.delete(house.admin, "key")
    assert await secrets.load_value("key") is None
    for attempt in (secrets.get(house.admin, "key"), secrets.delete(house.admin, "key")):
        with pytest.raises(NotFound):
            await attempt


async def test_who_sees_and_does_what(house: House) -> None:
    ann = await house.user("ann", "red")
    secrets = house.services.secrets
    for secret in (KEY, REGISTRY):
        await secrets.create(house.admin, secret, VALUE)
    assert await secrets.list(house.admin) == [KEY, REGISTRY]
    assert await secrets.list(ann) == [REGISTRY]
    assert await secrets.get(ann, "reg") == REGISTRY
    with pytest.raises(NotFound):
        await secrets.get(ann, "key")
    for attempt in (
        secrets.create(ann, Secret(name="mine"), VALUE),
        secrets.change(ann, "reg", SecretChange(username="ann")),
        secrets.delete(ann, "reg"),
    ):
        with pytest.raises(Forbidden):
            await attempt


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "a\0", "ä", "a" * 64, "me"])
async def test_names_that_cannot_be(house: House, name: str) -> None:
    with pytest.raises(UserError) as caught:
        await house.services.secrets.create(house.admin, Secret(name=name), VALUE)
    assert caught.value.field == "name"


def locked_openssh_key() -> str:
    """The beginning is what tells; no library here writes the rest."""
    said = b"".join(len(part).to_bytes(4) + part for part in (b"aes256-ctr", b"bcrypt", b"salt", b"key"))
    body = base64.encodebytes(b"openssh-key-v1\0" + said).decode()
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n"


def private_key(form: PrivateFormat, passphrase: bytes | None) -> str:
    """As ssh-keygen and openssl write them."""
    if passphrase and form is PrivateFormat.OpenSSH:
        return locked_openssh_key()
    lock = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    new = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return new.private_bytes(Encoding.PEM, form, lock).decode()


FORMS = (PrivateFormat.OpenSSH, PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL)


@pytest.mark.release_after(1)
@pytest.mark.parametrize("form", FORMS)
async def test_private_keys_for_git_must_have_no_passphrase(house: House, form: PrivateFormat) -> None:
    secrets = house.services.secrets
    with pytest.raises(UserError, match="has a passphrase") as caught:
        await secrets.create(house.admin, KEY, private_key(form, b"open sesame"))
    assert caught.value.field == "value"
    await secrets.create(house.admin, KEY, private_key(form, None))
    with pytest.raises(UserError, match="has a passphrase"):
        await secrets.change(house.admin, "key", SecretChange(value=private_key(form, b"open sesame")))


@pytest.mark.parametrize("value", ["import os\nprint(os)\n", "ssh-ed25519 AAAAC3NzaC1 ann@home", "a\nb"])
async def test_what_is_neither_a_private_key_nor_a_password_is_no_secret_for_git(house: House, value: str) -> None:
    with pytest.raises(UserError) as caught:
        await house.services.secrets.create(house.admin, KEY, value)
    assert caught.value.field == "value"
    assert value.strip() not in caught.value.message
    registry = Secret(name="reg", kind=SecretKind.REGISTRY, registry_host="ghcr.io", username="ann")
    await house.services.secrets.create(house.admin, registry, value)


@pytest.mark.parametrize("value", ["", " \n", "a\0b", "x" * 70_000, "\ud800"])
async def test_values_that_cannot_be(house: House, value: str) -> None:
    with pytest.raises(UserError) as caught:
        await house.services.secrets.create(house.admin, KEY, value)
    assert caught.value.field == "value"
    assert str(len(value)) not in caught.value.message
    assert await house.services.secrets.list(house.admin) == []


@pytest.mark.parametrize(
    "secret",
    [
        Secret(name="a", kind=SecretKind.REGISTRY),
        Secret(name="a", kind=SecretKind.REGISTRY, registry_host="ghcr.io"),
        Secret(name="a", kind=SecretKind.REGISTRY, username="ann"),
        Secret(name="a", kind=SecretKind.REGISTRY, registry_host="a b", username="ann"),
        Secret(name="a", registry_host="ghcr.io"),
        Secret(name="a", display_name="a\nb"),
    ],
)
async def test_what_belongs_together(house: House, secret: Secret) -> None:
    with pytest.raises(UserError):
        await house.services.secrets.create(house.admin, secret, VALUE)


async def test_a_name_is_taken_once(house: House) -> None:
    await house.services.secrets.create(house.admin, KEY, VALUE)
    with pytest.raises(Conflict, match="Secret key already exists"):
        await house.services.secrets.create(house.admin, KEY, "other")
    assert await house.services.secrets.load_value("key") == VALUE


async def test_one_that_is_in_use_stays(house: House) -> None:
    services = house.services
    for secret in (KEY, REGISTRY):
        await services.secrets.create(house.admin, secret, VALUE)
    made = Dataset(name="code", path="", kind="git", data={"url": "file:///nowhere", "secret": "key"})
    await services.datasets.create(house.admin, made)
    await services.image_aliases.create(house.admin, ImageAlias(name="torch", url="x", pull_secret="reg"))
    for name, user in {"key": "dataset code", "reg": "image torch"}.items():
        with pytest.raises(Conflict, match=f"in use by {user}"):
            await services.secrets.delete(house.admin, name)
    await services.datasets.delete(house.admin, "code")
    await services.secrets.delete(house.admin, "key")


async def test_nothing_on_disk_shows_it(house: House) -> None:
    await house.services.secrets.create(house.admin, KEY, VALUE)
    made = Dataset(name="env", path="", kind="env")
    await house.services.datasets.create(house.admin, made, variables={"TOKEN": VALUE})
    assert any(b"Deploy key" in file.read_bytes() for file in house.home.glob("holdfast.db*"))
    for file in house.home.rglob("*"):
        assert not file.is_file() or VALUE.encode() not in file.read_bytes(), file


async def test_one_is_bound_to_its_name(house: House) -> None:
    """Whoever can write to the database cannot give one secret's value to another, or variables to a dataset."""
    for name in ("key", "other"):
        await house.services.secrets.create(house.admin, Secret(name=name), f"value of {name}")
    swap = "UPDATE secrets SET value = (SELECT value FROM secrets WHERE name = 'other') WHERE name = 'key'"
    await house.store.write(lambda conn: conn.execute(text(swap)))
    with pytest.raises(UserError, match="Cannot decrypt a secret of the secret key") as caught:
        await house.services.secrets.load_value("key")
    assert "value of" not in caught.value.message


async def test_it_is_in_no_text_that_programs_write(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await house.services.secrets.create(house.admin, KEY, VALUE)
    change = SecretChange(value=VALUE)
    await house.services.secrets.change(house.admin, "key", change)
    assert VALUE not in repr(change)
    assert VALUE not in str([asdict(secret) for secret in await house.services.secrets.list(house.admin)])
    assert VALUE not in caplog.text


def test_no_secret_has_a_field_for_its_value() -> None:
    assert set(asdict(KEY)) == {"name", "display_name", "kind", "registry_host", "username"}
