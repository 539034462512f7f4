"""Collects the sentences that services, rules and engines say to people: English texts in their source, with blanks.

Those layers know no languages. What they say is found by the look of it: a text of several words that is neither a
docstring, nor logged, nor a statement in another language such as SQL. `f"There is no job {ref[:100]}"` becomes
`There is no job {ref}`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Where sentences are made, and of which files only errors are told: the rest of them is for other clients.
ALL_OF = (
    "core", "diagnosis", "jobspec", "store", "engines", "services", "controller", "settings.py", "timezones.py",
)  # fmt: skip
ERRORS_OF = ("server",)
LEFT_OUT = (
    "store/migrations", "store/tables.py", "core/exits/log_patterns.py", "services/logs/first_error.py",
    "engines/fake.py", "engines/embedded/sandbox/render.py",
    "engines/embedded/libc.py", "jobspec/openpai_render.py", "server/openpai", "server/primehub", "server/openapi.py",
    "server/docs_page.py", "jobspec/holdfast_schema.py", "diagnosis/tracebacks.py", "diagnosis/rulebook.py",
    "services/metrics/server_metrics.py",
)  # fmt: skip
# Below ERRORS_OF, but read as the others are.
WHOLE = ("server/invalid_words.py", "server/errors.py", "server/portal/faults.py")
_SAID = ("Error", "NotFound", "Conflict", "Forbidden", "NotLoggedIn", "Expired", "TooLarge", "Unavailable", "Problem",
         "TooManyRequests", "OverQuota", "BadRecurrence", "InvalidJob", "BadArchive", "TooLargeBody")  # fmt: skip
_NOT_SAID = ("log.", "logging.", "re.", "TypeVar(", "AssertionError(")
_FOREIGN = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|WHERE|ORDER BY|NULL|JOIN|RECURSIVE|LIMIT|CASE|AND|AS|CAST|SHOW)\b"
    r"|\bseq\b|\{\{\}\}|\bt\.\w|:\w+, :|^\w[\w.]* ([<>]=?|=|\||\+) "  # SQL, and types
    r"|^(set|export|cd|exec|ulimit|mkdir|trap|umask|holdfast|pip|import) |[;{] \w+ -|^!f\(\)|^\* !"  # commands
    r"|\\[bsn(\[]|</|<(span|time|p|div)\b|\n|^<%|Proc-Type:|\(\?:|\[\w\w\]|^bytes \*"  # patterns, HTML, lines
)
_BLANK = re.compile(r"\{[a-z_0-9]+\}")
_WORD = re.compile(r"[A-Za-z]+")
_UNITS = ("GiB", "MiB", "GB")
_SHORT_WORDS = 2  # words that make a text one


@dataclass
class Blanks:
    """Names for what stands in the blanks of one sentence: by what is put there, else x1, x2."""

    names: dict[str, str] = field(default_factory=dict)  # source of the expression -> name

    def name(self, node: ast.expr) -> str:
        source = ast.unparse(node)
        if source not in self.names:
            wanted = _plain_name(node)
            taken = set(self.names.values())
            if not wanted or wanted in taken:
                stem = wanted or "x"
                wanted = next(f"{stem}{n}" for n in range(2 if wanted else 1, 99) if f"{stem}{n}" not in taken)
            self.names[source] = wanted
        return self.names[source]


def _plain_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower()
        case ast.IfExp(body=ast.Constant(value=str(one)), orelse=ast.Constant(value=str(other))) if (
            len(one + other) < 3
        ):
            return "plural"
        case ast.Subscript(value=ast.expr() as inner, slice=ast.Slice()):
            return _plain_name(inner)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return re.sub(r"\W", "_", key).lower()
        case ast.Call(func=ast.Attribute(attr="join"), args=[ast.expr() as inner]):
            return _plain_name(inner)
        case ast.Call(func=ast.Attribute(value=inner), args=[]):
            return _plain_name(inner)
        case ast.Call(args=[ast.expr() as inner, *_]):
            return _plain_name(inner)
        case ast.BoolOp(values=[ast.expr() as inner, *_]):
            return _plain_name(inner)
    return ""


def sentences_in(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, sentence) in the order of the source. Sentences that differ in the names of their blanks only are one."""
    shapes: dict[str, str] = {}
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        only_errors = name.startswith(ERRORS_OF) and name not in WHOLE
        for text in _Reader(only_errors).read(ast.parse(path.read_text(encoding="utf-8"))):
            shape = _BLANK.sub("{}", text)
            yield name, shapes.setdefault(shape, text)


