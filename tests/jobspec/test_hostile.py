"""Whatever comes in, what goes out is a job or InvalidJob."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidJob
from holdfast.core.job import JobFormat
from holdfast.jobspec import parse_job, render_yaml
from holdfast.jobspec.document import MAX_FILE_SIZE, parse_document
from holdfast.jobspec.render import dump_yaml
from holdfast.jobspec.rules import MAX_JOB_CHARS
from holdfast.jobspec.templates import RenderedText, TemplateFiller
from tests.longer import examples

from .jobs import TRAPS, json_values
from .samples import SITE, golden_files

SAMPLES = [path.read_bytes() for path in golden_files(*JobFormat, "invalid")]
quick = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))


def problems_of(text: str | bytes) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        parse_job(text, defaults=SITE)
    for problem in caught.value.problems:
        assert len(problem.message) < 1000
        assert len(problem.hint or "") < 2000
    return [f"{problem.field}: {problem.message}" for problem in caught.value.problems]


def refused(text: str | bytes) -> str:
    """The first problem."""
    return problems_of(text)[0]


def parse_or_refuse(text: str | bytes, dialect: JobFormat | None = None) -> None:
    try:
        job = parse_job(text, dialect=dialect, defaults=SITE).job
    except InvalidJob:
        return
    written = render_yaml(job, mask_secrets=False, defaults=SITE)
    assert parse_job(written, defaults=SITE).job == replace(job, dialect=JobFormat.HOLDFAST)


# -- fuzzing ----------------------------------------------------------------------------------------------------------


@quick
@given(st.binary(max_size=200) | st.text(max_size=100))
def test_any_bytes(data: bytes | str) -> None:
    parse_or_refuse(data)


yamlish = st.lists(
    st.sampled_from(
        [*TRAPS, "name: ", "command: ", "roles:\n", "\n  ", "\n", "- ", "{", "}", "[", "]", ": ", ", ", "&a ", "*a"]
    ),
    max_size=25,
).map("".join)


@quick
@given(yamlish)
def test_anything_like_yaml(text: str) -> None:
    parse_or_refuse(text)


KEYS = [
    "name", "command", "commands", "roles", "secrets", "env", "resources", "cpu", "memory", "gpu", "ports",
    "mounts", "hold", "retry", "time_limit", "completion", "protocolVersion", "type", "prerequisites",
    "taskRoles", "deployments", "defaults", "extras", "parameters", "dockerImage", "uri", "auth",
    "resourcePerInstance", "jobName", "image", "jobEnvs", "portList", "label", "displayName", "instanceType",
    "holdfast", "hivedScheduler", "com.microsoft.pai.runtimeplugin", "storages", "export_secrets",
]  # fmt: skip
job_like = st.recursive(
    json_values | st.sampled_from([0, -1, 2, 10**9, 1.5, "2", "dockerimage", "job", "cpu-1", "worker", True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


@quick
@given(st.dictionaries(st.sampled_from(KEYS), job_like, max_size=8), st.sampled_from(JobFormat))
def test_wrong_types_everywhere(tree: dict[str, object], dialect: JobFormat) -> None:
    parse_or_refuse(json.dumps(tree), dialect)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A golden file with a few pieces cut, doubled or replaced."""
    data = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 30)))
        piece = draw(
            st.sampled_from([b"", data[start:end] * 2, b"[]", b"{}", b": ", b"\n", b"null", b"-1", b"\xff", b"'"])
        )
        data = data[:start] + piece + data[end:]
    return data


@quick
@given(damaged())
@example(b"name: a\ncommand:\n")
@example(b"name: a\ncommand: echo\nroles:\n")
def test_damaged_files(data: bytes) -> None:
    parse_or_refuse(data)


TREES = [parse_document(path.read_bytes()).root.to_plain() for path in golden_files(*JobFormat) if path.suffix != ".sh"]
ODD = [
    None,
    [],
    {},
    [None],
    {"a": None},
    0,
    -1,
    2**70,
    1e300,
    0.5,
    True,
    "",
    " ",
    "******",
    "a\nb",
    "none",
    "2",
    "\x07",
    "é",
]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, str]:
    """A golden file as a tree, some of whose values were swapped for odd ones, as JSON and as YAML."""
    tree = copy.deepcopy(draw(st.sampled_from(TREES)))
    for _ in range(draw(st.integers(1, 3))):
        spot = tree
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            key = draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(spot[key], dict | list) or draw(st.integers(0, 4)) == 0:
                break
            spot = spot[key]
        if key is not None:
            spot[key] = copy.deepcopy(draw(st.sampled_from(ODD) | json_values))
    return json.dumps(tree), dump_yaml(tree)


@quick
@given(mutated())
def test_odd_values_in_good_files(texts: tuple[str, str]) -> None:
    for text in texts:
        parse_or_refuse(text)


@pytest.mark.parametrize("path", golden_files(*JobFormat), ids=lambda path: path.name)
@pytest.mark.parametrize("dialect", JobFormat)
def test_every_file_as_every_dialect(path: Path, dialect: JobFormat) -> None:
    parse_or_refuse(path.read_bytes(), dialect)


# -- known attacks ----------------------------------------------------------------------------------------------------


def test_ten_megabytes() -> None:
    assert "too large: 10,485,768 bytes" in refused(b"name: a\n" + b"#" * 10 * 1024 * 1024)
    assert "too large" in refused("x" * (MAX_FILE_SIZE + 1))


def test_billion_laughs() -> None:
    bomb = "a0: &a0 [lol]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert "more than 50000 values" in refused(bomb)


def test_long_text_repeated_by_anchors() -> None:
    repeated = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]\n"
    assert "expand to too much text" in refused(repeated)


