"""Names in commands that would stand for nothing in the real run: `<% %>` references and variables of the platform."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.job import Job, Role
from holdfast.engines.base import Launch
from holdfast.engines.embedded.sandbox.render import variable_name
from holdfast.jobspec.fields import guess
from holdfast.jobspec.templates import Filler, has_secrets

from .report import About, Remarks

PREFIXES = ("PAI_", "HOLDFAST_", "PRIMEHUB_", "PHJOB_", "FC_")
# Those that engines set, and those that the runtime sets while it goes.
ALWAYS = ("HOLDFAST_ATTEMPT", "HOLDFAST_NOTES", "PAI_RUNTIME_DIR", "PAI_WORK_DIR")

_USE = re.compile(r"(\\?)\$(\{!?)?([A-Za-z_][A-Za-z0-9_]*)")
_SOFT = re.compile(r":?[-+=]")  # ${NAME:-default} and the like: made to be unset
_ENVIRON = re.compile(r"""environ(?:\[|\.get\(|\.pop\()\s*['"]([A-Za-z_][A-Za-z0-9_]*)['"](\s*,)?""")
_SET = re.compile(
    r"(?:^|[\s;&|(`])(?:export\s+|declare\s+(?:-\w+\s+)*|local\s+|readonly\s+)?([A-Za-z_][A-Za-z0-9_]*)\+?=|"
    r"\b(?:read(?:\s+-\w+)*|for|printf\s+-v)\s+([A-Za-z_][A-Za-z0-9_]*)"
)
_TESTED = re.compile(
    r"""(?:\[|test)\s+(?:!\s+)?-[znv]\s+["']?\$?\{?([A-Za-z_][A-Za-z0-9_]*)|\[\[\s+(?:!\s+)?-[znv]\s+["']?\$?\{?(\w+)"""
)
_EXPORT = re.compile(r"^\s*(?:export )?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_SOURCES = re.compile(r"(?:^|[\s;&|(])(?:\.|source)\s+\S")


def check_templates(job: Job, roles: Iterable[str], remarks: Remarks) -> None:
    """What was not filled in when the file was read, and secrets that there are none of."""
    vanishes = job.dialect.openpai and has_secrets(job.secrets)
    filler = Filler({"secrets": job.secrets})
    known = _secret_names(job.secrets)
    for role in (role for role in job.roles if role.name in roles):
        for reference in dict.fromkeys(name for text in texts_of(job, role) for name in filler.render(text).unresolved):
            what = "becomes nothing" if vanishes else "stays in the commands as it is written"
            text = f"<% {reference} %> stands for nothing: it {what}"
            remarks.problem(About.TEMPLATE, text, _near(reference, known), role.name)
            remarks.drop(About.FORMAT, f"<% {reference} %>")


def _near(reference: str, known: list[str]) -> str:
    near = guess(reference, known, "Did you mean <% {} %>?".format) if reference.startswith("$secrets") else None
    return near or "Define it in the file, or correct the name."


def _secret_names(secrets: Mapping[str, Any]) -> list[str]:
    return [f"$secrets.{name}" for name in secrets if not name.startswith("_")]


def texts_of(job: Job, role: Role) -> Iterator[str]:
    """Everything of a role that a shell or a plugin reads."""
    yield "\n".join(role.commands)
    yield from role.env.values()
    ours = job.extras.get("openpai", {}) if job.dialect.openpai else {}
    for call in ours.get("plugins", ()):
        if isinstance(call, Mapping) and role.name in call.get("taskroles", (role.name,)):
            yield from _plugin_commands(call)


def _plugin_commands(call: Mapping[str, Any]) -> Iterator[str]:
    parameters = call.get("parameters")
    for key in ("preCommands", "postCommands"):
        commands = parameters.get(key) if isinstance(parameters, Mapping) else None
        yield from (text for text in commands if isinstance(text, str)) if isinstance(commands, list) else ()


def variables_of(launch: Launch) -> set[str]:
    """What the task is given, in its environment and by what runs before its commands."""
    ports = {f"HOLDFAST_PORT_{variable_name(label)}" for label in launch.ports}
    return {*launch.env, *ports, *_EXPORT.findall(launch.entry)}


def check_variables(
    role: str, texts: Iterable[str], real: Iterable[str], here: Iterable[str], remarks: Remarks
) -> None:
    """`real`: what the whole job would have; `here`: what there is in this simulation, which also knows the image."""
    text = "\n".join(texts)
    known = {*real, *here, *ALWAYS}
    given = {name for found in (*_SET.findall(text), *_TESTED.findall(text)) for name in found if name}
    level = remarks.warn if _SOURCES.search(text) else remarks.problem  # a file that is read may set it
    for name, composed in _uses(text):
        if name in known or name in given or not name.startswith(PREFIXES):
            continue
        if composed and any(each.startswith(name) for each in known):
            continue
        level(About.VARIABLE, f"${name} is not set in the real run", _hint(name, known), role)


def _uses(text: str) -> Iterator[tuple[str, bool]]:
    """(name, it is only the beginning of one that is put together while the script runs)."""
    found: dict[tuple[str, bool], None] = {}
    for match in _USE.finditer(text):
        escaped, brace, name = match.groups()
        rest = text[match.end() : match.end() + 2]
        if brace and _SOFT.match(rest):
            continue
        found[name, bool(escaped) and rest[:1] in ("$", "{")] = None
    for match in _ENVIRON.finditer(text):
        if not match[2]:
            found[match[1], False] = None
    return iter(found)


def _hint(name: str, known: Iterable[str]) -> str:
    ours = sorted(each for each in known if each.startswith(PREFIXES))
    if any(each.startswith(name) and each != name for each in ours) and name.endswith("_"):
        return "A shell does not join names: put it together first, name=" + name + "…, and read ${!name}."
    return guess(name, ours) or "Set it in the file, or see the variables in the reference of job files."
