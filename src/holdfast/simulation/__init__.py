"""Simulation: runs a job on this machine before it is submitted, and reports what would fail in the real run."""

from .job_loading import read_job
from .report import Ending, Level, Remark, Remarks, Report, TaskRun, Topic
from .server_view import ServerView, ask_server
from .simulate import SANDBOX, Options, simulate

__all__ = [
    "SANDBOX",
    "Ending",
    "Level",
    "Options",
    "Remark",
    "Remarks",
    "Report",
    "ServerView",
    "TaskRun",
    "Topic",
    "ask_server",
    "read_job",
    "simulate",
]
