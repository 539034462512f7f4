"""Runs the commands of Slurm. Their formats are fixed, their language is English, and each has a timeout.

They get only a few variables of the server: `sbatch` passes its environment on to the job.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from datetime import datetime

from holdfast.core.errors import EngineError, sanitize_output
from holdfast.core.messages import msg

from .command_process import CommandResult, CommandRunner
from .jobs import (
    NODE_FORMAT,
    QUEUE_FORMAT,
    ClusterTotals,
    QueuedJob,
    parse_config,
    parse_exit,
    parse_jobs,
    parse_number,
    parse_partitions,
    parse_totals,
)
from .reasons import describe_refusal, is_refusal, may_succeed_later
from .running_jobs import RUNNING_FORMAT, RUNNING_STATES, RunningJob, parse_running_jobs

_TIMEOUT = 30.0  # seconds for a command
_SUBMIT_TIMEOUT = 60.0  # seconds for sbatch
_ADDRESS_PATTERN = re.compile(r" NodeAddr=(\S+)")
_KEPT_VARIABLES = ("PATH", "HOME", "SLURM_CONF", "SLURM_CLUSTERS", "LD_LIBRARY_PATH")


class SlurmUnavailable(EngineError):
    """A command failed, so that nothing is known."""


class SubmissionRefused(Exception):
    """Slurm does not accept the job; the text is Slurm's."""


