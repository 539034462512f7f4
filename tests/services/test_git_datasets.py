from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import Forbidden, NotFound, UserError
from holdfast.core.records import Dataset
from holdfast.core.states import JobState
from holdfast.services.datasets import git_checkouts as git_trees
from holdfast.services.datasets import git_program, git_sync
from holdfast.services.datasets.git_sync import GitState
from holdfast.services.datasets.service import DatasetChange
from holdfast.services.errors import Unavailable

from .house import House, open_house
from .repositories import Repository

pytestmark = pytest.mark.anyio

SLEEPER = "name: sleeper\ncommand: sleep 60\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "code")
    made.commit(readme="one")
    return made


async def add(house: House, url: str, name: str = "code", **data: str) -> Dataset:
    made = Dataset(name=name, path="", kind="git", data={"url": url, **data}, everyone=True)
    return await house.services.datasets.create(house.admin, made)


async def synced(house: House, name: str = "code") -> GitState:
    return await house.services.datasets.sync_dataset(house.admin, name)


def seen(dataset: Dataset) -> dict[str, str]:
    return {path.name: path.read_text() for path in Path(dataset.path).iterdir()}


async def test_a_repository_becomes_a_folder(house: House, repository: Repository) -> None:
    dataset = await add(house, repository.url)
    await house.services.datasets.wait_until_ready(dataset)
    assert Path(dataset.path) == house.home / "shared/git/code/code"
    assert seen(dataset) == {"readme": "one"}
    state = await house.services.datasets.get_git_state(dataset)
    assert state is not None
    assert (state.commit, state.error) == (repository.git("rev-parse", "HEAD"), "")
    assert dataset.read_only


async def test_it_follows_its_branch(house: House, repository: Repository) -> None:
    repository.git("switch", "--quiet", "-c", "other")
    repository.commit(readme="other")
    dataset = await add(house, repository.url, branch="other")
    assert (await synced(house)).commit
    assert seen(dataset) == {"readme": "other"}
    newest = repository.commit(readme="newer", more="file")
    assert (await synced(house)).commit == newest
    assert seen(dataset) == {"readme": "newer", "more": "file"}


async def test_a_tag_is_as_good_as_a_branch(house: House, repository: Repository) -> None:
    tagged = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "x")
    repository.commit(readme="later")
    dataset = await add(house, repository.url, branch="v1")
    assert (await synced(house)).commit == tagged
    assert seen(dataset) == {"readme": "one"}


async def test_what_is_up_to_date_is_not_fetched_again(house: House, repository: Repository) -> None:
    dataset = await add(house, repository.url)
    await synced(house)
    before = Path(dataset.path).stat().st_ino
    await synced(house)
    assert Path(dataset.path).stat().st_ino == before


async def test_a_running_job_keeps_its_checkout_until_it_ends(house: House, repository: Repository) -> None:
    house.clock.at = datetime.now(UTC)  # as the controller's, which says when jobs begin
    dataset = await add(house, repository.url)
    await synced(house)
    with_old = os.open(dataset.path, os.O_PATH)  # as a sandbox has it
    job = await house.submit(SLEEPER)
    await house.until(job.id, JobState.RUNNING)
    repository.commit(readme="two")
    await synced(house)
    house.clock.forward(3600)
    await house.services.git_sync.run_sync_cycle()
    assert Path(f"/proc/self/fd/{with_old}/readme").read_text() == "one"
    assert seen(dataset) == {"readme": "two"}
    await house.services.jobs.stop(house.admin, job.id)
    await house.until(job.id)
    await house.services.git_sync.run_sync_cycle()
    assert not Path(f"/proc/self/fd/{with_old}/readme").exists()
    os.close(with_old)


