"""Python tracebacks in a log: their exceptions, frames and causes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from holdfast.core.verdicts import Frame

from .log_text import LogText

_TRACEBACK_HEADER = b"traceback (most recent call last)"
_SYNTAX_ERROR_LITERALS = (b"syntaxerror:", b"indentationerror:", b"taberror:")
MAX_LAST_TRACEBACKS = 40  # tracebacks that are parsed, from the end
MAX_FIRST_TRACEBACKS = 6  # and from the beginning
MAX_TRACEBACK_LINES = 400  # lines of one
MAX_MESSAGE_LINES = 12  # lines of an exception's message
_FRAME_PATTERN = re.compile(
    r'[\s>]{0,40}File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?'
)
_EXCEPTION_PATTERN = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,150})(?:\([\w.]{1,100}\))?(?:: ?(?P<message>.{0,400}))?$")
_DURING_HANDLING_TEXT = "During handling of the above exception, another exception occurred:"
_DIRECT_CAUSE_TEXT = "The above exception was the direct cause of the following exception:"
_LIBRARY_PATH_PATTERN = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^/run/holdfast/|^/usr/lib/|\.pyx$"
    r"|^<frozen |^<string>$|^<__array_function__"
)
_VENDORED_PATH_PATTERN = re.compile(r"(?:^|/)(?:libs?|vendor(?:ed)?|third[_-]party|external|\.?venv|env)/")
_NOTEBOOK_HEADER_PATTERN = re.compile(
    r"\s{0,4}(?P<type>[A-Za-z_][\w.]{0,100}) {2,200}Traceback \(most recent call last\)"
)
_NOTEBOOK_FRAME_PATTERN = re.compile(
    r"Cell In ?\[\d{1,6}\], line (?P<cell>\d{1,9})"
    r"|File (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9})(?:, in (?P<function>\w{1,100}))?"
)
_BOXED_FRAME_PATTERN = re.compile(
    r"\u2502 (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9}) in (?P<function>[^\s\u2502]{1,100})"
)
# Lines before a traceback that Python ignored, usually at interpreter exit.
_IGNORED_ERROR_TEXTS = (
    "Exception ignored in",
    "Exception ignored on",
    "Error in atexit",
    "exception was never retrieved",
)
_LOGGED_ERROR_PATTERN = re.compile(
    r"\b(?:error|warn|warning|critical|exception|failed|failure|retry|retrying)\b", re.IGNORECASE
)
_NON_EXCEPTION_NAMES = frozenset({"Traceback", "File", "During", "The", "Original"})


@dataclass(slots=True)
class Traceback:
    """One exception with its frames."""

    start: int  # line of its header
    at: int  # line that names the exception
    end: int  # last line of its message
    type: str
    message: str
    frames: tuple[Frame, ...]
    prefix: str = ""  # prefix of each of its lines, such as a rank
    cause: Traceback | None = None  # the exception before it in the chain
    deliberate: bool = False  # it was raised because of `cause`
    logged: bool = False  # the program logged it and may have continued

    @property
    def own_frame(self) -> Frame | None:
        """Last frame in the user's own code. Vendored libraries count only if there is no other code."""
        own = [frame for frame in self.frames if not _LIBRARY_PATH_PATTERN.search(frame.file)]
        if not own:
            return None
        home = own[0].file.rpartition("/")[0] + "/" if "/" in own[0].file else ""
        beside = [frame for frame in own if frame.file.startswith(home)]
        written = [frame for frame in beside if not _VENDORED_PATH_PATTERN.search(frame.file[len(home) :])]
        return written[-1] if written and _VENDORED_PATH_PATTERN.search(own[-1].file) else own[-1]

    @property
    def raised_in(self) -> str:
        """Last frame as file:function, without folders."""
        last = self.frames[-1] if self.frames else None
        return f"{last.file.rsplit('/', 1)[-1]}:{last.function}" if last else ""

    @property
    def name(self) -> str:
        """Name of the exception without its modules."""
        return self.type.rsplit(".", 1)[-1]

    def list_chain(self) -> list[Traceback]:
        """Return the exceptions that led to it and itself, in order."""
        found: list[Traceback] = []
        trace: Traceback | None = self
        while trace is not None and len(found) < MAX_LAST_TRACEBACKS:
            found.append(trace)
            trace = trace.cause
        return found[::-1]


