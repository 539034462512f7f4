"""Writes the reference pages that come from the code: settings, states, access and exit codes.

python docs/generate.py            write them
python docs/generate.py --check    only say which are out of date; exit status 1 if any is
"""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from graphql import GraphQLField, GraphQLObjectType
from pydantic.fields import FieldInfo

from holdfast.core.access import RULES, Who
from holdfast.core.exits.exit import Behaviour
from holdfast.core.exits.specs import FAMILIES, LEGACY, ExitSpec, load_causes, load_family
from holdfast.core.states import FINAL, TRANSITIONS, Change, JobState, TaskState
from holdfast.server.openpai import handlers as handlers  # declares every address
from holdfast.server.openpai.endpoints import ENDPOINTS, Endpoint
from holdfast.server.openpai.endpoints import Who as Asker
from holdfast.server.primehub.jobs.states import FAILURES, PHASES
from holdfast.server.primehub.schema import build_schema
from holdfast.settings import Section, Settings

FOLDER = Path(__file__).parent / "reference"
NOTIFICATION = "<!-- Written by docs/generate.py from {source}. Change that, then run `make docs`. -->"

JOB_STATES = {
    JobState.PENDING: "Waits for room, for quota, or for its next attempt.",
    JobState.PREPARING: "Has its place; its tasks are being started.",
    JobState.RUNNING: "At least one task of the current attempt has started.",
    JobState.HELD: "A task of it failed and is kept for debugging; others may go on. Not final.",
    JobState.SUCCEEDED: "Ended well. Final.",
    JobState.FAILED: "Ended badly, was refused, or ran over its time limit; the message says which. Final.",
    JobState.CANCELLED: "Someone stopped it. Final.",
    JobState.UNKNOWN: "The engine cannot tell for the moment. Not final. (The embedded engine always can.)",
}
TASK_STATES = {
    TaskState.WAITING: "Not placed yet, or waits for its next try.",
    TaskState.PREPARING: "Has its place; is being started.",
    TaskState.RUNNING: "Its process runs.",
    TaskState.HELD: "Failed, and kept for debugging.",
    TaskState.SUCCEEDED: "Its program ended with exit code 0.",
    TaskState.FAILED: "Its program failed, or the platform did; the exit says which.",
    TaskState.STOPPED: "We ended it: the job was stopped, or the attempt was over.",
}
CHANGES = {
    Change.PLACE: "there is room for it",
    Change.START: "its first task runs",
    Change.HOLD: "a task failed and is kept",
    Change.RESUME: "nothing of it is kept any more, and it goes on",
    Change.RETRY: "the attempt ended and another one follows",
    Change.LOSE: "the engine lost sight of it",
    Change.SUCCEED: "the attempt ended well and no retry follows",
    Change.FAIL: "the attempt ended badly and no retry follows, or it was refused",
    Change.CANCEL: "someone stopped it and all its tasks have ended",
}


# --- settings


def render_settings() -> str:
    lines = [
        "# Settings",
        "",
        NOTIFICATION.format(source="src/holdfast/settings.py"),
        "",
        "Every setting has a default, so a settings file is optional. Later places win:",
        "",
        "1. `holdfast.toml` in the state folder (`HOLDFAST_HOME`, else `~/.holdfast`)",
        "2. environment variables: `HOLDFAST_<SECTION>_<NAME>`, such as `HOLDFAST_SERVER_PORT=9090`;",
        "   lists are written with commas",
        "3. options of the `holdfast up` command",
        "",
        "They are read when the server starts. A name that does not exist is an error, not ignored.",
        "",
        "```toml",
        "# ~/.holdfast/holdfast.toml",
        "[server]",
        "port = 9090",
        "",
        "[jobs]",
        "time_limit = 172800  # two days",
        "```",
    ]
    for name, section in _sections():
        lines += ["", f"## {name}", "", "| setting | kind | default | meaning |", "|---|---|---|---|"]
        lines += [_setting_row(field, info) for field, info in section.model_fields.items()]
    return _page(lines)


def _sections() -> Iterable[tuple[str, type[Section]]]:
    for name, info in Settings.model_fields.items():
        section = info.annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        yield name, section


