"""The OpenPAI runtime around the commands of a job: variables, files, runtime plugins."""

from .references import make_openpai_filler
from .runtime import add_openpai_runtime
from .variable_limits import SharedLaunchData
from .variables import JobTasks

__all__ = ["JobTasks", "SharedLaunchData", "add_openpai_runtime", "make_openpai_filler"]
