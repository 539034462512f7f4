"""Detects the kind of an image archive, and reads its layers and configuration. Blocking: call it from a thread."""

from __future__ import annotations

import gzip
import json
import lzma
import platform
import re
import tarfile
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

from holdfast.core.messages import msg

from .tars import BadArchive, ImageTar
from .unpacking import Unpacker

_DIGEST_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_JSON_SIZE = 16 * 1024 * 1024  # bytes
_MAX_ENTRIES = 100_000  # files in an archive of layers
_ROOTFS_FOLDERS = frozenset({"bin", "etc", "lib", "usr", "sbin", "var", "home", "root", "opt", "dev", "proc", "sys"})
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ARCHITECTURES_BY_MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
_SUPPORTED_KINDS = msg("a `docker save` archive, an OCI layout, or a tar archive of a root filesystem")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """The configuration of an image. Entrypoint, command and user are ignored: tasks have their own commands."""

    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    kind: str = msg("root filesystem archive")


class FileBundle(Protocol):
    """A bundle of named files: a tar, or a folder."""

    def open(self, name: str) -> IO[bytes]: ...


def unpack_image(file: Path, unpacker: Unpacker) -> ImageConfig:
    """Unpack an image of any supported kind; BadArchive if it is none."""
    if file.is_dir():
        return _unpack_layout(_FolderBundle(file), unpacker)
    try:
        with open(file, "rb") as stream:
            _check_compression(stream.read(4))
        with _open_tar(file) as outer:
            kind = _detect_kind(outer)
            if kind == "docker":
                return _unpack_docker(_TarBundle(outer), unpacker)
            if kind == "oci":
                return _unpack_layout(_TarBundle(outer), unpacker)
        with open(file, "rb") as stream:
            unpacker.add_layer(stream, whiteouts=False)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, RecursionError) as error:
        raise BadArchive(
            msg("The file is not an image: {error}", error=error), hint=msg("Use {kinds}.", kinds=_SUPPORTED_KINDS)
        ) from error
    return ImageConfig()


def _open_tar(file: Path) -> ImageTar:
    """Open a tar. Python's own error for other files is a long list of all formats it tried."""
    try:
        return ImageTar.open(file, "r:*")
    except tarfile.ReadError as error:
        raise BadArchive(
            msg("The file is not an image: it is not a tar archive."), hint=msg("Use {kinds}.", kinds=_SUPPORTED_KINDS)
        ) from error


def _check_compression(head: bytes) -> None:
    if head == _ZSTD_MAGIC:
        hint = msg("Save the image with gzip or without compression.")
        raise BadArchive(msg("zstd compression is not supported for images."), hint=hint)


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
        entries = [entry for entry in index["manifests"] if _is_for_this_machine(entry)]
        digest = entries[0]["digest"]
    except (LookupError, TypeError) as error:
        raise BadArchive(
            msg("The OCI layout has no image for this machine ({architecture}).", architecture=_get_architecture())
        ) from error
    document = _read_json(bundle, _get_blob_path(digest))
    if isinstance(document, dict) and "manifests" in document and depth < 3:
        return _find_manifest(bundle, document, depth + 1)
    return document


def _is_for_this_machine(entry: Any) -> bool:
    kind = entry.get("platform", {}).get("architecture", _get_architecture())
    return kind in (_get_architecture(), "") and "attestation" not in str(entry.get("annotations", ""))


def _get_architecture() -> str:
    return _ARCHITECTURES_BY_MACHINE.get(platform.machine(), platform.machine())


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
    if built_for not in (None, "", _get_architecture()):
        raise BadArchive(
            msg(
                "The image is built for {built_for}, but this machine is {architecture}.",
                built_for=built_for,
                architecture=_get_architecture(),
            )
        )
    for layer in layers:
        with bundle.open(layer) as stream:
            _check_compression(stream.read(4))
            stream.seek(0)
            unpacker.add_layer(stream)
    return _parse_config(settings)


def _parse_config(settings: dict[str, Any]) -> ImageConfig:
    config = settings.get("config")
    if not isinstance(config, dict):
        return ImageConfig()
    pairs = [str(line).partition("=") for line in config.get("Env") or [] if "=" in str(line)]
    env = {name: value for name, _, value in pairs if name and "\0" not in name + value}
    workdir = config.get("WorkingDir")
    usable = isinstance(workdir, str) and workdir.startswith("/") and "\0" not in workdir and workdir != "/"
    return ImageConfig(env=env, workdir=str(workdir) if usable else "")
