"""A batch script -> Job.

sbatch runs a script once, on the first of its nodes, with the resources of all its tasks. So the job has one role with
the whole script as its command; an array has an instance for each index. What a Job has no field for is kept under
extras.sbatch, for launching:

    interpreter  the program of the first line, and its argument
    variables    of Slurm, which follow from the options
    array        the indices, as written
    signal       {name, seconds}: what to send, so many seconds before the time limit
    input        path of the file that the script reads as stdin
    task_time_limit  seconds that each task of an array may run: a time limit of the job counts for all of them together
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from holdfast.core.job import Completion, Job, JobFormat, Role
from holdfast.core.messages import msg
from holdfast.core.notifications import Channel, NotificationEvent, NotifySpec, find_address_problem
from holdfast.core.slurm_options import QUEUE_OPTION_NAMES

from .. import rules
from ..defaults import Defaults
from ..document import DocumentNode
from ..fields import FieldValue, InvalidValue, ProblemReport, build_name_hint
from ..holdfast_yaml import DEFAULT_ROLE_NAME
from ..kinds import check_count, make_text_kind
from ..notify import MAX_NOTIFY_ENTRIES
from .containers import read_image, read_mounts
from .holdfast_lines import read_holdfast_lines
from .options import OptionValues, read_options
from .resources import ScriptResources, read_resources
from .script import SLURM_MARKER, BatchScript, report_unread_lines, split_script
from .values import NO_LIMIT, ArrayRequest, get_text, list_array_indices, read_array, read_signal, read_time

DEFAULT_JOB_NAME = "sbatch"  # as Slurm names a script from stdin: the file's name is unknown
MAX_NICE = 2_147_483_645  # Slurm's own
DEFAULT_NICE = 100
_INPUT_KIND = make_text_kind(most=4096, line=True)
_SLURM_COMMAND_PATTERN = re.compile(
    r"^[^#]*?(?:^|[\s;&|(`])(srun|sbatch|salloc|scontrol|squeue|scancel|sacct|sbcast|sinfo)(?=\s|$)"
)
_MAIL_EVENTS = {
    "BEGIN": {NotificationEvent.STARTED},
    "END": {NotificationEvent.SUCCEEDED, NotificationEvent.FAILED, NotificationEvent.STOPPED},
    "FAIL": {NotificationEvent.FAILED},
    "REQUEUE": {NotificationEvent.RETRIED},
    "TIME_LIMIT": {NotificationEvent.FAILED},
}
_MAIL_WORDS_WITHOUT_EVENTS = (
    "ARRAY_TASKS", "INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT_50", "TIME_LIMIT_80", "TIME_LIMIT_90",
)  # fmt: skip


def read_sbatch_job(text: str, report: ProblemReport, defaults: Defaults) -> Job:
    script = split_script(text)
    _check_script(script, report)
    options = read_options(script.list_marked_lines(SLURM_MARKER), report)
    own = read_holdfast_lines(script, report)
    size = read_resources(options, defaults.resources)
    _warn_about_slurm_commands(script, report)
    array = options["array"].apply_reader(_read_array, None) if "array" in options else None
    time_limit = options["time"].apply_reader(read_time, None) if "time" in options else None
    name = options["job-name"].read_as_kind(rules.JOB_NAME_KIND, "") if "job-name" in options else defaults.job_name
    extras = {
        "interpreter": list(script.interpreter),
        "variables": {**size.variables, **_make_queue_variables(options)},
        **({"array": array.indices} if array else {}),
        **_read_signal(options, time_limit),
        **_read_input(options),
        **({"task_time_limit": int(time_limit.total_seconds())} if array and time_limit else {}),
    }
    role = Role(
        name=DEFAULT_ROLE_NAME,
        commands=(script.text.rstrip("\n"),),
        instances=len(list_array_indices(array.indices)) if array else 1,
        image=own.get("image") or read_image(options) or defaults.image,
        resources=size.resources,
        env=options["export"].apply_reader(_read_export, {}) if "export" in options else {},
        mounts=(*read_mounts(options), *own.get("mounts", ())),
        ports=own.get("ports", {}),
        completion=Completion(wait_for_all=array is not None),
        max_task_retries=_get_retries(own) if array else 0,
        shell_options=(),
        engine_options=_read_slurm_options(options, size),
        workdir=_read_workdir(options),
    )
    job = Job(
        name=name or DEFAULT_JOB_NAME,
        roles=(role,),
        group=own.get("group", defaults.group),
        description=get_text(options["comment"]) if "comment" in options else "",
        gang=array is None,  # the tasks of an array do not depend on each other
        max_retries=0 if array else _get_retries(own),
        time_limit=NO_LIMIT if array and time_limit is not None else time_limit,
        hold=own.get("hold"),
        priority=own.get("priority", _read_priority(options)),
        engine=own.get("engine", ""),
        tags=own.get("tags", ()),
        datasets=own.get("datasets", ()),
        files=own.get("files", False),
        notify=_read_mail(options),
        dialect=JobFormat.SBATCH,
        extras={"sbatch": extras},
    )
    root = FieldValue(DocumentNode(text, 1), "", report)
    rules.check_job(job, root, {DEFAULT_ROLE_NAME: root})
    return job


def render_sbatch_script(job: Job) -> str:
    """Return the script, whose options are the job's. The name of its file becomes an option, too."""
    (role,) = job.roles
    text = "\n".join(role.commands) + "\n"
    options = read_options(split_script(text).list_marked_lines(SLURM_MARKER), ProblemReport())
    if "job-name" in options or job.name == DEFAULT_JOB_NAME:
        return text
    first, _, rest = text.partition("\n")
    quoted = job.name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{first}\n{SLURM_MARKER} --job-name="{quoted}"\n{rest}'


