"""Run git on untrusted addresses and repositories.

Each call gets its own environment and configuration: nothing of the server's user, no hooks, no prompts, no
submodules, no transport that runs a program. A password or key is passed in memory, never on disk, in arguments or
in the environment.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

MAX_MEMORY = 4 * 1024**3  # bytes of address space for one git process
MAX_ENTRIES = 1_000_000  # files and links of a checkout
_PASSED_VARIABLES = (
    *("PATH", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"),
)
_GIT_CONFIG = {
    "core.attributesFile": "/dev/null",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "512m",
    "credential.helper": "",
    "fetch.unpackLimit": "1",  # one pack, so that the file size limit applies to all of it
    "gc.auto": "0",
    "http.followRedirects": "initial",
    "http.lowSpeedLimit": "1",  # bytes a second, for a minute
    "http.lowSpeedTime": "60",
    "pack.threads": "1",
    "submodule.recurse": "false",
}
# Overrides the repository's attributes for every file, so that the written bytes equal the counted bytes. (`attr.tree`
# of newer git versions does the same.)
_PLAIN_ATTRIBUTES = "* !text !eol !crlf !ident !filter !working-tree-encoding\n"
_IGNORED_LINE_PATTERN = re.compile(
    r"hint:|warning:|Warning: Permanently added|From |\* "
    r"|(remote: )?(Enumerating|Counting|Compressing|Total|Receiving|Resolving) "
)
_MAX_OUTPUT_SIZE = 1 << 16  # bytes kept of git's output


class GitError(Exception):
    """A git failure; its message contains no credentials or control characters and can be shown."""


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository address with its credentials."""

    url: str
    branch: str = ""  # a branch or a tag; empty: the repository's HEAD
    username: str = ""
    value: str | None = field(default=None, repr=False)  # a private SSH key, or a password

    @property
    def is_ssh(self) -> bool:
        return "://" not in self.url or self.url.startswith("ssh://")


@dataclass(frozen=True, slots=True)
class BranchTip:
    ref: str
    commit: str


class GitProgram:
    def __init__(self, *, known_hosts: Path, most_bytes: int) -> None:
        self._known_hosts = known_hosts
        self._max_bytes = most_bytes

    async def read_branch_tip(self, source: GitSource) -> BranchTip:
        """Return the commit of the branch without fetching it."""
        refs = [f"refs/heads/{source.branch}", f"refs/tags/{source.branch}"] if source.branch else ["HEAD"]
        asked = [*refs, f"{refs[-1]}^{{}}"]
        output = await self._run_git_with_credentials(source, "ls-remote", "--", source.url, *asked)
        lines = [line.partition("\t") for line in output.decode("utf-8", "replace").splitlines()]
        found = {ref: commit for commit, _, ref in lines}
        for ref in refs:
            commit = found.get(f"{ref}^{{}}") or found.get(ref)
            if commit:
                return BranchTip(ref, commit)
        raise GitError(
            msg("Branch or tag {branch} not found", branch=source.branch)
            if source.branch
            else msg("The repository is empty")
        )

    async def fetch_commit(self, source: GitSource, ref: str, repo: Path) -> str:
        """Fetch one commit into a new repository and return its hash."""
        await self._run_git(["init", "--quiet", "--bare", "--template=", "--", str(repo)])
        options = ["--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--progress"]
        # --progress makes git write regularly, so that it ends when the Holdfast server dies.
        await self._run_git_with_credentials(
            source, f"--git-dir={repo}", "fetch", *options, "--", source.url, f"+{ref}:refs/fetched"
        )
        output = await self._run_git([f"--git-dir={repo}", "rev-parse", "--verify", "refs/fetched^{commit}"])
        return output.decode().strip()

    async def check_commit_size(self, repo: Path, commit: str) -> int:
        """Return the unpacked size in bytes, before anything is written: a small repository can unpack to more than
        the disk holds."""
        limit, entries, size = self._max_bytes, 0, 0
        async with _GitProcess(
            _build_argv([f"--git-dir={repo}", "ls-tree", "-r", "-l", "-z", commit], limit), _build_environment()
        ) as git:
            assert git.stdout is not None
            rest = b""
            while block := await git.stdout.read(1 << 18):
                *lines, rest = (rest + block).split(b"\0")
                entries += len(lines)
                sizes = (line.partition(b"\t")[0].split()[-1] for line in lines if line)
                size += sum(int(text) for text in sizes if text.isdigit())
                if size > limit:
                    raise GitError(
                        msg("The repository's files exceed the limit of {limit} bytes (mounts.git_bytes)", limit=limit)
                    )
                if entries > MAX_ENTRIES or len(rest) > _MAX_OUTPUT_SIZE:
                    raise GitError(msg("The repository has more than {max_entries} files", max_entries=MAX_ENTRIES))
            if await git.wait() != 0:
                raise GitError(msg("git could not read the fetched data"))
        return size

    async def check_out_commit(self, repo: Path, commit: str, tree: Path) -> None:
        """Write the files of the commit, unconverted, to an empty folder."""
        await asyncio.to_thread(_write_attributes, repo / "info")
        there = [f"--git-dir={repo}", f"--work-tree={tree}"]
        await self._run_git([*there, "read-tree", commit])
        await self._run_git([*there, "checkout-index", "--all", "--force", "--quiet", f"--prefix={tree}/"])

    async def _run_git_with_credentials(self, source: GitSource, *arguments: str) -> bytes:
        with _provide_credentials(source) as (config, key):
            environ = _build_environment(ssh=_build_ssh_command(self._known_hosts, key))
            return await self._run_git(arguments, environ, config, source.value)

    async def _run_git(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        secret: str | None = None,
    ) -> bytes:
        """Run git and return its output up to the limit; raise GitError with its error output on failure."""
        argv = _build_argv(arguments, self._max_bytes, config or {})
        async with _GitProcess(argv, environ or _build_environment()) as git:
            assert git.stdout is not None
            assert git.stderr is not None
            out, errors = await asyncio.gather(_read_head(git.stdout), _read_tail(git.stderr))
            code = await git.wait()
        if code != 0:
            raise GitError(_extract_error(errors.decode("utf-8", "replace"), secret) or _describe_exit(code))
        return out


