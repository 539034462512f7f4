"""Job file text -> a tree of values with line numbers.

Built for hostile input: everything that could grow (size, depth, number of values, expansion of anchors) has a limit,
and every error is an InvalidJob. Does not interpret the values.
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

from .paths import clip_text, format_path
from .scalars import NumberTooLong, Scalar, resolve_scalar

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # pragma: no cover - PyYAML without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

# Without libyaml parsing is about ten times slower, so the limit is lower.
MAX_FILE_SIZE = 1024 * 1024 if yaml.__with_libyaml__ else 128 * 1024
MAX_DEPTH = 64
MAX_NODES = 50_000

NodeValue = Scalar | dict[str, "DocumentNode"] | list["DocumentNode"]


@dataclass(slots=True)
class DocumentNode:
    """One value of the file."""

    value: NodeValue
    line: int | None = None  # line of its key, else of the value
    source_text: str | None = None  # a plain YAML scalar as the file spells it: 1.10, 007, yes

    def to_plain(self) -> Any:
        """Convert to ordinary dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: child.to_plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.to_plain() for child in self.value]
        return self.value


@dataclass(frozen=True, slots=True)
class Document:
    root: DocumentNode
    problems: tuple[Problem, ...] = ()  # problems that do not stop parsing
    json_text: str | None = None  # set when it was parsed as JSON, without lines


def parse_document(data: str | bytes) -> Document:
    """Parse YAML or JSON text; InvalidJob if it is neither, or too large."""
    text = decode_text(data)
    if not text.lstrip().startswith(("{", "[")):
        return _parse_yaml(text)
    try:
        root = _parse_json(text)
        root.line = text.count("\n", 0, len(text) - len(text.lstrip())) + 1
        return Document(root, json_text=text)
    except json.JSONDecodeError as error:
        return _parse_flow_yaml(text, error)
    except _DuplicateKey as error:
        return _parse_with_duplicate_key(text, error.key)
    except InvalidJob as refusal:
        raise _add_error_line(refusal, text) from None


def _add_error_line(refusal: InvalidJob, json_text: str) -> InvalidJob:
    """Add the line to a JSON error, if the YAML reader fails at the same point."""
    if refusal.problems[0].line is not None:
        return refusal
    try:
        _parse_yaml(_SURROGATE_PAIR_PATTERN.sub(_join_surrogates, json_text), spelling=False)
    except InvalidJob as same:
        line = same.problems[0].line
        return InvalidJob([replace(problem, line=line) for problem in refusal.problems])
    return refusal


def reparse_with_lines(document: Document) -> Document | None:
    """Parse a JSON document again with the YAML reader, which knows lines; None if that fails."""
    if document.json_text is None:
        return None
    try:
        return _parse_yaml(_SURROGATE_PAIR_PATTERN.sub(_join_surrogates, document.json_text), spelling=False)
    except InvalidJob:
        return None


