"""Goes into the sandbox of a task and becomes a command there. The server runs one of these for each session.

    python -I -S -c "… import enter; enter.main()"

It is given stdin, stdout and stderr of the command, a socket to the server on fd 3, and on fd 4 what is to be done
(`marshal`ed: the server runs the same Python); on fd 5 a program, where that is to be run and none of the task's. This
process stays outside, waits for the command and tells how it ended. Its child gives up everything the task does not
have, makes the grandchild that goes in, and ends; the grandchild is then a child of this process. To the server they
say `ready` (with the terminal, if one is wanted), `refused WHY`, or `exit CODE`; the server says `signal NUMBER GROUP`,
and hangs up by closing the socket.

The task may be hostile. It sees, and can signal, no process of ours that has more rights than its own: only the
grandchild is in its PID namespace, and that is born with the task's rights. None of them lets itself be looked into
(PR_SET_DUMPABLE) from before the first step; the grandchild opens nothing of the task's before it has the task's
limits, and keeps no descriptor but the command's. For the same reason nothing is imported after the start, and few
modules are: each costs every session some milliseconds.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import resource
import select
import stat
import sys
import termios
from _socket import SCM_RIGHTS, SOL_SOCKET, socket
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROL_FD = 3
REQUEST_FD = 4
PROGRAM_FD = 5
NOT_FOUND = 127
NOT_RUNNABLE = 126

_SET_UP = 10.0  # seconds a sandbox may take to be ready
_BORN = 0.5  # seconds after which a command without a trace of us in its environment is taken to be so on purpose
_AGAIN = 0.005
_MAX_ENV = 2 * 1024 * 1024
_SMALL_FILE = 64 * 1024
_OWN_NAME = b"holdfast-enter"
_ENDED = "The task has just ended."
_MAX_FD = 4096  # we begin with five descriptors and open a few more
_BORN_SIZE = 12  # bytes of the line that names the grandchild
_HANGUP, _KILL, _CONTINUE = 1, 9, 18
_SIGNALS = range(1, 65)
_LIMITS = range(16)
_SPY_MEMORY = 4 * 1024**3  # bytes of address space
_FIRST_TO_GO = b"1000"  # where memory is short
_PTMX = os.makedev(5, 2)
_TIOCGPTPEER = 0x5441
_TIOCSPTLCK = 0x40045431
_IUTF8 = 0o40000
_NS_GET_USERNS = 0xB701
_NEW_USER, _NEW_PID, _NEW_MOUNTS = 0x10000000, 0x20000000, 0x00020000
_OTHERS = {"cgroup": 0x02000000, "ipc": 0x08000000, "uts": 0x04000000, "net": 0x40000000}

_PDEATHSIG, _DUMPABLE, _NAME, _SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS, _CAP_AMBIENT = 1, 4, 15, 22, 24, 38, 47
_CHILD_SUBREAPER = 36
_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_CAPABILITY_VERSION = 0x20080522
_SYS_PTRACE = 1 << 19
_SECCOMP_FILTER = 2
_CLOSE_RANGE = 436

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """It cannot be done; says why, to the user."""


class Place:
    """The sandbox of a task: handles on its namespaces, its root, and what its processes are given.

    All of it is opened through the number of its first process, which is seen to be that very one, and still there
    after. That process sets the sandbox up, among the machine's own files, until it has a child: the command."""

    def __init__(self, pid: int, namespace: int) -> None:
        try:
            handle = os.pidfd_open(pid)
            folder = f"/proc/{pid}"
            self.pid = os.open(f"{folder}/ns/pid", os.O_RDONLY)
            if os.fstat(self.pid).st_ino != namespace:
                raise ProcessLookupError
            self.first = _wait_for_command(pid, handle)
            self.user = os.open(f"{folder}/ns/user", os.O_RDONLY)
            self.mount = os.open(f"{folder}/ns/mnt", os.O_RDONLY)
            self.others = _others(folder)
            self.owner = fcntl.ioctl(self.mount, _NS_GET_USERNS)
            self.is_deeper = os.fstat(self.owner).st_ino != os.stat("/proc/self/ns/user").st_ino
            self.root = os.open(f"{folder}/root", os.O_PATH)
            self.limits = [(kind, resource.prlimit(pid, kind)) for kind in _LIMITS]
            self.status = _status(pid)
            if _is_over(handle):
                raise ProcessLookupError
            os.close(handle)
        except (ProcessLookupError, FileNotFoundError) as error:
            raise Refused(_ENDED) from error
        if os.path.samestat(os.fstat(self.root), os.stat("/")):
            raise Refused("The task has no files of its own.")

    def join_outside(self) -> None:
        """What our children are to have from their birth, and the rights to join the rest. Its files are among that:
        through a process that still had the machine's, a look into the task could be led there (/proc/PID/root)."""
        if self.is_deeper:
            _setns(self.owner, _NEW_USER)
        _setns(self.mount, _NEW_MOUNTS)
        os.fchdir(self.root)
        os.chroot(".")

    def join(self) -> None:
        """The rest, with the user namespace of its processes last, which may be a deeper one. The PID namespace is
        joined by children alone: who calls this stays out of the task's sight."""
        _setns(self.pid, _NEW_PID)
        for fd, kind in self.others:
            _setns(fd, kind)
        if os.fstat(self.user).st_ino != os.fstat(self.owner).st_ino:
            _setns(self.user, _NEW_USER)


