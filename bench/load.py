"""Many clients at a time, each in a process of its own, so that none measures the waiting of another."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Barrier

from .client import Connection

TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Submitted:
    id: str
    sent_at: float  # wall clock of this machine
    took: float  # seconds until the reply


def submit_from_clients(port: int, token: str, texts: Sequence[Sequence[str]]) -> list[Submitted]:
    """One client for each list of job files; all begin at one moment, and each waits for a reply before its next."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(texts))
    clients = []
    for mine in texts:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_client, args=(port, token, list(mine), barrier, theirs), daemon=True)
        process.start()
        theirs.close()
        clients.append((process, ours))
    try:
        return [one for _, pipe in clients for one in _result(pipe)]
    finally:
        for process, _ in clients:
            process.join(5)
            if process.is_alive():
                process.kill()


def _result(pipe: Pipe) -> list[Submitted]:
    if not pipe.poll(TIMEOUT * 2):
        raise RuntimeError("a client did not finish")
    found = pipe.recv()
    if isinstance(found, BaseException):
        raise found
    return list(found)


def _client(port: int, token: str, texts: list[str], barrier: Barrier, pipe: Pipe) -> None:
    try:
        done = []
        with Connection(port, token) as connection:
            connection.get("/version")  # connected, and everything imported
            barrier.wait(TIMEOUT)
            for number, text in enumerate(texts):
                sent_at, began = time.time(), time.perf_counter()
                job = connection.submit(text, f"Idempotency-Key: {os.getpid()}-{began}-{number}\r\n")
                done.append(Submitted(job["id"], sent_at, time.perf_counter() - began))
        pipe.send(done)
    except BaseException as error:
        barrier.abort()
        pipe.send(RuntimeError(f"client: {type(error).__name__}: {error}"))
