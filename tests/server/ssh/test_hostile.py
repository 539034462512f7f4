"""Clients that mean no good: strangers, and people who are inside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import String, UInt32

from holdfast.server.ssh import connection, connections, gateway, ports

from .rig import SshRig, open_gateway

pytestmark = pytest.mark.anyio

MB = 1024 * 1024
SOON = 20.0  # seconds
MSG_GLOBAL_REQUEST = 80


@pytest.fixture
async def user(rig: SshRig) -> str:
    await rig.add_key(rig.house.admin)
    return f"{(await rig.run_job()).id}.main-0"


@asynccontextmanager
async def connected(rig: SshRig, user: str, **more: Any) -> AsyncIterator[asyncssh.SSHClientConnection]:
    given = {"client_keys": [str(rig.folder / "id")], "known_hosts": None, "config": None, "agent_path": None, **more}
    async with asyncssh.connect("127.0.0.1", rig.port, username=user, **given) as client:
        yield client


async def still_works(rig: SshRig, user: str) -> None:
    assert (await rig.ssh(user, "127.0.0.1", "echo fine")).out == b"fine\n"


# -- strangers


@pytest.mark.release_after(1)
@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n" + b"\xff" * 100, b"SSH-1.5-x\r\n", b"x" * 100_000]
)
async def test_nonsense_ends_the_connection(rig: SshRig, user: str, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(sent)
    async with asyncio.timeout(SOON):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
    writer.close()
    await still_works(rig, user)
    assert not rig.gateway._connections._unauthenticated


async def test_strangers_who_wait_keep_few_places_and_not_for_long(
    rig: SshRig, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_UNAUTHENTICATED_PER_ADDRESS", 3)
    silent = [await wait_silently(rig, f"127.0.0.{n}") for n in (1, 2, 3, 1)]  # one machine, whatever it is called
    reader, _ = silent[0]
    with suppress(ConnectionError):  # who has waited longest makes room
        while await asyncio.wait_for(reader.read(1000), SOON):
            pass
    assert len(rig.gateway._connections._unauthenticated) == 3
    await still_works(rig, user)  # and so for those who log in
    for _, each in silent:
        each.close()
    async with asyncio.timeout(SOON):
        while rig.gateway._connections._unauthenticated:
            await asyncio.sleep(0.01)
    await still_works(rig, user)


async def wait_silently(rig: SshRig, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port, local_addr=(address, 0))
    assert (await asyncio.wait_for(reader.readline(), SOON)).startswith(b"SSH-2.0-")
    return reader, writer


async def test_strangers_from_many_places_keep_nobody_out(
    rig: SshRig, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_UNAUTHENTICATED", 3)
    monkeypatch.setattr(connections, "get_peer_network", lambda address: address)
    silent = [await wait_silently(rig, f"127.0.0.{n}") for n in (2, 3, 2, 4)]
    reader, _ = silent[0]  # of those from where most are, the oldest
    with suppress(ConnectionError):
        while await asyncio.wait_for(reader.read(1000), SOON):
            pass
    assert sorted(rig.gateway._connections._unauthenticated.values()) == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    await still_works(rig, user)
    for _, each in silent:
        each.close()


@pytest.mark.parametrize(
    ("address", "counts_as"),
    [
        ("127.0.0.1", "loopback"),
        ("127.8.9.10", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
async def test_what_counts_as_one_address(address: str, counts_as: str) -> None:
    assert ports.get_peer_network(address) == counts_as


async def test_who_does_not_log_in_has_to_leave(rig: SshRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "LOGIN_TIMEOUT", 0.2)
    async with open_gateway(rig.house, tmp_path / "second") as hasty:
        reader, writer = await asyncio.open_connection("127.0.0.1", hasty.port)
        async with asyncio.timeout(SOON):
            while await reader.read(1000):
                pass
        writer.close()


async def test_keys_are_not_tried_without_end(rig: SshRig, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_OFFERED_KEYS", 2)
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(5)]
    right = asyncssh.read_private_key(str(rig.folder / "id"))
    with pytest.raises(asyncssh.DisconnectError, match="Too many keys"):
        async with connected(rig, user, client_keys=[*keys, right]):
            pass
    await still_works(rig, user)


async def test_passwords_are_not_tried_without_end(rig: SshRig, user: str) -> None:
    class Guesser(asyncssh.SSHClient):
        asked = 0

        def password_auth_requested(self) -> str:
            self.asked += 1
            Guesser.asked = self.asked
            return "guess"

    with pytest.raises(asyncssh.DisconnectError):
        async with connected(rig, user, client_keys=None, client_factory=Guesser, preferred_auth=["password"]):
            pass
    assert Guesser.asked <= connection.MAX_PASSWORD_ATTEMPTS + 1


async def test_a_key_that_was_only_shown_counts_for_nothing(rig: SshRig, user: str) -> None:
    """Somebody shows the admin's public key first, and then proves to have another."""
    eve = await rig.house.user("eve", "blue")
    await rig.add_key(eve, "eve")
    (rig.folder / "shown.pub").write_text((rig.folder / "id.pub").read_text())
    words = ["ssh", *rig.options("shown.pub", LogLevel="DEBUG1"), "-i", str(rig.folder / "eve"), "-p", str(rig.port)]
    ran = await rig.run([*words, "-l", user, "127.0.0.1", "echo in"])
    assert "Server accepts key: " + str(rig.folder / "shown.pub") in ran.err
    assert "Server accepts key: " + str(rig.folder / "eve") in ran.err
    assert f"Job {user} not found" in ran.err
    assert (ran.code, ran.out) == (255, b"")


