"""Who is told of what, as job files write it and options give it in a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import (
    CHOICES,
    USUAL,
    NotificationEvent,
    Notify,
    Way,
    address_problem,
    in_order,
    read_events,
)

from .fields import At, Fields, Key, Kind, Wrong, guess_or_list
from .kinds import choice, either, list_of, schema_of, text
from .templates import secrets_in

MAX_COUNT = 20  # of each job
OWN_MAIL = "me"  # stands for the mail address of the job's user
_WORDS = tuple(event.value for event in CHOICES)
_MAX_WORD_LENGTH = 100

_EVENT = choice(*_WORDS)
_EVENTS = either(
    (str, _EVENT),
    (list, list_of(_EVENT, least=1, most=len(_WORDS))),
    otherwise=msg("an event or a list of events"),
)
_ADDRESS = text(most=2000, line=True)
_WAYS = {
    "webhook": Key(_ADDRESS, msg("Address that is sent JSON; better a secret: <% $secrets.NAME %>.")),
    "slack": Key(_ADDRESS, msg("The same for Slack's text, which Mattermost and others take as well.")),
    "mail": Key(_ADDRESS, msg("A mail address; {own_mail}: that of the job's user.", own_mail=OWN_MAIL)),
}
_ENTRY = {**_WAYS, "on": Key(_EVENTS, msg("What is told. Default: everything but started, stopped and retried."))}


def _read_entry(at: At) -> Notify:
    if isinstance(at.node.value, str):
        return Notify(events=frozenset({NotificationEvent(_EVENT.read(at))}))
    fields = Fields(at)
    found = fields.table(_ENTRY)
    fields.close()
    on = found.get("on", USUAL)
    events = frozenset(NotificationEvent(event) for event in ([on] if isinstance(on, str) else on))
    ways = [name for name in _WAYS if name in found]
    if len(ways) > 1:
        raise Wrong(
            msg("has both {x1} and {x2}", x1=ways[0], x2=ways[1]), msg("Write one entry for each."), rule="oneOf"
        )
    if not ways:
        return Notify(events=events)
    return _with_address(at, Notify(events=events, way=Way(ways[0]), address=found[ways[0]]))


def _with_address(at: At, notify: Notify) -> Notify:
    assert notify.way is not None
    if notify.way is Way.MAIL and notify.address == OWN_MAIL:
        return Notify(events=notify.events, way=Way.MAIL)
    if secrets_in(notify.address):
        return notify
    wrong = address_problem(notify.way, notify.address)
    if wrong:
        raise Wrong(f"{notify.way} {wrong}", rule="format")
    if notify.way is not Way.MAIL:
        at.warn(
            msg("shows its {way} address to everybody who may see the job", way=notify.way),
            msg("Put it under secrets and write <% $secrets.NAME %> here."),
        )
    return notify


def _read_notify(at: At) -> tuple[Notify, ...]:
    if not isinstance(at.node.value, list):
        return (_read_entry(at),)
    items = at.items()
    if len(items) > MAX_COUNT:
        raise Wrong(
            msg("has {items} entries; at most {most} are accepted", items=len(items), most=MAX_COUNT),
            rule="maxItems",
            expected=MAX_COUNT,
        )
    return joined([found for item in items if (found := item.apply(_read_entry, None)) is not None])


def joined(found: Sequence[Notify]) -> tuple[Notify, ...]:
    """What goes to the owner's own recipients as one, and first."""
    own = frozenset(event for each in found if each.way is None for event in each.events)
    return (*((Notify(events=own),) if own else ()), *dict.fromkeys(each for each in found if each.way is not None))


_ONLY_ONE = [{"required": [one, other]} for one in _WAYS for other in _WAYS if one < other]
_ONE: dict[str, Any] = {"anyOf": [_EVENT.schema, {**schema_of(_ENTRY), "not": {"anyOf": _ONLY_ONE}}]}
NOTIFY: Kind[tuple[Notify, ...]] = Kind(
    _read_notify, {"anyOf": [*_ONE["anyOf"], {"type": "array", "items": _ONE, "maxItems": MAX_COUNT}]}
)


# What OpenPAI's form asks for, mails to the job's user, and what we call it.
_OPENPAI = {
    "running": NotificationEvent.STARTED,
    "succeeded": NotificationEvent.SUCCEEDED,
    "stopped": NotificationEvent.STOPPED,
    "failed": NotificationEvent.FAILED,
    "retried": NotificationEvent.RETRIED,
}


def read_status_mails(at: At) -> tuple[Notify, ...]:
    """OpenPAI's extras.jobStatusChangeNotification. What it does not know is tolerated, as it was there."""
    wanted = at.entries()
    events = frozenset(event for name, event in _OPENPAI.items() if name in wanted and wanted[name].node.value is True)
    return (Notify(events=events, way=Way.MAIL),) if events else ()


def parse_notify(words: str, field: str = "notify") -> Notify:
    """`failed,held`, as options and queries give it: to the owner's own recipients."""
    try:
        return Notify(events=read_events(word for word in words.split(",") if word.strip()) or USUAL)
    except KeyError as error:
        word = str(error.args[0])[:_MAX_WORD_LENGTH]
        hint = guess_or_list(word, _WORDS)
        raise UserError(
            msg("{word} is nothing that notifications tell of", word=repr(word)), field=field, hint=hint
        ) from None


def with_notify(notify: tuple[Notify, ...], more: Notify) -> tuple[Notify, ...]:
    return joined([*notify, more])


def write_notify(notify: Sequence[Notify]) -> Any:
    """As a job file says it."""
    if len(notify) == 1 and notify[0].way is None:
        return in_order(notify[0].events)
    return [_write_entry(each) for each in notify]


def _write_entry(notify: Notify) -> dict[str, Any]:
    to = {} if notify.way is None else {notify.way.value: notify.address or OWN_MAIL}
    return {**to, **({} if notify.events == USUAL and to else {"on": in_order(notify.events)})}
