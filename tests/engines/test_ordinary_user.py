"""Tests of other files once more, as an ordinary user: root has more, and most servers on laptops are not run by it.

Each part is a pytest of its own, under a user id that no other part has, so that limits per user are not shared.
"""

from __future__ import annotations

import pytest

from .ordinary import only_root_can_become_another, run_as_ordinary_user

# Of each kind of thing an ordinary user's server does, some, and all that only an ordinary user can run.
ESSENTIAL = {
    "sandbox": (
        "tests/engines/test_modes.py::test_what_an_ordinary_user_can_change",
        "tests/engines/test_escapes.py",
        "tests/engines/test_images.py::test_a_task_runs_on_an_imported_image",
        "tests/engines/test_images.py::test_a_plain_root_filesystem",
        "tests/security/test_process_limit.py::test_threads_and_processes_of_a_task_are_limited",
        "tests/launching/test_primehub_sudo.py::test_who_is_not_root_is_promised_none",
    ),
    "contract": ("tests/contracts/test_engine_embedded.py::TestSandboxed",),
    "inside": (
        "tests/engines/test_exec_sessions.py::test_a_command_inside",
        "tests/engines/test_reviving.py::test_the_files_of_an_ended_task",
        "tests/engines/test_sftp.py::test_files_go_into_a_task_and_out",
        "tests/engines/test_library.py::test_what_a_sandbox_holds_of_it",
        "tests/engines/test_measuring.py::test_memory[watched]",
        "tests/engines/test_scratch.py::test_a_home_that_holds_too_much_ends_the_task_and_is_told",
        "tests/engines/test_artifacts.py::test_what_is_no_plain_file_is_left_out_and_counted",
        "tests/server/inside/test_stacks.py::test_every_thread_of_a_hung_program",
        "tests/e2e/test_ssh_between_tasks.py::test_our_own_jobs_need_no_bash_either",
    ),
}

WHOLE = {
    "sandbox": ("tests/engines/test_sandbox.py",),
    "entering": (
        "tests/engines/test_exec_sessions.py",
        "tests/engines/test_reviving.py",
        "tests/engines/test_stacks.py",
    ),
    "files": ("tests/engines/test_scratch.py", "tests/engines/test_artifacts.py"),
    "measuring": (
        "tests/engines/test_measuring.py::test_processor_time[watched]",
        "tests/engines/test_measuring.py::test_disks[watched]",
        "tests/engines/test_measuring.py::test_network[watched-127.0.0.1]",
    ),
    "commands": ("tests/launching/test_commands.py", "tests/launching/test_plugins.py"),
    "homes": ("tests/launching/test_order_and_home.py", "tests/launching/test_primehub_environment.py"),
    "images": ("tests/launching/test_primehub_images.py",),
    "server": (
        "tests/server/inside/test_exec_socket.py",
        "tests/server/inside/test_ports.py",
        "tests/e2e/test_ssh_between_tasks.py::test_openpais_plugin_works_in_an_image_without_an_sshd",
    ),
}


@pytest.mark.release_after(1)
@only_root_can_become_another
@pytest.mark.parametrize("part", ESSENTIAL)
def test_an_ordinary_user_has_the_essentials(part: str) -> None:
    run_as_ordinary_user(*ESSENTIAL[part])


@pytest.mark.release
@only_root_can_become_another
@pytest.mark.parametrize("part", WHOLE)
def test_an_ordinary_user_has_the_rest_too(part: str) -> None:
    run_as_ordinary_user(*WHOLE[part], whole=True)
