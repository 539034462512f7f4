"""Secrets at rest: AES-256-GCM with a key that lives in a file of its own, outside the database."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

log = logging.getLogger(__name__)

_KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"  # first byte of everything sealed, so that the scheme can change


class Vault:
    """Seals and unseals small secrets. `cryptography` is imported on first use: most starts need no secret."""

    def __init__(self, key: bytes, origin: str = msg("the key")) -> None:
        if len(key) != _KEY_BYTES:
            raise ValueError(msg("A vault key has {key_bytes} bytes, not {key}", key_bytes=_KEY_BYTES, key=len(key)))
        self._key = key
        self.origin = origin

    @classmethod
    def open(cls, path: Path) -> Vault:
        """The vault of this key file, made with a new key when it is missing."""
        if not path.exists():
            _create(path)
        return cls(_read(path), str(path))

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without telling anything of the key."""
        return hashlib.sha256(b"holdfast vault" + self._key).hexdigest()[:32]

    def seal(self, data: bytes, *, about: str) -> bytes:
        """Encrypted, and bound to what it is about: it opens for that only."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + AESGCM(self._key).encrypt(nonce, data, about.encode())

    def unseal(self, sealed: bytes, *, about: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce, body = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        if sealed[:1] != _VERSION or len(nonce) < _NONCE_BYTES:
            raise UserError(
                msg("A secret of {about} is damaged", about=about), hint=msg("Restore the database from a backup.")
            )
        try:
            return AESGCM(self._key).decrypt(nonce, body, about.encode())
        except InvalidTag:
            raise wrong_key(self, msg("A secret of {about} cannot be read", about=about)) from None

    def derive(self, purpose: bytes) -> bytes:
        """32 bytes that only this key and this purpose give: a secret that need not be stored."""
        return hmac.digest(self._key, b"holdfast derived\0" + purpose, "sha256")


def wrong_key(vault: Vault, what: str) -> UserError:
    return UserError(
        msg("{what}: the key in {origin} is not the one it was written with", what=what, origin=vault.origin),
        hint=msg("Put back the key file that belongs to this database."),
    )


def _create(path: Path) -> None:
    """Write a new key file, whole and private from its first moment; of two makers the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(1024)
            if os.fstat(file.fileno()).st_mode & 0o077:
                log.warning("The key file can be read by others", extra={"path": str(path)})
        key = base64.b64decode(text.strip(), validate=True)
    except OSError as error:
        raise UserError(
            msg("The key file {path} cannot be read: {strerror}", path=path, strerror=error.strerror)
        ) from error
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise UserError(
            msg("{path} is not a key file", path=path), hint=msg("Put back the key file that belongs to this database.")
        )
    return key
