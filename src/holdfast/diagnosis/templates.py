"""Templates in a job's commands that nothing filled in: the shell got them as they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.core.job import Role
from holdfast.core.verdicts import Fault

_TEMPLATE = re.compile(r"<%\s{0,5}\$[\w.\[\]-]{1,200}\s{0,5}%>")
_SECTIONS = frozenset({"parameters", "secrets", "data", "output", "script", "prerequisites"})


def unfilled_template(role: Role, fault: Fault, values: Mapping[str, str]) -> str:
    """The first one that is left in the role's commands, where the fault is what a shell makes of it; else empty."""
    if not _comes_of_it(fault, values):
        return ""
    found = _TEMPLATE.search("\n".join(role.commands))
    return found[0] if found else ""


def _comes_of_it(fault: Fault, values: Mapping[str, str]) -> bool:
    if fault is Fault.UNSET_VARIABLE:
        return values.get("variable") in _SECTIONS
    if fault is Fault.MISSING_FILE:
        return values.get("file", "").startswith(("%", "<%")) or "<%" in values.get("said", "")
    return fault in (Fault.SHELL_SYNTAX, Fault.UNRESOLVED_TEMPLATE) or "<%" in values.get("said", "")
