"""Detects the kind of an image archive, and reads its layers and configuration. Blocking: call it from a thread."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol

from holdfast.core.messages import msg

from .image_config import ImageConfig, get_architecture, parse_image_config, select_manifest
from .layer_streams import COMPRESSION_ERRORS, ZSTD_MAGIC, open_zstd
from .tars import BadArchive, ImageTar
from .unpacking import Unpacker

_DIGEST_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_JSON_SIZE = 16 * 1024 * 1024  # bytes
_MAX_ENTRIES = 100_000  # files in an archive of layers
_ROOTFS_FOLDERS = frozenset({"bin", "etc", "lib", "usr", "sbin", "var", "home", "root", "opt", "dev", "proc", "sys"})
_SUPPORTED_KINDS = msg("a `docker save` archive, an OCI layout, or a tar archive of a root filesystem")


class FileBundle(Protocol):
    """A bundle of named files: a tar, or a folder."""

    def open(self, name: str) -> IO[bytes]: ...


def unpack_image(file: Path, unpacker: Unpacker) -> ImageConfig:
    """Unpack an image of any supported kind; BadArchive if it is none."""
    if file.is_dir():
        return _unpack_layout(_FolderBundle(file), unpacker)
    try:
        with open(file, "rb") as stream, _open_tar(stream) as outer:
            kind = _detect_kind(outer)
            if kind == "docker":
                return _unpack_docker(_TarBundle(outer), unpacker)
            if kind == "oci":
                return _unpack_layout(_TarBundle(outer), unpacker)
        with open(file, "rb") as stream:
            unpacker.add_layer(stream, whiteouts=False)
    except (tarfile.TarError, *COMPRESSION_ERRORS, gzip.BadGzipFile, RecursionError) as error:
        raise BadArchive(
            msg("The file is not an image: {error}", error=error), hint=msg("Use {kinds}.", kinds=_SUPPORTED_KINDS)
        ) from error
    return ImageConfig()


def _open_tar(stream: IO[bytes]) -> ImageTar:
    """Open a tar. Python's own error for other files is a long list of all formats it tried."""
    try:
        if stream.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC:
            stream.seek(0)
            return ImageTar.open(fileobj=open_zstd(stream), mode="r:")
        stream.seek(0)
        return ImageTar.open(fileobj=stream, mode="r:*")
    except tarfile.ReadError as error:
        raise BadArchive(
            msg("The file is not an image: it is not a tar archive."), hint=msg("Use {kinds}.", kinds=_SUPPORTED_KINDS)
        ) from error


def _detect_kind(outer: tarfile.TarFile) -> str:
    """Detect the kind by the first known name. A root filesystem shows at once; the others have few files."""
    layout = False
    for count, entry in enumerate(outer):
        if count > _MAX_ENTRIES:
            raise BadArchive(
                msg("The archive has more than {max_parts} entries, but no image manifest.", max_parts=_MAX_ENTRIES)
            )
        name = entry.name.removeprefix("./").strip("/")
        if name == "manifest.json":
            return "docker"
        layout = layout or name == "index.json"
        if name.split("/")[0] in _ROOTFS_FOLDERS:
            return "rootfs"
    if layout:
        return "oci"
    raise BadArchive(msg("The file does not contain an image."), hint=msg("Use {kinds}.", kinds=_SUPPORTED_KINDS))


class _TarBundle:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._names: dict[str, tarfile.TarInfo] = {}
        for count, entry in enumerate(archive):
            self._names[entry.name.removeprefix("./")] = entry
            if count > _MAX_ENTRIES:
                raise BadArchive(msg("The archive has more than {max_parts} entries.", max_parts=_MAX_ENTRIES))

    def open(self, name: str) -> IO[bytes]:
        entry = self._names.get(name)
        try:
            found = self._archive.extractfile(entry) if entry is not None else None
        except KeyError:  # a link within the archive to a missing file
            found = None
        if found is None:
            raise BadArchive(msg("The archive is incomplete: {name} is missing.", name=name))
        return found


class _FolderBundle:
    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def open(self, name: str) -> IO[bytes]:
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder) or not path.is_file():
            raise BadArchive(msg("The OCI layout is incomplete: {name} is missing.", name=name))
        return open(path, "rb")


def _unpack_docker(bundle: FileBundle, unpacker: Unpacker) -> ImageConfig:
    manifests = _read_json(bundle, "manifest.json")
    try:
        manifest = manifests[0]
        layers, config = list(map(str, manifest["Layers"])), str(manifest["Config"])
    except (LookupError, TypeError) as error:
        raise BadArchive(msg("manifest.json does not describe an image.")) from error
    return replace(_unpack_layers(bundle, layers, config, unpacker), kind=msg("Docker archive"))


def _unpack_layout(bundle: FileBundle, unpacker: Unpacker) -> ImageConfig:
    manifest = _find_manifest(bundle, _read_json(bundle, "index.json"), depth=0)
    try:
        layers = [_get_blob_path(layer["digest"]) for layer in manifest["layers"]]
        config = _get_blob_path(manifest["config"]["digest"])
    except (LookupError, TypeError) as error:
        raise BadArchive(msg("The image manifest lists no layers.")) from error
    return replace(_unpack_layers(bundle, layers, config, unpacker), kind=msg("OCI layout"))


def _find_manifest(bundle: FileBundle, index: Any, depth: int) -> Any:
    """Return the manifest for this machine; an index may point to another index."""
    try:
        entry = select_manifest(index["manifests"])
        digest = entry["digest"] if entry is not None else None
    except (LookupError, TypeError) as error:
        raise BadArchive(
            msg("The OCI layout has no image for this machine ({architecture}).", architecture=get_architecture())
        ) from error
    document = _read_json(bundle, _get_blob_path(digest))
    if isinstance(document, dict) and "manifests" in document and depth < 3:
        return _find_manifest(bundle, document, depth + 1)
    return document


def _get_blob_path(digest: Any) -> str:
    if not isinstance(digest, str) or not _DIGEST_PATTERN.fullmatch(digest):
        raise BadArchive(msg("{digest} is not a valid digest.", digest=repr(str(digest)[:100])))
    return f"blobs/sha256/{digest.partition(':')[2]}"


def _read_json(bundle: FileBundle, name: str) -> Any:
    with bundle.open(name) as file:
        data = file.read(_MAX_JSON_SIZE + 1)
    if len(data) > _MAX_JSON_SIZE:
        raise BadArchive(msg("{name} is too large.", name=name))
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadArchive(msg("{name} is damaged: {error}", name=name, error=error)) from error


def _unpack_layers(bundle: FileBundle, layers: list[str], config: str, unpacker: Unpacker) -> ImageConfig:
    settings = _read_json(bundle, config)
    if not isinstance(settings, dict) or not layers:
        raise BadArchive(msg("The image in this archive has no layers or no configuration."))
    built_for = settings.get("architecture")
    if built_for not in (None, "", get_architecture()):
        raise BadArchive(
            msg(
                "The image is built for {built_for}, but this machine is {architecture}.",
                built_for=built_for,
                architecture=get_architecture(),
            )
        )
    for layer in layers:
        with bundle.open(layer) as stream:
            unpacker.add_layer(stream)
    return parse_image_config(settings)