def find_tracebacks(text: LogText) -> list[Traceback]:
    """Return all tracebacks in the order of their lines, each linked to its cause."""
    headers = {
        text.find_line_number(place) for place in text.iter_last_positions(_TRACEBACK_HEADER, MAX_LAST_TRACEBACKS)
    }
    headers |= {
        text.find_line_number(place) for place in text.iter_first_positions(_TRACEBACK_HEADER, MAX_FIRST_TRACEBACKS)
    }
    traces: list[Traceback] = []
    for number in sorted(headers):
        if text.is_time_up():
            break
        before = text.get_line(number - 1) if number else ""
        if any(sign in before for sign in _IGNORED_ERROR_TEXTS):
            continue
        if not traces or number > traces[-1].end or traces[-1].prefix:
            found = _parse_any_traceback(text, number)
            for trace in found:
                trace.logged = _LOGGED_ERROR_PATTERN.search(before) is not None
            traces += found
    traces += [trace for trace in _find_syntax_errors(text) if not any(t.start <= trace.at <= t.end for t in traces)]
    traces.sort(key=lambda trace: trace.at)
    _link_causes(text, traces)
    return traces


def has_interrupted_traceback(text: LogText) -> bool:
    """Whether other output interrupts the last traceback, so that it cannot be parsed."""
    place = next(text.iter_last_positions(_TRACEBACK_HEADER, 1), None)
    if place is None:
        return False
    header = text.find_line_number(place)
    found = _parse_any_traceback(text, header)
    return not found or (found[-1].type[0].islower() and "." not in found[-1].type)


def _parse_any_traceback(text: LogText, header: int) -> list[Traceback]:
    parsers = (_parse_traceback, _parse_notebook_traceback, _parse_boxed_traceback)
    return next((found for parse in parsers if (found := parse(text, header))), [])


def _parse_traceback(text: LogText, header: int) -> list[Traceback]:
    """Parse one traceback, or several if the exception's message contains that of another process."""
    first = text.get_line(header)
    prefix = _find_line_prefix_pattern(first[: first.lower().index("traceback (most")], text, header)
    frames: list[Frame] = []
    number = header + 1
    skipped = 0
    last = min(len(text), header + MAX_TRACEBACK_LINES)
    while number < last:
        line = _strip_line_prefix(prefix, text.get_line(number))
        if line is None:
            skipped += 1
            if skipped > 50:
                return []
            number += 1
            continue
        frame = _FRAME_PATTERN.match(line)
        if frame:
            number, code = _parse_frame_code(text, number + 1, prefix, last)
            frames.append(_build_frame(frame, code))
            continue
        if line.strip() and not line[0].isspace():
            found = _EXCEPTION_PATTERN.match(line.rstrip())
            if found and frames and found["type"] not in _NON_EXCEPTION_NAMES:
                return _build_tracebacks(text, header, number, prefix, found, frames)
            if "Traceback (most recent call last)" not in line:  # tracebacks of several processes can be interleaved
                return []
        number += 1
    return []


def _parse_notebook_traceback(text: LogText, header: int) -> list[Traceback]:
    """Parse IPython's format: the exception before and after, cells and files in between."""
    head = _NOTEBOOK_HEADER_PATTERN.match(text.get_line(header))
    if not head:
        return []
    frames: list[Frame] = []
    for number in range(header + 1, min(len(text), header + MAX_TRACEBACK_LINES)):
        line = text.get_line(number)
        found = _NOTEBOOK_FRAME_PATTERN.match(line)
        if found:
            place = found["file"] or "cell"
            at = int(found["line"] or found["cell"])
            frames.append(Frame(file=place, line=at, function=found["function"] or ""))
        elif frames and line.startswith(f"{head['type']}:"):
            message = line[len(head["type"]) + 1 :].strip()
            return [Traceback(header, number, number, head["type"], message, tuple(frames))]
    return []


def _parse_boxed_traceback(text: LogText, header: int) -> list[Traceback]:
    """Parse the format of the library rich: the frames in a box, the exception below."""
    if not text.get_line(header).lstrip().startswith("\u256d"):
        return []
    frames: list[Frame] = []
    for number in range(header + 1, min(len(text), header + MAX_TRACEBACK_LINES)):
        line = text.get_line(number)
        found = _BOXED_FRAME_PATTERN.match(line)
        if found:
            frames.append(Frame(file=found["file"], line=int(found["line"]), function=found["function"]))
        elif frames and not line.startswith(("\u2502", "\u2570")) and line.strip():
            named = _EXCEPTION_PATTERN.match(line.rstrip())
            if not named:
                return []
            return [Traceback(header, number, number, named["type"], named["message"] or "", tuple(frames))]
    return []


