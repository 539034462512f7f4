"""The same for a server that is not run by root."""

from __future__ import annotations

from tests.engines.ordinary import only_root_can_become_another, run_as_ordinary_user

HERE = "tests/server/inside"


@only_root_can_become_another
def test_an_ordinary_users_tasks_are_entered_and_looked_into() -> None:
    run_as_ordinary_user(
        f"{HERE}/test_exec_socket.py",
        f"{HERE}/test_ports.py",
        f"{HERE}/test_stacks.py::test_every_thread_of_a_hung_program",
    )