async def test_updates_wait_when_jobs_hold_too_many_checkouts(
    house: House, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_sync, "MAX_OLD_CHECKOUTS", 1)
    dataset = await add(house, repository.url)
    for text in ("two", "three"):
        await synced(house)
        repository.commit(readme=text)
    assert "use 1 earlier checkouts" in (await synced(house)).error
    assert seen(dataset) == {"readme": "two"}


async def test_a_removed_dataset_leaves_nothing_behind(house: House, repository: Repository) -> None:
    dataset = await add(house, repository.url)
    await synced(house)
    await house.services.datasets.delete(house.admin, "code")
    assert not Path(dataset.path).exists()
    house.clock.forward(3600)
    await house.services.git_sync.run_sync_cycle()
    assert list((house.home / "shared/git").iterdir()) == []
    await add(house, repository.url)
    assert (await synced(house)).commit


# -- what goes wrong


async def test_a_job_is_told_why_there_is_no_checkout(house: House, tmp_path: Path) -> None:
    dataset = await add(house, f"file://{tmp_path}/nothing-here")
    with pytest.raises(Unavailable, match="nothing-here") as caught:
        await house.services.datasets.wait_until_ready(dataset)
    assert "holdfast dataset show code" in str(caught.value.hint)


async def test_an_old_checkout_is_kept_when_an_update_fails(house: House, repository: Repository) -> None:
    dataset = await add(house, repository.url)
    await synced(house)
    repository.folder.rename(repository.folder.with_name("moved"))
    state = await synced(house)
    assert state.commit
    assert "code" in state.error
    await house.services.datasets.wait_until_ready(dataset)
    assert seen(dataset) == {"readme": "one"}


async def test_another_address_is_not_served_from_the_old_checkout(
    house: House, repository: Repository, tmp_path: Path
) -> None:
    await add(house, repository.url)
    await synced(house)
    change = DatasetChange(data={"url": f"file://{tmp_path}/gone"})
    dataset = await house.services.datasets.change(house.admin, "code", change)
    with pytest.raises(Unavailable, match="gone"):
        await house.services.datasets.wait_until_ready(dataset)
    state = await house.services.datasets.get_git_state(dataset)
    assert state is not None
    assert (state.commit, state.synced_at) == ("", None)


async def test_a_look_that_began_before_is_not_enough(house: House, repository: Repository) -> None:
    """Whoever pushes and then says `sync` is given what they pushed."""
    await add(house, repository.url)
    under_way = house.services.git_sync.start_update("code")
    while not under_way.done() and not list((house.home / "shared/git").glob("code/.work-*")):
        await asyncio.wait([under_way], timeout=0.001)  # until it has seen the first commit
    pushed = repository.commit(readme="two")
    assert (await synced(house)).commit == pushed


async def test_a_missing_branch(house: House, repository: Repository) -> None:
    await add(house, repository.url, branch="nowhere")
    assert (await synced(house)).error == "Branch or tag nowhere not found"


async def test_an_empty_repository(house: House, tmp_path: Path) -> None:
    await add(house, Repository(tmp_path / "empty").url)
    assert (await synced(house)).error == "The repository is empty"