def _setting_row(name: str, info: FieldInfo) -> str:
    cells = [f"`{name}`", _kind(info.annotation), _default(info.default), info.description or ""]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{word}"`' for word in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return _kind(next(part for part in get_args(annotation) if part is not type(None)))
    if get_origin(annotation) is list:
        return f"list of {_kind(get_args(annotation)[0])}s"
    if get_origin(annotation) is dict:
        return "table by name"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]


def _default(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, dict):
        return ", ".join(f"`{name}`" for name in value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value}`{_in_words(value)}" if isinstance(value, int) else f"`{value}`"


def _in_words(value: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if value >= size and value % size == 0:
            return f" ({value // size} {unit})"
    return ""


# --- states


def render_states() -> str:
    lines = [
        "# States",
        "",
        NOTIFICATION.format(source="src/holdfast/core/states.py"),
        "",
        "A job's state is one of eight words. Every change of it writes an event with time, reason and who caused it",
        "(`holdfast events JOB`).",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| {state} | {JOB_STATES[state]} |" for state in JobState),
        "",
        "```mermaid",
        "stateDiagram-v2",
        *(f"    {line}" for line in _diagram()),
        "```",
        "",
        "## Changes",
        "",
        "No other change exists; the table is the code.",
        "",
        "| from | change | to | when |",
        "|---|---|---|---|",
        *(f"| {a} | {change} | {b} | {CHANGES[change]} |" for (a, change), b in TRANSITIONS.items()),
        "",
        "## Tasks",
        "",
        "Each task of a job has a state of its own, for its newest try.",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| {state} | {TASK_STATES[state]} |" for state in TaskState),
    ]
    return _page(lines)


def _diagram() -> Iterable[str]:
    yield f"[*] --> {JobState.PENDING}"
    for (before, change), after in TRANSITIONS.items():
        yield f"{before} --> {after}: {change}"
    for state in JobState:
        if state in FINAL:
            yield f"{state} --> [*]"


# --- access


def render_access() -> str:
    lines = [
        "# Who may do what",
        "",
        NOTIFICATION.format(source="src/holdfast/core/access.py"),
        "",
        "| to | one must be |",
        "|---|---|",
        *(f"| {what} | {_who(who)} |" for who, what in RULES.values()),
        "",
        "Everyone may change their own password and manage their own tokens. A token can do what its user can.",
        "",
        "Jobs of groups you are not in do not exist for you: asking for one answers *not found*, not *forbidden*.",
        "",
        'With `access.reading = "users"` everyone who is logged in sees every job, as with OpenPAI; with `"anyone"`'
        " also those who are not, on the addresses of OpenPAI's clients. To act on a job one must be in its group.",
        "",
        'With `access.acting = "owners"` members act on their own jobs and schedules alone. Admins of the group, and'
        " admins, act on everybody's.",
    ]
    return _page(lines)


def _who(who: Who) -> str:
    return who.value if who is Who.ADMIN else f"{who.value}, or an admin"


# --- exit codes

RETRIED = {
    Behaviour.TRANSIENT: "always, not counted",
    Behaviour.TRANSIENT_CONFLICT: "always, after some minutes, not counted",
    Behaviour.PERMANENT: "never",
    Behaviour.UNKNOWN: "up to the job's own count",
}


