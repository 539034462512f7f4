"""The parts of the embedded engine that only compute: reading task folders, arguments, filters, GPU settings."""

from __future__ import annotations

import os
import platform
import struct
import threading
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.attempt import ObservedState
from holdfast.engines.embedded.folder_content import (
    Claim,
    StartNote,
    build_dead_observation,
    build_ended_observation,
    build_running_observation,
    parse_claim,
    parse_start_note,
)
from holdfast.engines.embedded.machine import build_node
from holdfast.engines.embedded.options import EmbeddedOptions
from holdfast.engines.embedded.sandbox.gpus import Gpu, make_gpu_binds, parse_library_binds
from holdfast.engines.embedded.sandbox.private_files import find_private_files
from holdfast.engines.embedded.sandbox.render import Bind, Overlay, SandboxGuard, SandboxRoot, render_bwrap_args
from holdfast.engines.embedded.sandbox.roots import find_path_inside, find_shell
from holdfast.engines.embedded.sandbox.seccomp import build_seccomp_filter
from holdfast.engines.embedded.task_folder import is_safe_id
from holdfast.engines.embedded.threads import start_thread_pool
from holdfast.engines.task_program import make_command_files
from tests.contracts.engine_contract import launch

NOTE = StartNote(boot="b1", at=datetime(2026, 1, 2, tzinfo=UTC), sandbox=True, cgroups=("/g",), lower_folders=("/l",))
REPORT = b'{ "child-pid": 77, "pid-namespace": 4026532266 }\n'


# --- reading ------------------------------------------------------------------------------------------------------


def test_a_start_note_reads_back_as_written() -> None:
    for note in (NOTE, replace(NOTE, home="upper/home/jovyan", scratch=5)):
        assert parse_start_note(note.to_json()) == note


def test_a_start_note_of_an_older_release_is_read() -> None:
    text = '[1,"b1",1767312000000,1,0,["/g"],["/l"],""]'
    assert parse_start_note(text) == NOTE


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '[1,"b",1e99,1,0,[],[],""]', "[1,2,3,4,5,6,7,8]"])
def test_a_foreign_start_note_is_none(text: str) -> None:
    assert parse_start_note(text) is None


def test_a_whole_claim() -> None:
    claim = parse_claim(b"run 12 3400\nready\n" + REPORT + b'{ "exit-code": 3 }\nend 3 40.25\n')
    assert claim == Claim(
        pid=12, started=3400, ready=True, init_pid=77, pid_namespace=4026532266, command_code=3, code=3, ended=40.25
    )
    seen = build_ended_observation("a", NOTE, claim, oom=False, complaint="")
    assert (seen.seen, seen.code, seen.elapsed) == (ObservedState.EXITED, 3, 6.25)
    assert seen.finished_at is not None
    assert (seen.finished_at - NOTE.at).total_seconds() == 6.25


@given(st.binary(max_size=200))
def test_any_bytes_make_some_claim(data: bytes) -> None:
    parse_claim(data)
    parse_claim(b"run 1 2\n" + data)


@given(st.integers(0, 200))
def test_a_claim_cut_anywhere_says_only_what_was_finished(cut: int) -> None:
    whole = b"run 12 3400\nready\n" + REPORT + b'{ "exit-code": 0 }\nend 0 40.25\n'
    claim = parse_claim(whole[:cut])
    assert (claim.code is not None) == (cut >= len(whole))
    assert (claim.pid is not None) == (cut >= len(b"run 12 3400\n"))


@pytest.mark.parametrize(
    ("claim", "oom", "seen", "words", "cause"),
    [
        (
            b"ready\n" + REPORT + b"end 1 9.0\n",
            False,
            ObservedState.LOST,
            "failed to start: bwrap: no",
            "sandbox-failed",
        ),
        (b"end 125 9.0\n", False, ObservedState.LOST, "failed to start", "sandbox-failed"),
        (
            b"ready\n" + REPORT + b"end 137 9.0\n",
            False,
            ObservedState.LOST,
            "killed from outside the task (signal 9)",
            "lost",
        ),
        (b"ready\n" + REPORT + b"end 137 9.0\n", True, ObservedState.EXITED, "", ""),
    ],
)
def test_whose_fault_an_end_is(claim: bytes, oom: bool, seen: ObservedState, words: str, cause: str) -> None:
    found = build_ended_observation("a", NOTE, parse_claim(b"run 1 2\n" + claim), oom=oom, complaint="bwrap: no\n")
    assert (found.seen, found.cause) == (seen, cause)
    assert words in found.message


def test_without_a_sandbox_the_runners_word_counts() -> None:
    plain = StartNote(boot="b1", at=NOTE.at, sandbox=False)
    assert (
        build_ended_observation("a", plain, parse_claim(b"run 1 2\nready\nend 9 9.0\n"), oom=False, complaint="").code
        == 9
    )
    assert (
        build_ended_observation("a", plain, parse_claim(b"run 1 2\nend 125 9.0\n"), oom=False, complaint="").seen
        is ObservedState.LOST
    )