class SlurmCommands:
    def __init__(self, conf: str, prefix: str) -> None:
        self._prefix = prefix
        self._runner = CommandRunner()
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self._env = {"PATH": os.defpath, **kept, "LC_ALL": "C"}
        if conf:
            self._env["SLURM_CONF"] = conf

    @property
    def path(self) -> str:
        """Where the commands are looked up."""
        return self._env["PATH"]

    def close(self) -> None:
        """End the threads that start commands. Blocking."""
        self._runner.close()

    async def list_jobs(self) -> dict[str, list[QueuedJob]]:
        """Return all jobs of this installation that Slurm remembers, by name."""
        result = await self._run_checked("squeue", "-h", "--me", "-t", "all", "-o", QUEUE_FORMAT)
        return parse_jobs(result.out, self._prefix)

    async def list_jobs_by_name(self, name: str) -> list[QueuedJob]:
        result = await self._run_checked("squeue", "-h", "--me", "-t", "all", f"--name={name}", "-o", QUEUE_FORMAT)
        return parse_jobs(result.out, name).get(name, [])

    async def submit(self, options: Sequence[str], script: str) -> int | None:
        """Submit a job; return its number, if Slurm says so. SubmissionRefused if Slurm does not accept it; after
        SlurmUnavailable, look whether it did."""
        result = await self._run(("sbatch", "--parsable", *options), script, _SUBMIT_TIMEOUT)
        if result.code == 0:
            return parse_number(result.out)
        text = sanitize_output(result.error.encode())
        if may_succeed_later(text):
            raise SlurmUnavailable(describe_refusal(text))
        if is_refusal(text):
            raise SubmissionRefused(text)
        raise _make_error("sbatch", result)

    async def signal_job(self, name: str, *signals: str) -> None:
        """Signal all processes of the running jobs with that name, also the batch script."""
        for signal in signals:
            await self._run(("scancel", "--me", f"--name={name}", "--state=RUNNING", f"--signal={signal}", "--full"))

    async def signal_step(self, step: str, *signals: str) -> None:
        for signal in signals:
            await self._run(("scancel", f"--signal={signal}", step))

    async def cancel(self, name: str, *, pending: bool = False) -> None:
        """Cancel the jobs with that name. `pending`: only those that wait."""
        await self._run(("scancel", "--me", f"--name={name}", *(("--state=PENDING",) if pending else ())))

    async def cancel_pending(self, number: int, name: str) -> None:
        await self._run(("scancel", "--me", f"--name={name}", "--state=PENDING", str(number)))

    async def read_exit(self, job: QueuedJob) -> tuple[int, int] | None:
        """Return exit code and signal of an ended job; None if Slurm does not remember it."""
        result = await self._run(("scontrol", "show", "job", "-o", str(job.number)))
        if result.code != 0 and "Invalid job id" not in result.error:
            raise _make_error("scontrol", result)
        return parse_exit(result.out.partition("\n")[0], job.name)

    async def read_accounting(self, arguments: Sequence[str], timeout: float) -> str:
        return (await self._run_checked("sacct", *arguments, timeout=timeout)).out

    async def read_totals(self) -> ClusterTotals:
        """Return the totals of all partitions: groups, instance types and jobs can choose each."""
        return parse_totals((await self._run_checked("sinfo", "-h", "-N", "-o", NODE_FORMAT)).out)

    async def list_running_jobs(self, now: datetime) -> list[RunningJob]:
        """Return the running jobs of all users, as far as Slurm shows them."""
        result = await self._run_checked("squeue", "-h", "-t", RUNNING_STATES, "-O", RUNNING_FORMAT)
        return parse_running_jobs(result.out, now)

    async def list_nodes(self, partition: str) -> frozenset[str]:
        return frozenset((await self._run_checked("sinfo", "-h", "-N", "-p", partition, "-o", "%N")).out.split())

    async def read_time_limits(self, format: str) -> str:
        return (await self._run_checked("sinfo", "-h", "-a", "-o", format)).out

    async def read_config(self) -> dict[str, str]:
        return parse_config((await self._run_checked("scontrol", "show", "config")).out)

    async def read_partitions(self) -> dict[str, str]:
        """Return the lines of `scontrol show partition -o` by partition."""
        return parse_partitions((await self._run_checked("scontrol", "show", "partition", "-o")).out)

    async def read_node_address(self, node: str) -> str:
        """Return the address at which other machines reach a node, or a name that resolves to it."""
        result = await self._run_checked("scontrol", "show", "node", "-o", node)
        found = _ADDRESS_PATTERN.search(result.out)
        return found[1] if found else node

    # --- steps --------------------------------------------------------------------------------------------------------

    async def run_step(self, arguments: Sequence[str]) -> str:
        """Run a step to its end; return its output."""
        return (await self._run_checked("srun", *arguments)).out

    async def run_probe(self, arguments: Sequence[str]) -> CommandResult:
        """Run a job by srun to its end. One that does not end in time, or is cancelled, leaves no job."""
        return await self._run(("srun", *arguments))

    async def start_step(self, arguments: Sequence[str], streams: Sequence[int | None]) -> asyncio.subprocess.Process:
        """Start a step with these descriptors as stdin, stdout and stderr; None: /dev/null. It ends with the server:
        srun kills its step at SIGTERM."""
        stdin, stdout, stderr = (asyncio.subprocess.DEVNULL if fd is None else fd for fd in streams)
        setpriv = shutil.which("setpriv")
        command = [*((setpriv, "--pdeathsig=TERM") if setpriv else ()), "srun", *arguments]
        try:
            return await asyncio.create_subprocess_exec(
                *command, stdin=stdin, stdout=stdout, stderr=stderr, env=self._env, cwd="/", start_new_session=True
            )
        except OSError as error:
            raise _make_start_error("srun", error) from error

    async def _run_checked(self, *command: str, timeout: float = _TIMEOUT) -> CommandResult:
        result = await self._run(command, timeout=timeout)
        if result.code != 0:
            raise _make_error(command[0], result)
        return result

    async def _run(self, command: Sequence[str], text: str = "", timeout: float = _TIMEOUT) -> CommandResult:
        env = {**self._env, "SLURM_TIME_FORMAT": "%s"} if command[0] == "squeue" else self._env
        try:
            return await self._runner.run(command, env, text, timeout, gently=command[0] == "srun")
        except TimeoutError as error:
            raise SlurmUnavailable(msg("{command} did not finish in time", command=command[0])) from error
        except OSError as error:
            raise _make_start_error(command[0], error) from error


def _make_start_error(command: str, error: OSError) -> SlurmUnavailable:
    return SlurmUnavailable(msg("{command} cannot run: {why}", command=command, why=error.strerror or str(error)))


def _make_error(command: str, result: CommandResult) -> SlurmUnavailable:
    why = sanitize_output(result.error.encode()) or msg("exit code {code}", code=result.code)
    return SlurmUnavailable(msg("{command} failed: {why}", command=command, why=why))