def render_exit_codes() -> str:
    current = [spec for family in FAMILIES for spec in load_family(family)]
    lines = [
        "# Exit codes that OpenPAI's clients see",
        "",
        NOTIFICATION.format(source="src/holdfast/core/exits/data"),
        "",
        "A task's exit keeps the program's own code, with a kind and a message: that is what `holdfast show` and the",
        "native API tell. OpenPAI's clients know other codes, which say more of the cause and less of the program.",
        "They get the code of this table, and the program's own beside it.",
        "",
        "For jobs written for OpenPAI, the table also decides what is retried. When a task of such a job fails by",
        "itself, the last 64 KiB of its log are searched for known signs, in the order of the codes 220 to 235. The",
        "first one found is its cause. All other jobs are retried by how they ended alone.",
        "",
        *_exit_rows(sorted(current, key=lambda spec: (spec.code > 0, abs(spec.code)))),
        "",
        "Other negative codes get the row of -8000, other positive ones that of 256, and keep their number.",
        "",
        "## Causes",
        "",
        "What Holdfast knows beyond kind and code is one of these words, shown as the exit's `cause`.",
        "",
        "| cause | code |",
        "|---|---|",
        *(f"| `{name}` | {cause.code} |" for name, cause in load_causes().items()),
        "",
        "## Before OpenPAI 1.0",
        "",
        "Kept so that codes in old reports can be looked up. No job ends with them here.",
        "",
        *_exit_rows(load_family(LEGACY)),
    ]
    return _page(lines)


def _exit_rows(specs: Iterable[ExitSpec]) -> Iterable[str]:
    yield "| code | name | retried | why | what to try |"
    yield "|---|---|---|---|---|"
    for spec in specs:
        retried = "–" if spec.code == 0 else RETRIED[spec.behaviour]
        cells = [str(spec.code), spec.phrase, retried, spec.reason, " ".join(spec.solution)]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# --- OpenPAI's addresses

OPENPAI_TOPICS: dict[str, tuple[str, ...]] = {
    "Logins and tokens": ("", "info", "authn", "token", "tokens"),
    "Jobs": ("jobs",),
    "Jobs, first version": ("v1/jobs",),
    "Users": ("user", "users"),
    "Groups": ("group", "groups"),
    "Virtual clusters and sizes": ("virtual-clusters", "cluster"),
    "Storages": ("storage", "storages"),
    "Machines and the rest": ("kubernetes", "alerts", "internal"),
}
OPENPAI_INTRO = """\
Clients made for OpenPAI ask below `/rest-server` (`http://HOST:8080/rest-server/api/v2/jobs`), as with OpenPAI behind
its gateway; `/healthz` answers `Pylon ready.`, by which they know it, and links to logs lead below `/log-manager`.
[How to come from OpenPAI](../how-to/coming-from-openpai.md) has the rest of the way.

- A login is `Authorization: Bearer <token>`, or `Basic` with a user's name and a token as password.
- Bodies may be JSON (also when sent as `text/plain`) or forms with `nested[fields]`.
- A refusal is `{"code": ..., "message": ...}` with OpenPAI's codes. Trailing slashes do not matter. Pages of any origin
  may ask, with a token of their own (or none, with `access.reading = "anyone"`); large answers come as gzip to those
  who take it.
- Whoever asks too often gets 429 and `X-RateLimit-*` headers: see `openpai` in the [settings](settings.md). Behind a
  proxy every request comes from the proxy's address, so raise `requests_per_minute` there, or count in the proxy.

*Supported* does what OpenPAI does. *Answered empty*: there is none of it here, and the answer says so in the shape that
clients expect. *Not offered*: refused with `NotImplementedError` and a sentence.

At the root, where OpenPAI has its gateway:

| address | here |
|---|---|
| `/healthz` | supported |
| `/log-manager/...` | supported, as links to logs give it |
| `/` and its pages, such as `/job-detail.html` | not offered |
| `/grafana/`, `/prometheus/`, `/alert-manager/`, `/kubernetes-dashboard/` | not offered |
| port 9186, without the gateway | not offered |

Who may ask:"""
OPENPAI_DIFFERENCES = """\
- **Who reads.** With OpenPAI every user reads every job and every user record. Here members of a group read its jobs,
  and users see themselves and their own groups, unless `access.reading` says `users` or `anyone`. Admins see all. What
  one may not see is *not found*, also a storage.
- **One group, one virtual cluster.** They are the same thing here, so `grouplist` and `virtualCluster` of a user are
  both the groups; admins may use all. A group's `acls` name itself, and the datasets granted to it.
- **Tokens** are not JWTs but texts to be sent back as they are, and only their hashes are kept: a list shows handles
  (`hf_` and the id), which `DELETE` takes as well as the text. Tokens made by `holdfast token create` are application
  tokens here. At Holdfast's own addresses an application token can do all that its user can.
- **Passwords** need 8 characters instead of 6, and not ones that everybody tries first. `newPassword` of
  `PUT /users/me` is accepted *and* set. A wrong login says whether user or password are wrong, as with OpenPAI; after
  a few it is answered with 429, and one has to wait.
- **Names** of users and groups may have up to 63 letters, digits, dots, dashes and underscores; those of users `@`,
  too.
- **Secrets** in a user's `extension` (`jobSSH.key`, `githubPAT`, `boundedClusters`) are shown to that user alone; users
  who are no admins see public keys of others and nothing else of it. An `extension` may have 64 KiB, its `sshKeys` are
  public keys of a line each or are refused, its numbers are finite, and a key set to null is removed.
- **A job file that is not YAML** is refused with 400, a code and the line, where OpenPAI answers 500. What is wrong
  with a prerequisite is said once, for the type it names, where OpenPAI complains about every type there is.
- **Roles** may be spelled as in the job file where OpenPAI wants lower-case letters and digits only.
- **Lists**, events and jobs of many tasks are answered to one user one after another; of more than 20 that wait, the
  next is answered with 429.
- **Kubernetes** is not there: machines are listed in its shape, pods are not."""


