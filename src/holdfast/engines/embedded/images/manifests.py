"""Manifests and configurations of images in registries, checked: they are hostile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.core.image_names import ImageReference, is_digest
from holdfast.core.messages import msg

from .image_config import ImageConfig, get_architecture, list_architectures, parse_image_config, select_manifest
from .pull_errors import make_architecture_error, make_invalid_error
from .registry import MANIFEST_TYPES, RepositoryClient, compute_digest

_MAX_CONFIG_SIZE = 4 * 1024 * 1024  # bytes
# Python's JSON parser does not release the interpreter's lock, so a thread alone does not keep the server responsive.
# An image of 1000 layers has 10,000 values in its manifest.
_MAX_JSON_VALUES = 100_000  # characters that separate values, in strings too; parsed in less than 0.1 s
_MAX_INDEX_DEPTH = 3  # indexes that point to indexes
_MAX_LAYERS = 1000
_MAX_LAYER_SIZE = 2**50  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLayer:
    blob: str  # digest of what the registry sends
    size: int  # bytes of that
    digest: str  # of the uncompressed tar


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteImage:
    """An image in a registry, for this machine."""

    digest: str  # of what the tag names: a manifest or an index
    config: ImageConfig
    layers: tuple[RemoteLayer, ...]  # the lowest first


async def fetch_remote_image(client: RepositoryClient, reference: ImageReference) -> RemoteImage:
    """Find the manifest for this machine, and read what it says."""
    name = str(reference)
    content = await client.fetch_manifest(reference.version)
    digest = await compute_digest(content)
    document = await asyncio.to_thread(_parse_json, content, name)
    for _ in range(_MAX_INDEX_DEPTH):
        if "manifests" not in document:
            break
        selected = await asyncio.to_thread(_select_digest, document["manifests"], name)
        document = await asyncio.to_thread(_parse_json, await client.fetch_manifest(selected), name)
    blobs = _parse_layers(document, name)
    config = await client.fetch_blob(_parse_config_digest(document, name), _MAX_CONFIG_SIZE)
    return await asyncio.to_thread(_build_remote_image, digest, blobs, config, name)


def _build_remote_image(digest: str, blobs: list[tuple[str, int]], config: bytes, name: str) -> RemoteImage:
    settings = _parse_json(config, name)
    _check_platform(settings, name)
    digests = _parse_layer_digests(settings, len(blobs), name)
    layers = [RemoteLayer(blob=blob, size=size, digest=each) for (blob, size), each in zip(blobs, digests, strict=True)]
    return RemoteImage(digest=digest, config=parse_image_config(settings), layers=tuple(layers))


def _parse_json(content: bytes, name: str) -> dict[str, Any]:
    """Parse a manifest or a configuration. May take long: call it from a thread."""
    if sum(map(content.count, (b",", b":", b"{", b"["))) > _MAX_JSON_VALUES:
        raise make_invalid_error(name, msg("Its manifest or configuration has too many values."))
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise make_invalid_error(name, msg("Its manifest is not JSON.")) from error
    if not isinstance(document, dict):
        raise make_invalid_error(name, msg("Its manifest does not describe an image."))
    return document


def _select_digest(entries: Any, name: str) -> str:
    if not isinstance(entries, list) or not entries:
        raise make_invalid_error(name, msg("Its index lists no images."))
    entry = select_manifest(entries)
    if entry is None:
        raise make_architecture_error(name, ", ".join(list_architectures(entries)) or "?")
    return _parse_digest(entry.get("digest"), name)


def _parse_layers(document: dict[str, Any], name: str) -> list[tuple[str, int]]:
    kind = document.get("mediaType", MANIFEST_TYPES[-1])
    layers = document.get("layers")
    if kind not in MANIFEST_TYPES[2:] or not isinstance(layers, list) or not layers:
        raise make_invalid_error(name, msg("Its manifest has no layers, or an unknown format."))
    if len(layers) > _MAX_LAYERS:
        raise make_invalid_error(name, msg("It has more than {max_layers} layers.", max_layers=_MAX_LAYERS))
    return [_parse_layer(layer, name) for layer in layers]


def _parse_layer(layer: Any, name: str) -> tuple[str, int]:
    size = layer.get("size") if isinstance(layer, dict) else None
    if type(size) is not int or not 0 <= size <= _MAX_LAYER_SIZE:
        raise make_invalid_error(name, msg("Its manifest has a layer without a valid size."))
    return _parse_digest(layer.get("digest"), name), size


def _parse_config_digest(document: dict[str, Any], name: str) -> str:
    config = document.get("config")
    return _parse_digest(config.get("digest") if isinstance(config, dict) else None, name)


def _parse_digest(digest: Any, name: str) -> str:
    if not is_digest(digest):
        raise make_invalid_error(name, msg("{digest} is not a valid digest.", digest=repr(str(digest)[:100])))
    return str(digest)


def _check_platform(settings: dict[str, Any], name: str) -> None:
    architecture, system = settings.get("architecture"), settings.get("os")
    if architecture not in (None, "", get_architecture()) or system not in (None, "", "linux"):
        raise make_architecture_error(name, f"{str(system or 'linux')[:20]}/{str(architecture)[:20]}")


def _parse_layer_digests(settings: dict[str, Any], count: int, name: str) -> list[str]:
    rootfs = settings.get("rootfs")
    digests = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(digests, list) or len(digests) != count:
        raise make_invalid_error(name, msg("Its configuration and its manifest list different layers."))
    return [_parse_digest(digest, name) for digest in digests]


def list_distinct_layers(layers: Iterable[RemoteLayer]) -> list[RemoteLayer]:
    """Return each layer once; images often repeat the empty one."""
    return list({layer.digest: layer for layer in layers}.values())