def _build_tracebacks(
    text: LogText, start: int, at: int, prefix: str, found: re.Match[str], frames: list[Frame]
) -> list[Traceback]:
    end, lines = at, [found["message"] or ""]
    for number in range(at + 1, min(len(text), at + MAX_MESSAGE_LINES)):
        line = _strip_line_prefix(prefix, text.get_line(number))
        if line is None or _FRAME_PATTERN.match(line):
            break
        if not line.strip():
            if lines[0].endswith(":") and number == at + 1:
                continue
            break
        if "Traceback (most recent" in line or not (line[0].isspace() or lines[0].endswith(":") or "NCCL" in lines[0]):
            break
        end = number
        lines.append(line.strip())
    trace = Traceback(start, at, end, found["type"], "\n".join(lines), tuple(frames), prefix)
    inner = _parse_inner_traceback(text, end + 1, prefix)
    if inner is not None:  # such as Ray's: the frames of the other process follow
        trace.cause = inner
        trace.deliberate = True
        trace.end = inner.end
        return [inner, trace]
    return [trace]


def _parse_inner_traceback(text: LogText, number: int, prefix: str) -> Traceback | None:
    first = _strip_line_prefix(prefix, text.get_line(number)) if number < len(text) else None
    if first is None or not _FRAME_PATTERN.match(first):
        return None
    start, frames = number, list[Frame]()
    last = min(len(text), start + MAX_TRACEBACK_LINES)
    while number < last:
        line = _strip_line_prefix(prefix, text.get_line(number))
        frame = _FRAME_PATTERN.match(line) if line else None
        if frame:
            number, code = _parse_frame_code(text, number + 1, prefix, last)
            frames.append(_build_frame(frame, code))
            continue
        found = _EXCEPTION_PATTERN.match(line.rstrip()) if line else None
        if not found:
            return None
        return Traceback(start, number, number, found["type"], found["message"] or "", tuple(frames), prefix)
    return None


def _parse_frame_code(text: LogText, number: int, prefix: str, last: int) -> tuple[int, str]:
    """Return the number of the next line after a frame's code and markers (at most `last`), and the line of code."""
    code = ""
    while number < last:
        line = _strip_line_prefix(prefix, text.get_line(number))
        if line is None or not line.startswith("    ") or _FRAME_PATTERN.match(line):
            break
        if not code and line.strip(" ~^"):
            code = line.strip()[:200]
        number += 1
    return number, code


def _build_frame(found: re.Match[str], code: str) -> Frame:
    return Frame(file=found["file"], line=int(found["line"]), function=(found["function"] or "").strip(), code=code)


def _find_line_prefix_pattern(before: str, text: LogText, header: int) -> str:
    """Return a pattern for the prefix of every line, such as `[rank0]: `; empty if only the first has it."""
    if not before.strip() or len(before) > 120 or header + 1 >= len(text):
        return ""
    shape = re.sub(r"\d+", r"\\d{1,20}", re.escape(before))
    return shape if re.match(shape, text.get_line(header + 1)) else ""


def _strip_line_prefix(prefix: str, line: str) -> str | None:
    if not prefix:
        return line
    found = re.match(prefix, line)
    return line[found.end() :] if found else None


def _find_syntax_errors(text: LogText) -> Iterator[Traceback]:
    """Find errors of programs that Python could not parse: they have no traceback header."""
    for literal in _SYNTAX_ERROR_LITERALS:
        for place in text.iter_last_positions(literal, 4):
            at = text.find_line_number(place)
            found = _EXCEPTION_PATTERN.match(text.get_line(at).rstrip())
            if not found:
                continue
            for number in range(at - 1, max(at - 5, -1), -1):
                frame = _FRAME_PATTERN.match(text.get_line(number))
                if frame:
                    _, code = _parse_frame_code(text, number + 1, "", at)
                    yield Traceback(number, at, at, found["type"], found["message"] or "", (_build_frame(frame, code),))
                    break


def _link_causes(text: LogText, traces: list[Traceback]) -> None:
    for before, after in pairwise(traces):
        if after.cause is not None or after.start <= before.at:
            continue
        if after.start - before.end > 40:
            continue
        between = "\n".join(text.get_line(number) for number in range(before.end + 1, after.start))
        if _DIRECT_CAUSE_TEXT in between:
            after.cause, after.deliberate = before, True
        elif _DURING_HANDLING_TEXT in between:
            after.cause, after.deliberate = before, _is_raised_deliberately(before, after)


def _is_raised_deliberately(before: Traceback, after: Traceback) -> bool:
    """Whether it was raised on purpose while `before` was handled: by the user's own code, or by a library within the
    call that failed first."""
    own, earlier = after.own_frame, before.own_frame
    if own is not None and own.code.startswith("raise "):
        return True
    last = after.frames[-1] if after.frames else None
    if last is None or last is own or not last.code.startswith("raise "):
        return False
    return earlier is None or own is None or (earlier.file, earlier.line) == (own.file, own.line)
