"""Runs the commands of Slurm. Their formats are fixed, their language is English, and each has a timeout.

They get only a few variables of the server: `sbatch` passes its environment on to the job.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

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
from .users.unix_user import UnixUser
from .users.user_commands import (
    build_user_command,
    describe_denied_user,
    find_signal_target,
    get_user_variables,
    is_denied_by_sudo,
    is_known_user,
)

_TIMEOUT = 30.0  # seconds for a command
_SUBMIT_TIMEOUT = 60.0  # seconds for sbatch
_DELETE_TIMEOUT = 600.0  # seconds to delete the files of a task
_MAX_USER_COMMANDS = 8  # at a time as one other user, who can hold them up
_MAX_USER_OUTPUT_SIZE = 16 * 1024**2  # bytes of each, in memory: processes of that user can write to it
_ADDRESS_PATTERN = re.compile(r" NodeAddr=(\S+)")
_KEPT_VARIABLES = ("PATH", "HOME", "SLURM_CONF", "SLURM_CLUSTERS", "LD_LIBRARY_PATH")


class SlurmUnavailable(EngineError):
    """A command failed, so that nothing is known."""


class UserDenied(SlurmUnavailable):
    """sudo does not let the server run a command as that user; the text says so, and what to do."""


class SubmissionRefused(Exception):
    """Slurm does not accept the job; the text is Slurm's."""


