"""Figures of GPUs, with NVML replaced by a small library of our own: everything from its loader on is real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .ordinary import ROOT
from .scenarios import health_here

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

SCENARIO = """
import asyncio, os, sys
from pathlib import Path
from holdfast.core.metrics.samples import GpuReading, GpuState
from holdfast.engines.embedded import EmbeddedEngine
from holdfast.engines.embedded.sandbox import gpus
from holdfast.engines.embedded.metrics.gpu_metrics import GpuMetricsReader
from tests.contracts.engine_contract import Rig, read_all, sweep

gpus._CONTROL_DEVICE = Path("/dev/null")  # the driver's own device, without which nobody would ask it
mode = Path(os.environ["FAKE_NVML"])
pids = Path(os.environ["FAKE_NVML"] + ".pids")

def fine(index, percent=None, memory=None):
    return GpuReading(index=index, percent=40.0 + index, memory=7000 + index, memory_total=80000)

def whole(index, foreign_processes=None):
    known = {"temperature": 60 + index, "ecc_single": 5, "ecc_double": 4, "performance": 8}
    return GpuState(index=index, percent=40.0 + index, memory=7000 + index, memory_total=80000,
        foreign_processes=foreign_processes,
                    **known)

async def machine():
    asked = GpuMetricsReader(timeout=60)
    pids.write_text("7\\n8\\n")
    assert await asked.read_states() == ((whole(0), {7, 8}), (whole(1), set()))
    mode.write_text("unsupported")
    assert (await asked.read_states())[0] == (GpuState(index=0, memory=7000, memory_total=80000), None)
    mode.write_text("gone")
    assert await asked.read_states() == ()
    assert await asked.read_states() == ()
    mode.write_text("fine")
    assert len(await asked.read_states()) == 2  # it came back
    both = await asyncio.gather(asked.read_states(), asked.read_devices([0]))
    assert both[1] == {0: fine(0)}  # neither is left out for the other
    pids.unlink()

async def others(rig):
    (node,) = rig.engine.list_nodes()
    inside = [each.pid for each in await rig.engine.list_processes("opens")]
    assert await rig.engine.read_gpu_states() == {node.name: (whole(0, 0), whole(1, 0))}
    pids.write_text(f"{inside[-1]} {os.getpid()}")
    assert await rig.engine.read_gpu_states() == {node.name: (whole(0, 1), whole(1, 0))}
    pids.write_text(f"{inside[-1]} 999999999")  # of another world, or gone by now
    assert await rig.engine.read_gpu_states() == {node.name: (whole(0, None), whole(1, 0))}
    pids.write_text(f"{inside[-1]}")
    assert await rig.engine.read_gpu_states() == {node.name: (whole(0, 0), whole(1, 0))}

async def figures():
    asked = GpuMetricsReader(timeout=60)
    assert await asked.read_devices([0, 1]) == {0: fine(0), 1: fine(1)}
    assert await asked.read_devices([]) == {}
    mode.write_text("old")
    assert (await asked.read_devices([1]))[1].memory == 9000
    mode.write_text("unsupported")
    assert await asked.read_devices([0]) == {}
    mode.write_text("gone")
    assert await asked.read_devices([0]) == {}
    assert await asked.read_devices([0]) == {}
    mode.write_text("fine")
    assert await asked.read_devices([0]) == {0: fine(0)}  # it came back
    mode.write_text("hang")
    asked._timeout = 0.3
    assert await asked.read_devices([0]) == {}
    assert await asked.read_devices([0]) == {}
    mode.write_text("fine")
    while not (found := await asked.read_devices([0])):  # once the question that hung is answered
        await asyncio.sleep(0.01)
    assert found == {0: fine(0)}

async def task(home):
    rig = Rig(lambda: EmbeddedEngine(home))
    await rig.open()
    assert rig.engine.list_nodes()[0].gpus == (0, 1)
    opens = "touch /dev/nvidia1; exec 4<>/dev/nvidia1; echo opened; sleep 600"
    shared = "touch /dev/nvidiactl; exec 4<>/dev/nvidiactl; echo opened; sleep 600"
    await rig.start_and_wait_for(b"opened", "opens", opens, gpus=(1, 0))
    await rig.start_and_wait_for(b"opened", "shared", shared, gpus=(0,))
    await rig.start_and_wait_for(b"up", "without", "echo up; sleep 600")
    await rig.reopen()  # which it was given is not forgotten
    names = ["opens", "shared", "without"]
    await rig.engine.observe(names)
    rig.engine._task_metrics._gpus._timeout = 60
    found = await rig.engine.measure_tasks(names)
    assert found["opens"].gpus == (fine(1), fine(0)), found
    assert [found[name].gpu_opened for name in names] == [True, False, None], found
    assert found["without"].gpus == ()
    await others(rig)
    mode.write_text("hang")
    rig.engine._task_metrics._gpus._timeout = 0.3
    found = await rig.engine.measure_tasks(names)
    assert found["opens"].gpus == ()
    assert found["opens"].processes > 0
    mode.write_text("fine")
    await rig.engine.stop("opens", 0)
    assert (await rig.end_of("opens")).used.gpu_opened
    await sweep(rig.engine, [])
    await rig.close()

asyncio.run(figures())
asyncio.run(machine())
if sys.argv[2] != "none":
    asyncio.run(task(Path(sys.argv[1])))
"""


def test_gpus_of_tasks(tmp_path: Path) -> None:
    source, library, mode = Path(__file__).parent / "nvml.c", tmp_path / "libnvidia-ml.so.1", tmp_path / "mode"
    mode.write_text("fine")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    done = subprocess.run(
        [sys.executable, "-c", SCENARIO, str(tmp_path / "home"), health_here().isolation],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(tmp_path),
            "FAKE_NVML": str(mode),
            "PYTHONPATH": f"{ROOT}:{ROOT}/src",
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-4000:]
