"""Submits jobs until it is killed, and says so for each that was acknowledged: `python -m … URL`."""

from __future__ import annotations

import asyncio
import sys

from holdfast.store.database import Store
from holdfast.store.jobs import records as jobs

from .open_store import VAULT, a_new_job


async def submit(store: Store, who: int) -> None:
    number = 0
    while True:
        number += 1
        inserted = await store.write(jobs.insert_job, new=a_new_job(f"{who}-{number}", user=f"user{who}"))
        sys.stdout.write(f"{inserted.summary.id}\n")
        sys.stdout.flush()


async def main() -> None:
    store = Store.open(sys.argv[1], vault=VAULT)
    await asyncio.gather(*(submit(store, who) for who in range(8)))


asyncio.run(main())
