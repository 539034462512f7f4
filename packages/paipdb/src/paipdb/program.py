"""`python -m paipdb`: runs a program in the debugger, from its first line to its end or crash."""

import bdb
import os
import sys
import threading
import types
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

import paipdb

from .debug_server import DebugServer, get_or_create_server
from .debugger import Debugger, get_or_create_debugger, is_internal_frame, post_mortem, stop_at_frame, try_open_server
from .listener import THREAD_NAME
from .shutdown import requested_exit_codes

_USAGE = "usage: python -m paipdb [-c command] (-m module | script.py) [args ...]"


def main() -> NoReturn:
    """Run a program once, in the debugger."""
    commands, argv = _parse_arguments(sys.argv[1:])
    compiled, namespace = _load_module(argv) if argv[0] == "-m" else _load_script(argv)
    server = get_or_create_server()
    if not try_open_server(server, None):
        raise SystemExit(1)
    Debugger.timeout_action = "exit"
    if hasattr(sys, "breakpointhook") and "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = lambda *_, **__: stop_at_frame(sys._getframe(1), None)
    threading.settrace(_trace_new_thread)
    debugger = get_or_create_debugger()
    debugger.rcLines.extend(commands)
    import __main__

    __main__.__dict__.clear()
    __main__.__dict__.update(namespace)
    _run_program(debugger, server, compiled, __main__.__dict__)


def _parse_arguments(argv: List[str]) -> Tuple[List[str], List[str]]:
    """Return the debugger commands of `-c`, and the program with its arguments."""
    commands = []
    while len(argv) > 1 and argv[0] == "-c":
        commands.append(argv[1])
        argv = argv[2:]
    if argv[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"{_USAGE}\n\n{paipdb.__doc__}")
        raise SystemExit(0)
    if not argv or argv == ["-m"] or (argv[0].startswith("-") and argv[0] != "-m"):
        sys.stderr.write(_USAGE + "\n")
        raise SystemExit(2)
    return commands, argv


def _load_script(argv: List[str]) -> Tuple[types.CodeType, Dict[str, Any]]:
    """Return the code and namespace of a script. Set sys.argv and sys.path for it."""
    path = os.path.abspath(argv[0])
    sys.argv[:] = argv
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        with open(path, "rb") as file:
            compiled = compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise SystemExit(f"paipdb: cannot read {argv[0]}: {error.strerror}") from None
    except (SyntaxError, ValueError):
        _exit_with_traceback()
    return compiled, {"__name__": "__main__", "__file__": path, "__spec__": None, **_COMMON_NAMESPACE}


def _load_module(argv: List[str]) -> Tuple[types.CodeType, Dict[str, Any]]:
    """Return the code and namespace of a module. Set sys.argv for it."""
    import runpy

    sys.argv[:] = argv[1:]
    try:
        _, spec, compiled = runpy._get_module_details(argv[1])  # type: ignore[attr-defined]
    except ImportError as error:
        raise SystemExit(f"paipdb: {error}") from None
    except Exception:
        _exit_with_traceback()
    sys.argv[0] = compiled.co_filename
    own = {"__file__": compiled.co_filename, "__package__": spec.parent, "__loader__": spec.loader, "__spec__": spec}
    return compiled, {"__name__": "__main__", **_COMMON_NAMESPACE, **own}


_COMMON_NAMESPACE = {"__builtins__": __builtins__, "__package__": None, "__doc__": None, "__cached__": None}


def _exit_with_traceback() -> NoReturn:
    error_type, error, traceback = sys.exc_info()
    assert error_type is not None
    assert error is not None
    sys.excepthook(error_type, error, _skip_internal_frames(traceback))
    raise SystemExit(1)


def _skip_internal_frames(traceback: Optional[types.TracebackType]) -> Optional[types.TracebackType]:
    while traceback is not None and is_internal_frame(traceback.tb_frame):
        traceback = traceback.tb_next
    return traceback


def _run_program(
    debugger: Debugger, server: DebugServer, compiled: types.CodeType, namespace: Dict[str, Any]
) -> NoReturn:
    exit_code: Any = 0
    try:
        debugger.run_as_main(compiled, namespace)
        message = "The program finished."
    except SystemExit as system_exit:
        exit_code = system_exit.code
        message = f"The program exited via sys.exit(). Exit status: {exit_code}"
    except Exception as error:
        exit_code = 1
        message = "The program ends with exit code 1."
        _debug_crash(debugger, error)
    if not requested_exit_codes:
        numeric_code = exit_code if isinstance(exit_code, int) else int(exit_code is not None)
        server.send_event({"event": "end", "code": numeric_code})
        server.write(message + "\n")
    raise SystemExit(exit_code)


def _debug_crash(debugger: Debugger, error: Exception) -> None:
    """Print the traceback as Python does, then open the debugger at the exception."""
    traceback = _skip_internal_frames(error.__traceback__)
    error.__traceback__ = traceback
    sys.excepthook(type(error), error, traceback)
    if traceback is None:
        return
    debugger.has_crashed = True
    debugger.console.write(f"Uncaught exception: {type(error).__name__}: {error}\n")
    debugger.console.write("The program has stopped at the exception; c and q end it with exit code 1.\n")
    post_mortem(error)


def _trace_new_thread(frame: types.FrameType, event: str, arg: Any) -> Optional[Callable[..., Any]]:
    """Trace a new thread only if there are breakpoints. Other threads run at full speed."""
    sys.settrace(None)
    if not bdb.Breakpoint.bplist or threading.current_thread().name == THREAD_NAME:
        return None
    debugger = get_or_create_debugger()
    debugger.reset()
    debugger.botframe = frame.f_back
    debugger._set_stopinfo(debugger.botframe, None, -1)  # type: ignore[attr-defined]
    for file, line in bdb.Breakpoint.bplist:
        debugger.breaks.setdefault(file, [])
        if line not in debugger.breaks[file]:
            debugger.breaks[file].append(line)
    sys.settrace(debugger.trace_dispatch)
    return debugger.trace_dispatch(frame, event, arg)
