"""Runs an engine of Slurm as a service user, which starts tasks as other users by sudo: a program of test_slurm_sudo.

python -m tests.engines.slurm_sudo_scenario FOLDER CONF NODE_FOLDER USER OTHER STRANGER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.engines.base import ExecCommand
from holdfast.engines.slurm import SlurmEngine, SlurmOptions
from tests.contracts.engine_rig import FOREVER, TIMEOUT, Rig, collect, read_all, sweep
from tests.engines.sessions import inside

GANG = ("j.0.a-0.0", "j.0.b-0.0")


async def run_scenario(folder: str, conf: str, node_folder: str, user: str, other: str, stranger: str) -> None:
    options = SlurmOptions(
        conf=conf, run_as="user", busy_interval=0.1, calm_interval=0.5, min_interval=0.05, log_interval=0.05,
        heartbeat_interval=0.5, report_timeout=0.5, probe_delay=3600, node_folder=node_folder,
    )  # fmt: skip
    rig = Rig(lambda: SlurmEngine(Path(folder), options))
    await rig.open()
    assert isinstance(rig.engine, SlurmEngine)
    await rig.engine.complete_checks()
    assert not rig.engine.get_health().conditions, rig.engine.get_health()
    try:
        await check_end(rig, user)
        await check_gang(rig, user)
        await check_sessions(rig, user)
        await check_stop(rig, user, other)
        await check_denied(rig, rig.engine, stranger)
        await check_removal(rig, rig.engine, user)
    finally:
        await sweep(rig.engine)
        await rig.close()


async def check_end(rig: Rig, user: str) -> None:
    script = "id -un; env | grep -c SUDO_; mkdir artifacts; echo kept >artifacts/file; exit 3"
    await rig.engine.start(rig.launch("a", script, user=user, shell_options=()))
    ended = await rig.end_of("a")
    assert (ended.seen, ended.code, ended.artifacts) == (ObservedState.EXITED, 3, True), ended
    assert (await read_all(rig.log("a"))).decode() == f"{user}\n0\n"
    assert collect(rig.engine, "a").files == {b"file": b"kept\n"}
    await rig.reopen()
    assert (await rig.look("a")).code == 3


async def check_gang(rig: Rig, user: str) -> None:
    for attempt_id in GANG:
        script = f"echo $OTHER; {FOREVER}"
        env = {"OTHER": "@holdfast:1:address@"}
        await rig.engine.start(rig.launch(attempt_id, script, user=user, gang=GANG, env=env))
    for attempt_id in GANG:
        await rig.wait_until_running(attempt_id)
    await rig.log(GANG[0]).wait_for_growth(0, TIMEOUT)
    assert b"@" not in await read_all(rig.log(GANG[0]))
    await rig.engine.stop(GANG[1], 0)
    assert (await rig.end_of(GANG[1])).code == 137
    assert (await rig.look(GANG[0])).seen is ObservedState.RUNNING


async def check_sessions(rig: Rig, user: str) -> None:
    engine = rig.engine
    assert isinstance(engine, SlurmEngine)
    await engine.start(rig.launch("held", "exit 7", user=user, hold=True))
    held = await rig.end_of("held")
    assert (held.seen, held.code) == (ObservedState.HELD, 7), held
    done = await inside(engine, "held", "id -un; cat; exit 5", b"typed")
    assert (done.out, done.code) == (f"{user}\ntyped", 5), done
    session = await engine.open_session("held", ExecCommand(argv=("sleep", "600")))
    await session.kill()  # type: ignore[attr-defined]
    assert await session.wait() != 0
    assert (await rig.stop_held("held")).code == 7
    await engine.revive_task(rig.launch("held", "", user=user))
    for script in ("id -un; mkdir -m 700 ../report/x; touch ../report/x/y", "id -un"):
        assert (await inside(engine, "held", script)).out == f"{user}\n"


async def check_stop(rig: Rig, user: str, other: str) -> None:
    for attempt_id, name in (("s", user), ("o", other)):
        await rig.start_and_wait_for(b"up", attempt_id, FOREVER, user=name)
    await rig.engine.stop("s", TIMEOUT)
    assert (await rig.end_of("s")).code == 143
    assert (await rig.look("o")).seen is ObservedState.RUNNING


async def check_denied(rig: Rig, engine: SlurmEngine, stranger: str) -> None:
    """Of a user who is not in the group of the rule."""
    seen = await engine.start(rig.launch("denied", "exit 0", user=stranger))
    assert (seen.seen, seen.cause) == (ObservedState.REFUSED, Cause.NOT_ALLOWED), seen
    assert "add the user to the group" in seen.message, seen
    assert (await rig.look("denied")).seen is ObservedState.ABSENT
    await engine.complete_checks()
    assert [stranger in each.message for each in engine.get_health().conditions] == [True], engine.get_health()


async def check_removal(rig: Rig, engine: SlurmEngine, user: str) -> None:
    """Also of folders that only the user may change."""
    await rig.run("r", "mkdir -m 700 private; mkdir -m 700 private/deep; touch private/deep/file", user=user)
    await engine.remove("r")
    trash = engine._task_folders.home / "trash"
    while list(trash.iterdir()):
        await asyncio.sleep(0.05)
    assert not (trash.parent / "tasks" / "r").exists()


async def check_without_rule(folder: str, conf: str) -> None:
    """Of a service user without a rule for sudo."""
    rig = Rig(lambda: SlurmEngine(Path(folder), SlurmOptions(conf=conf, run_as="user", probe_delay=3600)))
    await rig.open()
    assert isinstance(rig.engine, SlurmEngine)
    await rig.engine.complete_checks()
    conditions = rig.engine.get_health().conditions
    await rig.close()
    assert [(each.blocks_starts, "sbatch, scancel, srun" in each.message) for each in conditions] == [(True, True)]


if __name__ == "__main__":
    run = run_scenario if len(sys.argv) > 3 else check_without_rule
    asyncio.run(asyncio.wait_for(run(*sys.argv[1:]), TIMEOUT))
    sys.stdout.write("done\n")
