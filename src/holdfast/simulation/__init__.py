"""Runs a job on this machine before it is submitted, and says what would break in the real run."""

from .reading import read_job
from .report import About, Ending, Level, Remark, Remarks, Report, TaskRun
from .server_view import ServerView, ask_server
from .simulate import SANDBOX, Options, simulate

__all__ = [
    "SANDBOX",
    "About",
    "Ending",
    "Level",
    "Options",
    "Remark",
    "Remarks",
    "Report",
    "ServerView",
    "TaskRun",
    "ask_server",
    "read_job",
    "simulate",
]
