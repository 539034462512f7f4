"""Runs a probe job on a node of each partition that is used, and remembers what it found.

A result is kept in the shared folder while Slurm's configuration and the settings are the same, so that a restart
submits no job. A full cluster leaves the result unknown; a failed probe is repeated.
"""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import os
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from holdfast.core.conditions import Condition
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import join_messages, msg
from holdfast.engines.base import EngineHealth
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.task_folder import read_file_range
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.engines.start_refusal import StartRefused
from holdfast.engines.task_program import TaskFile
from holdfast.supervision import run_supervised

from ..cluster import Cluster
from ..commands import SlurmCommands, SubmissionRefused
from ..options import SlurmOptions
from ..reasons import describe_refusal, is_refusal
from ..shared_files import write_file
from ..users import TaskOwners
from .probe_result import (
    FOLDER_CODES,
    MAX_OUTPUT_SIZE,
    NO_FOLDER_CODE,
    NodeFacts,
    ProbeResult,
    ProbeState,
    Problem,
    build_conditions,
    compute_clock_difference,
    describe_problem,
    describe_result,
    judge_facts,
    parse_facts,
    parse_results,
    serialize_results,
)
from .setup_checks import check_setup, list_missing_commands
from .user_checks import check_users

_SCRIPT = (Path(__file__).parents[3] / "runtime" / "slurm_probe.sh").read_text()  # at import, as all node programs
_RESULTS_FILE = "probe.json"
_PROBE_FOLDER = "probe"
_MAX_AGE = 24 * 3600.0  # seconds that a result is used; nodes change without notice
_MAX_PARTITIONS = 32  # that are checked
_MAX_USERS = 50  # that are checked
_IMMEDIATE = 10  # seconds that a probe waits for free resources
_RETURN_TIMEOUT = 5.0  # seconds until a file of the node must be visible here
_BATCH_TIMEOUT = 20.0  # seconds for a probe as a batch job
_POLL_INTERVAL = 0.2  # seconds between two looks at a file
_BATCH_INTERVAL = 1.0  # seconds between two looks at a batch job
_CHANGING_KEYS = frozenset({"BOOT_TIME", "NEXT_JOB_ID", "HASH_VAL"})  # of Slurm's configuration
_BUSY_MARKS = ("Requested nodes are busy", "Immediate execution impossible", "Job allocation has been revoked")


