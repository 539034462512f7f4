"""Reads the state of GPUs by NVML. The driver may be missing, disappear or hang: then the result is empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from holdfast.core.metrics.samples import GpuReading, GpuState
from holdfast.hang_guard import HangGuard

T = TypeVar("T")

_NVML_TIMEOUT = 2.0  # seconds


class GpuObservation(NamedTuple):
    state: GpuState
    pids: frozenset[int] | None  # of processes that compute on it; None: unknown


class GpuMetricsReader:
    """Belongs to the event loop; NVML runs in its own thread, one call at a time, and stays initialised."""

    def __init__(self, timeout: float = _NVML_TIMEOUT) -> None:
        self._timeout = timeout
        self._hang_guard = HangGuard("embedded-gpus")
        self._lock = asyncio.Lock()
        self._pending_call: asyncio.Future[Any] | None = None
        self._is_initialized = False

    async def read_devices(self, indices: Collection[int]) -> Mapping[int, GpuReading]:
        """Read those devices, without any that fails. Returns nothing while an earlier call is pending."""
        return await self._call_nvml(partial(self._read_devices, sorted(indices)), {}) if indices else {}

    async def read_states(self) -> tuple[GpuObservation, ...]:
        """Read every device that the driver lists."""
        return await self._call_nvml(self._read_states, ())

    async def _call_nvml(self, ask: Callable[[], T], nothing: T) -> T:
        async with self._lock:
            if self._pending_call is not None and not self._pending_call.done():
                return nothing
            asked = self._pending_call = self._hang_guard.start_call(ask)
            with suppress(Exception):  # timeout, no thread or no driver: all the same here
                async with asyncio.timeout(self._timeout):
                    return await asyncio.shield(asked)
            return nothing

    def _read_devices(self, indices: list[int]) -> Mapping[int, GpuReading]:
        nvml = self._init_nvml()
        found = {}
        for index in indices:
            try:
                found[index] = _read_device(nvml, index)
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
                    self._is_initialized = False
        if not self._is_initialized:
            _shut_down_nvml(nvml)
        return found

    def _read_states(self) -> tuple[GpuObservation, ...]:
        nvml = self._init_nvml()
        try:
            return tuple(_read_state(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        except nvml.NVMLError:
            self._is_initialized = False
            _shut_down_nvml(nvml)
            return ()

    def _init_nvml(self) -> Any:
        import pynvml

        if not self._is_initialized:
            pynvml.nvmlInit()
            self._is_initialized = True
        return pynvml


def _shut_down_nvml(nvml: Any) -> None:
    """Initialise it again next time: the driver may be back."""
    with suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def _read_device(nvml: Any, index: int) -> GpuReading:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _read_memory(nvml, handle)
    return GpuReading(
        index=index,
        percent=float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        memory=int(memory.used),
        memory_total=int(memory.total),
    )


def _read_memory(nvml: Any, handle: Any) -> Any:
    """Read the second version, which excludes the driver's own memory, as nvidia-smi does."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _read_state(nvml: Any, index: int) -> GpuObservation:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def query_nvml(name: str, *more: int) -> Any:
        try:
            return getattr(nvml, name)(handle, *more)
        except nvml.NVMLError:
            return None

    def count_ecc_errors(kind: int) -> Any:
        return query_nvml("nvmlDeviceGetTotalEccErrors", kind, nvml.NVML_VOLATILE_ECC)

    busy, memory = query_nvml("nvmlDeviceGetUtilizationRates"), _read_memory(nvml, handle)
    performance = query_nvml("nvmlDeviceGetPerformanceState")
    state = GpuState(
        index=index,
        percent=None if busy is None else float(busy.gpu),
        memory=int(memory.used),
        memory_total=int(memory.total),
        temperature=query_nvml("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        ecc_single=count_ecc_errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ecc_double=count_ecc_errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        performance=None if performance == nvml.NVML_PSTATE_UNKNOWN else performance,
    )
    processes = query_nvml("nvmlDeviceGetComputeRunningProcesses")
    return GpuObservation(state, None if processes is None else frozenset(each.pid for each in processes))