def _others(folder: str) -> list[tuple[int, int]]:
    """Handles on the namespaces of other kinds that are not ours anyway."""
    opened = {name: os.open(f"{folder}/ns/{name}", os.O_RDONLY) for name in _OTHERS}
    return [
        (fd, _OTHERS[name])
        for name, fd in opened.items()
        if os.fstat(fd).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino
    ]


def main() -> None:
    control = socket(fileno=CONTROL_FD)
    child = 0
    try:
        request = marshal.loads(_read(REQUEST_FD, None))
        os.close(REQUEST_FD)
        if _spies(request):
            _go_first()
        _prctl(_DUMPABLE, 0)
        _rename()
        child = _start(request, control)
    except Exception as error:
        _refuse(control, error)
    _wait(child, control)


def _spies(request: dict[str, Any]) -> bool:
    """It is to look into a process of the task: by a program of ours, without anything that the task says."""
    return bool(request["kind"] == "stacks")


def _go_first() -> None:
    """A look must not cost the task its life: where its memory is full, it is us whom the kernel ends."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(_FIRST_TO_GO)
    except OSError:
        return


def _rename() -> None:
    """Where the server is installed is nothing for the task to see."""
    _libc.prctl(_NAME, _OWN_NAME, 0, 0, 0)
    with open("/proc/self/stat", "rb") as file:
        fields = file.read(_SMALL_FILE).rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if end - start > len(_OWN_NAME):
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, _OWN_NAME, len(_OWN_NAME))


def _start(request: dict[str, Any], control: socket) -> int:
    """Fork the child that goes in; answers its pid."""
    joins = [os.open(path, os.O_WRONLY) for path in request["joins"]]
    place = Place(request["init"], request["namespace"]) if request["init"] else None
    first = place.first if place is not None else _wait_for_command(request["runner"])
    env = dict(request["env"]) if _spies(request) else _environment(first, request)
    folder = b"/" if _spies(request) else _working_folder(first)
    serve = _preloaded(request)
    sys.meta_path.clear()  # what is imported from here on would be the task's
    nowhere = os.open("/dev/null", os.O_RDWR)
    if place is not None:
        place.join_outside()
    born, tell_born = os.pipe()
    go, tell_go = os.pipe()
    _prctl(_CHILD_SUBREAPER, 1)
    middle = _fork()
    if middle == 0:
        os.close(born)
        os.close(tell_go)
        _give_up_rights(request, control, joins, place, tell_born)
        _go_in(request, control, go)
        _become(request, env, folder, serve)
    os.close(tell_born)
    os.close(go)
    child = _read_born(born, middle)
    os.waitpid(middle, 0)  # after that the grandchild is a child of ours
    _prctl(_CHILD_SUBREAPER, 0)
    if not child:
        os._exit(1)  # it said why
    _take_in_hand(child, joins, place)
    os.write(tell_go, b"1")
    for fd in range(3):
        os.dup2(nowhere, fd)
    return child


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:
        text = _ENDED if error.errno == errno.ENOMEM else f"No process can be made: {error.strerror}."
        raise Refused(text) from error


def _read_born(born: int, middle: int) -> int:
    """Pid of the grandchild; 0 when there is none. Does not wait for the end of the pipe: the task can stop the
    grandchild while that holds it open."""
    line, end = b"", monotonic() + _SET_UP
    while len(line) < _BORN_SIZE and select.select([born], [], [], max(0.0, end - monotonic()))[0]:
        part = os.read(born, _BORN_SIZE - len(line))
        if not part:
            break
        line += part
    os.close(born)
    if len(line) == _BORN_SIZE:
        return int(line)
    os.kill(middle, _KILL)  # not waited for yet, so the number is still its own
    return 0


def _take_in_hand(child: int, joins: list[int], place: Place | None) -> None:
    """Put it under the task's limits. It has none of our rights by now, and does nothing before it is told to."""
    try:
        for procs in joins:
            os.write(procs, b"%d" % child)
        if place is not None:
            _give_limits(child, place)
    except ProcessLookupError:
        return  # the task has ended it


