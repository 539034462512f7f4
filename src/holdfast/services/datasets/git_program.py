"""Running git on addresses and repositories that are not ours to trust.

Each call gets an environment and a configuration of its own: nothing of the server's user, no hooks, no prompts, no
submodules, no transport that runs a program. A password or a key is handed over in memory; it is never on disk, among
the arguments or in the environment.
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

MEMORY = 4 * 1024**3  # bytes of address space for one git process
MAX_ENTRIES = 1_000_000  # files and links of a checkout
_PASSED_ON = (
    *("PATH", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"),
)
_CONFIG = {
    "core.attributesFile": "/dev/null",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "512m",
    "credential.helper": "",
    "fetch.unpackLimit": "1",  # one pack, so that the limit on a file's size holds for all
    "gc.auto": "0",
    "http.followRedirects": "initial",
    "http.lowSpeedLimit": "1",  # bytes a second, for a minute
    "http.lowSpeedTime": "60",
    "pack.threads": "1",
    "submodule.recurse": "false",
}
# For every file, before what the repository says: what is written is what was counted, byte for byte. (`attr.tree` of
# newer gits would say the same.)
_PLAIN = "* !text !eol !crlf !ident !filter !working-tree-encoding\n"
_NOISE = re.compile(
    r"hint:|warning:|Warning: Permanently added|From |\* "
    r"|(remote: )?(Enumerating|Counting|Compressing|Total|Receiving|Resolving) "
)
_HEAP = 1 << 16  # bytes kept of what git says


class GitFailed(Exception):
    """In words that may be shown: no credentials, no control characters."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where to clone from, and how to get in."""

    url: str
    branch: str = ""  # a branch or a tag; empty: the repository's main one
    username: str = ""
    value: str | None = field(default=None, repr=False)  # a private SSH key, or a password

    @property
    def by_ssh(self) -> bool:
        return "://" not in self.url or self.url.startswith("ssh://")


@dataclass(frozen=True, slots=True)
class Tip:
    ref: str
    commit: str


class GitProgram:
    def __init__(self, *, known_hosts: Path, most_bytes: int) -> None:
        self._known_hosts = known_hosts
        self._most_bytes = most_bytes

    async def tip(self, source: Source) -> Tip:
        """What the branch is at, without fetching anything."""
        refs = [f"refs/heads/{source.branch}", f"refs/tags/{source.branch}"] if source.branch else ["HEAD"]
        asked = [*refs, f"{refs[-1]}^{{}}"]
        said = await self._remote(source, "ls-remote", "--", source.url, *asked)
        lines = [line.partition("\t") for line in said.decode("utf-8", "replace").splitlines()]
        found = {ref: commit for commit, _, ref in lines}
        for ref in refs:
            commit = found.get(f"{ref}^{{}}") or found.get(ref)
            if commit:
                return Tip(ref, commit)
        raise GitFailed(
            msg("There is no branch or tag {branch}", branch=source.branch)
            if source.branch
            else msg("The repository is empty")
        )

    async def fetch(self, source: Source, ref: str, repo: Path) -> str:
        """That one commit, into a new repository; the commit's name."""
        await self._run(["init", "--quiet", "--bare", "--template=", "--", str(repo)])
        options = ["--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--progress"]
        # It goes on telling how far it is, so that it ends by itself when the server is gone.
        await self._remote(source, f"--git-dir={repo}", "fetch", *options, "--", source.url, f"+{ref}:refs/fetched")
        said = await self._run([f"--git-dir={repo}", "rev-parse", "--verify", "refs/fetched^{commit}"])
        return said.decode().strip()

    async def check_size(self, repo: Path, commit: str) -> int:
        """Bytes it unpacks to. Before anything is written: a small repository can unpack to more than any disk
        holds."""
        limit, entries, size = self._most_bytes, 0, 0
        async with _running(
            _argv([f"--git-dir={repo}", "ls-tree", "-r", "-l", "-z", commit], limit), _environment()
        ) as git:
            assert git.stdout is not None
            rest = b""
            while block := await git.stdout.read(1 << 18):
                *lines, rest = (rest + block).split(b"\0")
                entries += len(lines)
                sizes = (line.partition(b"\t")[0].split()[-1] for line in lines if line)
                size += sum(int(text) for text in sizes if text.isdigit())
                if size > limit:
                    raise GitFailed(
                        msg("Its files have more than the {limit} bytes that mounts.git_bytes allows", limit=limit)
                    )
                if entries > MAX_ENTRIES or len(rest) > _HEAP:
                    raise GitFailed(msg("It has more than {most_entries} files", most_entries=MAX_ENTRIES))
            if await git.wait() != 0:
                raise GitFailed(msg("git could not read what it fetched"))
        return size

    async def check_out(self, repo: Path, commit: str, tree: Path) -> None:
        """The files of that commit as they are stored, into an empty folder."""
        await asyncio.to_thread(_write_plain, repo / "info")
        there = [f"--git-dir={repo}", f"--work-tree={tree}"]
        await self._run([*there, "read-tree", commit])
        await self._run([*there, "checkout-index", "--all", "--force", "--quiet", f"--prefix={tree}/"])

    async def _remote(self, source: Source, *arguments: str) -> bytes:
        with _access(source) as (config, key):
            environ = _environment(ssh=_ssh_command(self._known_hosts, key))
            return await self._run(arguments, environ, config, source.value)

    async def _run(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        unsaid: str | None = None,
    ) -> bytes:
        """Its output, as far as it fits; GitFailed with what it says on failure."""
        argv = _argv(arguments, self._most_bytes, config or {})
        async with _running(argv, environ or _environment()) as git:
            assert git.stdout is not None
            assert git.stderr is not None
            out, said = await asyncio.gather(_first(git.stdout), _last(git.stderr))
            code = await git.wait()
        if code != 0:
            raise GitFailed(_words(said.decode("utf-8", "replace"), unsaid) or _ending(code))
        return out


