"""What OpenPAI put around the commands of a job, put around them here: variables, files, runtime plugins."""

from .filling import openpai_filler
from .fitting import SharedLaunchData
from .runtime import add_openpai_runtime
from .variables import JobTasks

__all__ = ["JobTasks", "SharedLaunchData", "add_openpai_runtime", "openpai_filler"]