def render_openpai_api() -> str:
    lines = ["# OpenPAI's API", "", NOTIFICATION.format(source="src/holdfast/server/openpai"), "", OPENPAI_INTRO, ""]
    lines += [f"- *{who.name.lower()}*: {who.value}" for who in Asker]
    left = list(ENDPOINTS)
    for topic, words in OPENPAI_TOPICS.items():
        here = [each for each in left if _openpai_word(each.path) in words]
        left = [each for each in left if each not in here]
        lines += [
            "",
            f"## {topic}",
            "",
            "| method | below `/rest-server/api` | here | who | note |",
            "|---|---|---|---|---|",
        ]
        lines += _openpai_rows(here)
    assert not left, f"addresses without a topic: {[each.path for each in left]}"
    return _page([*lines, "", "## Differences from OpenPAI", "", OPENPAI_DIFFERENCES])


def _openpai_word(path: str) -> str:
    """What decides under which heading an address stands."""
    version, *rest = path.strip("/").split("/")
    if version == "v1" and "jobs" in rest:
        return "v1/jobs"
    return version if version == "internal" else (rest or [""])[0]


def _openpai_rows(endpoints: list[Endpoint]) -> list[str]:
    """One per handler and method, by path; several addresses may lead to it."""
    same: dict[Any, list[str]] = {}
    for each in sorted(endpoints, key=lambda each: _openpai_order(each.path)):
        key = (each.method, each.support.value, each.who.name.lower(), each.note, each.handler)
        same.setdefault(key, []).append(f"`{each.path.replace(':path}', '}')}`")
    return [
        f"| {method} | {'<br>'.join(paths)} | {support} | {who} | {_sentence(note)} |"
        for (method, support, who, note, _), paths in same.items()
    ]


def _openpai_order(path: str) -> tuple[str, str]:
    """Today's version first."""
    return ("0" if path.startswith("/v2") else "1", path)


def _sentence(note: str) -> str:
    first = note.partition(" ")[0]
    begun = note[:1].upper() + note[1:] if first.isalpha() and first.islower() else note
    return (begun if begun.endswith(".") or not begun else f"{begun}.").replace("|", "\\|")


# --- PrimeHub's API

