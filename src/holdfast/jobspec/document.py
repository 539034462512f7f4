"""Job file text -> a tree of values that know their lines.

Built for hostile input: everything that could grow (size, depth, number of values, repetition by anchors) has a
budget, and whatever is wrong with the text comes out as InvalidJob. Says nothing about what the values mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, cast

import yaml

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.messages import join_messages, msg

from .paths import clip, render_path
from .scalars import NumberTooLong, Scalar, resolve

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # pragma: no cover - PyYAML without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

# Without libyaml reading is some ten times slower, so a smaller file takes as long.
MAX_BYTES = 1024 * 1024 if yaml.__with_libyaml__ else 128 * 1024
MAX_DEPTH = 64
MAX_NODES = 50_000

Value = Scalar | dict[str, "Node"] | list["Node"]


@dataclass(slots=True)
class Node:
    """One value of the file."""

    value: Value
    line: int | None = None  # of its key, else of itself
    written: str | None = None  # a plain YAML scalar as the file spells it: 1.10, 007, yes

    def plain(self) -> Any:
        """The same value as ordinary dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


@dataclass(frozen=True, slots=True)
class Document:
    root: Node
    problems: tuple[Problem, ...] = ()  # wrong, yet not in the way of reading on
    json_text: str | None = None  # set when it was read as JSON, which gives no lines


def read_document(data: str | bytes) -> Document:
    """YAML or JSON text to a tree. InvalidJob when it is neither, or too much."""
    text = _decode(data)
    if not text.lstrip().startswith(("{", "[")):
        return _read_yaml(text)
    try:
        root = _read_json(text)
        root.line = text.count("\n", 0, len(text) - len(text.lstrip())) + 1
        return Document(root, json_text=text)
    except json.JSONDecodeError as error:
        return _read_flow_yaml(text, error)
    except _DuplicateKey as error:
        return _read_duplicate(text, error.key)
    except InvalidJob as refusal:
        raise _with_line(refusal, text) from None


def _with_line(refusal: InvalidJob, json_text: str) -> InvalidJob:
    """What is wrong with JSON, where the YAML reader stumbles over the same thing."""
    if refusal.problems[0].line is not None:
        return refusal
    try:
        _read_yaml(_PAIR.sub(_join_pair, json_text), spelling=False)
    except InvalidJob as same:
        line = same.problems[0].line
        return InvalidJob([replace(problem, line=line) for problem in refusal.problems])
    return refusal


def with_lines(document: Document) -> Document | None:
    """A JSON document read again by the YAML reader, which knows lines; None where that does not work."""
    if document.json_text is None:
        return None
    try:
        return _read_yaml(_PAIR.sub(_join_pair, document.json_text), spelling=False)
    except InvalidJob:
        return None