def _wait(child: int, control: socket) -> None:
    """Until it has ended, or the server is gone. Before we have waited for it nobody else can get its number."""
    handle = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([control.fileno(), handle], [], [])
        if handle in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            _tell(control, b"exit %d" % (code if code >= 0 else 128 - code))
            os._exit(0)
        word = control.recv(64)
        if not word:
            _signal(child, _HANGUP)
            _signal(child, _CONTINUE)
            os._exit(0)
        number, group = map(int, word.split()[1:])
        _signal(child, number, group)


def _signal(child: int, number: int, group: int = 0) -> None:
    """To a group of its session, else to its own."""
    try:
        os.killpg(group if group and os.getsid(group) == child else child, number)
    except ProcessLookupError:  # it has not made its group yet
        try:
            os.kill(child, number)
        except OSError:
            return
    except OSError:
        return


# --- what the child does, out of the task's sight -----------------------------------------------------------------


def _give_up_rights(
    request: dict[str, Any], control: socket, joins: list[int], place: Place | None, tell_born: int
) -> None:
    """Returns in the grandchild alone, which has the task's own rights and nothing of the machine's."""
    try:
        for procs in joins:
            os.close(procs)
        if place is not None:
            place.join()
            _take_rights(place, request)
        child = _fork()
    except BaseException as error:
        _refuse(control, error)
    if child:
        os.write(tell_born, b"%*d" % (_BORN_SIZE, child))
        os._exit(0)
    os.close(tell_born)


# --- what the grandchild does, in this order ----------------------------------------------------------------------


def _go_in(request: dict[str, Any], control: socket, go: int) -> None:
    """From here on we are among the task's processes, with its own rights. Until we are told to go on, our parent is
    not the one whose end we are to follow, and our limits are not the task's."""
    try:
        os.setsid()
        if not os.read(go, 1):
            os._exit(1)
        if request["max_processes"]:
            _lower_limit(resource.RLIMIT_NPROC, request["max_processes"])
        if _spies(request):
            _stay_small()
        _prctl(_PDEATHSIG, _HANGUP)
        master = _take_terminal(request) if request["terminal"] else None
        _tell(control, b"ready", master)
    except BaseException as error:
        _refuse(control, error)


def _become(
    request: dict[str, Any], env: dict[bytes, bytes], folder: bytes, serve: Callable[[int, int, bytes], None] | None
) -> None:
    code = NOT_RUNNABLE
    try:
        for number in _SIGNALS:
            _libc.signal(number, None)
        os.umask(0o022)
        _close_others(_spies(request))
        _go_to(folder, env)
        if serve is not None:
            serve(0, 1, env.get(b"HOME", b"/"))
            code = 0
        else:
            code = _run(request, env)
    except BaseException as error:
        _complain(f"holdfast: {error}\n")
    os._exit(code)


def _give_limits(child: int, place: Place) -> None:
    for kind, limits in place.limits:
        try:
            resource.prlimit(child, kind, limits)
        except ProcessLookupError:
            raise
        except (OSError, ValueError):
            continue  # it may not be raised: then ours is the lower one


