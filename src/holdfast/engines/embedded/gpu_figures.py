"""What GPUs are doing, by NVML. The driver may be missing, go away or never answer: then nothing is told."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.core.metrics import GpuReading
from holdfast.reach import Reach

_PATIENCE = 2.0  # seconds


class GpuFigures:
    """Belongs to the event loop; NVML is asked in a thread of its own, by one at a time. It stays initialised."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._reach = Reach("embedded-gpus")
        self._asked: asyncio.Future[Mapping[int, GpuReading]] | None = None
        self._ready = False

    async def read(self, indices: Collection[int]) -> Mapping[int, GpuReading]:
        """Of those devices; without any that does not tell. While an earlier question is not answered, nothing is."""
        if not indices or (self._asked is not None and not self._asked.done()):
            return {}
        self._asked = self._reach.begin(partial(self._ask, sorted(indices)))
        with suppress(Exception):  # no answer in time, no thread to be had, no driver: all the same here
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(self._asked)
        return {}

    def _ask(self, indices: list[int]) -> Mapping[int, GpuReading]:
        import pynvml

        if not self._ready:
            pynvml.nvmlInit()
            self._ready = True
        found = {}
        for index in indices:
            try:
                found[index] = _read(pynvml, index)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
                    self._ready = False
        if not self._ready:  # begin afresh next time: the driver may be back by then
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
        return found


def _read(nvml: Any, index: int) -> GpuReading:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _memory(nvml, handle)
    return GpuReading(
        index=index,
        percent=float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        memory=int(memory.used),
        memory_total=int(memory.total),
    )


def _memory(nvml: Any, handle: Any) -> Any:
    """The second version leaves out what the driver keeps for itself, as nvidia-smi does."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetMemoryInfo(handle)