# A character beyond the first 65536 as JSON may spell it, and YAML may not; told apart from an escaped backslash.
_PAIR = re.compile(r"\\\\|\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def _join_pair(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    high, low = int(found[1], 16), int(found[2], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


def _refuse(message: str, *, hint: str | None = None, line: int | None = None) -> NoReturn:
    raise InvalidJob([Problem("", message, hint, line, "syntax")])


# -- bytes to text ----------------------------------------------------------------------------------------------------


def _decode(data: str | bytes) -> str:
    _check_size(len(data))
    if isinstance(data, bytes):
        text = _decode_bytes(data)
    else:
        text = data.removeprefix("\ufeff")
    at = text.find("\0")
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        _refuse(msg("The file holds a NUL byte"), hint=msg("Job files are plain text."), line=line)
    if not text.strip():
        _refuse(msg("The file is empty"), hint=msg("A job needs at least a name and a command."), line=1)
    return text


def _decode_bytes(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _refuse(msg("The file is UTF-16 text"), hint=msg("Save it as UTF-8."), line=1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _refuse(msg("The file is not UTF-8 text"), hint=msg("Save it as UTF-8."), line=line)


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        _refuse(
            msg(
                "The file is too large: {size} bytes; at most {max_bytes} are read",
                size=f"{size:,}",
                max_bytes=f"{MAX_BYTES:,}",
            ),
            hint=msg("Put data and programs into files the job reads, not into the job file."),
        )


# -- budgets ----------------------------------------------------------------------------------------------------------


class _Budget:
    """How much has been built so far, with everything an anchor repeats counted again."""

    def __init__(self) -> None:
        self.nodes = 0
        self.chars = 0

    def spend(self, nodes: int, chars: int, line: int | None = None) -> None:
        self.nodes += nodes
        self.chars += chars
        if self.nodes > MAX_NODES:
            _refuse(msg("The file holds more than {max_nodes} values", max_nodes=MAX_NODES), line=line)
        if self.chars > MAX_BYTES:
            _refuse(msg("The file's anchors repeat too much text"), line=line)


def _check_depth(depth: int, line: int | None = None) -> None:
    if depth > MAX_DEPTH:
        _refuse(msg("The file is nested more than {max_depth} levels deep", max_depth=MAX_DEPTH), line=line)


# -- YAML -------------------------------------------------------------------------------------------------------------

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STANDARD_TAG = "tag:yaml.org,2002:"
_TAGGED_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": (int, float), "bool": bool, "null": type(None),
}  # fmt: skip

# What libyaml says -> what helps.
_HINTS = (
    (msg("found a tab character"), msg("Indent with spaces, not tabs.")),
    (
        msg("cannot start any token"),
        msg("Indent with spaces, not tabs, and quote text that starts with a special sign."),
    ),
    (
        msg("mapping values are not allowed"),
        msg("Check the indentation of this line, and quote text that holds a colon and a space."),
    ),
    (
        msg("could not find expected ':'"),
        msg("Every key is followed by a colon and a space; check quotes and indentation."),
    ),
    (msg("did not find expected key"), msg("Check the indentation of this line against its neighbours.")),
    (msg("did not find expected '-'"), msg("Check the indentation of this list against its neighbours.")),
    (msg("unexpected end of stream"), msg("A quote or a bracket is opened and never closed.")),
    (msg("expected <document start>"), msg("A file holds one job; check the lines that start with --- or three dots.")),
    (msg("did not find expected ','"), msg("A bracket is opened and never closed.")),
)


def _read_yaml(text: str, *, spelling: bool = True) -> Document:
    bad = _FORBIDDEN.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        _refuse(msg("The file holds a control character (U+{bad})", bad=f"{ord(bad.group()):04X}"), line=line)
    reader = _YamlReader(text, spelling)
    try:
        root = reader.read()
    except yaml.MarkedYAMLError as error:
        _refuse_syntax(error)
    except yaml.YAMLError as error:
        _refuse(msg("The file is not valid YAML: {error}", error=error))
    return Document(root, tuple(reader.problems))


def _refuse_syntax(error: yaml.MarkedYAMLError) -> NoReturn:
    said = join_messages(", ", filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    hint = next((hint for words, hint in _HINTS if words in said), None)
    _refuse(msg("The file is not valid YAML: {said}", said=said), hint=hint, line=mark.line + 1 if mark else None)


@dataclass(frozen=True, slots=True)
class _Anchored:
    node: Node
    nodes: int
    chars: int


class _YamlReader:
    """Events of one YAML document to nodes."""

    def __init__(self, text: str, spelling: bool) -> None:
        self.problems: list[Problem] = []
        self._spelling = spelling
        self._events: Iterator[Any] = cast(Iterator[Any], yaml.parse(text, Loader=_Loader))
        self._budget = _Budget()
        self._anchors: dict[str, _Anchored | None] = {}  # None: still open
        self._path: list[str | int] = []

    def read(self) -> Node:
        next(self._events)  # stream start
        if not isinstance(next(self._events), yaml.DocumentStartEvent):
            _refuse(msg("The file is empty"), hint=msg("A job needs at least a name and a command."), line=1)
        root = self._node(next(self._events), 0)
        next(self._events)  # document end
        after: Any = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            line = after.start_mark.line + 1
            _refuse(msg("The file holds more than one document"), hint=msg("Submit one job per file."), line=line)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        line = event.start_mark.line + 1
        anchor: str | None = event.anchor
        if anchor is None:
            return self._content(event, depth, line)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(anchor, line)
        self._anchors[anchor] = None
        nodes, chars = self._budget.nodes, self._budget.chars
        node = self._content(event, depth, line)
        self._anchors[anchor] = _Anchored(node, self._budget.nodes - nodes, self._budget.chars - chars)
        return node

    def _content(self, event: Any, depth: int, line: int) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            self._budget.spend(1, len(event.value), line)
            return self._scalar(event, line)
        self._budget.spend(1, 0, line)
        _check_depth(depth + 1, line)
        if isinstance(event, yaml.SequenceStartEvent):
            _check_tag(event.tag, "seq", line)
            return self._list(depth + 1, line)
        _check_tag(event.tag, "map", line)
        return self._mapping(depth + 1, line)

    def _alias(self, name: str, line: int) -> Node:
        if name not in self._anchors:
            _refuse(msg("There is no anchor &{name} above this line", name=clip(name)), line=line)
        known = self._anchors[name]
        if known is None:
            _refuse(msg("The anchor &{name} repeats itself without end", name=clip(name)), line=line)
        self._budget.spend(known.nodes, known.chars, line)
        return replace(known.node, line=line)

    def _scalar(self, event: Any, line: int) -> Node:
        text: str = event.value
        if "\0" in text:
            _refuse(msg("The file holds a NUL character"), hint=msg("Job files are plain text."), line=line)
        if event.tag is None:
            if not event.implicit[0]:
                return Node(text, line)
            return Node(_resolve(text, line), line, text if self._spelling else None)
        if event.tag in ("!", f"{_STANDARD_TAG}str"):
            return Node(text, line)
        return Node(_tagged(event.tag, text, line), line, text if self._spelling else None)

    def _list(self, depth: int, line: int) -> Node:
        items: list[Node] = []
        self._path.append(0)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._path[-1] = len(items)
            items.append(self._node(event, depth))
        self._path.pop()
        return Node(items, line)

    def _mapping(self, depth: int, line: int) -> Node:
        entries: dict[str, Node] = {}
        merges: list[Node] = []
        self._path.append("")
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, key_line = self._key(event), event.start_mark.line + 1
            merging = key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]
            self._path[-1] = key
            child = self._node(next(self._events), depth)
            child.line = key_line
            if merging:
                merges.append(child)
            elif key in entries:
                self._duplicate(entries[key].line, key_line)
            else:
                entries[key] = child
        self._path.pop()
        for child in merges:
            self._merge(entries, child)
        return Node(entries, line)

    def _key(self, event: Any) -> str:
        """Keys are taken as they are spelled: `on` and `1` are just names here."""
        line = event.start_mark.line + 1
        node = self._node(event, MAX_DEPTH - 1) if isinstance(event, yaml.AliasEvent | yaml.ScalarEvent) else None
        if node is None or isinstance(node.value, dict | list):
            _refuse(msg("A key must be plain text"), hint=msg("Quote keys that start with [ or {."), line=line)
        if isinstance(node.value, str):
            return node.value
        return node.written if node.written is not None else str(node.value)

    def _merge(self, entries: dict[str, Node], child: Node) -> None:
        """`<<: *defaults`: keys written out win over merged ones, earlier merges over later."""
        sources = child.value if isinstance(child.value, list) else [child]
        for source in sources:
            if not isinstance(source.value, dict):
                _refuse(msg("<< takes a mapping or a list of mappings"), line=child.line)
            for key, node in source.value.items():
                entries.setdefault(key, node)

    def _duplicate(self, first: int | None, second: int) -> None:
        if len(self.problems) < 20:
            message = msg("is written twice, on lines {first} and {second}", first=first, second=second)
            self.problems.append(
                Problem(render_path(self._path), message, msg("Keep one of the two."), second, "uniqueKeys")
            )


def _resolve(text: str, line: int) -> Scalar:
    try:
        return resolve(text)
    except NumberTooLong:
        _refuse(
            msg("The number {text} is too large", text=clip(text)),
            hint=msg("Quote it if it is meant as text."),
            line=line,
        )


def _tagged(tag: str, text: str, line: int) -> Scalar:
    wanted = _TAGGED_TYPES.get(tag.removeprefix(_STANDARD_TAG)) if tag.startswith(_STANDARD_TAG) else None
    if wanted is None:
        _refuse_tag(tag, line)
    value = _resolve(text, line)
    if not isinstance(value, wanted):
        _refuse(
            msg(
                "{text} does not fit its tag !!{standard_tag}",
                text=repr(clip(text)),
                standard_tag=tag.removeprefix(_STANDARD_TAG),
            ),
            line=line,
        )
    return value


def _check_tag(tag: str | None, standard: str, line: int) -> None:
    if tag not in (None, "!", _STANDARD_TAG + standard):
        _refuse_tag(tag, line)


def _refuse_tag(tag: str, line: int) -> NoReturn:
    shown = tag.replace(_STANDARD_TAG, "!!")
    _refuse(
        msg("The tag {shown} is not accepted", shown=clip(shown)),
        hint=msg("Job files are plain data: leave tags out."),
        line=line,
    )


# -- JSON -------------------------------------------------------------------------------------------------------------

_TOO_LARGE = (float("inf"), float("-inf"))
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def _read_json(text: str) -> Node:
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=partial(_refuse_constant, text))
    except RecursionError:
        _refuse(msg("The file is nested more than {max_depth} levels deep", max_depth=MAX_DEPTH))
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits
        _refuse(msg("The file holds a number that is too large"))
    return _json_node(value, 0, _Budget())


def _read_flow_yaml(text: str, json_error: json.JSONDecodeError) -> Document:
    """Text that starts like JSON and is not: YAML's own {…} form, or JSON with a mistake."""
    try:
        return _read_yaml(text)
    except InvalidJob:
        if not re.match(r'\s*[{\[]\s*["{\[]', text):
            raise
    hint = (
        msg("JSON has no comments and no comma after the last item.") if re.search(r"//|/\*|,\s*[}\]]", text) else None
    )
    _refuse(msg("The file is not valid JSON: {msg}", msg=json_error.msg), hint=hint, line=json_error.lineno)


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return entries


def _read_duplicate(text: str, key: str) -> Document:
    """The YAML reader knows where both stand, if it can read this JSON."""
    try:
        return _read_yaml(text, spelling=False)
    except InvalidJob:
        line = _line_at(text, text.find(json.dumps(key, ensure_ascii=False)))
        _refuse(msg("The key {key} is written twice", key=repr(clip(key))), hint=msg("Keep one of the two."), line=line)


def _refuse_constant(text: str, name: str) -> NoReturn:
    outside = (found.start() for found in _CONSTANT.finditer(text) if found[1] == name)
    line = _line_at(text, next(outside, 0))
    _refuse(msg("The file holds {name}, which is not a number JSON knows", name=name), line=line)


_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)  # whole texts, so as not to look into them


def _line_at(text: str, index: int) -> int:
    return text.count("\n", 0, max(0, index)) + 1


def _json_node(value: Any, depth: int, budget: _Budget) -> Node:
    _check_depth(depth)
    if isinstance(value, str):
        budget.spend(1, len(value))
        return Node(_storable(value))
    budget.spend(1, 0)
    if isinstance(value, dict):
        return Node({_storable(key): _json_node(child, depth + 1, budget) for key, child in value.items()})
    if isinstance(value, list):
        return Node([_json_node(child, depth + 1, budget) for child in value])
    if value in _TOO_LARGE or (isinstance(value, int) and value.bit_length() > 330):
        _refuse(msg("The file holds a number that is too large"))
    return Node(value)


def _storable(text: str) -> str:
    if _UNSTORABLE.search(text):
        _refuse(
            msg("The file holds a NUL character or half of a surrogate pair"), hint=msg("Job files are plain text.")
        )
    return text
