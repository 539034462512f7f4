"""What GPUs are doing, by NVML. The driver may be missing, go away or never answer: then nothing is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from holdfast.core.metrics.samples import GpuReading, GpuState
from holdfast.hang_guard import HangGuard

T = TypeVar("T")

_TIMEOUT = 2.0  # seconds


class Seen(NamedTuple):
    state: GpuState
    pids: frozenset[int] | None  # of what computes on it; None: it does not tell


class GpuMetrics:
    """Belongs to the event loop; NVML is asked in a thread of its own, by one at a time. It stays initialised."""

    def __init__(self, patience: float = _TIMEOUT) -> None:
        self._patience = patience
        self._reach = HangGuard("embedded-gpus")
        self._turn = asyncio.Lock()
        self._asked: asyncio.Future[Any] | None = None
        self._ready = False

    async def read(self, indices: Collection[int]) -> Mapping[int, GpuReading]:
        """Of those devices; without any that does not tell. While an earlier question is not answered, nothing is."""
        return await self._answer(partial(self._ask, sorted(indices)), {}) if indices else {}

    async def read_all(self) -> tuple[Seen, ...]:
        """Of every device the driver lists."""
        return await self._answer(self._ask_all, ())

    async def _answer(self, ask: Callable[[], T], nothing: T) -> T:
        async with self._turn:
            if self._asked is not None and not self._asked.done():
                return nothing
            asked = self._asked = self._reach.begin(ask)
            with suppress(Exception):  # no answer in time, no thread to be had, no driver: all the same here
                async with asyncio.timeout(self._patience):
                    return await asyncio.shield(asked)
            return nothing

    def _ask(self, indices: list[int]) -> Mapping[int, GpuReading]:
        nvml = self._begin()
        found = {}
        for index in indices:
            try:
                found[index] = _read(nvml, index)
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
                    self._ready = False
        if not self._ready:
            _end(nvml)
        return found

    def _ask_all(self) -> tuple[Seen, ...]:
        nvml = self._begin()
        try:
            return tuple(_look(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        except nvml.NVMLError:
            self._ready = False
            _end(nvml)
            return ()

    def _begin(self) -> Any:
        import pynvml

        if not self._ready:
            pynvml.nvmlInit()
            self._ready = True
        return pynvml


def _end(nvml: Any) -> None:
    """Begin afresh next time: the driver may be back by then."""
    with suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


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


def _look(nvml: Any, index: int) -> Seen:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def told(name: str, *more: int) -> Any:
        try:
            return getattr(nvml, name)(handle, *more)
        except nvml.NVMLError:
            return None

    def errors(kind: int) -> Any:
        return told("nvmlDeviceGetTotalEccErrors", kind, nvml.NVML_VOLATILE_ECC)

    busy, memory = told("nvmlDeviceGetUtilizationRates"), _memory(nvml, handle)
    performance = told("nvmlDeviceGetPerformanceState")
    state = GpuState(
        index=index,
        percent=None if busy is None else float(busy.gpu),
        memory=int(memory.used),
        memory_total=int(memory.total),
        temperature=told("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        ecc_single=errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ecc_double=errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        performance=None if performance == nvml.NVML_PSTATE_UNKNOWN else performance,
    )
    processes = told("nvmlDeviceGetComputeRunningProcesses")
    return Seen(state, None if processes is None else frozenset(each.pid for each in processes))
