"""Remarks on the results of the tasks in a simulation."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from holdfast.core.attempt import JobSnapshot, OutcomeResult, TaskAttempt
from holdfast.core.exits.exit import ExitKind
from holdfast.core.job import Job, JobFormat
from holdfast.core.states import TaskState
from holdfast.core.verdicts import Diagnosis, Fault
from holdfast.diagnosis.case import JobDiagnosisInput, TaskDiagnosisInput
from holdfast.diagnosis.job_diagnosis import diagnose_job
from holdfast.engines.base import LaunchSpec
from holdfast.engines.task_program import make_variable_name

from .completion_rules import can_tolerate_failures
from .listening_ports import is_ephemeral_port
from .report import Remark, RemarkLevel, Remarks, RemarkTopic, SimulationEnding, TaskResult
from .task_output import SecretMask
from .task_runner import SimulationResult

_MIN_PORT_SAMPLES = 4  # samples before an unseen port counts as unused
_MAX_EVIDENCE_LINES = 5
_GPU_FAULTS = (Fault.GPU_MISSING, Fault.GPU_DRIVER, Fault.GPU_OUT_OF_MEMORY)
_GPU_PATTERN = re.compile(r"nvidia|cuda|\bgpu", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MissingResources:
    """Resources that only the real run has. A failure without them is not a problem of the job."""

    job: Job  # as in the real run
    simulated_job: Job  # as simulated
    folders: Collection[str]  # empty in the simulation
    write_protected: Collection[str] = ()  # folders that are read-only only in the simulation

    def find_environment_cause(self, found: Diagnosis, role: str, text: str) -> str:
        """Return why the real run may not have this failure; empty: it has."""
        folder = next((folder for folder in self.folders if folder in text), None)
        if folder is not None:
            return f"{folder} is empty in a simulation"
        if found.fault is Fault.READ_ONLY and (folder := self._find_write_protected(role, text)):
            return f"{folder} is read-only only in a simulation without --write-mounts"
        real, here = self.job.get_role(role).resources, self.simulated_job.get_role(role).resources
        if here.gpu < real.gpu and (found.fault in _GPU_FAULTS or _GPU_PATTERN.search(text)):
            return "this machine has fewer GPUs than requested"
        if here.memory < real.memory and found.fault is Fault.OUT_OF_MEMORY:
            return "this machine has less memory than requested"
        return ""

    def _find_write_protected(self, role: str, text: str) -> str:
        """Return the folder that a failed write was for: named in the text, or the working folder is in it."""
        workdir = f"{self.job.get_role(role).workdir or ''}/"
        return next((each for each in self.write_protected if each in text or workdir.startswith(f"{each}/")), "")


def report_results(
    result: SimulationResult, launches: Mapping[str, LaunchSpec], missing: MissingResources, remarks: Remarks
) -> None:
    for remark in _iter_failure_remarks(result, missing):
        remarks.add(remark)
    _report_rule_differences(result, remarks)
    for attempt_id, launch in launches.items():
        _report_port_mismatches(result, attempt_id, launch, remarks)


# -- failures


def _iter_failure_remarks(result: SimulationResult, missing: MissingResources) -> Iterator[Remark]:
    """Return one remark for each role: its tasks usually fail for the same reason."""
    failed = _list_failed_tasks(result)
    cause = _diagnose_failure(result)
    roles = dict.fromkeys(task.role for task in failed)
    first = _find_role(cause, roles)
    for role in dict.fromkeys((first, *roles)) if first else ():
        ours = [task for task in failed if task.role == role]
        found = cause if role == first else diagnose_job(_build_case(result, ours))
        if found is not None:
            alone = first is None or _is_failure_allowed(
                result, first, failed
            )  # an allowed failure does not excuse others
            yield _build_failure_remark(
                result, role, ours, found, "" if alone else _find_causing_task(cause, ours, failed), missing
            )


def _diagnose_failure(result: SimulationResult) -> Diagnosis | None:
    stopped = [task for task in result.snapshot.tasks if task.state is TaskState.STOPPED]
    failed = _list_failed_tasks(result)
    return diagnose_job(_build_case(result, [*failed, *stopped])) if failed else None


def _is_failure_allowed(result: SimulationResult, role: str, failed: list[TaskAttempt]) -> bool:
    count = sum(task.role == role for task in failed)
    return bool(count) and can_tolerate_failures(result.snapshot.job, role, count)


def _find_role(found: Diagnosis | None, roles: Iterable[str]) -> str | None:
    return found.task.rpartition("-")[0] if found and found.task else next(iter(roles), None)


def _find_causing_task(cause: Diagnosis | None, ours: list[TaskAttempt], failed: list[TaskAttempt]) -> str:
    """Return the task whose failure caused these; empty: they failed by themselves."""
    if cause is None or not cause.task or not ours:
        return ""
    order = [task.task for task in failed]
    names = [task.task for task in ours]
    later = cause.task in order and order.index(cause.task) < order.index(names[0])
    return cause.task if later and set(names) <= set(cause.followers) else ""


def _build_failure_remark(
    result: SimulationResult,
    role: str,
    failed: list[TaskAttempt],
    found: Diagnosis,
    cause: str,
    missing: MissingResources,
) -> Remark:
    task = f"{found.task}: " if found.task and not found.title.startswith(found.task) else ""
    lines = [line for evidence in found.evidence for line in evidence.text.splitlines()]
    excuse = missing.find_environment_cause(found, role, "\n".join((found.title, found.explanation, *lines)))
    allowed = _is_failure_allowed(result, role, failed)
    text = f"{task}{found.title}"
    if allowed:
        text = (
            f"{', '.join(task.task for task in failed)} failed, which the job's completion rules allow: {found.title}"
        )
    elif excuse:
        text += f". The real run may not fail: {excuse}"
    elif cause:
        text += f". The failure of {cause} may have caused it"
    return Remark(
        level=RemarkLevel.WARNING if excuse or allowed or cause else RemarkLevel.PROBLEM,
        about=RemarkTopic.ENGINE if found.fault is Fault.PLATFORM else RemarkTopic.EXIT,
        text=text,
        hint=" ".join(found.remedies),
        evidence=tuple(line for line in lines if line not in found.title)[:_MAX_EVIDENCE_LINES],
    )


def _report_rule_differences(result: SimulationResult, remarks: Remarks) -> None:
    """Report where the real run would behave differently."""
    tasks, real = result.snapshot.tasks, result.real_outcome
    if real is not None and real.outcome.result is OutcomeResult.FAILED:
        later = sorted({task.role for task in tasks if task.finished_at and task.finished_at > real.at})
        if later:
            rest = ", ".join(later)
            text = f"The real run stops all tasks when {real.outcome.role} fails; in the simulation {rest} continued"
            remarks.add_note(RemarkTopic.EXIT, text, "This shows the failures of each role.")
    for role in dict.fromkeys(task.role for task in tasks if task.exit and task.exit.kind is ExitKind.ATTEMPT_OVER):
        why = f": {result.outcome.message}" if result.outcome else ""
        text = f"Stopped early, as in the real run{why}"
        remarks.add_note(RemarkTopic.EXIT, text, f"To run it to its end, use --role {role}.", role)


def build_diagnosis(result: SimulationResult, mask: SecretMask) -> Diagnosis | None:
    would_fail = result.real_outcome is not None and result.real_outcome.outcome.result is OutcomeResult.FAILED
    found = _diagnose_failure(result) if would_fail else None
    if found is None:
        return None
    return replace(
        found,
        title=mask(found.title),
        explanation=mask(found.explanation),
        evidence=tuple(replace(each, text=mask(each.text)) for each in found.evidence),
        remedies=tuple(map(mask, found.remedies)),
    )


def _list_failed_tasks(result: SimulationResult) -> list[TaskAttempt]:
    """Return the failed tasks in the order of their ends."""
    return sorted(
        (task for task in result.snapshot.tasks if task.state is TaskState.FAILED),
        key=lambda task: (task.finished_at is None, task.finished_at),
    )


def _build_case(result: SimulationResult, tasks: list[TaskAttempt]) -> JobDiagnosisInput:
    snapshot, outcome = result.snapshot, result.real_outcome.outcome if result.real_outcome else None
    return JobDiagnosisInput(
        job=snapshot.job,
        attempt=snapshot.attempt,
        exit=outcome.exit if outcome else None,
        message=outcome.message if outcome else "",
        outcome=outcome,
        tasks=tuple(_build_task_case(result, snapshot, task) for task in tasks if task.exit),
        failed=sum(task.state is TaskState.FAILED for task in tasks),
    )


def _build_task_case(result: SimulationResult, snapshot: JobSnapshot, task: TaskAttempt) -> TaskDiagnosisInput:
    assert task.exit is not None
    attempt_id = snapshot.build_attempt_id(task)
    output, seen = result.outputs.get(attempt_id), result.ends.get(attempt_id)
    used = seen.used if seen else None
    role = snapshot.job.get_role(task.role)
    return TaskDiagnosisInput(
        task=task.task,
        role=role,
        exit=task.exit,
        started_at=task.started_at,
        ended_at=task.finished_at,
        stopped=task.state is TaskState.STOPPED,
        log=output.log_excerpts if output else (),
        memory_peak=used.memory_peak if used else None,
        memory_limit=role.resources.memory,
    )


# -- results of tasks


def list_task_results(result: SimulationResult) -> tuple[TaskResult, ...]:
    return tuple(_build_task_result(result, task) for task in result.snapshot.tasks)


def build_skipped_task_result(task: str, why: str) -> TaskResult:
    return TaskResult(task=task, state="Not run", seconds=None, code=None, message=f"Did not run: {why}")


def _build_task_result(result: SimulationResult, task: TaskAttempt) -> TaskResult:
    end = task.finished_at
    seconds = (end - task.started_at).total_seconds() if task.started_at and end else None
    cut = task.state is TaskState.STOPPED and result.ending is SimulationEnding.TIMEOUT
    reason = task.exit
    if cut and seconds is not None and reason is not None and reason.kind is ExitKind.CANCELLED:
        return TaskResult(
            task=task.task, state="Cut", seconds=seconds, code=None, message=f"Ran {seconds:.0f} s without failing"
        )
    code = reason.code if reason and reason.kind is not ExitKind.CANCELLED else None
    message = reason.message if reason else ""
    return TaskResult(task=task.task, state=str(task.state), seconds=seconds, code=code, message=message)


# -- ports


def _report_port_mismatches(result: SimulationResult, attempt_id: str, launch: LaunchSpec, remarks: Remarks) -> None:
    listening, samples = result.ports.get(attempt_id, set()), result.port_samples.get(attempt_id, 0)
    asked = {port for numbers in launch.ports.values() for port in numbers}
    strange = sorted(port for port in listening - asked if not is_ephemeral_port(port))
    quiet = [(label, numbers) for label, numbers in launch.ports.items() if not listening & set(numbers)]
    dialect = result.snapshot.job.dialect
    for port in strange:
        text = f"{launch.task} listens on port {port} without requesting it: another task can use it in the real run"
        hint = (
            f"Listen on {_format_port_variable(dialect, quiet[0][0])}, which it requests."
            if quiet
            else _build_port_hint(dialect)
        )
        remarks.add_warning(RemarkTopic.PORT, text, hint)
    for label, numbers in quiet if samples >= _MIN_PORT_SAMPLES else ():
        listed = ", ".join(map(str, numbers))
        text = f"{launch.task} requests the port {label} ({listed}), but does not listen on it"
        other = (
            f" It listens on {', '.join(map(str, strange))} instead."
            if strange
            else " Or remove the port from the job."
        )
        remarks.add_warning(RemarkTopic.PORT, text, f"Listen on {_format_port_variable(dialect, label)}.{other}")


def _build_port_hint(dialect: JobFormat) -> str:
    where = {JobFormat.OPENPAI_V1: "portList", JobFormat.OPENPAI_V2: "resourcePerInstance.ports"}.get(dialect, "ports")
    return f"Request it in {where}, and listen on {_format_port_variable(dialect, 'NAME')}."


def _format_port_variable(dialect: JobFormat, label: str) -> str:
    if dialect.is_openpai:
        return f"$PAI_CONTAINER_HOST_{label}_PORT_LIST"
    return f"$HOLDFAST_PORT_{make_variable_name(label)}"


def mask_remark(remark: Remark, mask: SecretMask) -> Remark:
    return replace(remark, text=mask(remark.text), hint=mask(remark.hint), evidence=tuple(map(mask, remark.evidence)))