def _stay_small() -> None:
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_AS, _SPY_MEMORY)


def _lower_limit(kind: int, most: int) -> None:
    now = resource.getrlimit(kind)[1]
    limit = most if now == resource.RLIM_INFINITY else min(now, most)
    resource.setrlimit(kind, (limit, limit))


def _take_rights(place: Place, request: dict[str, Any]) -> None:
    """Those of the task's command. In a user namespace, only one who looks like root there has any. Who looks into
    processes may also trace them where the machine lets only their parents do so; having more rights than the task, it
    cannot be traced by it."""
    if not place.is_deeper:
        os.setgroups([int(group) for group in place.status["Groups"].split()])
    allowed = request["capabilities"] if os.getuid() == 0 else 0
    bounding = int(place.status["CapBnd"], 16)
    if _spies(request) and _permitted() & _SYS_PTRACE:
        allowed |= _SYS_PTRACE
        bounding |= _SYS_PTRACE
    for number in range(64):
        if not bounding >> number & 1 and _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # above the last one this kernel knows
    _prctl(_CAP_AMBIENT, _AMBIENT_CLEAR)
    _set_capabilities(allowed)
    for number in range(64):
        if allowed >> number & 1:
            _prctl(_CAP_AMBIENT, _AMBIENT_RAISE, number)
    _prctl(_NO_NEW_PRIVS, 1)
    _prctl(_DUMPABLE, 0)  # a change of rights may have set it anew
    if request["seccomp"]:
        _filter_calls(request["seccomp"])


def _set_capabilities(allowed: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    low, high = allowed & 0xFFFFFFFF, allowed >> 32
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)(low, low, low, high, high, high)))


