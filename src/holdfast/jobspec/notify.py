"""Notifications in job files and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import (
    DEFAULT_EVENTS,
    SELECTABLE_EVENTS,
    Channel,
    NotificationEvent,
    NotifySpec,
    find_address_problem,
    list_event_names,
    parse_events,
)

from .fields import FieldKind, Fields, FieldSpec, FieldValue, InvalidValue, build_name_hint
from .kinds import build_schema, make_choice_kind, make_list_kind, make_text_kind, make_union_kind
from .templates import list_secret_references

MAX_NOTIFY_ENTRIES = 20  # of each job
OWN_ADDRESS_KEYWORD = "me"  # refers to the email address of the job's user
_EVENT_NAMES = tuple(event.value for event in SELECTABLE_EVENTS)
_MAX_WORD_LENGTH = 100

_EVENT_KIND = make_choice_kind(*_EVENT_NAMES)
_EVENTS_KIND = make_union_kind(
    (str, _EVENT_KIND),
    (list, make_list_kind(_EVENT_KIND, least=1, most=len(_EVENT_NAMES))),
    otherwise=msg("an event or a list of events"),
)
_ADDRESS_KIND = make_text_kind(most=2000, line=True)
_CHANNEL_KEYS = {
    "webhook": FieldSpec(_ADDRESS_KIND, msg("URL that receives JSON; store it as a secret: <% $secrets.NAME %>.")),
    "slack": FieldSpec(_ADDRESS_KIND, msg("URL of a Slack-compatible webhook, such as Slack or Mattermost.")),
    "mail": FieldSpec(
        _ADDRESS_KIND, msg("Email address; {own_mail}: the address of the job's user.", own_mail=OWN_ADDRESS_KEYWORD)
    ),
}
_ENTRY_KEYS = {
    **_CHANNEL_KEYS,
    "on": FieldSpec(_EVENTS_KIND, msg("Events to send. Default: all except started, stopped and retried.")),
}


def _read_entry(at: FieldValue) -> NotifySpec:
    if isinstance(at.node.value, str):
        return NotifySpec(events=frozenset({NotificationEvent(_EVENT_KIND.read(at))}))
    fields = Fields(at)
    found = fields.read_fields(_ENTRY_KEYS)
    fields.report_unknown_keys()
    on = found.get("on", DEFAULT_EVENTS)
    events = frozenset(NotificationEvent(event) for event in ([on] if isinstance(on, str) else on))
    ways = [name for name in _CHANNEL_KEYS if name in found]
    if len(ways) > 1:
        raise InvalidValue(
            msg("has both {first} and {second}", first=ways[0], second=ways[1]),
            msg("Write a separate entry for each address."),
            rule="oneOf",
        )
    if not ways:
        return NotifySpec(events=events)
    return _validate_address(at, NotifySpec(events=events, way=Channel(ways[0]), address=found[ways[0]]))


def _validate_address(at: FieldValue, notify: NotifySpec) -> NotifySpec:
    assert notify.way is not None
    if notify.way is Channel.MAIL and notify.address == OWN_ADDRESS_KEYWORD:
        return NotifySpec(events=notify.events, way=Channel.MAIL)
    if list_secret_references(notify.address):
        return notify
    wrong = find_address_problem(notify.way, notify.address)
    if wrong:
        raise InvalidValue(f"{notify.way} {wrong}", rule="format")
    if notify.way is not Channel.MAIL:
        at.add_warning(
            msg("shows its {channel} address to every user who can view the job", channel=notify.way),
            msg("Move it to secrets and write <% $secrets.NAME %> instead."),
        )
    return notify


def _read_notify(at: FieldValue) -> tuple[NotifySpec, ...]:
    if not isinstance(at.node.value, list):
        return (_read_entry(at),)
    items = at.list_items()
    if len(items) > MAX_NOTIFY_ENTRIES:
        raise InvalidValue(
            msg("has {items} entries; the limit is {limit}", items=len(items), limit=MAX_NOTIFY_ENTRIES),
            rule="maxItems",
            expected=MAX_NOTIFY_ENTRIES,
        )
    return merge_notify([found for item in items if (found := item.apply_reader(_read_entry, None)) is not None])


def merge_notify(found: Sequence[NotifySpec]) -> tuple[NotifySpec, ...]:
    """Merge entries; the owner's own recipients are one entry, and first."""
    own = frozenset(event for each in found if each.way is None for event in each.events)
    return (*((NotifySpec(events=own),) if own else ()), *dict.fromkeys(each for each in found if each.way is not None))


_EXCLUSIVE_CHANNELS = [{"required": [one, other]} for one in _CHANNEL_KEYS for other in _CHANNEL_KEYS if one < other]
_ENTRY_SCHEMA: dict[str, Any] = {
    "anyOf": [_EVENT_KIND.schema, {**build_schema(_ENTRY_KEYS), "not": {"anyOf": _EXCLUSIVE_CHANNELS}}]
}
NOTIFY_KIND: FieldKind[tuple[NotifySpec, ...]] = FieldKind(
    _read_notify,
    {"anyOf": [*_ENTRY_SCHEMA["anyOf"], {"type": "array", "items": _ENTRY_SCHEMA, "maxItems": MAX_NOTIFY_ENTRIES}]},
)


# OpenPAI's events, mailed to the job's user.
_OPENPAI_EVENTS = {
    "running": NotificationEvent.STARTED,
    "succeeded": NotificationEvent.SUCCEEDED,
    "stopped": NotificationEvent.STOPPED,
    "failed": NotificationEvent.FAILED,
    "retried": NotificationEvent.RETRIED,
}


def read_status_mails(at: FieldValue) -> tuple[NotifySpec, ...]:
    """Read OpenPAI's extras.jobStatusChangeNotification. Unknown keys are ignored, as in OpenPAI."""
    wanted = at.get_entries()
    events = frozenset(
        event for name, event in _OPENPAI_EVENTS.items() if name in wanted and wanted[name].node.value is True
    )
    return (NotifySpec(events=events, way=Channel.MAIL),) if events else ()


def parse_notify(words: str, field: str = "notify") -> NotifySpec:
    """Parse `failed,held` from options and queries, for the owner's recipients."""
    try:
        return NotifySpec(events=parse_events(word for word in words.split(",") if word.strip()) or DEFAULT_EVENTS)
    except KeyError as error:
        word = str(error.args[0])[:_MAX_WORD_LENGTH]
        hint = build_name_hint(word, _EVENT_NAMES)
        raise UserError(msg("{value} is not a notification event", value=repr(word)), field=field, hint=hint) from None


def add_notify(notify: tuple[NotifySpec, ...], more: NotifySpec) -> tuple[NotifySpec, ...]:
    return merge_notify([*notify, more])


def render_notify(notify: Sequence[NotifySpec]) -> Any:
    """Convert to the form of a job file."""
    if len(notify) == 1 and notify[0].way is None:
        return list_event_names(notify[0].events)
    return [_render_entry(each) for each in notify]


def _render_entry(notify: NotifySpec) -> dict[str, Any]:
    to = {} if notify.way is None else {notify.way.value: notify.address or OWN_ADDRESS_KEYWORD}
    return {**to, **({} if notify.events == DEFAULT_EVENTS and to else {"on": list_event_names(notify.events)})}
