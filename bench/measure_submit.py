"""Durable submission by 8 clients at a time. The jobs wait behind one that holds every core: nothing else happens."""

from __future__ import annotations

from .harness import BenchServer, Options, say, server
from .load import Submitted, submit_from_clients
from .rows import Row, at_least, below, percentile

CLIENTS = 8
WARM_UP = 10  # submissions of each client that do not count


def measure(options: Options) -> list[Row]:
    each = options.pick(300, 60)
    with server("submit", options) as running:
        hold_every_core(running)
        submit_from_clients(running.port, running.token, _texts(WARM_UP))
        say(f"submit: {CLIENTS} clients, {each} jobs each")
        done = submit_from_clients(running.port, running.token, _texts(each))
        _check_kept(running, done)
    took = [one.took * 1000 for one in done]
    ended = max(one.sent_at + one.took for one in done)
    rate = len(done) / (ended - min(one.sent_at for one in done))
    note = f"{CLIENTS} clients, {len(done)} jobs, p50 {percentile(took, 50):.1f} ms, worst {max(took):.0f} ms"
    return [
        Row("submit: p95", percentile(took, 95), "ms", below(50), note),
        Row("submit: rate", rate, "per s", at_least(200)),
    ]


def hold_every_core(running: BenchServer) -> None:
    with running.connect() as connection:
        cpu = connection.get("/capacity")["nodes"][0]["cpu"]
    job = running.submit(f"name: holds-all\ncommand: sleep 600\ngrace: 0s\nresources: {{cpu: {cpu:g}, memory: 64Mi}}\n")
    running.wait_for_state(job, "Running")


def _texts(each: int) -> list[list[str]]:
    return [
        [f"name: submit-{n}-{m}\ncommand: echo {m}\nresources: {{cpu: 1, memory: 64Mi}}\n" for m in range(each)]
        for n in range(CLIENTS)
    ]


def _check_kept(running: BenchServer, done: list[Submitted]) -> None:
    """Durable means durable: all of them are there after a kill."""
    running.kill()
    running.start()
    with running.connect() as connection:
        kept = connection.get("/status")["jobs"].get("Pending", 0)
    if kept != len(done) + CLIENTS * WARM_UP:
        raise RuntimeError(f"{len(done)} jobs were acknowledged, {kept - CLIENTS * WARM_UP} are there after a kill")