def _check_script(script: BatchScript, report: ProblemReport) -> None:
    if not script.interpreter:
        report.add_problem(
            "",
            1,
            msg("A script must name its interpreter in the first line"),
            msg("Write `#!/bin/bash` in the first line."),
            rule="required",
        )
    if not script.body:
        report.add_problem("", len(script.header), msg("has no commands to run"), rule="contains")
    if script.had_windows_line_ends:
        report.add_warning("", 1, msg("The script has line ends of Windows; it runs with those of Unix"))
    report_unread_lines(script, report)


def _warn_about_slurm_commands(script: BatchScript, report: ProblemReport) -> None:
    """Warn about commands that only Slurm has."""
    commands: dict[str, int] = {}
    for line in script.body:
        found = _SLURM_COMMAND_PATTERN.match(line.text)
        if found:
            commands.setdefault(found[1], line.number)
    for command, number in commands.items():
        hint = msg("Remove `srun` before a single program; use mpirun for MPI.") if command == "srun" else None
        report.add_warning(command, number, msg("is a command of Slurm, which other engines do not have"), hint)


def _read_slurm_options(options: OptionValues, size: ScriptResources) -> dict[str, dict[str, str]]:
    """Return the options of Slurm's own queue, which other engines ignore."""
    names = [name for name in QUEUE_OPTION_NAMES if name in options]
    found = {name: options[name].read_as_kind(rules.ENGINE_OPTION_KIND, "") for name in names}
    if size.gres:
        found["gres"] = size.gres
    return {"slurm": found} if found else {}


def _make_queue_variables(options: OptionValues) -> dict[str, str]:
    names = ("partition", "account", "qos")
    return {f"SLURM_JOB_{name.upper()}": get_text(options[name]) for name in names if name in options}


# -- arrays, signals, stdin


def _read_array(option: FieldValue) -> ArrayRequest:
    array = read_array(option)
    if array.limit == 1 and len(list_array_indices(array.indices)) > 1:
        raise InvalidValue(
            msg("must not run its tasks one after another: that is not supported"),
            msg("Remove %1 if the tasks can run at the same time."),
            rule="not",
        )
    if array.limit and array.limit < len(list_array_indices(array.indices)):
        option.add_warning(
            msg("has a limit of {count} tasks, which has no effect", count=array.limit),
            msg("As many tasks run as there are resources in the quota of the group."),
        )
    return array


def _read_signal(options: OptionValues, time_limit: timedelta | None) -> dict[str, Any]:
    option = options.get("signal")
    request = option.apply_reader(read_signal, None) if option else None
    if option is None or request is None:
        return {}
    if not request.to_script:
        option.add_warning(
            msg("is only for steps of srun, and has no effect here"),
            msg("Write B:{signal} to send it to the script.", signal=request.name),
        )
        return {}
    if not time_limit or time_limit.total_seconds() <= request.seconds:
        option.add_warning(msg("has no effect: the script sets no time limit that is longer"))
        return {}
    return {"signal": {"name": request.name, "seconds": int(time_limit.total_seconds()) - request.seconds}}