# -- people who are inside


@pytest.mark.release
async def test_a_client_that_takes_nothing_is_sent_little(rig: SshRig, user: str) -> None:
    """It says that it would take 2 GiB, and does not read."""
    async with connected(rig, user) as client:
        flood = await client.create_process("cat /dev/zero", encoding=None, window=2**31 - 1)
        transport: Any = client._transport
        transport.pause_reading()
        [inside] = rig.gateway._connections._open
        ours: Any = inside._connection._transport
        before, same = -1, 0
        async with asyncio.timeout(SOON):
            while same < 10:
                now = ours.get_write_buffer_size()
                same = same + 1 if now == before and now > 0 else 0
                before = now
                await asyncio.sleep(0.02)
        assert before < MB
        await still_works(rig, user)
        transport.resume_reading()
        flood.close()


async def test_a_task_that_reads_nothing_is_sent_little(rig: SshRig, user: str) -> None:
    async with connected(rig, user) as client:
        stuck = await client.create_process("sleep 1000", encoding=None)
        sent = 0
        async with asyncio.timeout(SOON):
            while True:
                stuck.stdin.write(b"x" * MB)
                sent += MB
                try:
                    await asyncio.wait_for(stuck.stdin.drain(), 0.5)
                except TimeoutError:
                    break
        assert sent < 20 * MB
        await still_works(rig, user)
        stuck.close()


async def test_a_byte_at_a_time_is_more(rig: SshRig, user: str) -> None:
    async with connected(rig, user) as client:
        ran = await asyncio.wait_for(client.run("head -c 3000000 /dev/zero", encoding=None, max_pktsize=1), SOON)
    assert ran.stdout == bytes(3_000_000)


async def test_variables_without_end(rig: SshRig, user: str) -> None:
    many = {f"LC_{chr(65 + n // 26)}{chr(65 + n % 26)}": "x" * 100 for n in range(600)}
    async with connected(rig, user) as client:
        ran = await client.run("env", env=many)
    assert 0 < str(ran.stdout).count("LC_") <= 32


@pytest.mark.release
async def test_channels_without_end(rig: SshRig, user: str) -> None:
    async with connected(rig, user) as client:
        shells = [await client.create_process("cat") for _ in range(connection.MAX_CHANNELS)]
        with pytest.raises(asyncssh.ChannelOpenError, match="at most 64"):
            await client.create_process("cat")
        shells[0].stdin.write_eof()
        await shells[0].wait()
        assert (await client.run("echo again")).stdout == "again\n"


@pytest.mark.parametrize("port", [0, 65536, 2**32 - 1])
async def test_ports_that_there_are_not(rig: SshRig, user: str, port: int) -> None:
    async with connected(rig, user) as client:
        with pytest.raises(asyncssh.ChannelOpenError, match="is not a valid port"):
            await client.open_connection("localhost", port)


async def test_other_ways_out_are_closed(rig: SshRig, user: str) -> None:
    async with connected(rig, user) as client:
        with pytest.raises(asyncssh.ChannelOpenError):
            await client.open_unix_connection("/var/run/docker.sock")
        with pytest.raises(asyncssh.ChannelOpenError):
            await client.open_tun()
        with pytest.raises(asyncssh.ChannelListenError):
            await client.start_unix_server(lambda *_: None, str(rig.folder / "socket"))
        listeners = [await client.forward_remote_port("localhost", 0, "localhost", 1) for _ in range(10)]
        with pytest.raises(asyncssh.ChannelListenError):
            await client.forward_remote_port("localhost", 0, "localhost", 1)
        listeners[0].close()
        await listeners[0].wait_closed()
        await client.forward_remote_port("localhost", 0, "localhost", 1)