def _write_attributes(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "attributes").write_text(_PLAIN_ATTRIBUTES)


def _build_argv(arguments: Sequence[str], most_bytes: int, config: Mapping[str, str] | None = None) -> list[str]:
    """Build the command of git with resource limits. An empty credential.helper drops earlier ones, so ours follows."""
    settings = [part for key, value in {**_GIT_CONFIG, **(config or {})}.items() for part in ("-c", f"{key}={value}")]
    limits = f"ulimit -c 0; ulimit -f {most_bytes // 512 + 1}; ulimit -v {MAX_MEMORY // 1024}"
    script = f"umask 022; trap '' {signal.SIGXFSZ.value}; {limits}; exec git \"$@\""  # no SIGXFSZ for a large file
    return ["/bin/sh", "-c", script, "git", *settings, *arguments]


def _build_environment(*, ssh: str = "false") -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    return {
        "PATH": os.defpath,
        **passed,
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
        "GIT_SSH_COMMAND": ssh,
        "GIT_SSH_VARIANT": "ssh",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }


# -- credentials


@contextmanager
def _provide_credentials(source: GitSource) -> Iterator[tuple[dict[str, str], str | None]]:
    """Provide git's configuration with a password helper, or the path of the SSH key, within the block."""
    if source.value is None:
        yield {}, None
    elif source.is_ssh:
        with _open_memory_file(source.value.strip().replace("\r\n", "\n") + "\n") as path:
            yield {}, path
    else:
        host = urlsplit(source.url)
        user = unquote(host.username or "") or source.username or "git"
        if "\n" in source.value.strip():
            raise GitError(
                msg("The secret has several lines and is not a password; an SSH key requires an ssh:// address")
            )
        with _open_memory_file(f"username={user}\npassword={source.value.strip()}\n") as path:
            where = f"{host.scheme}://{host.netloc.rpartition('@')[2]}"  # only this host, even after a redirect
            yield {f"credential.{where}.helper": f"!f() {{ cat {path}; }}; f"}, None


@contextmanager
def _open_memory_file(text: str) -> Iterator[str]:
    """Provide the path of an in-memory file that only this user can open."""
    fd = os.memfd_create("access", os.MFD_CLOEXEC)
    try:
        os.fchmod(fd, 0o600)  # ssh rejects keys that others can read
        os.write(fd, text.encode())
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


def _build_ssh_command(known_hosts: Path, key: str | None) -> str:
    """Build the ssh command; a host key is trusted on first use and must not change afterwards."""
    options = {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "IdentityFile": key or "none",
        "StrictHostKeyChecking": "accept-new",
        "UserKnownHostsFile": str(known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "UpdateHostKeys": "no",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "30",
    }
    return shlex.join(["ssh", "-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())])


# -- the process


class _GitProcess:
    """A running git process; killed with its children when the block ends first."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self.argv, self.environ = argv, environ

    async def __aenter__(self) -> asyncio.subprocess.Process:
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(
            *self.argv, stdin=null, stdout=pipe, stderr=pipe, env=self.environ, cwd="/", start_new_session=True
        )
        return self.process

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        await asyncio.shield(self._reap_process())

    async def _reap_process(self) -> None:
        """Drain its output and wait: asyncio may not notice the exit while output is unread."""
        for stream in (self.process.stdout, self.process.stderr):
            with suppress(RuntimeError):  # another coroutine reads it
                while stream is not None and await stream.read(1 << 16):
                    pass
        await self.process.wait()


async def _read_head(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while block := await stream.read(1 << 16):
        kept += block[: _MAX_OUTPUT_SIZE - len(kept)]
    return kept


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    """Read the last complete lines: redaction must not miss a value in a partial line."""
    kept, cut = b"", False
    while block := await stream.read(1 << 16):
        cut = cut or len(kept) + len(block) > _MAX_OUTPUT_SIZE
        kept = (kept + block)[-_MAX_OUTPUT_SIZE:]
    return kept.partition(b"\n")[2] if cut else kept


# -- error output


def _extract_error(output: str, secret: str | None = None) -> str:
    """Return the error lines of git's output as one line. A server may echo the credentials, so they are redacted."""
    lines = [line.strip().rpartition("\r")[2] for line in _redact_secret(output, secret).split("\n")]
    errors = [line for line in lines if line and not _IGNORED_LINE_PATTERN.match(line)]
    text = "; ".join(errors[-4:])
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:600]


def _describe_exit(code: int) -> str:
    if code == 127:
        return msg("git is not installed on the server; install it and try again")
    return (
        msg("git exited with code {code}", code=code)
        if code >= 0
        else msg("git was killed by signal {signal}", signal=-code)
    )


def _redact_secret(text: str, value: str | None) -> str:
    parts = {part.strip() for part in (value or "").splitlines()} | {(value or "").strip()}
    for part in sorted(filter(None, parts), key=len, reverse=True):
        for form in (part, quote(part, safe="")):
            text = text.replace(form, "***")
    return text


def require_git(path: str | None) -> None:
    if path is None:
        raise UserError(msg("git is not installed on the server"), hint=msg("Install git on the server and try again."))
