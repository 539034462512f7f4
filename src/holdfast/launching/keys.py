"""SSH keys: the key pair of a job, and public keys written by users."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

KEY_COMMENT = "pai-job-ssh"
MAX_KEYS = 100

_KEY_TYPES = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
_SPACES_PATTERN = re.compile(r"[ \t]+")


class KeyPair(NamedTuple):
    private: str  # in OpenSSH's own format
    public: str  # one line


def make_job_key_purpose(job_id: str) -> bytes:
    """Return the purpose for which the seed of a job's pair is derived."""
    return b"ssh of job " + job_id.encode()


def make_job_key_pair(seed: bytes) -> KeyPair:
    """Return the same pair for the same seed, so that it need not be stored."""
    from cryptography.hazmat.primitives import serialization as how
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(how.Encoding.PEM, how.PrivateFormat.OpenSSH, how.NoEncryption())
    public = key.public_key().public_bytes(how.Encoding.OpenSSH, how.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()} {KEY_COMMENT}")


def filter_public_keys(written: Iterable[str]) -> list[str]:
    """Return the public keys as sshd reads them, one line each, without options. Invalid lines are dropped."""
    found: dict[str, None] = {}
    for text in written:
        for line in text.splitlines():
            key = _parse_public_key(line)
            if key and len(found) < MAX_KEYS:
                found[key] = None
    return list(found)


def is_public_key(line: str) -> bool:
    return _parse_public_key(line) is not None


def count_invalid_keys(written: Iterable[str]) -> int:
    lines = (line.strip() for text in written for line in text.splitlines())
    return sum(not is_public_key(line) for line in lines if line and not line.startswith("#"))


def _parse_public_key(line: str) -> str | None:
    words = _SPACES_PATTERN.split(line.strip(), maxsplit=2)
    if len(words) < 2 or words[0] not in _KEY_TYPES or len(line) > 16_384:
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    name = words[0].encode()
    if not blob.startswith(len(name).to_bytes(4, "big") + name):
        return None
    comment = words[2] if len(words) > 2 and words[2].isprintable() else ""
    return f"{words[0]} {words[1]} {comment}".rstrip()
