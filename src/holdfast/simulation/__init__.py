"""Simulation: runs a job on this machine before it is submitted, and reports what would fail in the real run."""

from .job_loading import parse_job_file
from .report import Remark, RemarkLevel, Remarks, RemarkTopic, SimulationEnding, SimulationReport, TaskResult
from .server_view import ServerView, fetch_server_view
from .simulate import SimulationOptions, run_simulation

__all__ = [
    "Remark",
    "RemarkLevel",
    "RemarkTopic",
    "Remarks",
    "ServerView",
    "SimulationEnding",
    "SimulationOptions",
    "SimulationReport",
    "TaskResult",
    "fetch_server_view",
    "parse_job_file",
    "run_simulation",
]
