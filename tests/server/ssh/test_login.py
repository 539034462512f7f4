"""The gateway with the real ssh: who gets in, where, and what is said to those who do not."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace

import asyncssh
import pytest

from holdfast.core.access import Actor
from holdfast.core.scheduling.placement import Quota
from holdfast.launching.keys import make_job_key_pair, make_job_key_purpose
from holdfast.server.ssh import connection
from holdfast.server.ssh.connections import SPARE_CONNECTIONS
from holdfast.server.ssh.lazy_gateway import LazySshGateway
from holdfast.services.people.groups import GroupChange
from holdfast.services.people.users import UserChange
from holdfast.store import people
from holdfast.store.errors import StoreError
from holdfast.store.vault import Vault

from .rig import JOB, Ran, SshRig
from .screen import Screen

pytestmark = pytest.mark.anyio

TWO = "name: pair\nroles:\n  worker:\n    instances: 2\n    command: sleep 1000\n"
HERS = "name: hers\ngroup: red\ncommand: sleep 1000\n"
MINE = "echo $((40 + 2))"


async def closed(ran: Ran, *said: str) -> None:
    assert ran.code == 255, ran
    assert ran.out == b""
    for each in said:
        assert each in ran.err


# -- which task


@pytest.mark.release_after(1)
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("{id}", "worker-0"),
        ("{id}.worker-1", "worker-1"),
        ("pair", "worker-0"),
        ("pair.worker-1", "worker-1"),
        ("{end}.worker-1", "worker-1"),
        ("admin~pair", "worker-0"),
        ("admin~pair.worker-1", "worker-1"),
    ],
)
async def test_names_that_lead_into_a_task(rig: SshRig, name: str, task: str) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job(TWO)
    ran = await rig.ssh(name.format(id=job.id, end=job.id[-6:]), "127.0.0.1", MINE)
    assert (ran.code, ran.out) == (0, b"42\n"), ran.err
    assert await rig.visits(job.id) == [f"admin opened a session in {task} (ssh)"]


@pytest.mark.release
async def test_a_job_whose_name_holds_dots(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    await rig.run_job("name: net.v-1\ncommand: sleep 1000\n")
    assert (await rig.ssh("net.v-1", "127.0.0.1", MINE)).out == b"42\n"
    assert (await rig.ssh("net.v-1.main-0", "127.0.0.1", MINE)).out == b"42\n"


async def test_a_task_that_there_is_not(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    await rig.run_job(TWO)
    await closed(await rig.ssh("pair.worker-7", "127.0.0.1", MINE), "has no task worker-7", "worker-1")


@pytest.mark.release_after(3)
@pytest.mark.parametrize(
    "name", ["", "..", "-", "~", "~~.-0", "a b", "$(reboot)", "';--", "../../etc/passwd", "x" * 290, "é~ü.ß-1", "%s%n"]
)
async def test_hostile_names_lead_nowhere(rig: SshRig, name: str) -> None:
    await rig.add_key(rig.house.admin)
    await rig.run_job()
    async with asyncssh.connect(
        "127.0.0.1",
        rig.port,
        username=name or "x",
        client_keys=[str(rig.folder / "id")],
        known_hosts=None,
        config=None,
        agent_path=None,
    ) as client:
        done = await client.run(MINE)
    assert done.exit_status == 255
    assert str(done.stderr).startswith("holdfast: ")


@pytest.mark.release_after(1)
@pytest.mark.parametrize("name", ["\udcff\udcfe", "x" * 5000, "\u202eabc", "a\x07b"])
async def test_names_that_are_no_text_end_the_connection(rig: SshRig, name: str) -> None:
    """And nothing but that: the next one gets in."""
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    await closed(await rig.ssh(name, "127.0.0.1", MINE))
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).out == b"42\n"


# -- who


async def test_a_stranger_is_refused(rig: SshRig) -> None:
    rig.make_key("other")
    job = await rig.run_job()
    await closed(await rig.ssh(job.id, "127.0.0.1", MINE, key="other"), "Permission denied")


async def test_others_jobs_are_as_if_they_were_not(rig: SshRig) -> None:
    ann = await rig.house.user("ann", "red")
    eve = await rig.house.user("eve", "blue")
    await rig.add_key(eve, "eve")
    await rig.run_job(HERS, ann)
    theirs = await rig.ssh("hers", "127.0.0.1", MINE, key="eve")
    none = await rig.ssh("nope", "127.0.0.1", MINE, key="eve")
    await closed(theirs, "Job hers not found")
    assert theirs.err.replace("hers", "nope") == none.err


async def test_a_member_of_the_group_may_look_but_not_enter(rig: SshRig) -> None:
    ann, bob = await rig.house.user("ann", "red"), await rig.house.user("bob", "red")
    await rig.add_key(bob, "bob")
    await rig.run_job(HERS, ann)
    await closed(
        await rig.ssh("hers", "127.0.0.1", MINE, key="bob"), "only ann and admins of red can connect to its tasks"
    )


async def test_the_groups_admin_and_the_owner_enter(rig: SshRig) -> None:
    ann, bob = await rig.house.user("ann", "red"), await rig.house.user("bob", "red")
    await rig.house.services.groups.set_member(rig.house.admin, "red", "bob", admin=True)
    await rig.add_key(ann, "ann")
    await rig.add_key(bob, "bob")
    await rig.run_job(HERS, ann)
    for key in ("ann", "bob"):
        assert (await rig.ssh("hers", "127.0.0.1", MINE, key=key)).out == b"42\n"


@pytest.mark.release
async def test_whose_job_it_is_when_it_is_not_ones_own(rig: SshRig) -> None:
    ann = await rig.house.user("ann", "red")
    await rig.add_key(ann, "ann")
    await rig.add_key(rig.house.admin)
    hers = await rig.run_job(HERS, ann)
    ran = await rig.ssh("hers", "127.0.0.1", f"{MINE}; echo own >&2")
    assert (ran.out, ran.err) == (b"42\n", f"holdfast: hers ({hers.id}) of ann, main-0\r\nown\n")
    assert (await rig.ssh("hers", "127.0.0.1", MINE, key="ann")).err == ""
    mine = await rig.run_job(HERS.replace("group: red\n", ""))
    assert (await rig.ssh("hers", "127.0.0.1", "echo $HOLDFAST_JOB")).out.decode().strip() == mine.id
    copied = await rig.run(
        ["scp", *rig.options(User=hers.id), "-P", str(rig.port), str(rig.folder / "id.pub"), "127.0.0.1:copy"]
    )
    assert copied.code == 0, copied.err


@pytest.mark.release
async def test_of_those_who_share_a_key_the_one_who_may(rig: SshRig) -> None:
    """As they may from before it was refused. Also the connection counts as theirs."""
    abe, zoe = await rig.house.user("abe", "red"), await rig.house.user("zoe", "blue")
    await rig.add_key(abe, "shared")
    kept = (await rig.house.services.users.get(abe, "abe")).extension
    await rig.house.store.write(people.set_user_extension, "zoe", kept)
    job = await rig.run_job("name: hers\ngroup: blue\ncommand: sleep 1000\n", zoe)
    most = rig.house.services.settings.ssh.sessions_per_user + SPARE_CONNECTIONS
    taken = [rig.gateway._connections.user_limiter.acquire_nowait("abe") for _ in range(most)]
    for _ in range(3):  # whichever comes first, counting or entering
        assert (await rig.ssh("hers", "127.0.0.1", f"sleep 0.2; {MINE}", key="shared")).out == b"42\n"
    assert await rig.visits(job.id) == ["zoe opened a session in main-0 (ssh)"]
    assert len(taken) == most


async def test_a_key_that_was_removed(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).code == 0
    [key] = await rig.house.services.keys.list(rig.house.admin)
    await rig.house.services.keys.remove(rig.house.admin, key.id)
    await closed(await rig.ssh(job.id, "127.0.0.1", MINE), "Permission denied")


async def lose_key(rig: SshRig, ann: Actor) -> None:
    [key] = await rig.house.services.keys.list(ann)
    await rig.house.services.keys.remove(ann, key.id)


async def be_disabled(rig: SshRig, ann: Actor) -> None:
    await rig.house.services.users.apply_change(rig.house.admin, "ann", UserChange(disabled=True))


async def leave_group(rig: SshRig, ann: Actor) -> None:
    await rig.house.services.groups.remove_member(rig.house.admin, "red", "ann")


@pytest.mark.release_after(1)
@pytest.mark.parametrize("lose", [lose_key, be_disabled, leave_group])
async def test_who_loses_the_right_is_sent_out(rig: SshRig, lose: object) -> None:
    ann = await rig.house.user("ann", "red")
    await rig.add_key(ann, "ann")
    await rig.run_job(HERS, ann)
    async with Screen(rig.ssh_words("hers", "-tt", "127.0.0.1", key="ann")) as screen:
        screen.type("echo $((40 + 2))\n")
        await screen.until("42")
        await lose(rig, ann)  # type: ignore[operator]
        assert await screen.end() == 255
    await closed(await rig.ssh("hers", "127.0.0.1", MINE, key="ann"))


async def with_password(rig: SshRig, user: str, password: str) -> Ran:
    """As if it was typed, each time that it is requested."""
    answer = rig.folder / "answer"
    answer.write_text(f"#!/bin/sh\necho '{password}'\n")
    answer.chmod(stat.S_IRWXU)
    asked = rig.options(BatchMode="no", PubkeyAuthentication="no", LogLevel="INFO")
    words = ["ssh", *asked, "-p", str(rig.port), "-l", user, "127.0.0.1", MINE]
    return await rig.run(["env", f"SSH_ASKPASS={answer}", "SSH_ASKPASS_REQUIRE=force", *words])


async def test_a_token_is_a_password(rig: SshRig) -> None:
    made = await rig.house.services.tokens.create(rig.house.admin, name="ssh")
    job = await rig.run_job()
    assert (await with_password(rig, job.id, made.text)).out == b"42\n"
    await rig.house.services.tokens.delete(rig.house.admin, made.token.id)
    ran = await with_password(rig, job.id, made.text)
    await closed(ran, "Permission denied")


async def test_the_accounts_own_password_is_none(rig: SshRig) -> None:
    job = await rig.run_job()
    ran = await with_password(rig, job.id, rig.house.admin_password)
    await closed(ran, "Permission denied", "The password is an API token")
    audit = await rig.house.services.audit.list(rig.house.admin)
    assert [(event.kind.value, event.act.value) for event in audit.items][:1] == [("login", "failed")]


@pytest.mark.release
async def test_wrong_tokens_of_others_do_not_refuse_a_right_one(rig: SshRig) -> None:
    made = await rig.house.services.tokens.create(rig.house.admin, name="ssh")
    job = await rig.run_job()
    for _ in range(4):
        await closed(await with_password(rig, job.id, "wrong"), "Permission denied")
    assert (await with_password(rig, job.id, made.text)).code == 0


# -- the key of a job


def own_key(rig: SshRig, job_id: str) -> str:
    """As its tasks have it."""
    path = rig.folder / job_id
    seed = Vault.open(rig.house.home / "secret.key").derive_key(make_job_key_purpose(job_id))
    path.write_text(make_job_key_pair(seed).private)
    path.chmod(0o600)
    return job_id


async def test_the_key_of_a_job_opens_its_own_tasks_alone(rig: SshRig) -> None:
    one, two = await rig.run_job(), await rig.run_job(TWO)
    key = own_key(rig, one.id)
    assert (await rig.ssh(f"{one.id}.main-0", "127.0.0.1", MINE, key=key)).out == b"42\n"
    await closed(await rig.ssh(f"{two.id}.worker-0", "127.0.0.1", MINE, key=key), "Permission denied")
    await closed(await rig.ssh("pair", "127.0.0.1", MINE, key=key), "Permission denied")


async def test_the_key_of_a_job_is_good_where_tasks_run_alone(rig: SshRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever carries it off from there has nothing."""
    job = await rig.run_job()
    await rig.add_key(rig.house.admin)
    key = own_key(rig, job.id)
    far, made = "192.0.2.7", connection.SshConnection.connection_made

    def from_afar(self: connection.SshConnection, conn: asyncssh.SSHServerConnection) -> None:
        made(self, conn)
        self.address = far

    monkeypatch.setattr(connection.SshConnection, "connection_made", from_afar)
    await closed(await rig.ssh(job.id, "127.0.0.1", MINE, key=key), "Permission denied")
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).out == b"42\n"  # people come from anywhere
    [node] = rig.house.engine.list_nodes()
    monkeypatch.setattr(rig.house.engine, "_nodes", [replace(node, address=far)])
    assert (await rig.ssh(job.id, "127.0.0.1", MINE, key=key)).out == b"42\n"
    far = "127.0.0.1"  # as the machine calls itself
    monkeypatch.setattr(rig.house.engine, "_nodes", [])
    assert (await rig.ssh(job.id, "127.0.0.1", MINE, key=key)).out == b"42\n"