def _write_plain(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "attributes").write_text(_PLAIN)


def _argv(arguments: Sequence[str], most_bytes: int, config: Mapping[str, str] | None = None) -> list[str]:
    """git under limits. An empty credential.helper drops the ones before it, so ours come after."""
    settings = [part for key, value in {**_CONFIG, **(config or {})}.items() for part in ("-c", f"{key}={value}")]
    limits = f"ulimit -c 0; ulimit -f {most_bytes // 512 + 1}; ulimit -v {MEMORY // 1024}"
    script = (
        f"umask 022; trap '' {signal.SIGXFSZ.value}; {limits}; exec git \"$@\""  # too large a file: an error, no death
    )
    return ["/bin/sh", "-c", script, "git", *settings, *arguments]


def _environment(*, ssh: str = "false") -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
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


# -- getting in


@contextmanager
def _access(source: Source) -> Iterator[tuple[dict[str, str], str | None]]:
    """What configuration hands git the password, or where ssh finds the key; both are gone afterwards."""
    if source.value is None:
        yield {}, None
    elif source.by_ssh:
        with _in_memory(source.value.strip().replace("\r\n", "\n") + "\n") as path:
            yield {}, path
    else:
        host = urlsplit(source.url)
        user = unquote(host.username or "") or source.username or "git"
        if "\n" in source.value.strip():
            raise GitFailed(
                msg("The secret has several lines, so it is no password; an SSH key needs an ssh:// address")
            )
        with _in_memory(f"username={user}\npassword={source.value.strip()}\n") as path:
            where = f"{host.scheme}://{host.netloc.rpartition('@')[2]}"  # no other host, whatever a redirect says
            yield {f"credential.{where}.helper": f"!f() {{ cat {path}; }}; f"}, None


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A file that only our user can open, that is on no disk, and that is gone with us."""
    fd = os.memfd_create("access", os.MFD_CLOEXEC)
    try:
        os.fchmod(fd, 0o600)  # ssh takes no key that others could read
        os.write(fd, text.encode())
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


def _ssh_command(known_hosts: Path, key: str | None) -> str:
    """A host's key is believed the first time, and must be the same from then on."""
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


class _running:
    """git, started; killed with all it started when the block ends before it does."""

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
        await asyncio.shield(self._reap())

    async def _reap(self) -> None:
        """Its end may not be noticed while something that it wrote waits to be read."""
        for stream in (self.process.stdout, self.process.stderr):
            with suppress(RuntimeError):  # another coroutine reads it
                while stream is not None and await stream.read(1 << 16):
                    pass
        await self.process.wait()


async def _first(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while block := await stream.read(1 << 16):
        kept += block[: _HEAP - len(kept)]
    return kept


async def _last(stream: asyncio.StreamReader) -> bytes:
    """Whole lines only: what is struck out of them must not hide in a half one."""
    kept, cut = b"", False
    while block := await stream.read(1 << 16):
        cut = cut or len(kept) + len(block) > _HEAP
        kept = (kept + block)[-_HEAP:]
    return kept.partition(b"\n")[2] if cut else kept


# -- what it says


def _words(said: str, unsaid: str | None = None) -> str:
    """The lines that tell what went wrong, on one. A server may say back what it was sent: that is struck out."""
    lines = [line.strip().rpartition("\r")[2] for line in _without(said, unsaid).split("\n")]
    telling = [line for line in lines if line and not _NOISE.match(line)]
    text = "; ".join(telling[-4:])
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:600]


def _ending(code: int) -> str:
    if code == 127:
        return msg("There is no program git on the server's machine; install it")
    return msg("git ended with {code}", code=code) if code >= 0 else msg("git was killed by signal {x1}", x1=-code)


def _without(text: str, value: str | None) -> str:
    parts = {part.strip() for part in (value or "").splitlines()} | {(value or "").strip()}
    for part in sorted(filter(None, parts), key=len, reverse=True):
        for form in (part, quote(part, safe="")):
            text = text.replace(form, "***")
    return text


def check_git_there(path: str | None) -> None:
    if path is None:
        raise UserError(
            msg("There is no program git on the server's machine"), hint=msg("Install git there, and try again.")
        )
