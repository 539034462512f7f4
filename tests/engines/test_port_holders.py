"""Whose a port is that a task was to have."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from holdfast.engines.embedded.lifecycle.port_holders import (
    PortHolder,
    describe_port_holder,
    find_port_holder,
    report_port_in_use,
)

LISTEN = (
    "import socket, sys; s = socket.socket(int(sys.argv[1])); s.bind((sys.argv[2], 0)); s.listen(); "
    "print(s.getsockname()[1], flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize(
    ("own", "told"),
    [("job-a", "another task of this job"), ("job-b", "a task of another job"), ("", "another program")],
)
def test_a_process_that_listens_is_found(family: int, host: str, own: str, told: str) -> None:
    if family == socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    env = {**os.environ, **({"HOLDFAST_JOB": own} if own else {})}
    command = [sys.executable, "-c", LISTEN, str(int(family)), host]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            found = find_port_holder(port)
            assert found is not None
            assert (found.pid, found.job_id) == (process.pid, own)
            said = report_port_in_use(port, "job-a")
            assert said == f"Port {port} is in use on this machine by {told}."
            assert "job-b" not in said  # that other groups' jobs exist is not told
        finally:
            process.stdin.close()


def test_a_port_where_nothing_listens_has_no_holder() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert find_port_holder(bound.getsockname()[1]) is None


def test_who_is_not_known_is_another_program() -> None:
    assert describe_port_holder(None, "job-a") == "another program"
    assert describe_port_holder(PortHolder(1, "init", ""), "job-a") == "another program"