PRIMEHUB_INTRO = """\
Clients made for PrimeHub, such as `primehub-python-sdk`, are given `http://HOST:8080/api/graphql` as endpoint and a
token of `holdfast token create` (or of `primehub config generate-token http://HOST:8080`).
[How to come from PrimeHub](../how-to/coming-from-primehub.md) has the rest of the way.

- `POST /api/graphql` takes a form with `query` and `variables` (JSON text), as the SDK sends it, or the same as JSON.
- Every request carries `Authorization: Bearer <token>`.
- Refusals are a list `errors` of `message`, `path` and `extensions.code`; other addresses answer `{"code", "message"}`.
- Ids are names: a group's, a user's, an image's, an instance type's, a volume's. `everyone` is the group of all: what
  is linked to it is global.
- Lists have pages of 10 rows (`page`, from 1); past the end a page is empty. `first`/`after` and `last`/`before` go by
  cursor, which is a row's id: 100 rows at most, and of jobs in the order of `createTime` only. `where` knows `search`
  (any letters' case), `..._contains` (exactly) and `..._in`; of `orderBy` the first key counts.
- A query may have 32768 characters, 300 fields (fragments written out), 20 levels and 20 things at the top, its
  variables 10000 values, the answer 32 Mi characters of text and 100 errors. Queries of more than 50 fields are
  answered one at a time for each user. The schema tells of itself, in a query of its own."""
PRIMEHUB_ADDRESSES = [
    ("POST", "/api/graphql", "all below"),
    ("GET", "/api/logs/namespaces/hub/phjobs/ID", "a job's log as text; `follow=true`, `tailLines=N`"),
    ("GET", "/api/logs/jupyterhub", "refused: there are no notebooks"),
    ("GET, POST", "/api/files/groups/GROUP/PATH", "one shared file; `download=1` gives it as an attachment"),
    ("GET", "/api/report/monthly/YEAR/MONTH", "what tasks were given in a month, as CSV; for admins"),
    ("GET", "/api/report/monthly/details/YEAR/MONTH", "the same, a line for each try of each task"),
    ("GET, POST", "/oidc/auth-flow/...", "pages that `primehub config generate-token` leads to"),
    ("GET, POST", "/console/oidc/auth-flow/...", "the same"),
    ("GET", "/api/health", "200, for anyone"),
]
PAGING = ("page", "first", "last", "after", "before")
PRIMEHUB_CODES = [
    ("NOT_AUTH", "whoever asks may not"),
    ("RESOURCE_NOT_FOUND", 'there is none, or none that one may see: `phjobs.primehub.io "ID" not found`'),
    ("RESOURCE_CONFLICT", "there is one already, or something is in the way"),
    ("GROUP_CONFLICT_NAME", "there is such a group already, or one too much like it"),
    ("USER_CONFLICT_USERNAME", "there is such a user already"),
    ("USER_NOT_EXIST", "there is no such user, or none that one may know of"),
    ("EXCEED_QUOTA", "no quota has room for one task of that size"),
    ("REQUEST_BODY_INVALID", "what was sent is no good; the message says what"),
    ("GRAPHQL_VALIDATION_FAILED", "the query or its variables do not fit the schema"),
    ("ACCESS_TOKEN_EXPIRED", "`Invalid API Token`"),
    ("API_UNAVAILABLE", "too many requests, or the database cannot be used"),
    ("INTERNAL_SERVER_ERROR", "our mistake; the server's log has it under the id in the message"),
]
PRIMEHUB_DIFFERENCES = """\
- **Admins** see and do everything, in every group.
- **Names that do not exist** are refused when a job is submitted, if it is the instance type; an image is looked for
  when the job starts, as in PrimeHub: `Image not found: NAME`.
- **Rerun** keeps the time limit. **Cancel** of a job that has ended changes nothing.
- **Logs** stay, also of cancelled and timed-out jobs. `follow=true` waits for a job that has not started. Bytes that
  are no UTF-8 are sent as U+FFFD here; `holdfast logs` has them as they are.
- **Artifacts** are kept whatever ended the job, and those over a limit are named in its events; the rest is kept.
- **Jobs of other clients** are listed too: `command` is that of the first role, and `instanceType` is called `custom`
  when the job says itself what it needs.
- **`message`** of a job that waits or failed says more after PrimeHub's own words: how it ended, such as `Exit code 3`,
  where PrimeHub had the last lines of its log. That of a recurring job names the field of a cron text that is wrong.
- **A job that no machine has room for** stays Pending, for the reason `PodPending`, and does not go to and fro. What it
  asks for is set aside: later jobs, of other groups as well, take only what is left ([queue](../explanation/queue.md)).
  One that is larger than every machine fails at once.
- **Recurring jobs** of the type `inactive` are `invalid`, too, when what they name is gone. Nobody changes what
  another's runs where its jobs see folders that they do not ([whose it is](../how-to/recurring-jobs.md#whose-it-is)).
- **`monitoring`** is of the job's first task; null until it was first looked at.
- **`Unknown`** does not occur; there is no limit of requeues, and no mail is sent.
- **Secrets** are never told: `password` is null. Two of one name are refused, also when their types differ. Values of
  MLflow's variables are told to admins of the group; other members see `******`.
- **Groups** with jobs that are not over stay until they are; jobs on record keep the name of one that is deleted.
- **Users** may share an email. New ones for whom no `groups` are given join the group `default`. No mail is sent to
  them, and a password that is `temporary` is refused.
- **A job without `groupId`** goes to the group `default`, or else to the only one of whoever asks; PrimeHub refused it.
- **Apps, deployments, models and notebooks** are not there: lists are empty, changes refused."""


