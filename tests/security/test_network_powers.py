"""What a task may not do on the network that it shares with the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation, LogStream
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import need, play
from tests.engines.sessions import inside

ATTACK = r"""
python3 - <<'END'
import errno, json, socket, struct

def attempt(call):
    try:
        return call() or "DONE"
    except OSError as error:
        return errno.errorcode[error.errno]

def bind(port):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))

def open_socket(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()

print(json.dumps({
    "port 81": attempt(lambda: bind(81)),
    "port 1023": attempt(lambda: bind(1023)),
    "any port": attempt(lambda: bind(0)),
    "vsock stream": attempt(lambda: open_socket(40, socket.SOCK_STREAM)),
    "vsock datagram": attempt(lambda: open_socket(40, socket.SOCK_DGRAM)),
    "vsock, odd upper bits": attempt(lambda: open_socket(40, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)),
    "alg": attempt(lambda: open_socket(38, socket.SOCK_SEQPACKET)),
    "pair": attempt(lambda: socket.socketpair(40, socket.SOCK_STREAM) and None),
    "audit": attempt(lambda: open_socket(16, socket.SOCK_RAW, 9)),
    "route": attempt(lambda: open_socket(16, socket.SOCK_RAW, 0)),
    "unix pair": attempt(lambda: [end.close() for end in socket.socketpair()] and None),
}))
END
"""
EXPECTED = {
    "port 81": "EACCES",
    "port 1023": "EACCES",
    "any port": "DONE",
    "vsock stream": "EAFNOSUPPORT",
    "vsock datagram": "EAFNOSUPPORT",
    "vsock, odd upper bits": "EAFNOSUPPORT",
    "alg": "EAFNOSUPPORT",
    "pair": "EAFNOSUPPORT",
    "audit": "EPROTONOSUPPORT",
    "route": "DONE",
    "unix pair": "DONE",
}


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) < 1024:
        pytest.skip("this machine lets everyone use ports below 1024 (net.ipv4.ip_unprivileged_port_start)")


def test_a_task_and_a_session_in_it_are_refused_the_same(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", ATTACK)
        assert json.loads(await read_all(rig.log("a"))) == EXPECTED
        await rig.start_and_wait_for(b"up", "b", "echo up; exec sleep 600")
        said = await inside(rig.engine, "b", ATTACK)
        assert json.loads(said.out) == EXPECTED, said

    play(tmp_path, scenario)


def test_programs_that_write_to_the_audit_log_go_on_without_it(tmp_path: Path) -> None:
    """PAM takes a refused audit record for a failure, and a kernel without audit log for none."""
    need(Isolation.FULL)
    programs = (
        'echo "127.0.1.1 $(hostname)" >>/etc/hosts\n'  # which sudo looks up
        'su nobody -s /bin/sh -c "id -un"; if command -v sudo >/dev/null; then sudo -n true; fi'
    )

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", programs)
        said = await read_all(rig.log("a", LogStream.MERGED))
        assert (seen.code, said) == (0, b"nobody\n")

    play(tmp_path, scenario)
