"""The lines that people copy, and short-lived keys, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.server.rig import Rig, error_of, open_rig

from .rig import SshRig

pytestmark = pytest.mark.anyio

TWO = "name: pair\nroles:\n  worker:\n    instances: 2\n    command: sleep 1000\n"


@pytest.fixture
async def web(rig: SshRig) -> AsyncIterator[Rig]:
    async with open_rig(rig.house) as web:
        yield web


async def test_a_job_shows_the_line_of_each_task(rig: SshRig, web: Rig) -> None:
    job = await rig.run_job(TWO)
    found = (await web.get(f"/jobs/{job.id}")).json()["ssh"]
    assert [line["task"] for line in found] == ["worker-0", "worker-1"]
    assert found[0] == {
        "task": "worker-0",
        "command": f"ssh -p {rig.port} {job.id}.worker-0@test",
        "user": f"{job.id}.worker-0",
        "host": "test",
        "port": rig.port,
        "held": False,
    }
    told = (await web.get(f"/jobs/{job.id}/ssh")).json()
    assert told["items"] == found
    assert told["reason"] is None
    assert told["host_key"].startswith("ssh-ed25519 ")


async def test_the_line_works_as_it_stands(rig: SshRig, web: Rig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job(TWO)
    reply = await web.get(f"/jobs/{job.id}/ssh", headers={"Host": "127.0.0.1:8080"})
    program, *words = reply.json()["items"][1]["command"].split(" ")
    ran = await rig.run([program, *rig.options(), *words, "echo inside"])
    assert (ran.code, ran.out) == (0, b"inside\n")


async def test_who_may_not_enter_sees_no_line_but_why(rig: SshRig, web: Rig) -> None:
    ann = await rig.house.user("ann", "red")
    headers = await web.token_of("bob", "red")
    job = await rig.run_job("name: hers\ngroup: red\ncommand: sleep 1000\n", ann)
    assert (await web.get(f"/jobs/{job.id}", headers=headers)).json()["ssh"] == []
    told = (await web.get(f"/jobs/{job.id}/ssh", headers=headers)).json()
    assert told["items"] == []
    assert "only ann and admins of red can connect to its tasks" in told["reason"]
    error_of(await web.get(f"/jobs/{job.id}/ssh", headers=await web.token_of("eve", "blue")), 404)


async def test_a_finished_job_says_when_it_ended(rig: SshRig, web: Rig) -> None:
    job = await rig.house.run("name: quick\ncommand: exit 3\n")
    told = (await web.get(f"/jobs/{job.id}/ssh")).json()
    assert told["items"] == []
    assert "its containers no longer exist" in told["reason"]
    assert f"holdfast rerun {job.id} --hold" in told["reason"]
    assert (await web.get(f"/jobs/{job.id}")).json()["ssh"] == []


async def test_openpai_clients_are_told_where(rig: SshRig, web: Rig) -> None:
    job = await rig.run_job(TWO)
    reply = await web.client.get("/rest-server/api/v2/jobs/admin~pair/ssh")
    assert reply.status_code == 200, reply.text
    first, second = reply.json()["containers"]
    assert first["id"] != second["id"]
    assert (first["sshIp"], first["sshPort"], first["sshUser"]) == ("test", str(rig.port), f"{job.id}.worker-0")
    assert set(reply.json()["keyPair"]) == {
        "folderPath", "publicKeyFileName", "privateKeyFileName", "privateKeyDirectDownloadLink",
    }  # fmt: skip
    older = await web.client.get("/rest-server/api/v1/user/admin/jobs/pair/ssh")
    assert older.json() == reply.json()


async def test_a_short_lived_key_opens_for_ten_minutes(rig: SshRig, web: Rig) -> None:
    job = await rig.run_job()
    public = rig.make_key("short").with_suffix(".pub").read_text()
    reply = await web.post("/ssh/keys", json={"public_key": public}, headers={"Host": "127.0.0.1:8080"})
    assert reply.status_code == 201, reply.text
    where = reply.json()
    assert (where["host"], where["port"]) == ("127.0.0.1", rig.port)
    (rig.folder / "known_hosts").write_text(f"[127.0.0.1]:{rig.port} {where['host_key']}\n")
    ran = await rig.ssh(job.id, "-o", "StrictHostKeyChecking=yes", "127.0.0.1", "echo in", key="short")
    assert (ran.code, ran.out) == (0, b"in\n"), ran.err
    rig.house.clock.forward(601)
    ran = await rig.ssh(job.id, "127.0.0.1", "echo in", key="short")
    assert ran.code == 255
    assert "Permission denied" in ran.err


async def test_a_short_lived_key_ends_with_its_token(rig: SshRig, web: Rig) -> None:
    job = await rig.run_job()
    made = await rig.house.services.tokens.create(rig.house.admin, name="once")
    public = rig.make_key("short").with_suffix(".pub").read_text()
    bearer = {"Authorization": f"Bearer {made.text}"}
    assert (await web.post("/ssh/keys", json={"public_key": public}, headers=bearer)).status_code == 201
    await rig.house.services.tokens.delete(rig.house.admin, made.token.id)
    assert (await rig.ssh(job.id, "127.0.0.1", "true", key="short")).code == 255


async def test_what_is_no_public_key_is_refused(rig: SshRig, web: Rig) -> None:
    error = error_of(await web.post("/ssh/keys", json={"public_key": "nonsense"}), 400)
    assert error["field"] == "public_key"
    private = rig.make_key("short").read_text()
    assert "private key" in error_of(await web.post("/ssh/keys", json={"public_key": private}), 400)["message"]


async def test_without_a_gateway_no_key_is_taken(rig: SshRig, web: Rig) -> None:
    rig.house.services.ssh_gateway.port = None
    public = rig.make_key("short").with_suffix(".pub").read_text()
    error_of(await web.post("/ssh/keys", json={"public_key": public}), 503)
    job = await rig.run_job()
    assert (await web.get(f"/jobs/{job.id}")).json()["ssh"] == []


async def test_a_ticket_is_good_once(rig: SshRig, web: Rig) -> None:
    job = await rig.run_job()
    made = (await web.post(f"/jobs/{job.id}/tickets")).json()
    admitted = await rig.house.services.tickets.redeem(made["ticket"])
    assert (admitted.actor.name, admitted.job_id) == ("admin", job.id)
    with pytest.raises(Exception, match="has expired or was already used"):
        await rig.house.services.tickets.redeem(made["ticket"])
    second = (await web.post(f"/jobs/{job.id}/tickets")).json()["ticket"]
    rig.house.clock.forward(31)
    with pytest.raises(Exception, match="has expired or was already used"):
        await rig.house.services.tickets.redeem(second)
    error_of(await web.post("/jobs/none/tickets"), 404)


async def test_the_status_says_where_the_gateway_is(rig: SshRig, web: Rig) -> None:
    found = (await web.get("/status")).json()["ssh"]
    assert (found["enabled"], found["host"], found["port"], found["trouble"]) == (True, "test", rig.port, None)