@pytest.mark.parametrize(
    ("note", "claim", "boot", "seen"),
    [
        (None, b"", "b1", ObservedState.ABSENT),
        (NOTE, b"", "b1", ObservedState.ABSENT),
        (NOTE, b"run 1", "b1", ObservedState.ABSENT),
        (NOTE, b"", "b2", ObservedState.LOST),
        (NOTE, b"run 1 2\n", "b1", ObservedState.LOST),
        (NOTE, b"run 1 2\n", "b2", ObservedState.LOST),
        (None, b"run 1 2\n", "b1", ObservedState.LOST),
    ],
)
def test_what_a_free_claim_means(note: StartNote | None, claim: bytes, boot: str, seen: ObservedState) -> None:
    assert build_dead_observation("a", note, parse_claim(claim), boot).seen is seen


def test_elapsed_counts_by_the_boot_clock() -> None:
    assert build_running_observation("a", NOTE, parse_claim(b"run 1 1000\n"), uptime=70.0).elapsed == 60.0
    assert build_running_observation("a", NOTE, parse_claim(b"run 1 9000\n"), uptime=70.0).elapsed == 0.0
    assert build_running_observation("a", NOTE, Claim(), uptime=70.0).elapsed is None


@pytest.mark.parametrize("name", ["job-1.0.worker-0.0", "a", "_x", "A" * 200])
def test_safe_names(name: str) -> None:
    assert is_safe_id(name)


# --- rendering ----------------------------------------------------------------------------------------------------


def test_arguments_hold_every_part() -> None:
    root = SandboxRoot(
        overlays=(Overlay(target="/", lowers=("/low", "/mask"), upper="/u", work="/w"),),
        binds=(Bind(source="/s", target="/t", read_only=False),),
        links=(("usr/bin", "/bin"),),
    )
    guard = SandboxGuard(privileged=True, read_only=("/proc/sys",), empty_files=("/proc/keys",), seccomp=True)
    device = Bind(source="/dev/nvidia0", target="/dev/nvidia0", device=True)
    given = launch("a", "true", workdir="/w d", entry="x", hold=True)
    files = make_command_files(given)
    text = " ".join(render_bwrap_args(given, root, guard, files, {"A": "b c"}, 1024, [device]))
    for name, mode, fd in (("script", "0555", 5), ("entry", "0500", 4), ("hold", "0555", 3)):
        assert f"--perms {mode} --ro-bind-data {fd} /run/holdfast/{name} " in text
    for part in (
        "--overlay-src /low --overlay-src /mask --overlay /u /w /", "--bind /s /t", "--symlink usr/bin /bin",
        "--ro-bind /proc/sys /proc/sys", "--ro-bind /dev/null /proc/keys", "--size 1024 --tmpfs /dev/shm",
        "--dev-bind /dev/nvidia0 /dev/nvidia0", "--setenv A b c", "--seccomp 6", "--cap-drop ALL --cap-add",
        "--chdir /", "--die-with-parent", "--unshare-pid", "--clearenv",
    ):  # fmt: skip
        assert part in text
    assert "--unshare-user" not in text
    assert "--unshare-net" not in text
    plain = render_bwrap_args(launch("a", "true"), root, SandboxGuard(privileged=False), {}, {}, 1024, [])
    assert "--unshare-user" in plain
    assert "--cap-add" not in plain


# --- the filter ---------------------------------------------------------------------------------------------------

CALLS = {
    "x86_64": {
        "mount": 165,
        "keyctl": 250,
        "bpf": 321,
        "clone": 56,
        "unshare": 272,
        "ioctl": 16,
        "write": 1,
        "socket": 41,
        "socketpair": 53,
    },
    "aarch64": {
        "mount": 40,
        "keyctl": 219,
        "bpf": 280,
        "clone": 220,
        "unshare": 97,
        "ioctl": 29,
        "write": 64,
        "socket": 198,
        "socketpair": 199,
    },
}
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, EPERM, ENOSYS, EPROTONOSUPPORT, EAFNOSUPPORT = 0x7FFF0000, 0x00050001, 0x00050026, 0x0005005D, 0x00050061