def _permitted() -> int:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    found = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, found))
    return found[1] | found[4] << 32


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filter_calls(steps: bytes) -> None:
    _check(_libc.prctl(_SECCOMP, _SECCOMP_FILTER, ctypes.byref(_Program(len(steps) // 8, steps)), 0, 0))


def _take_terminal(request: dict[str, Any]) -> int:
    """A new terminal of the task's own for stdin, stdout and stderr; answers the server's side of it."""
    columns, rows = request["terminal"]
    path = "/dev/pts/ptmx" if request["init"] else "/dev/ptmx"
    master = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | (os.O_NOFOLLOW if request["init"] else 0))
    found = os.fstat(master)
    if not stat.S_ISCHR(found.st_mode) or found.st_rdev != _PTMX:
        raise Refused("The task has no terminals: its /dev/pts is not what it was.")
    fcntl.ioctl(master, _TIOCSPTLCK, b"\0\0\0\0")
    slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    termios.tcsetwinsize(slave, (rows, columns))
    modes = termios.tcgetattr(slave)
    modes[0] |= _IUTF8
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    return master


def _close_others(keep_program: bool) -> None:
    first = 3
    if keep_program:
        os.set_inheritable(PROGRAM_FD, False)
        os.closerange(3, PROGRAM_FD)
        first = PROGRAM_FD + 1
    if _libc.syscall(_CLOSE_RANGE, first, ctypes.c_uint(0xFFFFFFFF), 0) != 0:
        os.closerange(first, _MAX_FD)


def _go_to(folder: bytes, env: dict[bytes, bytes]) -> None:
    for path in (folder, env.get(b"HOME", b""), b"/"):
        try:
            os.chdir(path)
        except OSError:
            continue
        return


def _run(request: dict[str, Any], env: dict[bytes, bytes]) -> int:
    """Become the command; answers an exit code only when that is not possible."""
    if _spies(request):
        os.execve(PROGRAM_FD, request["argv"], env)
    if request["argv"]:
        return _exec(request["argv"], env)
    wanted = env.get(b"SHELL", b"")
    shells = [wanted] if wanted.startswith(b"/") else []
    shells = [path for path in (*shells, b"/bin/bash", b"/bin/sh") if os.access(path, os.X_OK)]
    if not shells:
        _complain("holdfast: there is no shell here: neither bash nor sh was found\n")
        return NOT_FOUND
    shell = shells[0]
    if request["script"]:
        return _exec([shell, b"-c", request["script"]], env)
    return _exec([b"-" + os.path.basename(shell)], env, shell)


def _exec(argv: list[bytes], env: dict[bytes, bytes], program: bytes = b"") -> int:
    name = program or argv[0]
    folders = [b""] if b"/" in name else [path + b"/" for path in env.get(b"PATH", b"/usr/bin:/bin").split(b":")]
    worst = errno.ENOENT
    for folder in folders if name else ():
        try:
            os.execve(folder + name, argv, env)
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # a script that does not name its shell
                os.execve(b"/bin/sh", [b"sh", folder + name, *argv[1:]], env)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                worst = error.errno or worst
    shown = name.decode("utf-8", "replace")
    if worst == errno.ENOENT:
        _complain(f"holdfast: {shown}: not found\n")
        return NOT_FOUND
    _complain(f"holdfast: {shown}: {os.strerror(worst)}\n")
    return NOT_RUNNABLE


def _complain(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        return


# --- looking at the task from outside, before anything is joined --------------------------------------------------


def _wait_for_command(pid: int, handle: int | None = None) -> int:
    """The command itself, or what runs around it: the oldest child of the sandbox's first process."""
    end = monotonic() + _SET_UP
    while monotonic() < end:
        try:
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
                found = file.read(64).split()
        except OSError as error:
            raise Refused(_ENDED) from error
        if found:
            return int(found[0])
        if handle is not None and _is_over(handle):
            raise Refused(_ENDED)
        sleep(_AGAIN)
    raise Refused("The task is still being set up. Try again in a moment.")


def _is_over(handle: int) -> bool:
    return bool(select.select([handle], [], [], 0)[0])


def _environment(first: int, request: dict[str, Any]) -> dict[bytes, bytes]:
    """What the task's command was given, as far as it left that alone; then what this session adds."""
    env: dict[bytes, bytes] = dict(request["plain_env"])
    end = monotonic() + _BORN
    found = _variables(_environ(first))
    while request["mark"] not in found.items() and monotonic() < end:  # it may be about to run the command
        sleep(_AGAIN)
        found = _variables(_environ(first))
    if request["mark"] in found.items():
        env.update(found)
        for name in (b"PWD", b"OLDPWD", b"SHLVL", b"_"):
            env.pop(name, None)
    env.update(request["env"])
    return env


def _environ(pid: int) -> bytes:
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return _read(fd, _MAX_ENV)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _variables(data: bytes) -> dict[bytes, bytes]:
    """A last one that is cut off is left out."""
    found = {}
    for line in data.split(b"\0")[:-1]:
        name, equals, value = line.partition(b"=")
        if name and equals:
            found[name] = value
    return found


def _working_folder(first: int) -> bytes:
    try:
        return os.readlink(b"/proc/%d/cwd" % first)
    except OSError:
        return b""


def _status(pid: int) -> dict[str, str]:
    fd = os.open(f"/proc/{pid}/status", os.O_RDONLY)
    try:
        lines = _read(fd, _SMALL_FILE).decode("ascii", "replace").splitlines()
    finally:
        os.close(fd)
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _preloaded(request: dict[str, Any]) -> Callable[[int, int, bytes], None] | None:
    """What is to be served instead of running a command."""
    return __import__("sftp").serve if request["kind"] == "sftp" else None


# --- small things -------------------------------------------------------------------------------------------------


def _read(fd: int, most: int | None) -> bytes:
    parts = []
    left = most
    while left is None or left > 0:
        part = os.read(fd, 1 << 20 if left is None else min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left = left if left is None else left - len(part)
    return b"".join(parts)


def _tell(control: socket, word: bytes, fd: int | None = None) -> None:
    more = [] if fd is None else [(SOL_SOCKET, SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
    try:
        control.sendmsg([word], more)
    except OSError:
        os._exit(1)  # the server is gone


def _refuse(control: socket, error: BaseException) -> None:
    text = str(error) if isinstance(error, Refused) else f"The task cannot be entered: {error or type(error).__name__}"
    _tell(control, b"refused " + text.encode("utf-8", "replace")[:1000])
    os._exit(1)


def _setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind))


def _prctl(option: int, *words: int) -> None:
    given = [ctypes.c_ulong(word) for word in (*words, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(option, *given))


def _check(answer: int) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
