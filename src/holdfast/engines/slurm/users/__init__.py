"""Unix users that tasks run as, and their access to the files of tasks."""

from .task_owners import TaskOwners
from .unix_user import UnixUser

__all__ = ["TaskOwners", "UnixUser"]