async def test_who_asks_to_listen_and_leaves_at_once_leaves_no_listener(rig: SshRig, user: str) -> None:
    await still_works(rig, user)
    before = listening()
    for pause in range(10):
        async with connected(rig, user) as client:
            for _ in range(connection.MAX_LISTENERS):
                client.send_packet(MSG_GLOBAL_REQUEST, String("tcpip-forward"), b"\1", String("127.0.0.1"), UInt32(0))
            await asyncio.sleep(pause / 1000)  # so that it happens at one moment and another
            client.abort()
    await still_works(rig, user)  # whatever they requested is done with
    async with asyncio.timeout(SOON):
        while rig.gateway._connections._open:
            await asyncio.sleep(0.01)
    assert listening() == before


@pytest.mark.parametrize("early", [True, False])
async def test_one_who_left_while_it_was_made_ready(
    rig: SshRig, user: str, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    before, made, gone, over = listening(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    listen = ports.PortListener.start_listening

    async def slowly(self: ports.PortListener, port: int) -> None:
        if not early:
            await listen(self, port)
        made.set()
        await gone.wait()
        if early:
            await listen(self, port)
        over.set()

    monkeypatch.setattr(ports.PortListener, "start_listening", slowly)
    async with connected(rig, user) as client:
        client.send_packet(MSG_GLOBAL_REQUEST, String("tcpip-forward"), b"\1", String("127.0.0.1"), UInt32(0))
        await asyncio.wait_for(made.wait(), SOON)
        client.abort()
    async with asyncio.timeout(SOON):
        while rig.gateway._connections._open:
            await asyncio.sleep(0.01)
    gone.set()
    await asyncio.wait_for(over.wait(), SOON)
    await asyncio.sleep(0)
    assert listening() == before


def listening() -> int:
    """Sockets of this process where one can connect."""
    own = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(str(path.readlink()))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "0A" and f"socket:[{row[9]}]" in own for row in rows)


async def test_signals_reach_the_command(rig: SshRig, user: str) -> None:
    async with connected(rig, user) as client:
        waiting = await client.create_process("trap 'echo heard; exit 4' USR1; echo up; while :; do sleep 0.05; done")
        assert await waiting.stdout.readline() == "up\n"
        waiting.send_signal("USR1")
        done = await asyncio.wait_for(waiting.wait(), SOON)
    assert (done.stdout, done.exit_status) == ("heard\n", 4)


async def test_the_key_of_a_job_listens_nowhere(rig: SshRig, user: str) -> None:
    from holdfast.launching.keys import make_job_key_pair, make_job_key_purpose
    from holdfast.store.vault import Vault

    job_id = user.partition(".")[0]
    pair = make_job_key_pair(Vault.open(rig.house.home / "secret.key").derive_key(make_job_key_purpose(job_id)))
    async with connected(rig, user, client_keys=[asyncssh.import_private_key(pair.private)]) as client:
        assert (await client.run("echo in")).stdout == "in\n"
        with pytest.raises(asyncssh.ChannelListenError):
            await client.forward_remote_port("localhost", 0, "localhost", 1)


async def test_terminals_of_odd_kinds(rig: SshRig, user: str) -> None:
    async with connected(rig, user) as client:
        for term, size in (("x" * 5000, (2**32 - 1, 2**32 - 1)), ("../../etc", (0, 0)), ("a\nb", (1, 1))):
            ran = await client.run("stty size; echo $TERM", term_type=term, term_size=size)
            assert ran.exit_status == 0, ran
            assert "xterm" in str(ran.stdout)


def open_files() -> int:
    """Besides those of the database, whose readers come as they are needed."""
    count = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += "holdfast.db" not in str(path.readlink())
    return count


@pytest.mark.release
async def test_no_file_is_left_open(rig: SshRig, user: str) -> None:
    """After all this coming and going."""
    await still_works(rig, user)
    before = open_files()
    for _ in range(5):
        await still_works(rig, user)
        async with connected(rig, user) as client:
            await client.run("true")
            await client.create_process("sleep 1000", term_type="xterm")
    async with asyncio.timeout(SOON):
        while open_files() > before:
            await asyncio.sleep(0.02)