class SlurmCommands:
    def __init__(self, conf: str, prefix: str, list_uids: Callable[[], Sequence[int]] = tuple) -> None:
        """`list_uids`: whose jobs are looked up; empty: the server's own."""
        self._prefix = prefix
        self._runner = CommandRunner()
        self._list_uids = list_uids
        self._user_slots: dict[int, asyncio.Semaphore] = {}  # by uid
        self._has_deleted_users = False  # squeue cannot look up the jobs of all users by their uids
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
        self._user_slots.clear()
        self._runner.close()

    async def list_jobs(self) -> dict[str, list[QueuedJob]]:
        """Return all jobs of this installation that Slurm remembers, by name."""
        mark = f"{os.urandom(8).hex()} "
        uids = self._list_uids()
        whose = [f"--user={','.join(map(str, uids))}"] if uids else ["--me"]
        if self._has_deleted_users:
            whose = []
        result = await self._run_checked("squeue", "-h", *whose, "-t", "all", "-o", mark + QUEUE_FORMAT)
        if uids and whose and result.error:
            # One of them was deleted. Its jobs, and maybe those of others, are not listed, although it exits with 0.
            self._has_deleted_users = True
            return await self.list_jobs()
        return parse_jobs(result.out, self._prefix, mark)

    async def list_jobs_by_name(self, name: str) -> list[QueuedJob]:
        result = await self._run_checked("squeue", "-h", "--me", "-t", "all", f"--name={name}", "-o", QUEUE_FORMAT)
        return parse_jobs(result.out, name).get(name, [])

    async def submit(self, options: Sequence[str], script: str, user: UnixUser | None = None) -> int | None:
        """Submit a job; return its number, if Slurm says so. SubmissionRefused if Slurm does not accept it; after
        SlurmUnavailable, look whether it did."""
        result = await self._run(("sbatch", "--parsable", *options), script, _SUBMIT_TIMEOUT, user)
        if result.code == 0:
            return parse_number(result.out)
        text = sanitize_output(result.error.encode())
        if may_succeed_later(text):
            raise SlurmUnavailable(describe_refusal(text))
        if is_refusal(text):
            raise SubmissionRefused(text)
        raise _make_error("sbatch", result)

    async def signal_job(self, name: str, *signals: str, user: UnixUser | None = None) -> None:
        """Signal all processes of the running jobs with that name, also the batch script."""
        for signal in signals:
            await self._cancel_jobs(f"--name={name}", "--state=RUNNING", f"--signal={signal}", "--full", user=user)

    async def signal_step(self, step: str, *signals: str, user: UnixUser | None = None) -> None:
        for signal in signals:
            await self._run(("scancel", f"--signal={signal}", step), user=user)

    async def cancel(self, name: str, *, pending: bool = False, user: UnixUser | None = None) -> None:
        """Cancel the jobs with that name. `pending`: only those that wait."""
        await self._cancel_jobs(f"--name={name}", *(("--state=PENDING",) if pending else ()), user=user)

    async def cancel_pending(self, number: int, name: str, user: UnixUser | None = None) -> None:
        await self._cancel_jobs(f"--name={name}", "--state=PENDING", str(number), user=user)

    async def _cancel_jobs(self, *options: str, user: UnixUser | None) -> None:
        if user is not None and os.geteuid() == 0 and not await asyncio.to_thread(is_known_user, user):
            await self._run(("scancel", *options))  # scancel does not find the jobs of a deleted user by its uid
        else:
            await self._run(("scancel", "--me", *options), user=user)

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

    async def delete_files(self, paths: Sequence[str], user: UnixUser) -> None:
        """Delete folders as that user, as far as it may."""
        await self._run(("rm", "-rf", "--one-file-system", "--", *paths), timeout=_DELETE_TIMEOUT, user=user)

    async def signal_process(self, process: asyncio.subprocess.Process, number: int, user: UnixUser | None) -> None:
        """Signal a step that `start_step` has started."""
        with suppress(ProcessLookupError):
            try:
                process.send_signal(number)
            except PermissionError:  # it belongs to the user
                pid = find_signal_target(process.pid)
                await self._run(("kill", f"-{number}", str(pid)), user=user)

    # --- steps --------------------------------------------------------------------------------------------------------

    async def run_step(self, arguments: Sequence[str], user: UnixUser | None = None) -> str:
        """Run a step to its end; return its output."""
        return (await self._run_checked("srun", *arguments, user=user)).out

    async def run_probe(self, arguments: Sequence[str]) -> CommandResult:
        """Run a job by srun to its end. One that does not end in time, or is cancelled, leaves no job."""
        return await self._run(("srun", *arguments))

    async def start_step(
        self, arguments: Sequence[str], streams: Sequence[int | None], user: UnixUser | None = None
    ) -> asyncio.subprocess.Process:
        """Start a step with these descriptors as stdin, stdout and stderr; None: /dev/null. It ends with the server:
        srun kills its step at SIGTERM."""
        stdin, stdout, stderr = (asyncio.subprocess.DEVNULL if fd is None else fd for fd in streams)
        build = partial(build_user_command, ("srun", *arguments), user, self.path, ends_with_parent=True)
        command = await asyncio.to_thread(build)
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=self._make_env(user),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise _make_start_error("srun", error) from error

    def _make_env(self, user: UnixUser | None) -> dict[str, str]:
        return {**self._env, **get_user_variables(user)} if user else self._env

    async def _run_checked(
        self, *command: str, timeout: float = _TIMEOUT, user: UnixUser | None = None
    ) -> CommandResult:
        result = await self._run(command, timeout=timeout, user=user)
        if result.code != 0:
            raise _make_error(command[0], result)
        return result

    async def _run(
        self, command: Sequence[str], text: str = "", timeout: float = _TIMEOUT, user: UnixUser | None = None
    ) -> CommandResult:
        if user is None:
            env = {**self._env, "SLURM_TIME_FORMAT": "%s"} if command[0] == "squeue" else self._env
            return await self._start(command, command[0], env, text, timeout)
        async with self._user_slots.setdefault(user.uid, asyncio.Semaphore(_MAX_USER_COMMANDS)):
            own = await asyncio.to_thread(build_user_command, command, user, self.path)
            env, size = self._make_env(user), _MAX_USER_OUTPUT_SIZE
            result = await self._start(own, command[0], env, text, timeout, max_output=size)
        if result.code != 0 and own[0] == "sudo" and is_denied_by_sudo(result.error):
            raise UserDenied(describe_denied_user(user, result.error))
        return result

    async def _start(
        self, words: Sequence[str], name: str, env: dict[str, str], text: str, timeout: float, max_output: int = 0
    ) -> CommandResult:
        """Run the command `name` by these words."""
        try:
            return await self._runner.run(words, env, text, timeout, gently=name == "srun", max_output=max_output)
        except TimeoutError as error:
            raise SlurmUnavailable(msg("{command} did not finish in time", command=name)) from error
        except OSError as error:
            raise _make_start_error(words[0], error) from error


def _make_start_error(command: str, error: OSError) -> SlurmUnavailable:
    return SlurmUnavailable(msg("{command} cannot run: {why}", command=command, why=error.strerror or str(error)))


def _make_error(command: str, result: CommandResult) -> SlurmUnavailable:
    why = sanitize_output(result.error.encode()) or msg("exit code {code}", code=result.code)
    return SlurmUnavailable(msg("{command} failed: {why}", command=command, why=why))
