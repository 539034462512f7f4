"""notifications: what one is told outside, and where."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import first_line_of_stdin, sure
from ..quantities import show_instant

if TYPE_CHECKING:
    from holdfast.api.notifications import Recipient
    from holdfast.sdk import Client

notifications = typer.Typer(help="What you are told of your jobs, and where.", invoke_without_command=True)


class Way(StrEnum):
    WEBHOOK = "webhook"
    SLACK = "slack"
    MAIL = "mail"


Id = Annotated[str, typer.Argument(metavar="ID", help="Of the recipient, or how that begins.")]
User = Annotated[str | None, typer.Option(help="Of this user; for admins.")]
STATES = {"sent": "green", "failed": "red", "unconfirmed": "yellow"}


@notifications.callback()
def list_without_a_word(ctx: typer.Context) -> None:
    """What you are told of your jobs, and where. Without a word after it: as `ls`."""
    if ctx.invoked_subcommand is None:
        list_notifications()


@notifications.command("ls")
def list_notifications(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 20,
    before: Annotated[
        int | None, typer.Option(min=1, help="Older ones: a number that an earlier list ended with.")
    ] = None,
    user: User = None,
    json: Json = False,
) -> None:
    """Show what you were told lately, and what came of it."""
    with connect() as client:
        page = client.notifications(user=user, before=before, limit=limit)
    if json:
        output.emit_json(page)
        return
    if not page.items:
        output.note("There are no notifications yet. `holdfast notifications add` says where to send them.")
    rows = [
        [
            show_instant(each.created_at),
            each.subject,
            each.way,
            each.address,
            each.state,
            str(each.tries),
            each.error or "-",
        ]
        for each in page.items
    ]
    output.table(
        ("AT", "WHAT", "BY", "TO", "STATE", "TRIES", "SAID"),
        rows,
        cut=("WHAT", "TO", "SAID"),
        drop=("TRIES", "TO", "SAID"),
    )
    if page.next is not None:
        output.hint(f"holdfast notifications ls --before {page.next}")
    else:
        output.hint("holdfast notifications recipients", "holdfast notifications add webhook URL")


@notifications.command("recipients")
def list_recipients(user: User = None, json: Json = False) -> None:
    """List where you are told of what."""
    with connect() as client:
        found = client.recipients(user=user)
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.note("Nothing is told to you outside yet.")
    rows = [[each.id, each.way, each.address, ", ".join(each.events)] for each in found]
    output.table(("ID", "BY", "TO", "EVENTS"), rows, cut=("EVENTS", "TO"))
    broken = [each for each in found if each.problem]
    for each in broken:
        output.note(f"{output.safe(each.id)}: {output.safe(each.problem or '')}")
    if broken and user is None:
        output.hint(f"holdfast notifications rm {output.safe(broken[0].id)}")
    else:
        output.hint("holdfast notifications add webhook URL --on failed,held", "holdfast notifications test ID")


@notifications.command("add")
def add_recipient(
    way: Annotated[Way, typer.Argument(metavar="WAY", help="webhook (JSON), slack (text), or mail.")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="An https or mail address; - reads stdin.")],
    on: Annotated[
        str | None,
        typer.Option(metavar="EVENTS", help="Such as failed,held. Default: all but started, stopped and retried."),
    ] = None,
    json: Json = False,
) -> None:
    """Be told of your jobs at an address."""
    chosen = None if on is None else [word.strip() for word in on.split(",") if word.strip()]
    with connect() as client:
        made = client.add_recipient(
            way.value, first_line_of_stdin("address") if address == "-" else address, events=chosen
        )
    if json:
        output.emit_json(made)
        return
    output.emit(f"Added {made.id}: {output.safe(made.address)} is told of {', '.join(made.events)}.")
    if made.secret:
        output.emit(f"Its notifications are signed with {made.secret}")
    output.hint(f"holdfast notifications test {made.id}")


@notifications.command("choose")
def choose_events(
    id: Id,
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="Such as failed,held.")],
    json: Json = False,
) -> None:
    """Choose other events for a recipient."""
    with connect() as client:
        changed = client.choose_events(_whole_id(client, id), [word.strip() for word in events.split(",")])
    if json:
        output.emit_json(changed)
    else:
        output.emit(f"{output.safe(changed.address)} is told of {', '.join(changed.events)}.")


@notifications.command("rm")
def remove_recipient(id: Id, yes: Yes = False, json: Json = False) -> None:
    """Remove a recipient."""
    with connect() as client:
        chosen = _whole_id(client, id)
        sure(f"Remove the recipient {output.safe(chosen)}?", yes)
        client.remove_recipient(chosen)
    if json:
        output.emit_json({"removed": chosen})
    else:
        output.emit(f"Removed {output.safe(chosen)}.")


@notifications.command("test")
def try_recipient(id: Id, json: Json = False) -> None:
    """Send a notification to a recipient now, and say what came back."""
    with connect() as client:
        came = client.test_recipient(_whole_id(client, id))
    if json:
        output.emit_json(came)
    else:
        output.emit(f"It arrived: {came.said}." if came.arrived else f"It did not arrive: {came.said}.")
    if not came.arrived:
        raise typer.Exit(1)


@notifications.command("secret")
def show_secret(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of a webhook, as a job names it; - reads stdin.")],
    json: Json = False,
) -> None:
    """Show what the receiver at an address checks signatures with."""
    with connect() as client:
        found = client.notification_secret(first_line_of_stdin("address") if address == "-" else address)
    if json:
        output.emit_json(found)
    else:
        output.emit(found.secret)


def _whole_id(client: Client, id: str) -> str:
    from holdfast.core.errors import UserError

    found: tuple[Recipient, ...] = client.recipients()
    fitting = [each.id for each in found if each.id == id or each.id.removeprefix("to-").startswith(id)]
    if len(fitting) > 1:
        raise UserError(
            f"{len(fitting)} recipients begin so", hint="Give more of it: holdfast notifications recipients"
        )
    return fitting[0] if fitting else id
