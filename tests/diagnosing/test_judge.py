"""One verdict: the cause before its symptoms, the first task before its followers, nothing without evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.core.exits.exit import (
    Cause,
    Exit,
    ExitKind,
    RetryBehaviour,
    build_platform_exit,
    build_refused_exit,
    classify_exit,
)
from holdfast.core.job import GIB, MIB, JobFormat
from holdfast.core.verdicts import Confidence, EvidenceKind, Fault
from holdfast.diagnosis.case import LogExcerpt
from holdfast.diagnosis.job_diagnosis import diagnose_job

from .cases import ROLE, case_of, ended, of_log, verdict

TRACE = """Traceback (most recent call last):
  File "/code/train.py", line 9, in <module>
    main()
  File "/code/train.py", line 5, in main
    model.fit(1 / 0)
  File "/opt/conda/lib/python3.10/site-packages/lib/fit.py", line 77, in fit
    raise ValueError("bad shape (3, 4)")
ValueError: bad shape (3, 4)
"""
HEALTHY = "".join(f"step {number}: loss {number / 7:.3f}\n" for number in range(400))


def test_an_exception_names_the_last_line_of_the_users_own_code() -> None:
    found = of_log("loading\n" + TRACE)
    assert (found.fault, found.confidence) == (Fault.PYTHON_EXCEPTION, Confidence.CERTAIN)
    assert found.title == "ValueError: bad shape (3, 4)"
    assert found.frame is not None
    assert (found.frame.file, found.frame.line, found.frame.function) == ("/code/train.py", 5, "main")
    assert found.frame.code == "model.fit(1 / 0)"
    log = next(each for each in found.evidence if each.kind is EvidenceKind.LOG)
    assert ("loading\n" + TRACE).encode()[log.offset :].startswith(b"ValueError: bad shape")


@pytest.mark.parametrize("prefix", ["[rank1]: ", "[default0]:", "[1,0]<stderr>:", "worker_1  | ", "3: "])
def test_an_exception_is_found_behind_what_launchers_put_before_each_line(prefix: str) -> None:
    log = "".join(f"{prefix}{line}\n" for line in TRACE.splitlines())
    found = of_log(log)
    assert found.title == "ValueError: bad shape (3, 4)"
    assert found.frame is not None
    assert found.frame.line == 5


def test_what_went_on_after_an_error_was_not_ended_by_it() -> None:
    early = "OSError: [Errno 28] No space left on device\n" + HEALTHY
    assert of_log(early + TRACE).fault is Fault.PYTHON_EXCEPTION
    assert of_log(early, 3).fault is Fault.UNKNOWN
    assert of_log(TRACE + HEALTHY + "cat: x: No such file or directory\n").fault is Fault.MISSING_FILE


def test_an_unknown_end_shows_the_last_lines_and_the_code() -> None:
    found = of_log("one\ntwo\nthe oracle is displeased\n", 42)
    assert (found.fault, found.confidence) == (Fault.UNKNOWN, Confidence.POSSIBLE)
    assert "42" in found.title
    assert any("the oracle is displeased" in each.text for each in found.evidence)
    assert of_log("", 3).fault is Fault.UNKNOWN


def test_errors_in_healthy_words_are_none() -> None:
    log = "errors: 0\nno error found\nerror rate 0.25\nTotal exceptions 0, killed 0\ntraceback is off\n"
    assert of_log(log, 5).fault is Fault.UNKNOWN


RAISED_FROM = """Traceback (most recent call last):
  File "/code/a.py", line 3, in load
    return open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'conf.yml'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/code/a.py", line 9, in <module>
    load("conf.yml")
  File "/code/a.py", line 5, in load
    raise RuntimeError("cannot start") from error