# A surrogate pair, which is valid in JSON but not in YAML; not an escaped backslash.
_SURROGATE_PAIR_PATTERN = re.compile(r"\\\\|\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def _join_surrogates(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    high, low = int(found[1], 16), int(found[2], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


def _raise_invalid(message: str, *, hint: str | None = None, line: int | None = None) -> NoReturn:
    raise InvalidJob([Problem("", message, hint, line, "syntax")])


# -- decoding ---------------------------------------------------------------------------------------------------------


def decode_text(data: str | bytes) -> str:
    _check_size(len(data))
    text = _decode_bytes(data) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    at = text.find("\0")
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        _raise_invalid(msg("The file contains a NUL byte"), hint=msg("Save the job file as plain text."), line=line)
    if not text.strip():
        _raise_invalid(msg("The file is empty"), hint=msg("Add at least a name and a command."), line=1)
    return text


def _decode_bytes(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _raise_invalid(msg("The file is UTF-16 text"), hint=msg("Save it as UTF-8."), line=1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _raise_invalid(msg("The file is not UTF-8 text"), hint=msg("Save it as UTF-8."), line=line)


def _check_size(size: int) -> None:
    if size > MAX_FILE_SIZE:
        _raise_invalid(
            msg(
                "The file is too large: {size} bytes; the limit is {max_bytes} bytes",
                size=f"{size:,}",
                max_bytes=f"{MAX_FILE_SIZE:,}",
            ),
            hint=msg("Move data and programs from the job file to files that the job reads."),
        )


# -- limits -----------------------------------------------------------------------------------------------------------


class _Budget:
    """Counts the parsed data, including everything that anchors repeat."""

    def __init__(self) -> None:
        self.nodes = 0
        self.chars = 0

    def add_usage(self, nodes: int, chars: int, line: int | None = None) -> None:
        self.nodes += nodes
        self.chars += chars
        if self.nodes > MAX_NODES:
            _raise_invalid(msg("The file contains more than {max_nodes} values", max_nodes=MAX_NODES), line=line)
        if self.chars > MAX_FILE_SIZE:
            _raise_invalid(msg("The file's anchors expand to too much text"), line=line)


def _check_depth(depth: int, line: int | None = None) -> None:
    if depth > MAX_DEPTH:
        _raise_invalid(msg("The file is nested more than {max_depth} levels deep", max_depth=MAX_DEPTH), line=line)


# -- YAML -------------------------------------------------------------------------------------------------------------

_FORBIDDEN_CHAR_PATTERN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STANDARD_TAG = "tag:yaml.org,2002:"
_TAGGED_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": (int, float), "bool": bool, "null": type(None),
}  # fmt: skip

# libyaml's error -> hint.
_SYNTAX_HINTS = {
    "found a tab character": msg("Indent with spaces, not tabs."),
    "cannot start any token": msg("Indent with spaces, not tabs, and quote text that starts with a special character."),
    "mapping values are not allowed": msg(
        "Check the indentation of this line, and quote text that contains a colon and a space."
    ),
    "could not find expected ':'": msg("Add a colon and a space after every key; check quotes and indentation."),
    "did not find expected key": msg("Compare the indentation of this line with the lines around it."),
    "did not find expected '-'": msg("Compare the indentation of this list with the lines around it."),
    "unexpected end of stream": msg("Close the open quote or bracket."),
    "expected <document start>": msg("Write one job per file; check the lines that start with --- or three dots."),
    "did not find expected ','": msg("Close the open bracket."),
}


def _parse_yaml(text: str, *, spelling: bool = True) -> Document:
    bad = _FORBIDDEN_CHAR_PATTERN.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        code = f"{ord(bad.group()):04X}"
        _raise_invalid(msg("The file contains a control character (U+{code_point})", code_point=code), line=line)
    reader = _YamlReader(text, spelling)
    try:
        root = reader.read_root()
    except yaml.MarkedYAMLError as error:
        _raise_syntax_error(error)
    except yaml.YAMLError as error:
        _raise_invalid(msg("The file is not valid YAML: {error}", error=error))
    return Document(root, tuple(reader.problems))


def _raise_syntax_error(error: yaml.MarkedYAMLError) -> NoReturn:
    message = join_messages(", ", filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    hint = next((hint for words, hint in _SYNTAX_HINTS.items() if words in message), None)
    _raise_invalid(
        msg("The file is not valid YAML: {error}", error=message), hint=hint, line=mark.line + 1 if mark else None
    )


@dataclass(frozen=True, slots=True)
class _Anchor:
    node: DocumentNode
    nodes: int
    chars: int


class _YamlReader:
    """Converts the events of one YAML document to nodes."""

    def __init__(self, text: str, spelling: bool) -> None:
        self.problems: list[Problem] = []
        self._spelling = spelling
        self._events: Iterator[Any] = cast(Iterator[Any], yaml.parse(text, Loader=_Loader))
        self._budget = _Budget()
        self._anchors: dict[str, _Anchor | None] = {}  # None: still open
        self._path: list[str | int] = []

    def read_root(self) -> DocumentNode:
        next(self._events)  # stream start
        if not isinstance(next(self._events), yaml.DocumentStartEvent):
            _raise_invalid(msg("The file is empty"), hint=msg("Add at least a name and a command."), line=1)
        root = self._read_node(next(self._events), 0)
        next(self._events)  # document end
        after: Any = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            line = after.start_mark.line + 1
            _raise_invalid(
                msg("The file contains more than one document"), hint=msg("Submit one job per file."), line=line
            )
        return root

    def _read_node(self, event: Any, depth: int) -> DocumentNode:
        line = event.start_mark.line + 1
        anchor: str | None = event.anchor
        if anchor is None:
            return self._read_content(event, depth, line)
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(anchor, line)
        self._anchors[anchor] = None
        nodes, chars = self._budget.nodes, self._budget.chars
        node = self._read_content(event, depth, line)
        self._anchors[anchor] = _Anchor(node, self._budget.nodes - nodes, self._budget.chars - chars)
        return node

    def _read_content(self, event: Any, depth: int, line: int) -> DocumentNode:
        if isinstance(event, yaml.ScalarEvent):
            self._budget.add_usage(1, len(event.value), line)
            return self._read_scalar(event, line)
        self._budget.add_usage(1, 0, line)
        _check_depth(depth + 1, line)
        if isinstance(event, yaml.SequenceStartEvent):
            _check_tag(event.tag, "seq", line)
            return self._read_list(depth + 1, line)
        _check_tag(event.tag, "map", line)
        return self._read_mapping(depth + 1, line)

    def _resolve_alias(self, name: str, line: int) -> DocumentNode:
        if name not in self._anchors:
            _raise_invalid(msg("The anchor &{name} is not defined above this line", name=clip_text(name)), line=line)
        known = self._anchors[name]
        if known is None:
            _raise_invalid(msg("The anchor &{name} refers to itself", name=clip_text(name)), line=line)
        self._budget.add_usage(known.nodes, known.chars, line)
        return replace(known.node, line=line)

    def _read_scalar(self, event: Any, line: int) -> DocumentNode:
        text: str = event.value
        if "\0" in text:
            _raise_invalid(
                msg("The file contains a NUL character"), hint=msg("Save the job file as plain text."), line=line
            )
        if event.tag is None:
            if not event.implicit[0]:
                return DocumentNode(text, line)
            return DocumentNode(_resolve_plain_scalar(text, line), line, text if self._spelling else None)
        if event.tag in ("!", f"{_STANDARD_TAG}str"):
            return DocumentNode(text, line)
        return DocumentNode(_resolve_tagged_scalar(event.tag, text, line), line, text if self._spelling else None)

    def _read_list(self, depth: int, line: int) -> DocumentNode:
        items: list[DocumentNode] = []
        self._path.append(0)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._path[-1] = len(items)
            items.append(self._read_node(event, depth))
        self._path.pop()
        return DocumentNode(items, line)

    def _read_mapping(self, depth: int, line: int) -> DocumentNode:
        entries: dict[str, DocumentNode] = {}
        merges: list[DocumentNode] = []
        self._path.append("")
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, key_line = self._read_key(event), event.start_mark.line + 1
            merging = key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]
            self._path[-1] = key
            child = self._read_node(next(self._events), depth)
            child.line = key_line
            if merging:
                merges.append(child)
            elif key in entries:
                self._report_duplicate(entries[key].line, key_line)
            else:
                entries[key] = child
        self._path.pop()
        for child in merges:
            self._merge_entries(entries, child)
        return DocumentNode(entries, line)

    def _read_key(self, event: Any) -> str:
        """Read a key as it is spelled: `on` and `1` are plain names."""
        line = event.start_mark.line + 1
        node = self._read_node(event, MAX_DEPTH - 1) if isinstance(event, yaml.AliasEvent | yaml.ScalarEvent) else None
        if node is None or isinstance(node.value, dict | list):
            _raise_invalid(msg("A key must be plain text"), hint=msg("Quote keys that start with [ or {."), line=line)
        if isinstance(node.value, str):
            return node.value
        return node.source_text if node.source_text is not None else str(node.value)

    def _merge_entries(self, entries: dict[str, DocumentNode], child: DocumentNode) -> None:
        """Merge `<<: *defaults`: explicit keys override merged ones, earlier merges override later."""
        sources = child.value if isinstance(child.value, list) else [child]
        for source in sources:
            if not isinstance(source.value, dict):
                _raise_invalid(msg("<< accepts a mapping or a list of mappings"), line=child.line)
            for key, node in source.value.items():
                entries.setdefault(key, node)

    def _report_duplicate(self, first: int | None, second: int) -> None:
        if len(self.problems) < 20:
            message = msg("is defined twice, on lines {first} and {second}", first=first, second=second)
            self.problems.append(
                Problem(format_path(self._path), message, msg("Remove one of the two."), second, "uniqueKeys")
            )


def _resolve_plain_scalar(text: str, line: int) -> Scalar:
    try:
        return resolve_scalar(text)
    except NumberTooLong:
        _raise_invalid(
            msg("The number {text} is too large", text=clip_text(text)),
            hint=msg("Quote the value if it is text."),
            line=line,
        )


def _resolve_tagged_scalar(tag: str, text: str, line: int) -> Scalar:
    wanted = _TAGGED_TYPES.get(tag.removeprefix(_STANDARD_TAG)) if tag.startswith(_STANDARD_TAG) else None
    if wanted is None:
        _raise_unsupported_tag(tag, line)
    value = _resolve_plain_scalar(text, line)
    if not isinstance(value, wanted):
        _raise_invalid(
            msg(
                "{text} does not match its tag !!{standard_tag}",
                text=repr(clip_text(text)),
                standard_tag=tag.removeprefix(_STANDARD_TAG),
            ),
            line=line,
        )
    return value


def _check_tag(tag: str | None, standard: str, line: int) -> None:
    if tag not in (None, "!", _STANDARD_TAG + standard):
        _raise_unsupported_tag(tag, line)


def _raise_unsupported_tag(tag: str, line: int) -> NoReturn:
    shown = tag.replace(_STANDARD_TAG, "!!")
    _raise_invalid(
        msg("The tag {shown} is not supported", shown=clip_text(shown)),
        hint=msg("Remove the tag: job files are plain data."),
        line=line,
    )


# -- JSON -------------------------------------------------------------------------------------------------------------

_INFINITIES = (float("inf"), float("-inf"))
_UNSTORABLE_CHAR_PATTERN = re.compile("[\0\ud800-\udfff]")


def _parse_json(text: str) -> DocumentNode:
    try:
        value = json.loads(
            text, object_pairs_hook=_build_unique_mapping, parse_constant=partial(_raise_invalid_constant, text)
        )
    except RecursionError:
        _raise_invalid(msg("The file is nested more than {max_depth} levels deep", max_depth=MAX_DEPTH))
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits
        _raise_invalid(msg("The file contains a number that is too large"))
    return _build_json_node(value, 0, _Budget())


def _parse_flow_yaml(text: str, json_error: json.JSONDecodeError) -> Document:
    """Parse text that starts like JSON but is not: YAML's {…} form, or JSON with an error."""
    try:
        return _parse_yaml(text)
    except InvalidJob:
        if not re.match(r'\s*[{\[]\s*["{\[]', text):
            raise
    hint = msg("Remove comments and the comma after the last item.") if re.search(r"//|/\*|,\s*[}\]]", text) else None
    _raise_invalid(msg("The file is not valid JSON: {msg}", msg=json_error.msg), hint=hint, line=json_error.lineno)


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _build_unique_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return entries


def _parse_with_duplicate_key(text: str, key: str) -> Document:
    """Find both lines of a duplicate key with the YAML reader, if it can parse this JSON."""
    try:
        return _parse_yaml(text, spelling=False)
    except InvalidJob:
        line = _find_line(text, text.find(json.dumps(key, ensure_ascii=False)))
        _raise_invalid(
            msg("The key {key} is defined twice", key=repr(clip_text(key))),
            hint=msg("Remove one of the two."),
            line=line,
        )


def _raise_invalid_constant(text: str, name: str) -> NoReturn:
    outside = (found.start() for found in _CONSTANT_PATTERN.finditer(text) if found[1] == name)
    line = _find_line(text, next(outside, 0))
    _raise_invalid(msg("The file contains {name}, which is not a valid JSON number", name=name), line=line)


# Matches whole strings, to skip their content.
_CONSTANT_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)


def _find_line(text: str, index: int) -> int:
    return text.count("\n", 0, max(0, index)) + 1


def _build_json_node(value: Any, depth: int, budget: _Budget) -> DocumentNode:
    _check_depth(depth)
    if isinstance(value, str):
        budget.add_usage(1, len(value))
        return DocumentNode(_require_storable(value))
    budget.add_usage(1, 0)
    if isinstance(value, dict):
        return DocumentNode(
            {_require_storable(key): _build_json_node(child, depth + 1, budget) for key, child in value.items()}
        )
    if isinstance(value, list):
        return DocumentNode([_build_json_node(child, depth + 1, budget) for child in value])
    if value in _INFINITIES or (isinstance(value, int) and value.bit_length() > 330):
        _raise_invalid(msg("The file contains a number that is too large"))
    return DocumentNode(value)


def _require_storable(text: str) -> str:
    if _UNSTORABLE_CHAR_PATTERN.search(text):
        _raise_invalid(
            msg("The file contains a NUL character or an unpaired surrogate"),
            hint=msg("Save the job file as plain text."),
        )
    return text
