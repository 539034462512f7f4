"""What requests about notices hold, and what answers do."""

from __future__ import annotations

from pydantic import Field

from .models import Given, Taken

Events = list[str]


class NewRecipient(Taken):
    way: str = Field(max_length=20, description="webhook, slack or mail.")
    address: str = Field(max_length=2000)
    events: Events | None = Field(None, max_length=20, description="Left out: all but started, stopped and retried.")


class RecipientChange(Taken):
    events: Events = Field(max_length=20)


class RecipientView(Given):
    id: str
    way: str
    address: str = Field(description="Of webhooks in part: whoever knows all of it may write there.")
    events: list[str]
    created_at: str
    secret: str | None = Field(description="What the receiver checks signatures with; to its owner alone.")
    problem: str | None = Field(description="Why nothing can be sent there, and what to do; null: nothing is wrong.")


class RecipientListView(Given):
    items: list[RecipientView]


class NoticeTestView(Given):
    arrived: bool
    said: str = Field(description="What came back: a status, or why nothing did.")


class NoticeAddress(Taken):
    address: str = Field(max_length=2000)


class NoticeSecretView(Given):
    secret: str


class NoticeView(Given):
    id: str = Field(description="The same in every try: receivers know a repetition by it.")
    event: str
    job: str | None
    subject: str
    way: str
    address: str
    state: str = Field(description="waiting, sending, sent, unconfirmed (it may have arrived) or failed.")
    tries: int
    error: str = Field(description="What came of the last try.")
    created_at: str
    next_at: str | None
    ended_at: str | None


class NoticeListView(Given):
    items: list[NoticeView]
    next: int | None
