"""The job that `holdfast up --first-job` runs, to show that all is well."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.core.errors import HoldfastError, UserError

from .. import output
from ..jobs.follow import RESTART_TIMEOUT, follow_log, say_end, wait_for_end

if TYPE_CHECKING:
    from holdfast.sdk import JobDetail


@dataclass(frozen=True, slots=True)
class FirstJob:
    file: Path
    text: bytes
    home: Path  # of the server it goes to, whatever other server the environment names

    @classmethod
    def read(cls, file: Path, home: Path) -> Self:
        """Before anything is started, so that a wrong path changes nothing."""
        try:
            return cls(file, file.read_bytes(), home)
        except OSError as error:
            raise UserError(f"Cannot read {file}: {error.strerror}", hint="Is the path right?") from None

    def run(self, *, quiet: bool = False) -> JobDetail:
        """Submit it, print its log and its end. `quiet`: only the end is returned."""
        from holdfast.sdk import Client
        from holdfast.sdk.address import local_login

        known = local_login(self.home)
        if known is None:
            raise UserError(f"{self.home} holds no login for its server", hint="Stop it and start it again.")
        with Client(known.url, known.token, home=self.home, patience=RESTART_TIMEOUT) as client:
            sent = client.submit(self.text)
            if not quiet:
                output.note(f"First job: {output.safe(self.file)}, submitted as {sent.id}. Its log:", "bold")
            ended = wait_for_end(client, sent.id) if quiet else follow_log(client, sent.id)
        if not quiet:
            say_end(ended)
        return ended

    def run_beside_server(self) -> None:
        """In a thread of the server's process: whatever goes wrong is said, and the server goes on."""
        try:
            self.run()
        except HoldfastError as error:
            from ..errors import show_error

            show_error(error, json=False, source=str(self.file))
        except output.ReaderGone:
            pass
