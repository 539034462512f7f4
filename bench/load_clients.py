"""Concurrent clients that submit jobs, each in its own process, so that they do not delay each other."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Barrier

from .client import Connection

TIMEOUT = 120.0  # seconds


@dataclass(frozen=True, slots=True)
class Submission:
    id: str
    sent_at: float  # wall clock, in seconds since 1970
    seconds: float  # until the response


def submit_from_clients(port: int, token: str, texts: Sequence[Sequence[str]]) -> list[Submission]:
    """Submit each list of job files from its own client. All start together; each waits for a response before its next
    request."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(texts))
    clients = []
    for client_texts in texts:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_run_client, args=(port, token, list(client_texts), barrier, sender), daemon=True
        )
        process.start()
        sender.close()
        clients.append((process, receiver))
    try:
        return [submission for _, pipe in clients for submission in _receive_submissions(pipe)]
    finally:
        for process, _ in clients:
            process.join(5)
            if process.is_alive():
                process.kill()


def _receive_submissions(pipe: Pipe) -> list[Submission]:
    if not pipe.poll(TIMEOUT * 2):
        raise RuntimeError("a client did not finish")
    received = pipe.recv()
    if isinstance(received, BaseException):
        raise received
    return list(received)


def _run_client(port: int, token: str, texts: list[str], barrier: Barrier, pipe: Pipe) -> None:
    try:
        submissions = []
        with Connection(port, token) as connection:
            connection.get_json("/version")  # connects, and imports everything before the start
            barrier.wait(TIMEOUT)
            for number, text in enumerate(texts):
                sent_at, started = time.time(), time.perf_counter()
                job = connection.submit_job(text, f"Idempotency-Key: {os.getpid()}-{started}-{number}\r\n")
                submissions.append(Submission(job["id"], sent_at, time.perf_counter() - started))
        pipe.send(submissions)
    except BaseException as error:
        barrier.abort()
        pipe.send(RuntimeError(f"client: {type(error).__name__}: {error}"))
