"""Shows what tasks see of this machine's GPUs: `python tests/engines/gpu_check.py` on a node that has some.

Not a test: it prints the node and what a task with one GPU and a task with none can see.
"""

# ruff: noqa: T201, E402

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.job import Resources
from holdfast.engines.base import LaunchSpec, LogStream
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from tests.contracts.engine_contract import sweep
from tests.engines.archives import shell_entries, tar

SCRIPT = """
echo "CUDA_VISIBLE_DEVICES=[$CUDA_VISIBLE_DEVICES] NVIDIA_VISIBLE_DEVICES=[$NVIDIA_VISIBLE_DEVICES]"
echo "LD_LIBRARY_PATH=[$LD_LIBRARY_PATH]"
ls -l /dev/nvidia* || echo "no nvidia nodes in /dev"
(nvidia-smi -L || /usr/local/nvidia/bin/nvidia-smi -L) 2>&1
python3 - <<'END'
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    print("cuInit:", cuda.cuInit(0), "devices:", cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
    for index in range(count.value):
        name, device = ctypes.create_string_buffer(100), ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, 100, device)
        context, memory = ctypes.c_void_p(), ctypes.c_void_p()
        made = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        given = cuda.cuMemAlloc_v2(ctypes.byref(memory), 1 << 30)
        print("device", index, name.value.decode(), "context:", made, "1 GiB:", given)
except OSError as error:
    print("no CUDA here:", error)
END
true
"""


def launch(name: str, image: str, gpus: tuple[int, ...]) -> LaunchSpec:
    fields: dict[str, Any] = {"user": "u", "group": "g", "image": image, "shell_options": (), "env": {}}
    resources = Resources(gpu=len(gpus), memory=8 << 30)
    return LaunchSpec(
        attempt_id=name, job_id="j", task="worker-0", script=SCRIPT, resources=resources, gpus=gpus, **fields
    )


async def main() -> None:
    for options in (EmbeddedOptions(), EmbeddedOptions(isolation="off")):
        ended: asyncio.Queue[Observation] = asyncio.Queue()
        with tempfile.TemporaryDirectory() as home:
            engine = EmbeddedEngine(Path(home) / "engine", options)
            await engine.open(ended.put_nowait)
            print("=" * 100)
            print(engine.get_health())
            print(engine.list_nodes())
            every = engine.list_nodes()[0].gpus
            tar_file = Path(home) / "tiny.tar"
            tar_file.write_bytes(tar(shell_entries(shutil.which("nvidia-smi") or "/bin/true")))
            await engine.import_image("tiny", tar_file)
            runs = [("none", "host", ()), ("one", "host", every[:1]), ("all", "host", every)]
            for name, image, gpus in [*runs, ("image", "tiny", every[:1]), ("image-none", "tiny", ())]:
                print("-" * 20, name, gpus)
                seen = await engine.start(launch(name, image, gpus))
                if seen.seen is ObservedState.RUNNING:
                    seen = await ended.get()
                print(seen.seen, seen.code, seen.message)
                for stream in (LogStream.STDOUT, LogStream.STDERR):
                    log = engine.open_log(name, stream)
                    if log is not None:
                        print((await log.read(0, 1 << 20)).decode(errors="replace"), end="")
            await sweep(engine, [])
            await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
