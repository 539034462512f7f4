"""Any job that a file could hold, for hypothesis."""

from __future__ import annotations

import string
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from holdfast.core.job import GIB, MIB, Completion, Hold, HoldScope, Job, JobFormat, Mount, Resources, Role
from holdfast.core.notifications import SELECTABLE_EVENTS, Channel, NotifySpec
from holdfast.core.volumes import HostFolder
from holdfast.jobspec.instance_types import override_resources
from holdfast.jobspec.notify import merge_notify
from holdfast.jobspec.rules import SHELL_OPTION_KIND
from holdfast.jobspec.templates import format_secret_reference

# Words that YAML readers disagree about, and shapes that are hard to write down.
TRAPS = [
    "yes", "off", "null", "~", "1:30", "010", "0o17", "0x1f", "1e5", "1.", ".5", "+1", "-", "- a", "a: b", "a #b",
    "#", "<<", "=", "", " ", "\n", "\n\n", " a", "a ", "a\n b", "\ta", "a\n", "a\n\n", "\na", "a\n ", "a \nb", "|",
    ">", "&a", "*a", "!a", "%a", "@a", "`a`", "{", "[", "'", '"', "\\", "\u2028", "\x85", "\ufeff", "\x1b[0m", "é",
    "😀", "---", "...", "? a", "a\rb", "true", "none", "<% $secrets.x %>", "<%",
]  # fmt: skip

_any_text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30)
texts = st.one_of(st.sampled_from(TRAPS), _any_text, st.lists(st.sampled_from(TRAPS), max_size=3).map("".join))
lines = texts.map(lambda text: text.replace("\r\n", "\n"))
scripts = lines.filter(str.strip)

_printable = st.characters(whitelist_categories=["L", "N", "P", "S", "Zs"])
titles = st.text(_printable, min_size=1, max_size=40).filter(str.strip)
_word = string.ascii_letters + string.digits + "_"
labels = st.text(_word + ".~-", min_size=1, max_size=12)
role_names = labels.filter(lambda name: name[0] not in ".-")
dataset_names = st.text(_word + ".-", min_size=1, max_size=12).filter(lambda name: name[0] not in "._-")
variables = st.text(_word, min_size=1, max_size=12).filter(lambda name: not name[0].isdigit())
paths = (
    st.text(string.ascii_letters + ":. -é", min_size=1, max_size=12).filter(lambda name: name != "..").map("/{}".format)
)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
durations = st.timedeltas(timedelta(0), timedelta(days=400))
counts = st.none() | st.integers(1, 50)
_kept = st.sampled_from([HoldScope.ALL, HoldScope.FILES])
holds = st.just(Hold(keep=HoldScope.NOTHING)) | st.builds(
    Hold, duration=st.none() | durations.filter(lambda span: bool(span)), keep=_kept
)

_events = st.frozensets(st.sampled_from(SELECTABLE_EVENTS), min_size=1)
_mails = st.sampled_from(["", "ann@example.org", "a.b+c@lab.example.org"])
_hooks = st.sampled_from(["https://example.org/a?b=c", "http://[::1]:8080/", "https://example.org/#x"])
notifies = st.lists(
    st.builds(NotifySpec, events=_events)
    | st.builds(NotifySpec, events=_events, way=st.just(Channel.MAIL), address=_mails)
    | st.builds(NotifySpec, events=_events, way=st.sampled_from([Channel.WEBHOOK, Channel.SLACK]), address=_hooks),
    max_size=3,
).map(merge_notify)


def _distinct_targets(mounts: list[Mount]) -> tuple[Mount, ...]:
    return tuple({mount.target.rstrip("/"): mount for mount in mounts}.values())


_option_values = st.sampled_from(["gpu", "no", "0x1f", "1e5", "a|b&c", "gpu:a100:2", "#x", "a-", "~"])
engine_options = st.dictionaries(
    st.sampled_from(["partition", "account", "qos", "constraint", "reservation"]), _option_values, min_size=1
) | st.sampled_from([{"gres": "nvme:2"}, {"qos": "high", "gres": "tmpfs:20G"}])  # GPUs would have to be the role's
mounts = st.lists(
    st.builds(Mount, volume=paths.map(HostFolder), target=paths, read_only=st.booleans()), max_size=3
).map(_distinct_targets)

