"""What kind of image archive a file is, and the layers and settings in it. Blocking: call it from a thread."""

from __future__ import annotations

import gzip
import json
import lzma
import platform
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

from holdfast.core.messages import msg

from .tars import BadArchive, Tar
from .unpacking import Unpacker

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_JSON_SIZE = 16 * 1024 * 1024
_MAX_PARTS = 100_000  # files of an archive of layers
_ROOTFS = frozenset({"bin", "etc", "lib", "usr", "sbin", "var", "home", "root", "opt", "dev", "proc", "sys"})
_ZSTD = b"\x28\xb5\x2f\xfd"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_KINDS = msg("a tar made by docker save, an OCI layout, or a tar of a root filesystem")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What an image says of itself. Entrypoint, command and user are not for us: tasks bring their own commands."""

    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    kind: str = msg("root filesystem archive")


class Shelf(Protocol):
    """A bundle of named files: a tar, or a folder."""

    def open(self, name: str) -> IO[bytes]: ...


def unpack_image(file: Path, unpacker: Unpacker) -> ImageConfig:
    """Unpack whatever `file` is; BadArchive when it is nothing we know."""
    if file.is_dir():
        return _unpack_layout(_Folder(file), unpacker)
    try:
        _refuse_zstd(file)
        with _open(file) as outer:
            kind = _kind(outer)
            if kind == "docker":
                return _unpack_docker(_Tar(outer), unpacker)
            if kind == "oci":
                return _unpack_layout(_Tar(outer), unpacker)
        with open(file, "rb") as stream:
            unpacker.add_layer(stream, whiteouts=False)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, RecursionError) as error:
        raise BadArchive(
            msg("The file is not an image: {error}", error=error), hint=msg("Give {kinds}.", kinds=_KINDS)
        ) from error
    return ImageConfig()


def _open(file: Path) -> Tar:
    """What Python says of a file that is no tar is a list of all that it tried."""
    try:
        return Tar.open(file, "r:*")
    except tarfile.ReadError as error:
        raise BadArchive(
            msg("The file is not an image: it is no tar archive."), hint=msg("Give {kinds}.", kinds=_KINDS)
        ) from error


def _refuse_zstd(file: Path) -> None:
    with open(file, "rb") as stream:
        _check_compression(stream.read(4))


def _check_compression(head: bytes) -> None:
    if head == _ZSTD:
        hint = msg("Save it with gzip, or without compression.")
        raise BadArchive(msg("The image is compressed with zstd, which cannot be read here."), hint=hint)


def _kind(outer: tarfile.TarFile) -> str:
    """By the first telling name. A root filesystem tells at once; the others have few files to go through."""
    layout = False
    for count, entry in enumerate(outer):
        if count > _MAX_PARTS:
            raise BadArchive(
                msg(
                    "The archive has more than {most_parts} parts, and none of them says what it is.",
                    most_parts=_MAX_PARTS,
                )
            )
        name = entry.name.removeprefix("./").strip("/")
        if name == "manifest.json":
            return "docker"
        layout = layout or name == "index.json"
        if name.split("/")[0] in _ROOTFS:
            return "rootfs"
    if layout:
        return "oci"
    raise BadArchive(msg("The file holds no image."), hint=msg("Give {kinds}.", kinds=_KINDS))


class _Tar:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._names: dict[str, tarfile.TarInfo] = {}
        for count, entry in enumerate(archive):
            self._names[entry.name.removeprefix("./")] = entry
            if count > _MAX_PARTS:
                raise BadArchive(msg("The archive has more than {most_parts} parts.", most_parts=_MAX_PARTS))

    def open(self, name: str) -> IO[bytes]:
        entry = self._names.get(name)
        try:
            found = self._archive.extractfile(entry) if entry is not None else None
        except KeyError:  # a link within the archive that leads nowhere
            found = None
        if found is None:
            raise BadArchive(msg("The archive is not complete: {name} is missing.", name=name))
        return found


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def open(self, name: str) -> IO[bytes]:
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder) or not path.is_file():
            raise BadArchive(msg("The layout is not complete: {name} is missing.", name=name))
        return open(path, "rb")


def _unpack_docker(shelf: Shelf, unpacker: Unpacker) -> ImageConfig:
    manifests = _read_json(shelf, "manifest.json")
    try:
        manifest = manifests[0]
        layers, config = list(map(str, manifest["Layers"])), str(manifest["Config"])
    except (LookupError, TypeError) as error:
        raise BadArchive(msg("manifest.json does not describe an image.")) from error
    return replace(_unpack_layers(shelf, layers, config, unpacker), kind=msg("docker archive"))


def _unpack_layout(shelf: Shelf, unpacker: Unpacker) -> ImageConfig:
    manifest = _find_manifest(shelf, _read_json(shelf, "index.json"), depth=0)
    try:
        layers = [_blob(layer["digest"]) for layer in manifest["layers"]]
        config = _blob(manifest["config"]["digest"])
    except (LookupError, TypeError) as error:
        raise BadArchive(msg("The image manifest names no layers.")) from error
    return replace(_unpack_layers(shelf, layers, config, unpacker), kind=msg("OCI layout"))


def _find_manifest(shelf: Shelf, index: Any, depth: int) -> Any:
    """The manifest for this machine; an index may point to another index."""
    try:
        entries = [entry for entry in index["manifests"] if _fits(entry)]
        digest = entries[0]["digest"]
    except (LookupError, TypeError) as error:
        raise BadArchive(msg("The layout has no image for this machine ({x1}).", x1=_machine())) from error
    document = _read_json(shelf, _blob(digest))
    if isinstance(document, dict) and "manifests" in document and depth < 3:
        return _find_manifest(shelf, document, depth + 1)
    return document


def _fits(entry: Any) -> bool:
    kind = entry.get("platform", {}).get("architecture", _machine())
    return kind in (_machine(), "") and "attestation" not in str(entry.get("annotations", ""))


def _machine() -> str:
    return _MACHINES.get(platform.machine(), platform.machine())


def _blob(digest: Any) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise BadArchive(msg("{digest} is not a digest.", digest=repr(str(digest)[:100])))
    return f"blobs/sha256/{digest.partition(':')[2]}"


def _read_json(shelf: Shelf, name: str) -> Any:
    with shelf.open(name) as file:
        data = file.read(_MAX_JSON_SIZE + 1)
    if len(data) > _MAX_JSON_SIZE:
        raise BadArchive(msg("{name} is far too large.", name=name))
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadArchive(msg("{name} is damaged: {error}", name=name, error=error)) from error


def _unpack_layers(shelf: Shelf, layers: list[str], config: str, unpacker: Unpacker) -> ImageConfig:
    settings = _read_json(shelf, config)
    if not isinstance(settings, dict) or not layers:
        raise BadArchive(msg("The archive describes an image without layers or settings."))
    built_for = settings.get("architecture")
    if built_for not in (None, "", _machine()):
        raise BadArchive(
            msg("The image is built for {built_for}, and this machine is {x1}.", built_for=built_for, x1=_machine())
        )
    for layer in layers:
        with _opened(shelf, layer) as stream:
            unpacker.add_layer(stream)
    return _parse_config(settings)


@contextmanager
def _opened(shelf: Shelf, layer: str) -> Iterator[IO[bytes]]:
    with shelf.open(layer) as stream:
        _check_compression(stream.read(4))
        stream.seek(0)
        yield stream


def _parse_config(settings: dict[str, Any]) -> ImageConfig:
    config = settings.get("config")
    if not isinstance(config, dict):
        return ImageConfig()
    pairs = [str(line).partition("=") for line in config.get("Env") or [] if "=" in str(line)]
    env = {name: value for name, _, value in pairs if name and "\0" not in name + value}
    workdir = config.get("WorkingDir")
    usable = isinstance(workdir, str) and workdir.startswith("/") and "\0" not in workdir and workdir != "/"
    return ImageConfig(env=env, workdir=str(workdir) if usable else "")