def _read_workdir(options: OptionValues) -> str | None:
    option = options.get("container-workdir") or options.get("chdir")
    if option is None or get_text(option) in (".", "./"):
        return None
    return option.read_as_kind(rules.PATH_KIND, None)


def _read_input(options: OptionValues) -> dict[str, str]:
    option = options.get("input")
    if option is None:
        return {}
    if "%" in get_text(option):
        option.add_problem(msg("must not contain a pattern"), rule="pattern")
    return {"input": option.read_as_kind(_INPUT_KIND, "")}


# -- variables, priority, mail


def _read_export(option: FieldValue) -> dict[str, str]:
    """Read NAME=VALUE; variables of the submitting shell are unknown here."""
    found: dict[str, str] = {}
    for part in get_text(option).split(","):
        name, equals, value = part.strip().partition("=")
        if not equals and name.upper() in ("ALL", "NONE", "NIL", ""):
            if name.upper() == "ALL":
                option.add_warning(
                    msg("does not export the variables of your shell"),
                    msg("Add those that the script needs: NAME=VALUE."),
                )
        elif not equals:
            option.add_problem(
                msg("exports {name} without a value", name=name), msg("Write {name}=VALUE.", name=name), rule="required"
            )
        else:
            at = FieldValue(DocumentNode(name, option.node.line), option.path, option.report)
            found[at.read_as_kind(rules.ENV_NAME_KIND, "_")] = value
    check_count(len(found), "entries", 0, rules.MAX_VARIABLES, ("minProperties", "maxProperties"))
    return found


def _read_priority(options: OptionValues) -> int:
    """Return the opposite of nice: a higher value starts later."""
    option = options.get("nice")
    if option is None:
        return 0
    text = get_text(option) or str(DEFAULT_NICE)
    if not re.fullmatch(r"-?[0-9]{1,10}", text) or abs(int(text)) > MAX_NICE:
        option.add_problem(
            msg("must be {expected}, not {node}", expected=msg("a whole number"), node=repr(text[:80])), rule="format"
        )
        return 0
    return -int(text)


def _get_retries(own: dict[str, Any]) -> int:
    retry = own.get("retry", 0)
    return int(retry.get("max", 0)) if isinstance(retry, dict) else int(retry)


def _read_mail(options: OptionValues) -> tuple[NotifySpec, ...]:
    events = (
        options["mail-type"].apply_reader(_read_mail_events, frozenset()) if "mail-type" in options else frozenset()
    )
    user = options.get("mail-user")
    if user is None:
        return (NotifySpec(events=events, way=Channel.MAIL),) if events else ()
    addresses = user.apply_reader(_read_addresses, ())
    if "mail-type" not in options:
        user.add_warning(msg("has no effect without {other}", other="--mail-type"))
    return tuple(NotifySpec(events=events, way=Channel.MAIL, address=address) for address in addresses if events)


def _read_mail_events(option: FieldValue) -> frozenset[NotificationEvent]:
    found: set[NotificationEvent] = set()
    for word in get_text(option).upper().split(","):
        if word == "ALL":
            found.update(*(_MAIL_EVENTS[each] for each in ("BEGIN", "END", "FAIL", "REQUEUE")))
        elif word in _MAIL_EVENTS:
            found |= _MAIL_EVENTS[word]
        elif word in _MAIL_WORDS_WITHOUT_EVENTS:
            option.add_warning(msg("has no notification for {value}", value=word))
        elif word != "NONE":
            raise InvalidValue(
                msg("{value} is not a notification event", value=repr(word[:80])),
                build_name_hint(word, (*_MAIL_EVENTS, "ALL", "NONE")),
                rule="enum",
            )
    return frozenset(found)


def _read_addresses(option: FieldValue) -> tuple[str, ...]:
    addresses = tuple(dict.fromkeys(part.strip() for part in get_text(option).split(",") if part.strip()))
    check_count(len(addresses), msg("addresses"), 0, MAX_NOTIFY_ENTRIES, ("minItems", "maxItems"))
    for address in addresses:
        if "@" not in address:
            option.add_warning(msg("is not an email address; the mails go to the job's user"))
            return ("",)
        wrong = find_address_problem(Channel.MAIL, address)
        if wrong:
            raise InvalidValue(wrong, rule="format")
    return addresses