resources = st.builds(
    Resources,
    cpu=st.floats(0.01, 512) | st.integers(1, 64).map(float),
    memory=st.integers(MIB, 2**50) | st.integers(1, 2**20).map(lambda count: count * MIB),
    gpu=st.integers(0, 8),
    shm=st.none() | st.integers(0, 2**40),
)

roles = st.builds(
    Role,
    name=role_names | st.just("main"),
    commands=st.lists(lines, max_size=3).flatmap(lambda some: scripts.map(lambda one: (*some, one))),
    instances=st.integers(1, 50),
    image=st.sampled_from(["host", "pytorch:2", "registry.example/a/b@sha256:00"]),
    resources=resources,
    ports=st.dictionaries(labels, st.integers(1, 3), max_size=3),
    env=st.dictionaries(variables, texts, max_size=3),
    mounts=mounts,
    completion=st.builds(Completion, min_failed=counts, min_succeeded=counts),
    max_task_retries=st.integers(-2, 3),
    shell_options=st.lists(st.sampled_from(SHELL_OPTION_KIND.schema["enum"]), max_size=3).map(tuple),
    workdir=st.none() | paths,
    engine_options=st.dictionaries(st.just("slurm"), engine_options),
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    drawn = draw(st.lists(roles, min_size=1, max_size=3, unique_by=lambda role: role.name))
    secrets = draw(st.dictionaries(variables | texts, texts | json_values, max_size=2))
    if draw(st.booleans()):
        exported = {name: format_secret_reference(name) for name in secrets if name.isidentifier() and name.isascii()}
        drawn = [_with_env(role, exported) for role in drawn]
    return Job(
        name=draw(titles),
        roles=tuple(drawn),
        group=draw(titles),
        description=draw(texts.filter(lambda text: not text or text.strip())),
        secrets=secrets,
        gang=draw(st.booleans()),
        max_retries=draw(st.integers(-2, 5)),
        time_limit=draw(st.none() | durations),
        grace=draw(st.none() | durations),
        hold=draw(st.none() | holds),
        priority=draw(st.integers(-5, 200)),
        tags=tuple(draw(st.lists(titles, max_size=3))),
        datasets=tuple(draw(st.lists(dataset_names, max_size=3, unique=True))),
        files=draw(st.booleans()),
        notify=draw(notifies),
        dialect=draw(st.sampled_from(JobFormat)),
        extras=draw(st.dictionaries(texts, json_values, max_size=3)),
    )


SIZES = {
    "cpu-1": Resources(cpu=1, memory=2 * GIB),
    "gpu-1": Resources(cpu=2, memory=7 * GIB, gpu=1, cpu_request=1.5, memory_request=5 * GIB),
    "no": Resources(cpu=0.5, memory=GIB),  # a word that YAML readers disagree about
}


@st.composite
def sized_jobs(draw: st.DrawFn) -> Job:
    """Jobs some of whose roles name a size, with or without resources beside it."""
    job = draw(jobs())
    return replace(job, roles=tuple(draw(_sized(role)) for role in job.roles))


@st.composite
def _sized(draw: st.DrawFn, role: Role) -> Role:
    name = draw(st.sampled_from(["", *SIZES]))
    if not name:
        return role
    keys = draw(st.sets(st.sampled_from(["cpu", "memory", "gpu", "shm"])))
    own = {key: getattr(role.resources, key) for key in keys}
    return replace(
        role, instance_type=name, own_resources=tuple(sorted(keys)), resources=override_resources(SIZES[name], own)
    )


def _with_env(role: Role, more: dict[str, str]) -> Role:
    return Role(**{**{name: getattr(role, name) for name in role.__slots__}, "env": {**more, **role.env}})