async def test_without_git(house: House, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    await add(house, repository.url)
    assert "git is not installed on the server" in (await synced(house)).error


async def test_an_update_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """A server that takes the call and says nothing."""
    silent = socket.create_server(("127.0.0.1", 0))
    async with open_house(tmp_path / "home", settings={"mounts": {"git_timeout": 0.5}}) as house:
        await add(house, f"http://127.0.0.1:{silent.getsockname()[1]}/code.git")
        assert "timed out after 0.5 seconds" in (await synced(house)).error
        assert work_folders(house) == []
    silent.close()


async def test_a_file_server_that_does_not_answer_holds_up_no_other(tmp_path: Path, repository: Repository) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    async with open_house(tmp_path / "home") as house:
        slow = await add(house, f"http://127.0.0.1:{silent.getsockname()[1]}/code.git", "slow")
        await add(house, repository.url)
        assert (await synced(house)).commit
        state = await house.services.git_sync.get_state(slow)
        assert state.busy
    silent.close()


# -- hostile repositories


async def test_links_are_links_and_nothing_more(house: House, repository: Repository, tmp_path: Path) -> None:
    """The server reads nothing through them, also when it removes them."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep me")
    (repository.folder / "shadow").symlink_to("/etc/shadow")
    (repository.folder / "out").symlink_to(outside)
    repository.commit()
    dataset = await add(house, repository.url)
    await synced(house)
    assert Path(dataset.path, "shadow").readlink() == Path("/etc/shadow")
    assert Path(dataset.path, "out").readlink() == outside
    await house.services.datasets.delete(house.admin, "code")
    house.clock.forward(3600)
    await house.services.git_sync.run_sync_cycle()
    assert (outside / "precious").read_text() == "keep me"


async def test_no_hook_and_no_filter_runs(house: House, repository: Repository, tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    for folder in (repository.folder / ".git/hooks", repository.folder / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in ("post-checkout", "reference-transaction", "post-upload-pack", "pre-upload", "post-index-change"):
            (folder / hook).write_text(f"#!/bin/sh\ntouch {flag}\n")
            (folder / hook).chmod(0o755)
    (repository.folder / ".gitattributes").write_text("* filter=evil\n")
    repository.git("config", "filter.evil.smudge", f"touch {flag}")
    repository.git("config", "uploadpack.packObjectsHook", f"touch {flag}")
    repository.git("add", "--all")
    repository.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "x")
    flag.unlink(missing_ok=True)
    await add(house, repository.url)
    assert (await synced(house)).commit
    assert not flag.exists()


@pytest.mark.parametrize("deep", [False, True])
async def test_files_are_written_as_they_are_stored(house: House, repository: Repository, deep: bool) -> None:
    """A repository could ask for more bytes than were counted, or for a program."""
    folder = repository.folder / "sub" if deep else repository.folder
    folder.mkdir(exist_ok=True)
    texts = {"wide": "abc\n", "lines": "a\nb\n", "own": "$Id$\n", "made": "plain\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    repository.commit()
    (folder / ".gitattributes").write_text(
        "wide working-tree-encoding=UTF-16\nlines text eol=crlf\nown ident\nmade filter=x\n"
    )
    repository.git("add", str(folder / ".gitattributes"))
    repository.git("commit", "--quiet", "-m", "x")
    assert repository.git("cat-file", "blob", f"HEAD:{'sub/' if deep else ''}wide") == "abc"
    dataset = await add(house, repository.url)
    assert not (await synced(house)).error
    written = Path(dataset.path, "sub") if deep else Path(dataset.path)
    assert {name: (written / name).read_bytes().decode() for name in texts} == texts


async def test_no_submodule_is_fetched(house: House, repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.commit(inside="x")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.url, "module")
    repository.commit()
    dataset = await add(house, repository.url)
    await synced(house)
    assert list(Path(dataset.path, "module").iterdir()) == []


async def test_a_repository_that_unpacks_to_too_much_is_refused(tmp_path: Path, repository: Repository) -> None:
    repository.commit(zeros="0" * 3_000_000)
    async with open_house(tmp_path / "home", settings={"mounts": {"git_bytes": 2_000_000}}) as house:
        await add(house, repository.url)
        assert "exceed the limit of 2000000 bytes" in (await synced(house)).error
        assert work_folders(house) == []


async def test_a_repository_that_is_too_large_is_refused_while_it_comes(tmp_path: Path, repository: Repository) -> None:
    (repository.folder / "noise").write_bytes(os.urandom(3_000_000))
    repository.commit()
    async with open_house(tmp_path / "home", settings={"mounts": {"git_bytes": 2_000_000}}) as house:
        await add(house, repository.url)
        state = await synced(house)
        assert "File too large" in state.error or "exceed the limit of" in state.error
        assert state.commit == ""
        assert work_folders(house) == []


async def test_a_repository_of_endless_folders_is_refused(
    house: House, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten trees, each ten times the one before: a few hundred bytes, and more files than any disk holds."""
    monkeypatch.setattr(git_program, "MAX_ENTRIES", 50_000)
    blob = repository.git("rev-parse", "HEAD:readme")
    kind, below = "100644 blob", blob
    for _ in range(10):
        lines = "".join(f"{kind} {below}\tf{n}\n" for n in range(10))
        below = repository.git("mktree", given=lines)
        kind = "040000 tree"
    commit = repository.git("commit-tree", below, "-m", "bomb")
    repository.git("update-ref", "refs/heads/bomb", commit)
    await add(house, repository.url, branch="bomb")
    assert "more than 50000 files" in (await synced(house)).error
    async with asyncio.timeout(60):
        while work_folders(house):  # removed after the end is told
            await asyncio.sleep(0.02)


@pytest.mark.release
async def test_a_repository_that_is_very_deep_can_be_removed(house: House, repository: Repository) -> None:
    """Deeper than our own calls can go."""
    kind, below = "100644 blob", repository.git("rev-parse", "HEAD:readme")
    for _ in range(1500):
        below = repository.git("mktree", given=f"{kind} {below}\td\n")
        kind = "040000 tree"
    commit = repository.git("commit-tree", below, "-m", "deep")
    repository.git("update-ref", "refs/heads/deep", commit)
    await add(house, repository.url, branch="deep")
    assert (await synced(house)).commit == commit
    await house.services.datasets.delete(house.admin, "code")
    house.clock.forward(3600)
    await house.services.git_sync.run_sync_cycle()
    assert list((house.home / "shared/git").iterdir()) == []


# -- crashes


async def test_a_clone_that_was_cut_off_is_begun_anew(tmp_path: Path, repository: Repository) -> None:
    async with open_house(tmp_path / "home") as house:
        dataset = await add(house, repository.url)
        await synced(house)
        folder = Path(dataset.path).parent
        half = folder / ".work-0123/tree"
        half.mkdir(parents=True)
        (half / "readme").write_text("hal")
        (folder / ".new-4567").mkdir()
        (folder / ".sync.json.89").write_text("{")
        git_trees.recover_folders(folder.parent, house.clock.now(), threading.Event())
        left = sorted(path.name.partition("-")[0] for path in folder.iterdir())
        assert left == [".old", ".sync.json", "code"]
        house.clock.forward(3600)
        await house.services.git_sync.run_sync_cycle()
        assert sorted(path.name for path in folder.iterdir()) == [".sync.json", "code"]


async def test_what_was_synced_is_known_after_a_restart(house: House, repository: Repository) -> None:
    dataset = await add(house, repository.url)
    commit = (await synced(house)).commit
    again = git_sync.GitSync(house.store, house.services.shared, house.services.settings.mounts, clock=house.clock.now)
    state = await again.get_state(dataset)
    assert (state.commit, state.url, state.busy) == (commit, repository.url, False)
    repository.folder.rename(repository.folder.with_name("moved"))
    await again.wait_until_ready(dataset)  # without a look at the repository


async def test_a_damaged_state_costs_another_fetch(house: House, repository: Repository) -> None:
    dataset = await add(house, repository.url)
    await synced(house)
    for text in ("", "[]", "{", '{"synced_at": 5, "commit": 3}', '{"synced_at": "never"}'):
        (Path(dataset.path).parent / ".sync.json").write_text(text)
        again = git_sync.GitSync(
            house.store, house.services.shared, house.services.settings.mounts, clock=house.clock.now
        )
        await again.wait_until_ready(dataset)
        assert (await again.get_state(dataset)).commit


async def test_a_checkout_without_a_dataset_goes(house: House) -> None:
    """The server was killed between removing the dataset and its folder."""
    left = house.home / "shared/git/gone/gone"
    left.mkdir(parents=True)
    await house.services.git_sync.run_sync_cycle()
    assert not left.exists()
    house.clock.forward(3600)
    await house.services.git_sync.run_sync_cycle()
    assert list((house.home / "shared/git").iterdir()) == []


async def test_where_two_folders_cannot_be_exchanged(
    house: House, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS."""

    class Without:
        syncfs = git_trees._libc.syncfs

        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    monkeypatch.setattr(git_trees, "_libc", Without())
    dataset = await add(house, repository.url)
    await synced(house)
    repository.commit(readme="two")
    await synced(house)
    assert seen(dataset) == {"readme": "two"}


# -- addresses


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "ext::touch",
        "fd::17",
        "-upload-pack=touch",
        "--upload-pack=touch",
        "/local/path",
        "../up",
        "https://",
        "https://host:port/x",
        "https://host/a b",
        "ssh://-oProxyCommand=touch/x",
        "-oProxyCommand=x:y",
        "host:-x",
        "ftp://host/x",
        "file://elsewhere/x",
        "file:relative",
        "https://user:pass@host/x",
        "https://host/\n",
        "",
    ],
)
async def test_addresses_that_are_refused(house: House, url: str) -> None:
    with pytest.raises(UserError) as caught:
        await add(house, url)
    assert caught.value.field == "data"
    assert "pass" not in caught.value.message.replace("password", "")
    assert await house.services.datasets.list(house.admin) == []


@pytest.mark.parametrize("branch", ["-x", "a..b", "a b", "a~1", "a:b", "/a", "a/", "a.lock", "@{1}", "a*", "x" * 300])
async def test_branches_that_are_refused(house: House, branch: str) -> None:
    with pytest.raises(UserError, match="is not a valid branch or tag"):
        await add(house, "https://host/x", branch=branch)


async def test_only_admins_bring_it_up_to_date(house: House, repository: Repository) -> None:
    ann = await house.user("ann", "red")
    await add(house, repository.url)
    with pytest.raises(Forbidden):
        await house.services.datasets.sync_dataset(ann, "code")


async def test_only_git_is_brought_up_to_date(house: House) -> None:
    await house.services.datasets.create(house.admin, Dataset(name="vol", path="", kind="volume"))
    with pytest.raises(UserError, match="is not of kind git"):
        await synced(house, "vol")


async def test_nobody_writes_to_it(house: House, repository: Repository) -> None:
    made = replace(Dataset(name="code", path="", kind="git", data={"url": repository.url}), read_only=False)
    assert (await house.services.datasets.create(house.admin, made)).read_only
    with pytest.raises(UserError, match="Datasets of kind git are read-only"):
        await house.services.datasets.grant(house.admin, "code", "default", writable=True)


async def test_its_secret_must_be_there_and_for_git(house: House) -> None:
    with pytest.raises(NotFound, match="Secret key not found"):
        await add(house, "https://host/x", secret="key")
    registry = Secret(name="reg", kind=SecretKind.REGISTRY, registry_host="ghcr.io", username="ann")
    await house.services.secrets.create(house.admin, registry, "hush")
    with pytest.raises(UserError, match="for a registry"):
        await add(house, "https://host/x", secret="reg")


def work_folders(house: House) -> list[Path]:
    return list((house.home / "shared/git").glob("*/.work-*"))


async def test_a_process_that_is_left_with_much_to_say_ends() -> None:
    """What it wrote and nobody read must not keep its end from being noticed."""
    async with asyncio.timeout(60):
        async with git_program._GitProcess(["sh", "-c", "yes a long line of words"], os.environ) as process:
            assert process.stdout is not None
            await process.stdout.read(1)
            while len(process.stdout._buffer) < 1 << 17:  # type: ignore[attr-defined]  # as much as it takes, no more
                await asyncio.sleep(0.01)
            pid = process.pid
    assert not Path(f"/proc/{pid}").exists()
