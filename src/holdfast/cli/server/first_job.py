"""The job that `holdfast up --first-job` runs to test the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.core.errors import HoldfastError, UserError

from .. import output
from ..jobs.follow import RESTART_TIMEOUT, follow_log, print_result, wait_for_end

if TYPE_CHECKING:
    from holdfast.sdk import JobDetail

NO_IMAGE_CODE = "host_image_unavailable"  # the server's error for a job without an image
FIRST_IMAGE_HINT = "Run one with an image: holdfast submit --image IMAGE --follow -- echo hello"


@dataclass(frozen=True, slots=True)
class FirstJob:
    file: Path
    text: bytes
    home: Path  # of the server to use, regardless of the environment

    @classmethod
    def from_file(cls, file: Path, home: Path) -> Self:
        """Read the file before the server starts, so that a wrong path has no effect."""
        try:
            return cls(file, file.read_bytes(), home)
        except OSError as error:
            raise UserError(f"Cannot read {file}: {error.strerror}", hint="Check the path.") from None

    def run(self, *, quiet: bool = False) -> JobDetail | None:
        """Submit the job, print its log and result, and return it. `quiet`: print nothing. None if the job names no
        image and the server's engine needs one: the server works all the same."""
        from holdfast.sdk import ApiError, Client
        from holdfast.sdk.address import load_local_login

        known = load_local_login(self.home)
        if known is None:
            raise UserError(f"No server login found in {self.home}", hint="Run `holdfast down`, then `holdfast up`.")
        with Client(known.url, known.token, home=self.home, retry_timeout=RESTART_TIMEOUT) as client:
            try:
                sent = client.submit_job(self.text)
            except ApiError as error:
                if error.code != NO_IMAGE_CODE:
                    raise
                if not quiet:
                    output.print_note(f"First job skipped: {output.escape(error.message)}. {FIRST_IMAGE_HINT}")
                return None
            if not quiet:
                output.print_note(f"First job: {output.escape(self.file)}, submitted as {sent.id}. Its log:", "bold")
            ended = wait_for_end(client, sent.id) if quiet else follow_log(client, sent.id)
        if not quiet:
            print_result(ended)
        return ended

    def run_in_server(self) -> None:
        """Run in a thread of the server process; print errors and keep the server running."""
        try:
            self.run()
        except HoldfastError as error:
            from ..errors import show_error

            show_error(error, json=False, source=str(self.file))
        except output.OutputClosed:
            pass