def render_primehub_api() -> str:
    schema = build_schema()
    assert schema.query_type is not None
    assert schema.mutation_type is not None
    lines = ["# PrimeHub's API", "", NOTIFICATION.format(source="src/holdfast/server/primehub"), "", PRIMEHUB_INTRO, ""]
    lines += ["## Addresses", "", "| method | address | what |", "|---|---|---|"]
    lines += [f"| {method} | `{path}` | {_sentence(what)} |" for method, path, what in PRIMEHUB_ADDRESSES]
    for title, root in (("Queries", schema.query_type), ("Mutations", schema.mutation_type)):
        lines += ["", f"## {title}", "", "| field | takes | gives | note |", "|---|---|---|---|", *_fields(root)]
    lines += ["", "## Phases and reasons", "", *_primehub_words()]
    lines += ["", "## Error codes", "", "| code | when |", "|---|---|"]
    lines += [f"| `{code}` | {_sentence(when)} |" for code, when in PRIMEHUB_CODES]
    return _page([*lines, "", "## Differences from PrimeHub", "", PRIMEHUB_DIFFERENCES])


def _fields(root: GraphQLObjectType) -> list[str]:
    return [
        f"| `{name}` | {_arguments(field)} | `{field.type}` | {field.description or ''} |"
        for name, field in root.fields.items()
    ]


def _arguments(field: GraphQLField) -> str:
    """Those of a page by number or cursor are the same everywhere."""
    own = [f"`{name}{'!' * str(each.type).endswith('!')}`" for name, each in field.args.items() if name not in PAGING]
    return ", ".join([*own, "paging"] if set(PAGING) <= set(field.args) else own)


def _primehub_words() -> list[str]:
    states = ["| Holdfast's state | `phase` |", "|---|---|"]
    states += [f"| {state} | `{phase}` |" for state, phase in PHASES.items()]
    exits = ["| how a failed job ended | `reason` | `message` begins |", "|---|---|---|"]
    exits += [
        f"| {kind} | `{reason}` | {before and f'`{before.strip()}`'} |" for kind, (reason, before) in FAILURES.items()
    ]
    stop = (
        "A job that was asked to stop is `Cancelled` at once, for the reason `Cancelled`. Its message is\n"
        "`Cancelled by user`, or says so where the next run of its schedule took its place."
    )
    return [*states, "", stop, "", *exits]


# --- writing


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": render_settings,
    "states.md": render_states,
    "access.md": render_access,
    "openpai-api.md": render_openpai_api,
    "primehub-api.md": render_primehub_api,
    "exit-codes.md": render_exit_codes,
}


def outdated() -> list[str]:
    """Names of pages that are missing or differ from what the code says."""
    return [name for name, render in PAGES.items() if _read(FOLDER / name) != render()]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def write() -> None:
    for name in outdated():
        (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
        sys.stdout.write(f"wrote {FOLDER / name}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the reference pages that come from the code.")
    parser.add_argument("--check", action="store_true", help="only say which are out of date")
    if not parser.parse_args().check:
        write()
        return 0
    stale = outdated()
    for name in stale:
        sys.stdout.write(f"out of date: docs/reference/{name} (run: make docs)\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