RuntimeError: cannot start
"""


def test_of_exceptions_that_come_of_each_other_the_telling_one_is_the_cause() -> None:
    found = of_log(RAISED_FROM)
    assert found.fault is Fault.MISSING_FILE
    plain = RAISED_FROM.replace("FileNotFoundError: [Errno 2] No such file or directory: 'conf.yml'", "KeyError: 'lr'")
    found = of_log(plain)
    assert found.title == "RuntimeError: cannot start"
    assert "KeyError: 'lr'" in found.explanation


def test_an_error_within_the_handling_of_another_is_an_error_of_its_own() -> None:
    log = RAISED_FROM.replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ).replace(
        'raise RuntimeError("cannot start") from error\nRuntimeError: cannot start',
        "backup(1 / 0)\nZeroDivisionError: division by zero",
    )
    assert of_log(log).title == "ZeroDivisionError: division by zero"


def test_what_wraps_an_error_gives_way_to_it() -> None:
    compiler = "a.c:3:5: error: expected ';' before 'return'\n"
    assert of_log(f"{compiler}{'gcc -c b.c' * 3}\nmake: *** [Makefile:2: a.o] Error 1\n", 2).rule == "compiler"
    outer = """Traceback (most recent call last):
  File "/code/run.py", line 2, in <module>
    subprocess.run(["./train"], check=True)