def _files(folder: Path) -> Iterator[Path]:
    for name in (*ALL_OF, *ERRORS_OF):
        place = folder / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if not path.relative_to(folder).as_posix().startswith(LEFT_OUT):
                yield path


class _Reader:
    def __init__(self, only_errors: bool) -> None:
        self._only_errors = only_errors
        self._found: list[str] = []

    def read(self, tree: ast.Module) -> list[str]:
        self._visit(tree, said=not self._only_errors)
        return self._found

    def _visit(self, node: ast.AST, said: bool) -> None:
        if _is_docstring(node) or _is_about_code(node):
            return
        if isinstance(node, ast.Call):
            said = self._visit_call(node, said)
        sentence = _sentence(node)
        if sentence is not None:
            if said and is_sentence(sentence):
                self._found.append(sentence)
            for inner in _blanks_of(node):
                self._visit(inner, said)
            return
        for child in ast.iter_child_nodes(node):
            self._visit(child, said)

    def _visit_call(self, node: ast.Call, said: bool) -> bool:
        called = ast.unparse(node.func)
        if f"{called}(".startswith(_NOT_SAID):
            return False
        return said or called.rsplit(".", 1)[-1].endswith(_SAID)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_about_code(node: ast.AST) -> bool:
    """Names for type checkers, and what only a bug can raise."""
    if isinstance(node, ast.arg | ast.Assert):
        return True
    raised = node.exc if isinstance(node, ast.Raise) else None
    return isinstance(raised, ast.Call) and ast.unparse(raised.func) in ("AssertionError", "TypeError", "KeyError")


def _sentence(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return _from_format(text) if re.search(r"\{(![rs])?\}", text) else text
        case ast.JoinedStr() | ast.BinOp(op=ast.Add()) if _parts(node) is not None:
            blanks = Blanks()
            return "".join(_written(part, blanks) for part in _parts(node) or [])
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return _from_format(text)
    return None


def _parts(node: ast.AST) -> list[ast.expr] | None:
    """What a text is put together from; None for a sum that is no text."""
    match node:
        case ast.JoinedStr(values=values):
            return values
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [*(_parts(left) or [left]), *(_parts(right) or [right])]
            return (
                parts if any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts) else None
            )
    return None


def _written(part: ast.expr, blanks: Blanks) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text.replace("{", "{{").replace("}", "}}")
        case ast.FormattedValue(value=value):
            return "{" + blanks.name(value) + "}"
    return "{" + blanks.name(part) + "}"


def _from_format(text: str) -> str:
    """`"{} of {!r}".format(…)`: blanks by their number."""
    numbers = iter(range(1, 99))
    return re.sub(
        r"(?<!\{)\{([a-z_]*)(![rs])?(:[^}]*)?\}", lambda found: "{%s}" % (found[1] or f"x{next(numbers)}"), text
    )


def _blanks_of(node: ast.AST) -> list[ast.expr]:
    """What is put into a sentence may hold others."""
    match node:
        case ast.Call(args=args):
            return args
        case ast.JoinedStr() | ast.BinOp():
            found = [part.value if isinstance(part, ast.FormattedValue) else part for part in _parts(node) or []]
            return [part for part in found if not isinstance(part, ast.Constant)]
    return []


def is_sentence(text: str) -> bool:
    bare = _BLANK.sub(" ", text)
    if _FOREIGN.search(text) or not re.search(r"[a-z]", bare):
        return False
    words = [word for word in _WORD.findall(bare) if word not in _UNITS]
    has_blank = bare != text
    return " " in text.strip() and (len(words) >= _SHORT_WORDS or bool(words and has_blank))
