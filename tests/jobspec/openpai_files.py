"""Made-up job files of OpenPAI's second protocol: good ones, good ones with a mistake, and hostile text."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from hypothesis import strategies as st

from .jobs import TRAPS, json_values

Tree = dict[str, Any]

_WORD = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)
_NAME = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
_LINE = st.text(min_size=1, max_size=30).filter(lambda line: line.strip() and "\0" not in line and "<%" not in line)
_LINES = st.lists(_LINE, min_size=1, max_size=3)
_FREE = st.text(max_size=20).filter(lambda text: "\0" not in text)
_COUNT = st.none() | st.integers(-2, 5)


@st.composite
def good_trees(draw: st.DrawFn) -> Tree:
    images = draw(st.lists(_NAME, min_size=1, max_size=2, unique=True))
    scripts = draw(st.lists(_NAME, max_size=2, unique=True))
    roles = draw(st.lists(_WORD, min_size=1, max_size=3, unique=True))
    tree: Tree = {
        "protocolVersion": draw(st.sampled_from([2, "2"])),
        "name": draw(_NAME),
        "type": "job",
        "prerequisites": [*map(_image, images), *map(_script, scripts)],
        "taskRoles": {role: draw(_roles(images, scripts)) for role in roles},
    }
    _add(draw, tree, "version", st.integers() | st.floats(-9, 9) | _FREE)
    _add(draw, tree, "contributor", _FREE)
    _add(draw, tree, "description", _FREE)
    _add(draw, tree, "jobRetryCount", st.integers(0, 5))
    _add(draw, tree, "parameters", st.dictionaries(_WORD, json_values, max_size=3))
    _add(draw, tree, "secrets", st.dictionaries(_WORD, _FREE.filter(lambda word: "***" not in word), max_size=2))
    _add(draw, tree, "extras", _extras(roles))
    if draw(st.booleans()):
        around = st.fixed_dictionaries({}, optional={"preCommands": _LINES, "postCommands": _LINES})
        tree["deployments"] = [{"name": "made", "taskRoles": {role: draw(around) for role in roles}}]
        tree["defaults"] = {"deployment": "made", "virtualCluster": "default"}
    return tree


def _add(draw: st.DrawFn, tree: Tree, key: str, values: st.SearchStrategy[Any]) -> None:
    if draw(st.booleans()):
        tree[key] = draw(values)


def _image(name: str) -> Tree:
    return {"type": "dockerimage", "name": name, "uri": "host"}


def _script(name: str) -> Tree:
    return {"type": "script", "name": name, "uri": "https://example.org/x", "anything": [1, {"more": None}]}


def _roles(images: list[str], scripts: list[str]) -> st.SearchStrategy[Tree]:
    ports = st.dictionaries(_WORD, st.integers(0, 2), min_size=1, max_size=2)
    asked = {"cpu": st.integers(1, 2), "memoryMB": st.integers(1, 100), "gpu": st.just(0)}
    completion = {"minFailedInstances": _COUNT, "minSucceededInstances": _COUNT}
    options = {"shmMB": st.integers(0, 64), "infiniband": st.booleans(), "more": json_values}
    more: dict[str, st.SearchStrategy[Any]] = {
        "instances": st.integers(1, 2),
        "taskRetryCount": st.integers(-5, 5),
        "completion": st.fixed_dictionaries({}, optional=completion),
        "extraContainerOptions": st.fixed_dictionaries({}, optional=options),
        "prerequisites": st.lists(st.sampled_from([*images, *scripts]), max_size=2),
    }
    if scripts:
        more["script"] = st.sampled_from(scripts)
    needed = {
        "dockerImage": st.sampled_from(images),
        "resourcePerInstance": st.fixed_dictionaries(asked, optional={"ports": ports}),
        "commands": _LINES,
    }
    return st.fixed_dictionaries(needed, optional=more)


def _extras(roles: list[str]) -> st.SearchStrategy[Tree]:
    plugin = {"plugin": st.sampled_from(["tensorboard", "unknown"]), "parameters": st.just({})}
    chosen = {"taskroles": st.lists(st.sampled_from(roles), max_size=2), "failurePolicy": st.just("ignore")}
    known: dict[str, st.SearchStrategy[Any]] = {
        "submitFrom": _FREE,
        "gangAllocation": st.booleans(),
        "hivedScheduler": st.fixed_dictionaries({"jobPriorityClass": st.sampled_from(["prod", "test", "oppo"])}),
        "com.microsoft.pai.runtimeplugin": st.lists(st.fixed_dictionaries(plugin, optional=chosen), max_size=2),
        "jobStatusChangeNotification": st.fixed_dictionaries({"running": st.booleans()}),
        "tensorBoard": st.just({"randomStr": "x", "storage": {"type": "NFS"}, "logDirectories": {"default": "/x"}}),
        "something-else": json_values,
    }
    return st.fixed_dictionaries({}, optional=known)


@st.composite
def written(draw: st.DrawFn, trees: st.SearchStrategy[Any]) -> str:
    """A tree as YAML or JSON."""
    tree = draw(trees)
    if draw(st.booleans()):
        return json.dumps(tree, indent=draw(st.sampled_from([None, 2])))
    return yaml.safe_dump(tree, default_flow_style=draw(st.sampled_from([None, True, False])), allow_unicode=True)


# -- one mistake, or a few

_JUNK = json_values | st.sampled_from([-1, 0, 10**30, 1.5, "", "2", [], {}, [[]], {"a": {}}, True, None, "x" * 300])
_KEYS = st.sampled_from(["name", "type", "uri", "extra", "commands", "a b", "it's", "~", "é", "x" * 100]) | _WORD


@st.composite
def spoilt_trees(draw: st.DrawFn) -> Any:
    tree = copy.deepcopy(draw(good_trees()))
    for _ in range(draw(st.integers(1, 3))):
        _spoil(draw, tree)
    return tree


def _spoil(draw: st.DrawFn, tree: Tree) -> None:
    inside: Any = tree
    while draw(st.integers(0, 3)):  # mostly deeper
        deeper = [value for value in _values(inside) if isinstance(value, dict | list) and value]
        if not deeper:
            break
        inside = draw(st.sampled_from(deeper))
    keys: list[Any] = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
    key = draw(st.sampled_from(keys)) if keys else None
    how = draw(st.sampled_from(["replace", "remove", "add"]))
    if how == "add" or key is None:
        _grow(draw, inside)
    elif how == "replace":
        inside[key] = copy.deepcopy(draw(_JUNK))
    else:
        del inside[key]


def _values(inside: Any) -> list[Any]:
    return list(inside.values() if isinstance(inside, dict) else inside)


def _grow(draw: st.DrawFn, inside: Any) -> None:
    if isinstance(inside, dict):
        inside[draw(_KEYS)] = copy.deepcopy(draw(_JUNK))
    else:
        source = st.sampled_from(inside) if inside and draw(st.booleans()) else _JUNK
        inside.append(copy.deepcopy(draw(source)))


# -- hostile text

_BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)
HOSTILE = [
    _BOMB, "&a [*a]", "&a {b: *a}", "x: *nothing", "<<: 1", "<<: [*a]", "!!python/object/apply:os.system [ls]",
    "!!int many", "!!binary aGk=", "!!set {a}", "!odd x", "9" * 5000, "1e999", "-.inf", ".nan", "0x" + "f" * 400,
    "name: a\nname: b", '{"name": 1, "name": 2}', "a\0b", '"\\0"', '{"a": "\\u0000"}', '{"a": "\\ud800"}',
    '{"a": NaN}', '{"a": 1e999}', "[" * 3000, "{a: " * 3000, '{"a":' * 3000, "- " * 2000, "? " * 500, "--- a\n--- b",
    "%YAML 9.9\n---\na", "%TAG ! x\n---\n!y z", "\t- a", "a: b: c", "'", '"', "{", "[1, 2", "|", ">-", "? [a]\n: b",
    "\ufeff", "\u2028", "\x85", "\x1b[2J", "\ud7ff", "\U0010ffff", "...", "", " ", "#", "null", "~", "true", "2",
    '{"a": 1,}', '{"a" 1}', "[]", "{}", "protocolVersion: 2", "jobName: x", "command: ls",
]  # fmt: skip
NOT_TEXT = [b"\xff\xfea\x00", b"\xfe\xff\x00a", b"name: \xff", b"\x80", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80"]


@st.composite
def hostile_texts(draw: st.DrawFn) -> bytes:
    """Pieces alone, piled up, or put into a good file; and bytes that are no text."""
    pieces = st.sampled_from([*HOSTILE, *TRAPS])
    how = draw(st.integers(0, 3))
    if how == 0:
        return draw(st.sampled_from(NOT_TEXT) | st.binary(max_size=60))
    if how == 1:
        return draw(pieces).encode()
    if how == 2:
        return "\n".join(draw(st.lists(pieces, max_size=4))).encode()
    text = draw(written(good_trees()))
    at = draw(st.integers(0, len(text)))
    return (text[:at] + draw(pieces) + text[at:]).encode()
