"""What every engine must do. Each engine's test file subclasses `EngineContract`, and fills in its hooks.

What an engine cannot do is skipped with a reason.
"""

from __future__ import annotations

from .engine_exec_contract import ExecContract
from .engine_faults_contract import FaultsContract
from .engine_hold_contract import HoldContract
from .engine_lifecycle_contract import LifecycleContract
from .engine_log_contract import LogContract
from .engine_queue_contract import QueueContract
from .engine_results_contract import ResultsContract
from .engine_rig import TIMEOUT, Basket, EngineHarness, Rig, collect, launch, read_all, sweep, without_figures
from .engine_surroundings_contract import SurroundingsContract

__all__ = [
    "TIMEOUT",
    "Basket",
    "EngineContract",
    "EngineHarness",
    "Rig",
    "collect",
    "launch",
    "read_all",
    "sweep",
    "without_figures",
]


class EngineContract(
    LifecycleContract,
    SurroundingsContract,
    LogContract,
    ExecContract,
    HoldContract,
    ResultsContract,
    QueueContract,
    FaultsContract,
):
    pass
