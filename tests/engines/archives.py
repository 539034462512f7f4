"""Makes image archives for tests, good and bad."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", **fields: Any) -> Entry:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def folder(name: str, mode: int = 0o755, **fields: Any) -> Entry:
    return entry(name, type=tarfile.DIRTYPE, mode=mode, **fields)


def link(name: str, target: str) -> Entry:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> Entry:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def tar(entries: Iterable[Entry], mode: str = "w") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def shell_entries(*more: str) -> list[Entry]:
    """The smallest root filesystem that runs a script: the machine's own sh and a few more, with their libraries."""
    entries = [folder("bin"), folder("etc"), entry("etc/issue", b"tiny image\n")]
    for name in ("/bin/sh", "/bin/cat", "/bin/ls", *more):
        program = Path(name).resolve()
        entries.append(entry(f"bin/{Path(name).name}", program.read_bytes(), mode=0o755))
        listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(", listing):
            if all(info.name != library[1:] for info, _ in entries):
                entries.append(entry(library[1:], Path(library).resolve().read_bytes(), mode=0o755))
    return entries


def config(**settings: Any) -> bytes:
    return json.dumps({"architecture": ARCHITECTURE, "os": "linux", "config": settings}).encode()


def docker_archive(layers: list[bytes], settings: bytes) -> bytes:
    """As `docker save` writes it."""
    names = [f"layer{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["tiny:1"], "Layers": names}]
    files = [entry(name, layer) for name, layer in zip(names, layers, strict=True)]
    return tar([*files, entry("config.json", settings), entry("manifest.json", json.dumps(manifest).encode())])


def oci_files(layers: list[bytes], settings: bytes) -> dict[str, bytes]:
    """An OCI layout, as name -> content."""
    files = {}

    def blob(data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    manifest = {"config": blob(settings), "layers": [blob(layer) for layer in layers]}
    described = blob(json.dumps(manifest).encode())
    described["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
    other = {"digest": "sha256:" + "0" * 64, "platform": {"architecture": "sparc", "os": "linux"}}
    inner = blob(json.dumps({"manifests": [other, described]}).encode())
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    files["index.json"] = json.dumps({"manifests": [inner]}).encode()
    return files