class ClusterProbe:
    def __init__(
        self,
        options: SlurmOptions,
        name: str,
        commands: SlurmCommands,
        cluster: Cluster,
        home: Path,
        run_in_thread: ThreadRunner,
        on_health: Callable[[], None],
        owners: TaskOwners,
    ) -> None:
        self._options = options
        self._name = name  # of the probe jobs
        self._commands = commands
        self._cluster = cluster
        self._home = home
        self._run_in_thread = run_in_thread
        self._on_health = on_health
        self._owners = owners
        self._results: dict[str, tuple[str, ProbeResult]] = {}  # by partition, with the fingerprint
        self._partitions: dict[str, None] = {options.partition: None}  # those that are used, in order
        self._default = ""  # name of the cluster's default partition
        self._setup: tuple[Condition, ...] = ()
        self._described: tuple[dict[str, int], tuple[ProbeResult, ...]] = ({}, ())  # users and results
        self._notes: Sequence[str] = ()  # on those
        self._conditions: Sequence[Condition] = ()
        self._loaded = False
        self._lock = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- answers ------------------------------------------------------------------------------------------------------

    def find_result(self, partition: str) -> ProbeResult | None:
        """Return what is known of a partition; empty: the one of the settings."""
        found = self._results.get(self._resolve(partition or self._options.partition))
        return found[1] if found else None

    def find_facts(self, partition: str = "") -> NodeFacts | None:
        result = self.find_result(partition)
        return result.facts if result else None

    def use_partition(self, partition: str) -> None:
        """Check that partition, too. StartRefused if tasks cannot run there; what is not known refuses nothing."""
        if partition and partition not in self._partitions and len(self._partitions) < _MAX_PARTITIONS:
            self._partitions[partition] = None
            self.request_check()
        result = self.find_result(partition)
        if result is not None and result.blocks_tasks:
            text = join_messages(" ", describe_problem(result))
            raise StartRefused(text, cause=Cause.START_FAILED, transient=True)

    def extend_health(self, health: EngineHealth) -> EngineHealth:
        """Add what the checks found."""
        notes, conditions = self._describe_results()
        return replace(
            health, notes=(*health.notes, *notes), conditions=(*health.conditions, *self._setup, *conditions)
        )

    def _describe_results(self) -> tuple[Sequence[str], Sequence[Condition]]:
        """Return notes and conditions. Each job asks for them, and they seldom change."""
        users = self._list_users()
        described = (users, tuple(found[1] for found in self._results.values()))
        if described != self._described:
            results = described[1]
            self._notes = [describe_result(result) for result in results if result.state is not ProbeState.FAILED]
            self._conditions = [each for result in results for each in build_conditions(result, os.geteuid(), users)]
            self._described = described
        return self._notes, self._conditions

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(run_supervised("slurm-probe", self._watch))

    async def close(self) -> None:
        """End a probe in progress; it leaves no job."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        """Check what is due, for as long as the engine is open."""
        delay = self._options.probe_delay
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), delay)
            self._wanted.clear()
            with suppress(EngineError, OSError):
                await self.run_due()
            delay = self._options.node_interval

    def request_check(self) -> None:
        self._wanted.set()

    async def run_due(self) -> None:
        """Check the server's machine, and the partitions about which nothing current is known."""
        async with self._lock:
            before = (self._setup, dict(self._results))
            try:
                await self._run_due()
            finally:
                if before != (self._setup, self._results):
                    self._on_health()

    async def _run_due(self) -> None:
        if not self._loaded:
            data = await self._run_in_thread(lambda: read_file_range(str(self._home / _RESULTS_FILE), 0, 1 << 20))
            known, self._loaded = parse_results(data), True
        else:
            known = {}
        config = self._cluster.config
        self._setup = tuple(await self._run_in_thread(lambda: self._check_setup(config)))
        if not config or list_missing_commands(self._commands.path):
            return
        partitions = await self._commands.read_partitions()
        self._default = next((name for name, line in partitions.items() if " Default=YES " in line), "")
        for given in list(self._partitions):
            name = self._resolve(given)
            if name in partitions or given == self._options.partition:
                mark = self._make_fingerprint(config, name, partitions.get(name, ""))
                if name in known and name not in self._results:
                    self._results[name] = known[name]
                await self._check_partition(name, mark, exists=not name or name in partitions)

    def _check_setup(self, config: Mapping[str, str]) -> list[Condition]:
        """Blocking."""
        users = check_users(self._home, config, self._commands.path, self._list_users()) if self._has_users else []
        return [*check_setup(self._home, self._commands.path, config), *users]

    @property
    def _has_users(self) -> bool:
        return self._owners.is_enabled

    def _list_users(self) -> dict[str, int]:
        """Return the uids of those users that are checked, by name."""
        users = self._owners.list_users() if self._has_users else {}
        return dict(islice(users.items(), _MAX_USERS))

    def _resolve(self, partition: str) -> str:
        return partition or self._default

    def _make_fingerprint(self, config: Mapping[str, str], partition: str, line: str) -> str:
        stable = sorted((name, value) for name, value in config.items() if name not in _CHANGING_KEYS)
        options = self._options
        parts: tuple[object, ...] = (
            str(self._home),
            options.account,
            options.qos,
            partition,
            line,
            _SCRIPT,
            os.geteuid(),
            stable,
        )
        if users := self._list_users():
            parts = (*parts, *users)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    async def _check_partition(self, partition: str, mark: str, *, exists: bool) -> None:
        known = self._results.get(partition)
        if known is not None and known[0] == mark and _is_current(known[1]):
            return
        if not exists:
            detail = msg("the partition does not exist")
            result = ProbeResult(
                partition=partition, state=ProbeState.FAILED, problem=Problem.REFUSED, detail=detail, at=time.time()
            )
        else:
            result = await self._probe(partition)
        if result.state is ProbeState.UNKNOWN and known is not None and known[0] == mark and known[1].facts:
            return  # what was found before is still the best that is known
        self._results[partition] = (mark, result)
        await self._run_in_thread(self._save)

    def _save(self) -> None:
        text = serialize_results(self._results)
        with suppress(OSError):
            write_file(str(self._home / _RESULTS_FILE), TaskFile(text=text, mode=0o600))

    async def _probe(self, partition: str) -> ProbeResult:
        token = os.urandom(8).hex()
        folder = self._home / _PROBE_FOLDER
        await self._run_in_thread(lambda: _write_token(folder, token))
        try:
            return await self._run_probe(partition, folder, token)
        finally:
            with suppress(EngineError):  # the engine is closed: a cancellation must not be lost
                await self._run_in_thread(lambda: remove_tree(str(folder)))

    async def _run_probe(self, partition: str, folder: Path, token: str) -> ProbeResult:
        began = time.time()
        arguments = self._render_options(partition)
        words = ("probe", str(folder), token, getpass.getuser(), *self._list_users())
        command = [f"--immediate={_IMMEDIATE}", "/bin/sh", "-c", _SCRIPT, *words]
        result = await self._commands.run_probe([*arguments, *command])
        facts = parse_facts(result.out)
        connected = facts is not None
        if facts is None and is_refusal(result.error):
            return self._judge_refusal(partition, result.error)
        if facts is None and any(mark in result.error for mark in _BUSY_MARKS):
            return ProbeResult(partition=partition, detail=msg("the cluster is full"), at=time.time())
        if facts is None:
            facts = await self._run_batch_probe(arguments, folder, token, words)
        if facts is None:
            detail = " ".join(result.error.split())[-300:] or msg("the probe job has not run")
            return ProbeResult(partition=partition, detail=detail, at=time.time())
        ended = time.time()
        returned = facts.folder_code != 0 or await self._wait_for_text(f"{folder}/{token}.node", token)
        difference = compute_clock_difference(facts.time, began, ended)
        return judge_facts(
            partition, facts, returned=returned, difference=difference, connected=connected, at=time.time()
        )

    def _judge_refusal(self, partition: str, error: str) -> ProbeResult:
        if partition != self._resolve(self._options.partition):  # a job may choose another account for it
            return ProbeResult(partition=partition, detail=describe_refusal(error), at=time.time())
        return ProbeResult(
            partition=partition,
            state=ProbeState.FAILED,
            problem=Problem.REFUSED,
            detail=describe_refusal(error),
            at=time.time(),
        )

    def _render_options(self, partition: str) -> list[str]:
        chosen = {"partition": partition, "account": self._options.account, "qos": self._options.qos}
        return [
            f"--job-name={self._name}",
            *("--nodes=1", "--ntasks=1", "--mem=16M", "--time=1", "--chdir=/", "--export=ALL"),
            *(f"--{name}={value}" for name, value in chosen.items() if value),
        ]

    async def _run_batch_probe(
        self, arguments: Collection[str], folder: Path, token: str, words: Collection[str]
    ) -> NodeFacts | None:
        """Run the probe as a batch job, which needs no connection to the server. Its output is in the shared folder; if
        that is not there, its exit code says so."""
        output = f"{folder}/{token}.out"
        draft = shlex.quote(f"{output}.draft")
        script = f"#!/bin/sh\nsh -c {shlex.join([_SCRIPT, *words])} >{draft} 2>/dev/null\ncode=$?\n"
        script += f"mv {draft} {shlex.quote(output)} 2>/dev/null || exit {NO_FOLDER_CODE}\nexit $code\n"
        try:
            await self._commands.submit([*arguments, "--output=/dev/null", "--no-requeue"], script)
            return await self._wait_for_batch_probe(output)
        except (EngineError, SubmissionRefused):
            return None
        finally:
            with suppress(EngineError):
                await self._commands.cancel(self._name)

    async def _wait_for_batch_probe(self, output: str) -> NodeFacts | None:
        until = asyncio.get_running_loop().time() + _BATCH_TIMEOUT
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_BATCH_INTERVAL)
            jobs = await self._commands.list_jobs_by_name(self._name)  # before the look at the file
            data = await self._run_in_thread(lambda: read_file_range(output, 0, MAX_OUTPUT_SIZE))
            if data:
                return parse_facts(data.decode("utf-8", "replace"))
            job = max(jobs, key=lambda job: job.number, default=None)
            if job is not None and job.is_final:
                code = (await self._commands.read_exit(job) or (0, 0))[0]
                return NodeFacts(node=job.nodes, folder_code=code) if code in FOLDER_CODES else None
        return None

    async def _wait_for_text(self, path: str, text: str) -> bool:
        until = asyncio.get_running_loop().time() + _RETURN_TIMEOUT
        while not await self._run_in_thread(lambda: _has_text(path, text)):
            if asyncio.get_running_loop().time() > until:
                return False
            await asyncio.sleep(_POLL_INTERVAL)
        return True


def _is_current(result: ProbeResult) -> bool:
    return result.state is ProbeState.PASSED and time.time() - result.at < _MAX_AGE


def _write_token(folder: Path, token: str) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    write_file(str(folder / f"{token}.server"), TaskFile(text=f"{token}\n", mode=0o400))


def _has_text(path: str, text: str) -> bool:
    with suppress(OSError):
        os.listdir(os.path.dirname(path))  # so that NFS does not answer from its cache
    return read_file_range(path, 0, 100).decode("ascii", "replace").strip() == text
