"""NVIDIA devices: finds them, and gives a task exactly its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .render import Bind

_CONTROL_DEVICE = Path("/dev/nvidiactl")
_SHARED_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")  # nvidia-caps would let a task partition devices
_LIBRARY_PATTERN = re.compile(r"\s*(lib(?:cuda|nvidia|nvcuvid|nvoptix|cudadebugger)[^ ]*) .*=> (/\S+)")

# Where CUDA images expect the driver; their own LD_LIBRARY_PATH contains it.
LIBRARIES_FOLDER = "/usr/local/nvidia/lib64"
PROGRAMS_FOLDER = "/usr/local/nvidia/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    index: int
    node: str  # /dev/nvidia0
    name: str
    memory: int  # bytes


def list_gpus() -> tuple[Gpu, ...]:
    """Return every device that the driver lists; none if there is no driver, or it does not respond."""
    if not _CONTROL_DEVICE.exists():
        return ()
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_read_gpu(index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read_gpu(index: int) -> Gpu:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    name = pynvml.nvmlDeviceGetName(handle)
    return Gpu(
        index=index,
        node=f"/dev/nvidia{pynvml.nvmlDeviceGetMinorNumber(handle)}",
        name=name.decode() if isinstance(name, bytes) else str(name),
        memory=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
    )


def make_gpu_binds(given: Sequence[int], gpus: Sequence[Gpu]) -> list[Bind]:
    """Return the nodes of those devices, and those shared by all devices."""
    nodes = {gpu.index: gpu.node for gpu in gpus}
    paths = [nodes[index] for index in given] + [f"/dev/{name}" for name in _SHARED_DEVICES]
    return [Bind(source=path, target=path, device=True) for path in paths if os.path.exists(path)]


def find_driver_binds() -> tuple[Bind, ...]:
    """Return the driver's libraries and tools, for images without them."""
    if not _CONTROL_DEVICE.exists():
        return ()
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    listing = ""
    if ldconfig is not None:
        with suppress(OSError, subprocess.SubprocessError):
            listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=10).stdout
    binds = parse_library_binds(listing)
    smi = shutil.which("nvidia-smi")
    if smi is not None:
        binds.append(Bind(source=os.path.realpath(smi), target=f"{PROGRAMS_FOLDER}/nvidia-smi"))
    return tuple(binds)


def parse_library_binds(listing: str) -> list[Bind]:
    """Parse the output of `ldconfig -p`; programs use the first of each name."""
    found: dict[str, Bind] = {}
    for line in listing.splitlines():
        match = _LIBRARY_PATTERN.match(line)
        if match and match[1] not in found and os.path.exists(match[2]):
            found[match[1]] = Bind(source=os.path.realpath(match[2]), target=f"{LIBRARIES_FOLDER}/{match[1]}")
    return list(found.values())