subprocess.CalledProcessError: Command '['./train']' returned non-zero exit status 1.
"""
    assert (
        of_log("./train: error while loading shared libraries: libx.so: cannot open shared object file\n" + outer).fault
        is Fault.MISSING_LIBRARY
    )
    elastic = "\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n====\ntrain.py FAILED\n----\n"
    assert of_log(TRACE + elastic).title == "ValueError: bad shape (3, 4)"


def test_a_failed_download_or_installation_is_why_something_is_missing_later() -> None:
    module = TRACE.replace("ValueError: bad shape (3, 4)", "ModuleNotFoundError: No module named 'foo'")
    pip = "ERROR: Could not find a version that satisfies the requirement foo\n"
    assert of_log(pip + "starting\n" + module).fault is Fault.PACKAGE_INSTALL
    curl = "curl: (6) Could not resolve host: data.invalid\n"
    assert of_log(curl + "tar: data.tar: Cannot open: No such file or directory\n", 2).fault is Fault.UNKNOWN_HOST


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (139, Fault.SEGFAULT), (134, Fault.ABORTED), (132, Fault.CRASHED), (136, Fault.CRASHED), (141, Fault.CRASHED),
        (143, Fault.KILLED), (130, Fault.KILLED), (137, Fault.KILLED), (127, Fault.COMMAND_NOT_FOUND),
        (126, Fault.NOT_EXECUTABLE), (7, Fault.UNKNOWN),
    ],
)  # fmt: skip
def test_a_code_tells_what_it_can_by_itself(code: int, fault: Fault) -> None:
    assert of_log("step 1\nstep 2\n", code).fault is fault


def test_a_signal_outweighs_an_error_that_does_not_go_with_it() -> None:
    assert of_log("cat: x: No such file or directory\n", 139).fault is Fault.SEGFAULT
    log = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    assert of_log(log, 134).fault is Fault.OUT_OF_MEMORY


def test_lack_of_memory_is_certain_by_the_kernel_and_likely_by_the_figures() -> None:
    kernel = verdict(ended("step\nKilled\n", exit=classify_exit(137, oom=True), peak=2 * GIB))
    assert (kernel.fault, kernel.confidence) == (Fault.OUT_OF_MEMORY, Confidence.CERTAIN)
    assert {each.kind for each in kernel.evidence} >= {EvidenceKind.KERNEL, EvidenceKind.MEMORY, EvidenceKind.EXIT}
    figures = verdict(ended("step\n", 137, peak=2 * GIB - 20 * MIB))
    assert (figures.fault, figures.confidence) == (Fault.OUT_OF_MEMORY, Confidence.LIKELY)
    told = verdict(ended("/run/holdfast/script: line 1: 7 Killed  ./x\n", 137, peak=GIB))
    assert (told.fault, told.confidence) == (Fault.KILLED, Confidence.LIKELY)
    assert verdict(ended("step\n", 137, peak=GIB)).confidence is Confidence.POSSIBLE


def test_nothing_is_said_of_the_kernel_where_we_watch() -> None:
    task = replace(ended("step\n", exit=classify_exit(137, oom=True), peak=2 * GIB), watched=True)
    assert "kernel" not in str(verdict(task)).replace("EvidenceKind.KERNEL", "").lower()


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        (JobFormat.HOLDFAST, "resources.memory"),
        (JobFormat.OPENPAI_V2, "resourcePerInstance.memoryMB"),
        (JobFormat.OPENPAI_V1, "memoryMB"),
        (JobFormat.PRIMEHUB, "instanceType"),
        (JobFormat.SBATCH, "--mem"),
    ],
)
def test_a_remedy_names_the_field_of_the_jobs_own_dialect(dialect: JobFormat, field: str) -> None:
    found = verdict(ended(exit=classify_exit(137, oom=True)), dialect=dialect)
    assert field in found.remedies[0]
    assert "3 GiB" in found.remedies[0]


@pytest.mark.parametrize(
    ("exit", "fault"),
    [
        (Exit(kind=ExitKind.TIME_LIMIT, message="Ran longer", behaviour=RetryBehaviour.PERMANENT), Fault.TIME_LIMIT),
        (build_refused_exit("Image x not found", Cause.IMAGE_MISSING), Fault.BAD_IMAGE),
        (
            build_refused_exit("/x cannot be mounted: No such file or directory.", Cause.NOT_ALLOWED),
            Fault.MISSING_DATASET,
        ),
        (build_refused_exit("It asks for 900 cores", Cause.TOO_LARGE), Fault.IMPOSSIBLE),
        (build_platform_exit("The machine restarted while the task was running", Cause.LOST), Fault.PLATFORM),
        (build_platform_exit("Port 80 is taken", Cause.PORT_IN_USE), Fault.PORT_IN_USE),
        (replace(classify_exit(1, scratch_full="It held 9 GiB"), cause=Cause.SCRATCH_FULL.value), Fault.HOME_FULL),
    ],
)
def test_what_the_engine_knows_is_certain_whatever_the_log_says(exit: Exit, fault: Fault) -> None:
    found = verdict(ended(TRACE, exit=exit))
    assert (found.fault, found.confidence) == (fault, Confidence.CERTAIN)
    assert found.evidence
    alone = diagnose_job(case_of(exit=exit))
    assert alone is not None
    assert alone.fault is fault


def test_what_did_not_fail_has_no_verdict() -> None:
    assert diagnose_job(case_of(exit=Exit(kind=ExitKind.CANCELLED, message="Cancelled by ann"))) is None
    assert diagnose_job(case_of(exit=classify_exit(0))) is None


NCCL = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, remote process exited\n"
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer\n"
MODULE = "ModuleNotFoundError: No module named 'apex'\n"


def test_the_first_task_that_failed_by_itself_is_the_cause() -> None:
    found = verdict(ended(NCCL, index=2, second=1), ended(MODULE, index=1, second=2), ended(RESET, index=3, second=3))
    assert (found.fault, found.task) == (Fault.MISSING_MODULE, "main-1")
    assert found.followers == ("main-2", "main-3")


def test_a_task_that_was_stopped_may_have_been_the_cause() -> None:
    over = Exit(kind=ExitKind.ATTEMPT_OVER, message="over")
    found = verdict(ended(NCCL, index=0), ended("step\n" + TRACE, index=1, exit=over, stopped=True))
    assert (found.task, found.fault) == ("main-1", Fault.PYTHON_EXCEPTION)
    assert found.followers == ("main-0",)
    alone = verdict(ended(NCCL, index=0), ended("step\n", index=1, exit=over, stopped=True))
    assert (alone.task, alone.fault) == ("main-0", Fault.COLLECTIVE)


def test_tasks_that_fail_the_same_way_do_not_follow_each_other() -> None:
    found = verdict(*(ended(MODULE, index=index, second=index) for index in range(4)))
    assert (found.task, found.followers) == ("main-0", ())
    assert "3 other tasks failed in the same way." in found.explanation


def test_a_template_that_is_left_is_named() -> None:
    role = replace(ROLE, commands=("python train.py --lr <% $parameters.lr %>",))
    found = verdict(ended("user.sh: line 1: parameters: unbound variable\n", role=role))
    assert found.fault is Fault.UNRESOLVED_TEMPLATE
    assert "<% $parameters.lr %>" in found.title


def test_the_offset_of_evidence_leads_into_the_log_also_past_colours_and_a_gap() -> None:
    line = b"\x1b[31mcat: x: \x1b[0mNo such file or directory\n"
    tail = b"half of a line\n\x1b[1mbold\x1b[0m\n" + line
    task = replace(ended(), log=(LogExcerpt(0, b"head\n"), LogExcerpt(5000, tail)))
    found = verdict(task)
    assert found.fault is Fault.MISSING_FILE
    assert found.evidence[0].offset == 5000 + tail.index(b"\x1b[31m") + 5
    assert found.evidence[0].text == "cat: x: No such file or directory"


def test_a_time_limit_is_told_with_its_length() -> None:
    exit = Exit(kind=ExitKind.TIME_LIMIT, message="Ran longer", behaviour=RetryBehaviour.PERMANENT)
    case = replace(case_of(ended("working\n", exit=exit)), time_limit=timedelta(minutes=90))
    found = diagnose_job(case)
    assert found is not None
    assert "1h30m" in found.title
    assert any("working" in each.text for each in found.evidence)


def test_what_python_says_at_its_very_end_is_not_the_cause() -> None:
    noise = TRACE.replace("ValueError: bad shape (3, 4)", "TypeError: 'NoneType' object is not callable")
    assert of_log(f"{TRACE}Exception ignored in: <function Pool.__del__ at 0x7f>\n{noise}").title.startswith(
        "ValueError"
    )


def test_the_only_exception_counts_though_much_follows_unless_it_was_told_and_gone_on_after() -> None:
    assert of_log(TRACE + HEALTHY).title.startswith("ValueError")
    assert of_log(TRACE + HEALTHY).confidence is Confidence.LIKELY
    assert of_log("ERROR:root:could not upload, going on\n" + TRACE + HEALTHY).fault is Fault.UNKNOWN


NOTEBOOK = """---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[3], line 7
      5 data = load()
      6
