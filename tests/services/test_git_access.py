"""Getting in: passwords and keys reach git and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.catalogue import Secret
from holdfast.core.records import Dataset
from holdfast.services.catalogue.secrets import SecretChange
from holdfast.services.datasets.git_program import _extract_error
from holdfast.services.datasets.git_sync import GitState

from .house import House
from .repositories import HAS_SSH, HttpGit, Repository, SshGit, git_over_http, git_over_ssh, new_key

pytestmark = pytest.mark.anyio

PASSWORD = "hush-hush/1%"
needs_ssh = pytest.mark.skipif(not HAS_SSH, reason="needs OpenSSH: ssh, sshd and ssh-keygen")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repositories/code")
    made.commit(readme="one")
    return made


@pytest.fixture
def http(repository: Repository) -> Iterator[HttpGit]:
    with git_over_http(repository.folder.parent, PASSWORD) as serving:
        yield serving


@pytest.fixture
def ssh(tmp_path: Path, repository: Repository) -> Iterator[SshGit]:
    with git_over_ssh(tmp_path / "sshd") as serving:
        yield serving


async def keep(house: House, value: str, username: str = "") -> None:
    await house.services.secrets.create(house.admin, Secret(name="key", username=username), value)


async def clone(house: House, url: str, **data: str) -> GitState:
    made = Dataset(name="code", path="", kind="git", data={"url": url, **data})
    await house.services.datasets.create(house.admin, made)
    return await house.services.datasets.sync_dataset(house.admin, "code")


async def test_by_http_with_a_password(house: House, http: HttpGit) -> None:
    await keep(house, f"{PASSWORD}\n", username="ann")
    state = await clone(house, f"{http.url}/code", secret="key")
    assert (state.error, bool(state.commit)) == ("", True)
    assert "Basic YW5uOmh1c2gtaHVzaC8xJQ==" in http.seen  # ann:hush-hush/1%


async def test_the_user_of_the_address_goes_first(house: House, http: HttpGit) -> None:
    await keep(house, PASSWORD, username="ann")
    state = await clone(house, f"{http.url.replace('//', '//bob@')}/code", secret="key")
    assert state.error == ""
    assert "Basic Ym9iOmh1c2gtaHVzaC8xJQ==" in http.seen  # bob:hush-hush/1%


async def test_without_a_password_nobody_is_asked(house: House, http: HttpGit) -> None:
    state = await clone(house, f"{http.url}/code")
    assert "could not read Username" in state.error


async def test_a_wrong_password_is_told_and_never_said(house: House, http: HttpGit) -> None:
    http.echo = True
    await keep(house, "not-the-password")
    state = await clone(house, f"{http.url}/code", secret="key")
    assert state.error
    assert state.commit == ""
    assert "not-the-password" not in state.error
    for file in (house.home / "shared/git").rglob("*"):
        assert not file.is_file() or b"not-the-password" not in file.read_bytes()


async def test_what_a_server_says_back_is_struck_out() -> None:
    key = "-----BEGIN KEY-----\nabcdefgh\n-----END KEY-----\n"
    assert _extract_error("remote: you sent abcdefgh\nfatal: x\n", key) == "remote: you sent ***; fatal: x"
    assert _extract_error("remote: hush-hush/1% and hush-hush%2F1%25", PASSWORD) == "remote: *** and ***"
    assert PASSWORD[:5] not in _extract_error("x" * 597 + PASSWORD, PASSWORD)


async def test_what_git_says_is_one_plain_line() -> None:
    assert _extract_error("Receiving objects: 50%\rReceiving objects: 100%\nerror: a\x1b[31mb\r\n") == "error: a?[31mb"
    assert _extract_error("fatal: a\x07\u2028b") == "fatal: a??b"
    assert len(_extract_error("fatal: " + "x" * 10_000)) == 600


async def test_a_redirect_gets_no_password(house: House, http: HttpGit, repository: Repository) -> None:
    """Whoever answers at the address may send git elsewhere; the password stays."""
    with git_over_http(repository.folder.parent, PASSWORD) as thief:
        http.moved_to = thief.url
        await keep(house, PASSWORD)
        state = await clone(house, f"{http.url}/code", secret="key")
        assert state.commit == ""
        assert thief.seen
        assert set(thief.seen) == {None}


async def test_a_new_password_is_used_from_then_on(house: House, http: HttpGit) -> None:
    await keep(house, "old")
    assert (await clone(house, f"{http.url}/code", secret="key")).error
    await house.services.secrets.change(house.admin, "key", SecretChange(value=PASSWORD))
    assert (await house.services.datasets.sync_dataset(house.admin, "code")).error == ""


async def test_the_servers_own_git_configuration_counts_for_nothing(
    house: House, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "ran"
    config = tmp_path / "home-of-the-server"
    config.mkdir()
    (config / ".gitconfig").write_text(
        f'[core]\n\tfsmonitor = "touch {flag}"\n[url "/nowhere"]\n\tinsteadOf = "file://"\n'
    )
    monkeypatch.setenv("HOME", str(config))
    for name, value in {
        "GIT_DIR": "/nowhere",
        "GIT_SSH_COMMAND": f"touch {flag}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url./nowhere.insteadOf",
        "GIT_CONFIG_VALUE_0": "file://",
        "GIT_EXEC_PATH": "/nowhere",
        "LD_PRELOAD": "",
    }.items():
        monkeypatch.setenv(name, value)
    assert (await clone(house, f"file://{repository.folder}")).error == ""
    assert not flag.exists()


@needs_ssh
async def test_by_ssh_with_a_key(house: House, ssh: SshGit, repository: Repository) -> None:
    await keep(house, ssh.key.replace("\n", "\r\n").rstrip())  # as people paste them
    state = await clone(house, f"{ssh.url}{repository.folder}", secret="key")
    assert (state.error, bool(state.commit)) == ("", True)
    assert (house.home / "shared/git/.known_hosts").read_text()


@needs_ssh
async def test_by_ssh_with_another_key(house: House, ssh: SshGit, repository: Repository) -> None:
    await keep(house, ssh.other_key)
    state = await clone(house, f"{ssh.url}{repository.folder}", secret="key")
    assert "Permission denied" in state.error
    assert ssh.other_key.splitlines()[1] not in state.error


@needs_ssh
async def test_by_ssh_without_a_key(
    house: House, ssh: SshGit, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the server's user is not taken."""
    own = tmp_path / "own/.ssh"
    own.mkdir(parents=True)
    (own / "id_ed25519").write_text(ssh.key)
    (own / "id_ed25519").chmod(0o600)
    monkeypatch.setenv("HOME", str(own.parent))
    assert "Permission denied" in (await clone(house, f"{ssh.url}{repository.folder}")).error