def test_merge_keys_count_too() -> None:
    base = "a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\n"
    assert "more than 50000 values" in refused(base + "".join(f"b{n}: {{<<: *a0}}\n" for n in range(100)))


def test_anchor_inside_itself() -> None:
    assert "refers to itself" in refused("a: &a [*a]\n")
    assert "anchor &b is not defined above" in refused("a: *b\n")


@pytest.mark.parametrize("deep", ["[" * 100_000, "{a: " * 50_000, '{"a":' * 100_000, "- " * 100_000])
def test_deep_nesting(deep: str) -> None:
    assert "nested more than 64 levels" in refused(deep) or "not valid" in refused(deep)


def test_deep_but_closed() -> None:
    assert "nested more than 64 levels" in refused("[" * 100_000 + "]" * 100_000)
    assert "nested more than 64 levels" in refused("a: " + "[" * 65 + "]" * 65)


def test_many_values() -> None:
    assert "more than 50000 values" in refused("[" + "a," * 300_000 + "]")
    assert "more than 50000 values" in refused(json.dumps([0] * 300_000))


def test_many_problems_are_cut_short() -> None:
    problems = problems_of("name: a\ncommand: b\n" + "".join(f"key{n}: 1\n" for n in range(20_000)))
    assert len(problems) == 101
    assert problems[-1] == ": and 19900 more problems"


def test_long_keys_are_clipped() -> None:
    assert len(refused(f"{'k' * 1000}: 1\nname: a\ncommand: b\n")) < 200
    assert len(refused("? " + "k" * 500_000 + "\n: 1\n")) < 200


def test_huge_numbers() -> None:
    assert "too large" in refused(f"name: a\ncommand: b\ninstances: {'9' * 5000}\n")
    assert "too large" in refused(f"name: a\ncommand: b\ninstances: 0x{'f' * 500_000}\n")
    assert "too large" in refused(f'{{"name": "a", "instances": {"9" * 500_000}}}')
    assert "too large" in refused('{"name": "a", "instances": 1e999}')
    assert "too large" in refused("name: 1e999")


def test_not_a_number() -> None:
    assert "NaN" in refused('{"name": NaN}')
    assert "resources.cpu: must be a number, not '.nan'" in problems_of("name: a\ncommand: b\nresources: {cpu: .nan}")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"name: a\ncommand: \0", "NUL byte"),
        (b'name: a\ncommand: "\\0"', "NUL character"),
        (b'{"name": "a\\u0000"}', "NUL character"),
        (b'{"name": "\\ud800", "command": "x"}', "surrogate"),
        ("name: \ud800", "control character (U+D800)"),
        (b"name: \xff\xfe", "not UTF-8"),
        ("name: a".encode("utf-16"), "UTF-16"),
        (b"name: \x1b[31m", "control character (U+001B)"),
        (b"", "empty"),
        (b"\xef\xbb\xbf  \n", "empty"),
        (b"# only a comment\n", "empty"),
        (b"---\n...\n", "and command, not empty"),
        (b"just words", "and command, not 'just words'"),
        (b"42", "and command, not 42"),
        (b"? [a]\n: b", "key must be plain text"),
        (b"name: a\n<<: 5", "<< accepts a mapping"),
        (b"name: !secret x", "tag !secret"),
        (b"name: !!int x", "does not match its tag !!int"),
        (b"%YAML 9.9\n---\na: b", "not valid YAML"),
        (b"name: 'a", "not valid YAML"),
        (b"name: a\n...\nname: b", "not valid YAML"),
    ],
)
def test_refused_with_a_reason(data: bytes | str, says: str) -> None:
    assert says in refused(data)


def test_one_secret_filled_in_too_often() -> None:
    text = "name: a\nsecrets: {S: " + "x" * 100_000 + "}\ncommand: '" + "<% $secrets.S %>" * 1000 + "'\n"
    assert "too large" in refused(text)


def test_one_parameter_filled_in_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    render = TemplateFiller.render_text

    def counted(self: TemplateFiller, text: str) -> RenderedText:
        written.append(render(self, text))
        return written[-1]

    monkeypatch.setattr(TemplateFiller, "render_text", counted)
    job = {
        "protocolVersion": 2, "name": "bomb", "type": "job", "parameters": {"p": {"deep": ["x" * 1000] * 10}},
        "prerequisites": [{"type": "dockerimage", "name": "i", "uri": "i"}],
        "taskRoles": {"a": {"dockerImage": "i", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0},
                            "commands": ["<% $parameters.p %>"] * 5000}},
    }  # fmt: skip
    assert "too large" in refused(json.dumps(job))
    assert sum(len(rendered.text) for rendered in written) < 2 * MAX_JOB_CHARS  # it stopped before it hurt


def test_common_parts_repeated_for_each_role() -> None:
    roles = "".join(f"  r{n}: {{instances: 1}}\n" for n in range(200))
    assert "too large" in refused(f"name: a\ncommand: {'x' * 100_000}\nroles:\n{roles}")


def test_no_message_shows_a_secret() -> None:
    for secrets in ("swordfish", "[swordfish]", "{A: [swordfish]}", "{A: {b: swordfish}}", "{a-b: swordfish}"):
        assert "swordfish" not in str(problems_of(f"name: a\ncommand: b\nsecrets: {secrets}\n"))
    auth = "{username: [x], password: [swordfish]}"
    pai = f"protocolVersion: 2\nprerequisites:\n- {{type: dockerimage, name: i, uri: i, auth: {auth}}}\n"
    assert "swordfish" not in str(problems_of(pai))
    assert "swordfish" not in str(problems_of("protocolVersion: 2\nsecrets: swordfish\n"))
