"""The `notifications` commands."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit, read_stdin_line
from ..quantities import format_local_time

if TYPE_CHECKING:
    from holdfast.api.notifications import Recipient
    from holdfast.sdk import Client

notification_app = typer.Typer(help="Manage notifications and their recipients.", invoke_without_command=True)


class Channel(StrEnum):
    WEBHOOK = "webhook"
    SLACK = "slack"
    MAIL = "mail"


RecipientIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Recipient id, or its beginning.")]
UserOption = Annotated[str | None, typer.Option(help="Show those of another user. Admins only.")]
STATES = {"sent": "green", "failed": "red", "unconfirmed": "yellow"}


@notification_app.callback()
def show_notifications(ctx: typer.Context) -> None:
    """Manage notifications and their recipients. Without a command: `ls`."""
    if ctx.invoked_subcommand is None:
        list_notifications()


@notification_app.command("ls")
def list_notifications(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of notifications.")] = 20,
    before: Annotated[int | None, typer.Option(min=1, help="Show older ones: number from the last list.")] = None,
    user: UserOption = None,
    json: JsonOption = False,
) -> None:
    """List recent notifications and their delivery."""
    with open_client() as client:
        page = client.list_notifications(user=user, before=before, limit=limit)
    if json:
        output.emit_json(page)
        return
    if not page.items:
        output.print_note("No notifications. Add a recipient: holdfast notifications add webhook URL")
    rows = [
        [
            format_local_time(each.created_at),
            each.subject,
            each.way,
            each.address,
            each.state,
            str(each.tries),
            each.error or "-",
        ]
        for each in page.items
    ]
    output.emit_table(
        ("TIME", "SUBJECT", "CHANNEL", "RECIPIENT", "STATE", "TRIES", "RESPONSE"),
        rows,
        cut=("SUBJECT", "RECIPIENT", "RESPONSE"),
        drop=("TRIES", "RECIPIENT", "RESPONSE"),
    )
    if page.next is not None:
        output.print_hint(f"holdfast notifications ls --before {page.next}")
    else:
        output.print_hint("holdfast notifications recipients", "holdfast notifications add webhook URL")


@notification_app.command("recipients")
def list_recipients(user: UserOption = None, json: JsonOption = False) -> None:
    """List the recipients of your notifications."""
    with open_client() as client:
        found = client.list_recipients(user=user)
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.print_note("No recipients. Add one: holdfast notifications add webhook URL")
    rows = [[each.id, each.way, each.address, ", ".join(each.events)] for each in found]
    output.emit_table(("ID", "CHANNEL", "ADDRESS", "EVENTS"), rows, cut=("EVENTS", "ADDRESS"))
    broken = [each for each in found if each.problem]
    for each in broken:
        output.print_note(f"{output.escape(each.id)}: {output.escape(each.problem or '')}")
    if broken and user is None:
        output.print_hint(f"holdfast notifications rm {output.escape(broken[0].id)}")
    else:
        output.print_hint("holdfast notifications add webhook URL --on failed,held", "holdfast notifications test ID")


@notification_app.command("add")
def add_recipient(
    way: Annotated[Channel, typer.Argument(metavar="CHANNEL", help="webhook (JSON), slack (text) or mail.")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="An https URL or a mail address; - reads stdin.")],
    on: Annotated[
        str | None,
        typer.Option(
            metavar="EVENTS", help="Events, such as failed,held. Default: all except started, stopped and retried."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Add a recipient for notifications about your jobs."""
    chosen = None if on is None else [word.strip() for word in on.split(",") if word.strip()]
    with open_client() as client:
        made = client.add_recipient(way.value, read_stdin_line("address") if address == "-" else address, events=chosen)
    if json:
        output.emit_json(made)
        return
    output.emit_line(f"Added {made.id}: {output.escape(made.address)} receives {', '.join(made.events)}.")
    if made.secret:
        output.emit_line(f"Signing secret: {made.secret}")
    output.print_hint(f"holdfast notifications test {made.id}")


@notification_app.command("choose")
def choose_events(
    id: RecipientIdArgument,
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="Events, such as failed,held.")],
    json: JsonOption = False,
) -> None:
    """Change the events of a recipient."""
    with open_client() as client:
        changed = client.set_recipient_events(
            _resolve_recipient_id(client, id), [word.strip() for word in events.split(",")]
        )
    output.emit_result(changed, f"{output.escape(changed.address)} receives {', '.join(changed.events)}.", json)


@notification_app.command("rm")
def remove_recipient(id: RecipientIdArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a recipient."""
    with open_client() as client:
        chosen = _resolve_recipient_id(client, id)
        confirm_or_exit(f"Delete recipient {output.escape(chosen)}?", yes)
        client.remove_recipient(chosen)
    output.emit_removed(chosen, json)


@notification_app.command("test")
def send_test_notification(id: RecipientIdArgument, json: JsonOption = False) -> None:
    """Send a test notification to a recipient and show the response."""
    with open_client() as client:
        sent = client.test_recipient(_resolve_recipient_id(client, id))
    output.emit_result(sent, f"Delivered: {sent.detail}." if sent.delivered else f"Not delivered: {sent.detail}.", json)
    if not sent.delivered:
        raise typer.Exit(1)


@notification_app.command("secret")
def show_secret(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Webhook address of a job; - reads stdin.")],
    json: JsonOption = False,
) -> None:
    """Show the secret that signs notifications to a webhook address."""
    with open_client() as client:
        found = client.get_notification_secret(read_stdin_line("address") if address == "-" else address)
    output.emit_result(found, found.secret, json)


def _resolve_recipient_id(client: Client, id: str) -> str:
    from holdfast.core.errors import UserError

    found: tuple[Recipient, ...] = client.list_recipients()
    fitting = [each.id for each in found if each.id == id or each.id.removeprefix("to-").startswith(id)]
    if len(fitting) > 1:
        raise UserError(
            f"{len(fitting)} recipients match {id}", hint="Use more of the id; see `holdfast notifications recipients`."
        )
    return fitting[0] if fitting else id
