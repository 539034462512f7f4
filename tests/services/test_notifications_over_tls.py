"""Webhooks and mails over TLS: they reach servers that are trusted, and no others."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.core.notifications import NotificationState
from holdfast.services.notifications import webhook_request as posting

from .certificates import make_certificate
from .house import open_house
from .webhook_receiver import Hook, MailServer

pytestmark = pytest.mark.anyio


@dataclass
class Tls:
    """A certificate, and whether this process trusts it."""

    file: Path
    server: ssl.SSLContext
    patch: pytest.MonkeyPatch

    def trust(self) -> None:
        self.patch.setenv("SSL_CERT_FILE", str(self.file))
        posting._get_tls_context.cache_clear()


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Tls]:
    posting._get_tls_context.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        yield Tls(*make_certificate(tmp_path), patch)
    posting._get_tls_context.cache_clear()


async def test_an_https_webhook_arrives_where_its_certificate_is_trusted(tmp_path: Path, tls: Tls) -> None:
    hook = Hook(tls=tls.server)
    async with open_house(tmp_path / "home") as house:
        notifications = house.services.notifications
        known = await notifications.add_recipient(house.admin, "webhook", hook.url)
        assert known.recipient.address.startswith("https://")
        assert (await notifications.send_test(house.admin, known.id)).message == "TLS failed"
        assert hook.posts == []
        tls.trust()
        assert (await notifications.send_test(house.admin, known.id)).message == "responded with 200"
        (post,) = hook.posts
        assert post.body["event"] == "test"
        other = await notifications.add_recipient(house.admin, "webhook", hook.url.replace("127.0.0.1", "localhost"))
        assert (
            await notifications.send_test(house.admin, other.id)
        ).message == "TLS failed"  # it is shown for another name
        states = [each.state for each in (await notifications.list(house.admin)).items]
        assert states == [NotificationState.FAILED, NotificationState.SENT, NotificationState.FAILED]
    hook.close()


@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_mails_go_to_a_mail_server_whose_certificate_is_trusted(tmp_path: Path, tls: Tls, security: str) -> None:
    server = MailServer(tls=tls.server) if security == "tls" else MailServer(starttls=tls.server)
    mail = {"host": "127.0.0.1", "port": server.port, "sender": "holdfast@example.org", "security": security}
    async with open_house(tmp_path / "home", settings={"mail": mail}) as house:
        notifications = house.services.notifications
        known = await notifications.add_recipient(house.admin, "mail", "team@example.org")
        assert (await notifications.send_test(house.admin, known.id)).message == "the mail server could not be reached"
        assert server.mails == []
        tls.trust()
        assert (await notifications.send_test(house.admin, known.id)).message == "the mail server accepted the mail"
        (one,) = server.mails
        assert (one.to, one.encrypted) == ("team@example.org", True)
        assert "Notification test" in one.text
    server.close()