def judge(program: bytes, arch: int, number: int, *args: int) -> int:
    """What the kernel would answer."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*args, *[0] * (6 - len(args))))
    steps = list(struct.iter_unpack("HBBI", program))
    at, accumulator = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += yes if holds else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_what_it_should(machine: str) -> None:
    program = build_seccomp_filter(machine)
    assert program is not None
    arch, calls = ARCHES[machine], CALLS[machine]

    def answer(name: str, *args: int) -> int:
        return judge(program, arch, calls[name], *args)

    for name in ("mount", "keyctl", "bpf"):
        assert answer(name) == EPERM
    assert judge(program, arch, 425) == EPERM  # io_uring_setup
    assert judge(program, arch, 435) == ENOSYS  # clone3
    assert answer("write", 1) == ALLOW
    assert answer("clone", 0x00000011) == ALLOW  # fork
    assert answer("clone", 0x003D0F00) == ALLOW  # a thread
    assert answer("clone", 0x10000011) == EPERM  # a user namespace
    assert answer("unshare", 0x00000400) == ALLOW
    assert answer("unshare", 0x00020000) == EPERM
    assert answer("ioctl", 0, 0x5412) == EPERM  # TIOCSTI
    assert answer("ioctl", 0, 0x541C) == EPERM
    assert answer("ioctl", 0, 0x5401) == ALLOW
    for name in ("socket", "socketpair"):
        assert [answer(name, family, 1) for family in (1, 2, 10, 16, 17, 39, 41)] == [ALLOW] * 7
        assert [answer(name, family, 1) for family in (38, 40)] == [EAFNOSUPPORT] * 2  # AF_ALG, AF_VSOCK
        assert answer(name, 1 << 32 | 40, 1) == EAFNOSUPPORT  # the kernel does not look at the upper bits either
        assert [answer(name, 16, 3, protocol) for protocol in (0, 4, 9)] == [ALLOW, ALLOW, EPROTONOSUPPORT]
        assert answer(name, 2, 3, 9) == ALLOW
    assert judge(program, 0x40000003, 1) == ENOSYS  # another machine's calls
    if machine == "x86_64":
        assert judge(program, arch, 0x40000000 + 1) == ENOSYS


def test_there_is_a_filter_for_this_machine() -> None:
    assert build_seccomp_filter(platform.machine()) is not None
    assert build_seccomp_filter("pdp11") is None


# --- GPUs ---------------------------------------------------------------------------------------------------------


def test_only_given_devices_are_bound() -> None:
    gpus = [Gpu(index=0, node="/dev/null", name="a", memory=1), Gpu(index=1, node="/dev/zero", name="b", memory=1)]
    assert [bind.source for bind in make_gpu_binds([1], gpus) if "nvidia" not in bind.source] == ["/dev/zero"]


def test_driver_libraries_are_found_in_the_linkers_listing(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.550"
    library.touch()
    listing = f"""3 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6,x86-64) => {library}
\tlibcuda.so.1 (libc6) => /usr/lib32/libcuda.so.1
\tlibnvidia-ml.so.1 (libc6,x86-64) => /no/such/file
\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6
"""
    binds = parse_library_binds(listing)
    assert [(bind.source, bind.target) for bind in binds] == [(str(library), "/usr/local/nvidia/lib64/libcuda.so.1")]


# --- what is shown of the machine ---------------------------------------------------------------------------------


def test_links_are_resolved_within_the_image(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr/bin/busybox").touch(mode=0o755)
    (tmp_path / "usr/bin/sh").symlink_to("/bin/busybox")
    (tmp_path / "usr/bin/bash").symlink_to("../../../../../../bin/nothing")
    (tmp_path / "loop").symlink_to("loop")
    assert find_path_inside(str(tmp_path), "/bin/sh") == tmp_path / "usr/bin/busybox"
    assert find_path_inside(str(tmp_path), "/loop") is None
    assert find_path_inside(str(tmp_path), "/../../bin/sh") == tmp_path / "usr/bin/busybox"
    assert find_shell(str(tmp_path)) == "/bin/sh"


def test_what_others_may_not_read_is_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name, mode in [("open", 0o755), ("closed", 0o750), ("listed-only", 0o754)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "open/secret").touch(mode=0o640)
    (tmp_path / "open/link").symlink_to("secret")
    os.mkfifo(tmp_path / "open/pipe", 0o666)
    (tmp_path / "skipped").mkdir(mode=0o700)
    found = find_private_files([str(tmp_path)], {str(tmp_path / "skipped")}, 100)
    assert {entry.path.removeprefix(f"{tmp_path}/") for entry in found.hidden} == {
        "closed", "listed-only", "open/secret", "open/pipe",
    }  # fmt: skip
    assert found.too_big == []


def test_what_is_too_much_to_look_through_is_hidden(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("a", "b", "c"):
        (tmp_path / name / "deep").mkdir(parents=True)
    found = find_private_files([str(tmp_path)], set(), 3)
    assert sorted(found.too_big) == [f"{tmp_path}/{name}" for name in ("a", "b", "c")]
    assert {entry.path for entry in found.hidden} == set(found.too_big)


def test_the_machines_address_is_the_one_given_or_found() -> None:
    assert build_node(EmbeddedOptions(address="10.1.2.3"), []).address == "10.1.2.3"
    found = build_node(EmbeddedOptions(), []).address
    assert str(ip_address(found)) == found
    assert not ip_address(found).is_unspecified


def test_threads_are_all_there_before_they_are_needed() -> None:
    with start_thread_pool(5, "ready") as pool:
        assert _count_threads("ready") == 5
        assert [pool.submit(int).result() for _ in range(20)] == [0] * 20
        assert _count_threads("ready") == 5


def _count_threads(prefix: str) -> int:
    return len([thread for thread in threading.enumerate() if thread.name.startswith(prefix)])


def test_fewer_threads_have_to_do_where_no_more_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        if len(made) == 2:
            raise RuntimeError("can't start new thread")
        made.append(thread)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with start_thread_pool(5, "test") as pool:
        assert pool.submit(int).result() == 0