@pytest.mark.release
async def test_all_jobs_of_one_user_share_the_places_between_tasks(rig: SshRig) -> None:
    one, two = await rig.run_job(), await rig.run_job()
    take = rig.gateway._connections.intra_job_limiter.acquire_nowait
    key, taken = own_key(rig, one.id), [take(f"job-{n}", "admin") for n in range(300)]
    await closed(await rig.ssh(one.id, "127.0.0.1", "sleep 1000", key=key))
    taken[0]()
    assert (await rig.ssh(one.id, "127.0.0.1", MINE, key=key)).out == b"42\n"
    assert (await rig.ssh(two.id, "127.0.0.1", MINE, key=own_key(rig, two.id))).out == b"42\n"


async def test_the_key_of_a_job_dies_with_its_owners_account(rig: SshRig) -> None:
    ann = await rig.house.user("ann", "red")
    job = await rig.run_job(HERS, ann)
    key = own_key(rig, job.id)
    assert (await rig.ssh(job.id, "127.0.0.1", MINE, key=key)).code == 0
    await be_disabled(rig, ann)
    await closed(await rig.ssh(job.id, "127.0.0.1", MINE, key=key))


# -- when


async def test_a_finished_job_says_so(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.house.run("name: quick\ncommand: exit 3\n")
    ran = await rig.ssh("quick", "127.0.0.1", MINE)
    await closed(ran, f"{job.id} ended at ", "its containers no longer exist", f"holdfast rerun {job.id} --hold")
    async with Screen(rig.ssh_words("quick", "-tt", "127.0.0.1")) as screen:
        assert b"its containers no longer exist" in await screen.until("--hold`.")
        assert await screen.end() == 255


async def test_a_job_that_waits_says_why(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    await rig.house.services.groups.change(rig.house.admin, "default", GroupChange(quota=Quota(cpu=1)))
    await rig.run_job()
    await rig.house.submit("name: second\ncommand: sleep 1000\n")
    await closed(await rig.ssh("second", "127.0.0.1", MINE), "has not started yet", "The job is pending: ")


async def test_only_so_many_sessions(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    most = rig.house.services.settings.ssh.sessions_per_user
    release = [rig.house.services.task_access._session_limiter.acquire_nowait("admin") for _ in range(most)]
    await closed(await rig.ssh(job.id, "127.0.0.1", MINE), f"You already have {most} sessions open")
    release[0]()
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).code == 0
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).code == 0  # the one before has gone


async def test_only_so_many_connections(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    key = own_key(rig, job.id)
    most = rig.house.services.settings.ssh.sessions_per_user + SPARE_CONNECTIONS
    taken = [rig.gateway._connections.user_limiter.acquire_nowait("admin") for _ in range(most)]
    ran = await rig.ssh(job.id, "127.0.0.1", "sleep 1000")
    assert ran.code == 255
    assert (await rig.ssh(job.id, "127.0.0.1", MINE, key=key)).out == b"42\n"  # tasks have places of their own
    taken[0]()
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).code == 0


async def test_who_entered_is_told_once_an_hour(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    for _ in range(2):
        await rig.ssh(job.id, "127.0.0.1", MINE)
    assert await rig.visits(job.id) == ["admin opened a session in main-0 (ssh)"]
    rig.house.clock.forward(3601)
    await rig.ssh(job.id, "127.0.0.1", MINE)
    assert await rig.visits(job.id) == ["admin opened a session in main-0 (ssh)"] * 2


async def test_a_port_that_is_taken_is_told(rig: SshRig) -> None:
    services, port = rig.house.services, rig.port
    taken = services.settings.ssh.model_copy(update={"port": port})
    second = LazySshGateway(replace(services, settings=services.settings.model_copy(update={"ssh": taken})))
    second.open_port()
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in services.ssh_gateway.trouble
    await second.close()


async def test_one_who_leaves_ends_what_they_ran(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    async with Screen(rig.ssh_words(job.id, "-tt", "127.0.0.1")) as screen:
        screen.type('echo "p""id=$$="\n')
        await screen.until("pid=")
        pid = int(await screen.until("="))
        screen.process.kill()
    gone = f"while [ -e /proc/{pid} ]; do sleep 0.05; done"
    assert (await rig.ssh(job.id, "127.0.0.1", gone)).code == 0


async def test_jobs_are_found_by_what_they_are_called_now(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    await rig.house.run("name: train\ncommand: exit 0\n")
    await rig.run_job(JOB)
    assert (await rig.ssh("train", "127.0.0.1", MINE)).out == b"42\n"


async def test_what_fails_here_is_told_in_the_log(
    rig: SshRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("on purpose")

    services = rig.house.services
    for service, verb in ((services.ssh_logins, "authenticate_key"), (services.task_access, "open_session")):
        with monkeypatch.context() as patch:
            patch.setattr(service, verb, fail)
            ran = await rig.ssh(job.id, "127.0.0.1", MINE)
        assert ran.code == 255
        assert "on purpose" not in ran.err
        assert "ssh connection failed" in caplog.text
        assert "on purpose" in caplog.text
        caplog.clear()
    with monkeypatch.context() as patch:
        patch.setattr(rig.house.services.task_access, "connect_port", fail)
        assert (await rig.ssh(job.id, "-W", "localhost:80", "127.0.0.1")).code == 255
    assert "ssh connection failed" in caplog.text
    assert (await rig.ssh(job.id, "127.0.0.1", MINE)).out == b"42\n"


@pytest.mark.release
async def test_a_database_that_is_away_sends_nobody_out(
    rig: SshRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "ACCESS_CHECK_RETRY_INTERVAL", 0.05)
    ann = await rig.house.user("ann", "red")
    await rig.add_key(ann, "ann")
    await rig.run_job(HERS, ann)
    logins, away = rig.house.services.ssh_logins, asyncio.Event()

    async def fail(blob: bytes) -> list[Actor]:
        away.set()
        raise StoreError("The database is away")

    async with Screen(rig.ssh_words("hers", "-tt", "127.0.0.1", key="ann")) as screen:
        screen.type("echo $((40 + 2))\n")
        await screen.until("42")
        with monkeypatch.context() as patch:
            patch.setattr(logins, "_find_key_owners", fail)
            await rig.house.services.users.apply_change(rig.house.admin, "ann", UserChange(email="ann@example.org"))
            await asyncio.wait_for(away.wait(), 20)
            screen.type("echo $((50 + 2))\n")
            await screen.until("52")
        assert "could not check ssh access" in caplog.text
        await lose_key(rig, ann)  # looked at once it is back
        assert await screen.end() == 255
