"""Many users from a table: CSV as spreadsheets and OpenPAI's batch registration write it."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.services.names import MAX_EMAIL_LENGTH, check_text, check_user_name
from holdfast.services.people.passwords import check_password

MAX_LINES = 500  # each new password costs the server a moment
_COLUMNS = {
    "name": "name",
    "user": "name",
    "username": "name",
    "email": "email",
    "password": "password",
    "admin": "admin",
    "groups": "groups",
    "group": "groups",
    "vc": "groups",
    "virtual cluster": "groups",
    "virtualcluster": "groups",
}
_TRUE = frozenset({"true", "yes", "y", "1", "admin", "on"})
_FALSE = frozenset({"", "false", "no", "n", "0", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    number: int
    name: str
    email: str = ""
    password: str = ""  # empty: one is made
    admin: bool = False
    groups: tuple[str, ...] | None = None  # None: the default one
    problem: str = ""
    hint: str = ""


def read_lines(text: str, users: Collection[str], groups: Collection[str]) -> list[Line]:
    """Every line with what is wrong with it. UserError when it is no table of users at all."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if any(map(str.strip, row))]
    except csv.Error as error:
        raise UserError(msg("That is not CSV: {error}", error=error), field="text") from None
    if not rows:
        raise UserError(msg("There is nothing in it"), field="text", hint=msg("Paste lines, or choose a file."))
    columns = _columns(rows[0])
    if len(rows) - 1 > MAX_LINES:
        raise UserError(
            msg("At most {most_lines} users at a time", most_lines=MAX_LINES),
            field="text",
            hint=msg("Take several turns."),
        )
    return list(_checked(rows[1:], columns, {name.lower() for name in users}, set(groups)))


def _columns(first: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, title in enumerate(first):
        name = _COLUMNS.get(title.strip().lower().lstrip("\ufeff"))
        if name is None:
            hint = "name, email, password, admin, groups."
            raise UserError(
                msg("There is no column {title}", title=repr(title.strip()[:40])),
                field="text",
                hint=msg("The first line names: {hint}", hint=hint),
            )
        found[name] = number
    if "name" not in found:
        raise UserError(
            msg("There is no column with names"), field="text", hint=msg("The first line is: name,email,groups")
        )
    return found


def _checked(rows: list[list[str]], columns: dict[str, int], users: set[str], groups: set[str]) -> Iterator[Line]:
    taken = set(users)
    for number, row in enumerate(rows, 2):
        cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
        line = Line(
            number=number,
            name=cells["name"],
            email=cells.get("email", ""),
            password=cells.get("password", ""),
            admin=cells.get("admin", "").lower() in _TRUE,
            groups=_groups(cells.get("groups", "")),
        )
        yield _with_problem(line, cells.get("admin", "").lower(), taken, groups)
        taken.add(line.name.lower())


def _groups(text: str) -> tuple[str, ...] | None:
    for sign in "|;,":
        text = text.replace(sign, " ")
    return tuple(dict.fromkeys(text.split())) or None


def _with_problem(line: Line, admin: str, taken: set[str], groups: set[str]) -> Line:
    try:
        _check(line, admin, taken, groups)
    except UserError as error:
        return replace(line, problem=error.message, hint=error.hint or "")
    return line


def _check(line: Line, admin: str, taken: set[str], groups: set[str]) -> None:
    check_user_name(line.name)
    if line.name.lower() in taken:
        raise UserError(msg("There is a user {name} already", name=line.name))
    check_text(line.email, "email", longest=MAX_EMAIL_LENGTH)
    if line.password:
        check_password(line.password, user=line.name)
    if admin not in _TRUE | _FALSE:
        raise UserError(msg("{admin} is neither true nor false", admin=repr(admin[:20])))
    missing = [group for group in line.groups or () if group not in groups]
    if missing:
        raise UserError(msg("There is no group {x1}", x1=missing[0][:60]), hint=msg("Add it first."))
