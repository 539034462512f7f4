"""Speed of a pull, with unpacking, against `skopeo copy` of the same image to a folder, which does not unpack it.

Two images of 12 layers and 1 GB are in a docker-registry on this machine: one of compressed data, such as models and
archives, and one of this machine's programs. Both tools pull in turns; the ratio is the median of those within one
turn. Only the first has a bar: decompressing the second takes longer than skopeo's whole copy.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import tarfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from holdfast.core.job import MIB
from holdfast.engines.embedded.images.image_config import get_architecture
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_options import RegistryOptions

from .harness import TIMEOUT, Options, create_bench_folder, print_progress
from .rows import Row, at_least

LAYERS = 12
IMAGE_SIZE = 1000 * MIB  # bytes of files
TURNS = 5
MAX_FILE_SIZE = 32 * MIB  # bytes
SOURCE_FOLDERS = ("/usr/bin", "/usr/lib", "/usr/share")
LayerFiles = list[tuple[str, int]]  # paths and sizes; an empty path: random content
RANDOM_FILE_SIZE = MIB  # bytes
BARS = {"data": at_least(0.7), "programs": None}  # by image


def measure(options: Options) -> list[Row]:
    missing = [program for program in ("skopeo", "docker-registry") if shutil.which(program) is None]
    if missing:
        text = f"skipped: {' and '.join(missing)} not installed"
        return [Row(format_name(image), None, "", bar, text) for image, bar in BARS.items()]
    with create_bench_folder("pull", options) as folder, run_registry(folder / "registry") as registry:
        return [measure_image(options, folder, registry, image) for image in BARS]


def format_name(image: str) -> str:
    return f"pull: speed relative to skopeo, image of {image}"


def measure_image(options: Options, folder: Path, registry: str, image: str) -> Row:
    size = options.pick_size(IMAGE_SIZE, IMAGE_SIZE // 10)
    compressed, files = push_image(folder, f"{registry}/{image}", choose_files(size, image))
    # Removed at the end: after many files were deleted, ext4 takes several times as long to create others, for minutes.
    turns = [measure_turn(folder, number, registry, image) for number in range(options.pick_size(TURNS, 2))]
    ratios = [theirs / ours for theirs, ours in turns]
    note = f"{size // MIB} MiB in {files} files, {compressed // MIB} MiB compressed; turns: "
    note += ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return Row(format_name(image), statistics.median(ratios), "", BARS[image], note)


def measure_turn(folder: Path, number: int, registry: str, image: str) -> tuple[float, float]:
    """Return the seconds of skopeo, and of the embedded engine with unpacking."""
    target = folder / "copy"
    os.sync()
    started = time.monotonic()
    run("skopeo", "copy", "--src-tls-verify=false", f"docker://{registry}/{image}", f"dir:{target}")
    theirs = time.monotonic() - started
    shutil.rmtree(target)
    os.sync()
    ours = uvloop.run(pull(folder / f"images-{image}-{number}", registry, image))
    print_progress(f"pull: skopeo {theirs:.1f} s, ours {ours:.1f} s")
    return theirs, ours


async def pull(folder: Path, registry: str, image: str) -> float:
    puller = ImagePuller(ImageStore(folder), RegistryOptions(insecure=frozenset({registry})))
    try:
        started = time.monotonic()
        await puller.pull_image(f"{registry}/{image}")
        return time.monotonic() - started
    finally:
        await puller.close()


# --- the image --------------------------------------------------------------------------------------------------------


def push_image(folder: Path, name: str, layers_files: Iterable[LayerFiles]) -> tuple[int, int]:
    """Build the image as an OCI layout and push it. Return its compressed bytes, and the number of its files."""
    layout = folder / "layout"
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    groups = list(layers_files)
    with ProcessPoolExecutor() as pool:
        layers = list(pool.map(write_layer, itertools.repeat(blobs), range(LAYERS), groups))
    config = {"architecture": get_architecture(), "os": "linux", "config": {}}
    config["rootfs"] = {"type": "layers", "diff_ids": [layer["diff_id"] for layer in layers]}
    described = [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **layer["blob"]} for layer in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **write_blob(blobs, config)},
        "layers": described,
    }
    entry = {"mediaType": manifest["mediaType"], **write_blob(blobs, manifest)}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    run("skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{name}")
    shutil.rmtree(layout)
    return sum(layer["blob"]["size"] for layer in layers), sum(map(len, groups))


def choose_files(size: int, image: str) -> Iterator[LayerFiles]:
    """Yield the files of each layer, with their sizes: random ones, or the machine's, again if it has too few."""
    if image == "data":
        yield from [[("", RANDOM_FILE_SIZE)] * (size // LAYERS // RANDOM_FILE_SIZE)] * LAYERS
        return
    found = [path for top in SOURCE_FOLDERS for path in iter_files(top)]
    mixed = random.Random(0).sample(sorted(found), len(found))  # every layer has files of all kinds
    files = itertools.cycle([(path, Path(path).stat().st_size) for path in mixed])
    for _ in range(LAYERS):
        chosen, total = [], 0
        while total < size // LAYERS:
            path, count = next(files)
            if count <= MAX_FILE_SIZE:
                chosen.append((path, count))
                total += count
        yield chosen


def iter_files(top: str) -> Iterator[str]:
    for folder, _, names in os.walk(top):
        paths = (Path(folder, name) for name in names)
        yield from (str(path) for path in paths if path.is_file() and not path.is_symlink())


def write_layer(blobs: Path, number: int, files: LayerFiles) -> dict[str, Any]:
    """Write one compressed layer, the first with a shell."""
    draft = blobs / f"draft-{number}"
    with gzip.open(draft, "wb", compresslevel=6) as packed:
        hashed = HashingWriter(packed)
        with tarfile.open(fileobj=hashed, mode="w|") as archive:  # type: ignore[call-overload]
            if number == 0:
                archive.add(os.path.realpath("/bin/sh"), "bin/sh")
            for index, (path, size) in enumerate(files):
                if path:
                    archive.add(path, f"layer{number}{path}", recursive=False)
                else:
                    entry = tarfile.TarInfo(f"layer{number}/{index}")
                    entry.size = size
                    archive.addfile(entry, io.BytesIO(os.urandom(size)))
    with draft.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = draft.stat().st_size
    draft.rename(blobs / digest)
    return {"diff_id": f"sha256:{hashed.hash.hexdigest()}", "blob": {"digest": f"sha256:{digest}", "size": size}}


class HashingWriter:
    def __init__(self, target: gzip.GzipFile) -> None:
        self._target = target
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self._target.write(data)


def write_blob(blobs: Path, document: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


# --- programs ---------------------------------------------------------------------------------------------------------


@contextmanager
def run_registry(folder: Path) -> Iterator[str]:
    """Run a docker-registry without TLS, and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    folder.mkdir(parents=True)
    config = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "x"},
    }
    (folder / "config.yml").write_text(json.dumps(config))  # YAML is a superset of JSON
    command = ["docker-registry", "serve", str(folder / "config.yml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("docker-registry does not start")


def run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: {done.stderr.strip()[-200:]}")
