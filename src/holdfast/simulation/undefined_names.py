"""Undefined names in commands: `<% %>` references and variables of the platform."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.job import Job, Role
from holdfast.engines.base import LaunchSpec
from holdfast.engines.task_program import make_variable_name
from holdfast.jobspec.fields import build_similar_name_hint
from holdfast.jobspec.templates import TemplateFiller, has_secrets

from .report import Remarks, RemarkTopic

PLATFORM_PREFIXES = ("PAI_", "HOLDFAST_", "PRIMEHUB_", "PHJOB_", "FC_")
# Set by engines, or by the runtime while it runs.
RUNTIME_VARIABLES = ("HOLDFAST_ATTEMPT", "HOLDFAST_NOTES", "PAI_RUNTIME_DIR", "PAI_WORK_DIR")

_VARIABLE_USE_PATTERN = re.compile(r"(\\?)\$(\{!?)?([A-Za-z_][A-Za-z0-9_]*)")
_DEFAULT_OPERATOR_PATTERN = re.compile(r":?[-+=]")  # ${NAME:-default} and similar: can be unset
_ENVIRON_USE_PATTERN = re.compile(r"""environ(?:\[|\.get\(|\.pop\()\s*['"]([A-Za-z_][A-Za-z0-9_]*)['"](\s*,)?""")
_ASSIGNMENT_PATTERN = re.compile(
    r"(?:^|[\s;&|(`])(?:export\s+|declare\s+(?:-\w+\s+)*|local\s+|readonly\s+)?([A-Za-z_][A-Za-z0-9_]*)\+?=|"
    r"\b(?:read(?:\s+-\w+)*|for|printf\s+-v)\s+([A-Za-z_][A-Za-z0-9_]*)"
)
_TESTED_VARIABLE_PATTERN = re.compile(
    r"""(?:\[|test)\s+(?:!\s+)?-[znv]\s+["']?\$?\{?([A-Za-z_][A-Za-z0-9_]*)|\[\[\s+(?:!\s+)?-[znv]\s+["']?\$?\{?(\w+)"""
)
_EXPORT_PATTERN = re.compile(r"^\s*(?:export )?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_SOURCE_COMMAND_PATTERN = re.compile(r"(?:^|[\s;&|(])(?:\.|source)\s+\S")


def report_undefined_references(job: Job, roles: Iterable[str], remarks: Remarks) -> None:
    """Report references that were not replaced when the file was parsed, and unknown secrets."""
    vanishes = job.dialect.is_openpai and has_secrets(job.secrets)
    filler = TemplateFiller({"secrets": job.secrets})
    known = [f"$secrets.{name}" for name in job.secrets if not name.startswith("_")]
    for role in (role for role in job.roles if role.name in roles):
        for reference in dict.fromkeys(
            name for text in iter_role_texts(job, role) for name in filler.render_text(text).unresolved
        ):
            what = "becomes empty" if vanishes else "stays unchanged in the commands"
            text = f"<% {reference} %> is not defined: it {what}"
            remarks.add_problem(RemarkTopic.TEMPLATE, text, _build_reference_hint(reference, known), role.name)
            remarks.remove_matching(RemarkTopic.FORMAT, f"<% {reference} %>")


def _build_reference_hint(reference: str, known: list[str]) -> str:
    near = (
        build_similar_name_hint(reference, known, "Did you mean <% {} %>?".format)
        if reference.startswith("$secrets")
        else None
    )
    return near or "Define it in the file, or correct the name."


def iter_role_texts(job: Job, role: Role) -> Iterator[str]:
    """Return all texts of a role that a shell or a plugin reads."""
    yield "\n".join(role.commands)
    yield from role.env.values()
    ours = job.extras.get("openpai", {}) if job.dialect.is_openpai else {}
    for call in ours.get("plugins", ()):
        if isinstance(call, Mapping) and role.name in call.get("taskroles", (role.name,)):
            yield from _iter_plugin_commands(call)


def _iter_plugin_commands(call: Mapping[str, Any]) -> Iterator[str]:
    parameters = call.get("parameters")
    for key in ("preCommands", "postCommands"):
        commands = parameters.get(key) if isinstance(parameters, Mapping) else None
        yield from (text for text in commands if isinstance(text, str)) if isinstance(commands, list) else ()


def get_variable_names(launch: LaunchSpec) -> set[str]:
    """Return the variables of a task, from its environment and its entry script."""
    ports = {f"HOLDFAST_PORT_{make_variable_name(label)}" for label in launch.ports}
    return {*launch.env, *ports, *_EXPORT_PATTERN.findall(launch.entry)}


def report_undefined_variables(
    role: str, texts: Iterable[str], real: Iterable[str], here: Iterable[str], remarks: Remarks
) -> None:
    """Report undefined variables. `real`: those of the real run; `here`: those of this simulation and its image."""
    text = "\n".join(texts)
    known = {*real, *here, *RUNTIME_VARIABLES}
    given = {
        name
        for found in (*_ASSIGNMENT_PATTERN.findall(text), *_TESTED_VARIABLE_PATTERN.findall(text))
        for name in found
        if name
    }
    level = (
        remarks.add_warning if _SOURCE_COMMAND_PATTERN.search(text) else remarks.add_problem
    )  # a sourced file may set it
    for name, composed in _iter_variable_uses(text):
        if name in known or name in given or not name.startswith(PLATFORM_PREFIXES):
            continue
        if composed and any(each.startswith(name) for each in known):
            continue
        level(RemarkTopic.VARIABLE, f"${name} is not set in the real run", _build_variable_hint(name, known), role)


def _iter_variable_uses(text: str) -> Iterator[tuple[str, bool]]:
    """Return (name, whether it is only the first part of a name composed at run time)."""
    found: dict[tuple[str, bool], None] = {}
    for match in _VARIABLE_USE_PATTERN.finditer(text):
        escaped, brace, name = match.groups()
        rest = text[match.end() : match.end() + 2]
        if brace and _DEFAULT_OPERATOR_PATTERN.match(rest):
            continue
        found[name, bool(escaped) and rest[:1] in ("$", "{")] = None
    for match in _ENVIRON_USE_PATTERN.finditer(text):
        if not match[2]:
            found[match[1], False] = None
    return iter(found)


def _build_variable_hint(name: str, known: Iterable[str]) -> str:
    ours = sorted(each for each in known if each.startswith(PLATFORM_PREFIXES))
    if any(each.startswith(name) and each != name for each in ours) and name.endswith("_"):
        return "A shell does not join names: compose it first, name=" + name + "…, and read ${!name}."
    return build_similar_name_hint(name, ours) or "Set it in the file. See the job file reference for all variables."