@pytest.mark.release
@needs_ssh
async def test_a_host_with_another_key_is_not_believed(house: House, ssh: SshGit, repository: Repository) -> None:
    await keep(house, ssh.key)
    assert (await clone(house, f"{ssh.url}{repository.folder}", secret="key")).error == ""
    new_key(ssh.host_key)
    ssh.restart()
    assert "Host key verification failed" in (await house.services.datasets.sync_dataset(house.admin, "code")).error


@needs_ssh
async def test_a_key_is_on_no_disk(house: House, ssh: SshGit, repository: Repository) -> None:
    await keep(house, ssh.key)
    await clone(house, f"{ssh.url}{repository.folder}", secret="key")
    line = ssh.key.splitlines()[1].encode()
    for file in house.home.rglob("*"):
        assert not file.is_file() or line not in file.read_bytes(), file
    assert not [fd for fd in Path("/proc/self/fd").iterdir() if _leads_to_a_secret(fd)]


def _leads_to_a_secret(fd: Path) -> bool:
    try:
        return "memfd:access" in str(fd.readlink())
    except OSError:
        return False


async def test_a_key_for_http_is_told_apart(house: House, http: HttpGit) -> None:
    await keep(house, "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
    state = await clone(house, f"{http.url}/code", secret="key")
    assert "is not a password" in state.error
