"""Encryption of secrets at rest: AES-256-GCM with a key in a file outside the database."""

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

_KEY_SIZE = 32  # bytes
_NONCE_SIZE = 12  # bytes
_VERSION = b"\x01"  # first byte of sealed data, so that the scheme can change


class Vault:
    """Seals and unseals small secrets. `cryptography` is imported on first use: few starts need it."""

    def __init__(self, key: bytes, origin: str = msg("the key")) -> None:
        if len(key) != _KEY_SIZE:
            raise ValueError(
                msg("A vault key must have {key_bytes} bytes, not {key}", key_bytes=_KEY_SIZE, key=len(key))
            )
        self._key = key
        self.origin = origin

    @classmethod
    def open(cls, path: Path) -> Vault:
        """Open the vault of a key file; create the file if it is missing."""
        if not path.exists():
            _create_key_file(path)
        return cls(_read_key_file(path), str(path))

    @property
    def fingerprint(self) -> str:
        """Identifies the key without revealing it."""
        return hashlib.sha256(b"holdfast vault" + self._key).hexdigest()[:32]

    def seal(self, data: bytes, *, about: str) -> bytes:
        """Encrypt `data` and bind it to `about`: the same text unseals it, so that text must never change."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_SIZE)
        return _VERSION + nonce + AESGCM(self._key).encrypt(nonce, data, about.encode())

    def unseal(self, sealed: bytes, *, about: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce, body = sealed[1 : 1 + _NONCE_SIZE], sealed[1 + _NONCE_SIZE :]
        if sealed[:1] != _VERSION or len(nonce) < _NONCE_SIZE:
            raise UserError(
                msg("A secret of {about} is damaged", about=about), hint=msg("Restore the database from a backup.")
            )
        try:
            return AESGCM(self._key).decrypt(nonce, body, about.encode())
        except InvalidTag:
            raise build_wrong_key_error(self, msg("Cannot decrypt a secret of {about}", about=about)) from None

    def derive_key(self, purpose: bytes) -> bytes:
        """Derive 32 bytes from this key and a purpose: a secret that need not be stored."""
        return hmac.digest(self._key, b"holdfast derived\0" + purpose, "sha256")


def build_wrong_key_error(vault: Vault, what: str) -> UserError:
    return UserError(
        msg("{what}: the key in {origin} does not match", what=what, origin=vault.origin),
        hint=msg("Restore the key file of this database."),
    )


def _create_key_file(path: Path) -> None:
    """Write a new key file atomically, with mode 0600; if two processes create it, the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(_KEY_SIZE)) + b"\n")
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


def _read_key_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(1024)
            if os.fstat(file.fileno()).st_mode & 0o077:
                log.warning("The key file can be read by others", extra={"path": str(path)})
        key = base64.b64decode(text.strip(), validate=True)
    except OSError as error:
        raise UserError(msg("Cannot read the key file {path}: {error}", path=path, error=error.strerror)) from error
    except binascii.Error:
        key = b""
    if len(key) != _KEY_SIZE:
        raise UserError(msg("{path} is not a key file", path=path), hint=msg("Restore the key file of this database."))
    return key
