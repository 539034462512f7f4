"""Exit codes of the CLI. Listed in docs/reference/cli.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.sdk import JobDetail

OK = 0
ERROR = 1
USAGE = 2
CANCELLED = 120
NOT_ENDED = 121  # --timeout expired; the job continues
TIME_LIMIT = 124  # as timeout(1)
NO_EXIT_CODE = 125  # rejected, or a platform failure: no program ended
INTERRUPTED = 130


def resolve_exit_code(job: JobDetail) -> int:
    """Return the exit code of `wait` and `submit --follow`."""
    state = str(job.state)
    if state == "Succeeded":
        return OK
    if state == "Cancelled":
        return CANCELLED
    if state not in ("Failed", "Held"):
        return NOT_ENDED
    kind, code = _find_failure(job)
    if kind == "time-limit":
        return TIME_LIMIT
    return NO_EXIT_CODE if code is None else code % 256 or ERROR


def _find_failure(job: JobDetail) -> tuple[str | None, int | None]:
    """Return kind and code of the job's exit; while it is held, of its first failed task."""
    if job.exit_kind is not None:
        return job.exit_kind, job.exit_code
    failed = [task.exit for task in job.tasks if task.exit is not None and task.exit.kind != "succeeded"]
    return (failed[0].kind, failed[0].code) if failed else (None, None)