----> 7 train(data)

File /code/steps.py:12, in train(data)
     10 def train(data):
---> 12     raise ValueError("no rows")

ValueError: no rows
"""


def test_an_exception_in_a_notebook_is_found() -> None:
    found = of_log("Executing notebook\n" + NOTEBOOK)
    assert (found.title, found.fault) == ("ValueError: no rows", Fault.PYTHON_EXCEPTION)
    assert found.frame is not None
    assert (found.frame.file, found.frame.line) == ("/code/steps.py", 12)


def test_an_error_that_may_be_anothers_fault_gives_way_to_one_that_is_not() -> None:
    weak = "Error: lost the parameter server\n"
    found = verdict(ended(weak, index=0, second=1), ended(TRACE, index=1, second=2))
    assert (found.task, found.followers) == ("main-1", ("main-0",))
    assert verdict(ended(weak, index=0, second=1)).task == "main-0"


BOXED = """╭─────────── Traceback (most recent call last) ────────────╮
│ /code/train.py:10 in main                                │
│                                                          │
│    9 def main():                                         │
│ ❱ 10     fit(model)                                      │
│                                                          │
│ /opt/conda/lib/python3.10/site-packages/fit.py:3 in fit  │
│ ❱ 3     raise ValueError("no rows")                      │
╰──────────────────────────────────────────────────────────╯
ValueError: no rows
"""


def test_an_exception_in_a_box_is_found() -> None:
    found = of_log("starting\n" + BOXED)
    assert (found.title, found.fault) == ("ValueError: no rows", Fault.PYTHON_EXCEPTION)
    assert found.frame is not None
    assert (found.frame.file, found.frame.line, found.frame.function) == ("/code/train.py", 10, "main")


def test_an_archive_that_is_not_there_is_not_a_damaged_one() -> None:
    log = (
        "tar (child): missing.tar.gz: Cannot open: No such file or directory\n"
        "tar (child): Error is not recoverable: exiting now\n"
        "tar: Child returned status 2\n"
        "tar: Error is not recoverable: exiting now\n"
    )
    found = of_log(log, 2)
    assert (found.fault, found.confidence) == (Fault.MISSING_FILE, Confidence.CERTAIN)
    assert "missing.tar.gz" in found.title
    damaged = "\ngzip: stdin: not in gzip format\ntar: Child returned status 1\n"
    assert of_log(damaged + "tar: Error is not recoverable: exiting now\n", 2).fault is Fault.BAD_DATA


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_traceback_that_other_output_tore_apart_is_read_from_the_errors(after: int) -> None:
    errors = (
        'Traceback (most recent call last):\n  File "/code/t.py", line 7, in <module>\n    step(b)\n'
        '  File "/code/t.py", line 6, in step\nZeroDivisionError: division by zero\n'
    )
    lines = errors.splitlines(keepends=True)
    noise = [f"wandb: Synced {number} media file(s)\n" for number in range(30)]
    log = "".join([*lines[: after + 1], *noise, *lines[after + 1 :]])
    found = verdict(replace(ended(log), errors=(LogExcerpt(0, errors.encode()),)))
    assert (found.title, found.confidence) == ("ZeroDivisionError: division by zero", Confidence.CERTAIN)
    assert found.frame is not None
    assert (found.frame.file, found.frame.line) == ("/code/t.py", 6)
    shown = next(each for each in found.evidence if each.kind is EvidenceKind.LOG)
    assert log.encode()[shown.offset :].startswith(b"ZeroDivisionError")
    assert of_log(log).fault is Fault.PYTHON_EXCEPTION


def test_only_tasks_that_say_the_same_failed_in_the_same_way() -> None:
    lr = TRACE.replace("ValueError: bad shape (3, 4)", "KeyError: 'lr'")
    found = verdict(ended(lr, index=0, second=1), ended(TRACE, index=1, second=2))
    assert (found.title, found.followers) == ("KeyError: 'lr'", ())
    assert "same way" not in found.explanation
    numbered = verdict(ended(TRACE, index=0), ended(TRACE.replace("(3, 4)", "(5, 4)"), index=1))
    assert "One other task failed in the same way." in numbered.explanation


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: NCCL communicator was aborted on rank 1.",
        "RuntimeError: Connection closed by remote peer n1<4242>",
    ],
)
def test_a_task_that_lost_another_follows_it(said: str) -> None:
    lost = TRACE.replace("ValueError: bad shape (3, 4)", said)
    found = verdict(ended(lost, index=1, second=1), ended(TRACE, index=0, second=2))
    assert (found.task, found.followers) == ("main-0", ("main-1",))


def test_more_memory_is_no_remedy_where_the_job_has_much_left() -> None:
    java = 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n'
    role = replace(ROLE, resources=replace(ROLE.resources, memory=800 * MIB))
    far = verdict(ended(java, role=role, peak=77 * MIB))
    assert "-Xmx" in far.remedies[0]
    assert "77 MiB of 800 MiB" in far.remedies[0]
    assert not any("Request more memory" in remedy for remedy in far.remedies)
    assert "Request more memory" in verdict(ended(java, role=role, peak=790 * MIB)).remedies[0]


@pytest.mark.parametrize(
    "line",
    ["ERROR the solver gave up", "CRITICAL:root:the solver gave up", "2026-03-01 12:00:00,1 ERROR the solver gave up"],
)
def test_the_last_error_of_a_logger_is_the_title_where_nothing_else_is_known(line: str) -> None:
    found = of_log(f"one\n{line}\n", 3)
    assert (found.fault, found.confidence) == (Fault.UNKNOWN, Confidence.POSSIBLE)
    assert found.title == "Last error of the program: the solver gave up"
    assert any(line in each.text for each in found.evidence)


def test_the_shell_s_line_is_quoted_from_the_commands() -> None:
    role = replace(ROLE, image="host", commands=("echo a", "python train.py\necho b"))
    found = verdict(ended("a\n/run/holdfast/script: line 2: python: command not found\n", 127, role=role))
    assert found.explanation.endswith("It is line 2 of its commands: `python train.py`.")
    assert "python3" in found.remedies[0]
    far = verdict(ended("/run/holdfast/script: line 20: x: command not found\n", 127, role=role))
    assert "of its commands" not in far.explanation


def test_a_module_is_installed_into_an_environment_where_the_machine_takes_none() -> None:
    host = verdict(ended(MODULE, role=replace(ROLE, image="host")))
    assert "python3 -m venv --system-site-packages ~/venv && ~/venv/bin/pip install apex" in host.remedies[0]
    image = verdict(ended(MODULE, role=replace(ROLE, image="torch")))
    assert "`pip install apex`" in image.remedies[0]


def test_a_frame_in_a_text_given_to_python_is_none_and_what_went_on_was_caught() -> None:
    found = of_log('Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nKeyError: 1\n')
    assert found.frame is None
    assert "uncaught exception" in found.explanation
    assert "uncaught exception" not in of_log(TRACE + "going on\n").explanation
