"""Why a job waits, or can never run, in plain words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .fitting import fit, fit_amounts, lacks_ports
from .ledger import Ledger
from .placement import (
    EPSILON,
    Amount,
    Quota,
    Waiting,
    show_amount,
    show_bytes,
    show_cores,
    show_gpus,
    show_parts,
    sum_of,
)
from .queue import Queue
from .walking import Walk

LOOKED_AT = 20  # jobs of each group, for the one that holds it up


def impossible(waiting: Waiting, ledger: Ledger) -> tuple[str, ...]:
    """Why no state of the cluster could ever run it: each resource, requested against the largest available."""
    wholes = [node.whole for node in ledger.nodes.values()]
    reasons = list(dict.fromkeys(reason for request in waiting.requests for reason in _too_big(request.needs, wholes)))
    if not reasons and fit_amounts([request.needs for request in waiting.requests], wholes) is None:
        reasons.append(_too_many(waiting, wholes))
    wanted = sum(request.port_count for request in waiting.requests)
    there = sum(node.port_end - node.port_start for node in ledger.nodes.values())
    if wanted > there:
        reasons.append(f"it asks for {wanted} ports, the machines have {there}")
    group_quota, user_quota = ledger.quota_of(waiting.group)
    total = waiting.total
    reasons += [f"the quota of group {waiting.group} is {text}" for text in over_quota(group_quota, Amount(), total)]
    reasons += [f"each user's quota in {waiting.group} is {text}" for text in over_quota(user_quota, Amount(), total)]
    return tuple(reasons)


def explain(
    waiting: Waiting, queue: Queue, ledger: Ledger, *, backfill: bool = False, held: Collection[str] = ()
) -> tuple[str, ...]:
    """Every reason why it is not running now, in plain words; empty when it would be placed. `held`: ids of failed
    tasks that are kept for debugging, and might be let go."""
    reasons = _own_reasons(waiting, ledger)
    if reasons:
        reasons += _with_held(waiting, ledger, held)
    else:
        reasons += _held_up(waiting, queue, ledger, backfill)
    ahead = queue.ahead(waiting)
    if ahead:
        jobs = "job stands" if ahead == 1 else "jobs stand"
        reasons.append(f"{ahead} {jobs} before it in the queue of group {waiting.group}.")
    return tuple(reasons)


def _own_reasons(waiting: Waiting, ledger: Ledger) -> list[str]:
    """Those that would hold if nobody else waited."""
    group, user, total = waiting.group, waiting.user, waiting.total
    group_quota, user_quota = ledger.quota_of(group)
    reasons = [
        f"The quota of group {group} is {text}." for text in over_quota(group_quota, ledger.used_by(group), total)
    ]
    for text in over_quota(user_quota, ledger.used_by_user(group, user), total):
        reasons.append(f"The quota of user {user} in group {group} is {text}.")
    spots = fit(waiting.requests, ledger.free, ledger)
    if spots is None:
        reasons.append(_no_room(waiting, ledger))
    elif lacks_ports(waiting.requests, spots, ledger.free_ports):
        reasons.append("Too few ports are free for its tasks.")
    return reasons


def _with_held(waiting: Waiting, ledger: Ledger, held: Collection[str]) -> list[str]:
    """What held tasks have of that which it lacks. Not whose they are: they may be of groups that nobody here sees."""
    group, user = waiting.group, waiting.user
    group_quota, user_quota = ledger.quota_of(group)
    of_group = _beyond(group_quota, ledger.used_by(group), waiting.total)
    of_user = _beyond(user_quota, ledger.used_by_user(group, user), waiting.total)
    of_machines = _short_of(waiting, ledger)
    found = []
    for spot in (ledger.held[id] for id in held if id in ledger.held):
        has = spot.needs.least(of_machines) if spot.node in ledger.nodes else Amount()
        if spot.group == group:
            has = has.most(spot.amount.least(of_group))
            has = has.most(spot.amount.least(of_user)) if spot.user == user else has
        if has != Amount():
            found.append(has)
    if not found:
        return []
    count, shown = len(found), show_parts(sum_of(found))
    return [
        f"Held tasks ({count}) have {shown}; their owners give that back by "
        "`holdfast release` or `holdfast extend --files-only`."
    ]


_ALL = Amount(cpu=float("inf"), memory=1 << 63, gpu=1 << 63)


def _beyond(quota: Quota, used: Amount, asked: Amount) -> Amount:
    """All of each kind of which the quota has too little, nothing of the others."""
    after = used.plus(asked)
    return Amount(
        cpu=_ALL.cpu if quota.cpu is not None and after.cpu > quota.cpu + EPSILON else 0.0,
        memory=_ALL.memory if quota.memory is not None and after.memory > quota.memory else 0,
        gpu=_ALL.gpu if quota.gpu is not None and after.gpu > quota.gpu else 0,
    )


def _short_of(waiting: Waiting, ledger: Ledger) -> Amount:
    """The same of the machines; where enough is free in all but not together, of each kind it asks for."""
    if fit(waiting.requests, ledger.free, ledger) is not None:
        return Amount()
    free = sum_of(ledger.free.values())
    short = _beyond(Quota(cpu=free.cpu, memory=free.memory, gpu=free.gpu), Amount(), waiting.needs)
    return _beyond(Quota(cpu=0, memory=0, gpu=0), Amount(), waiting.needs) if short == Amount() else short


def _held_up(waiting: Waiting, queue: Queue, ledger: Ledger, backfill: bool) -> list[str]:
    """It would fit: whom it waits behind."""
    walk, others = Walk(ledger), 0
    for other in queue.first(LOOKED_AT, 2 * LOOKED_AT):
        if (other.key, other.id) >= (waiting.key, waiting.id):
            break
        if other.group not in walk.closed and walk.look(other) is None:
            others += other.group in walk.short
        if waiting.group in walk.closed:
            return [f"{other.job_id} before it waits for the quota of group {other.group}.", *_too_long(backfill)]
    if others and walk.look(waiting) is None:
        return ["What is free is set aside for jobs that came before it and ask for more.", *_too_long(backfill)]
    return []


def _too_long(backfill: bool) -> list[str]:
    return ["By its time limit it is too long to pass without delaying one that waits."] if backfill else []


def over_quota(quota: Quota, used: Amount, asked: Amount) -> list[str]:
    """One text for each bound that `asked` would break."""
    found = []
    if quota.cpu is not None and used.cpu + asked.cpu > quota.cpu + EPSILON:
        found.append(f"{show_cores(quota.cpu)}, {used.cpu:g} in use, {asked.cpu:g} asked for")
    if quota.memory is not None and used.memory + asked.memory > quota.memory:
        sizes = (show_bytes(quota.memory), show_bytes(used.memory), show_bytes(asked.memory))
        found.append("{} of memory, {} in use, {} asked for".format(*sizes))
    if quota.gpu is not None and used.gpu + asked.gpu > quota.gpu:
        found.append(f"{show_gpus(quota.gpu)}, {used.gpu} in use, {asked.gpu} asked for")
    return found


def _too_big(needs: Amount, wholes: Sequence[Amount]) -> list[str]:
    found = []
    cpu = max((whole.cpu for whole in wholes), default=0.0)
    memory = max((whole.memory for whole in wholes), default=0)
    gpu = max((whole.gpu for whole in wholes), default=0)
    if needs.cpu > cpu + EPSILON:
        found.append(f"a task asks for {show_cores(needs.cpu)}, the largest machine has {cpu:g}")
    if needs.memory > memory:
        found.append(
            f"a task asks for {show_bytes(needs.memory)} of memory, the largest machine has {show_bytes(memory)}"
        )
    if needs.gpu > gpu:
        found.append(f"a task asks for {show_gpus(needs.gpu)}, the largest machine has {gpu}")
    if not found and not any(needs.fits(whole) for whole in wholes):
        found.append("no single machine has all that a task asks for, though each part is to be had somewhere")
    return found


def _too_many(waiting: Waiting, wholes: Sequence[Amount]) -> str:
    return (
        f"its {len(waiting.requests)} tasks start together and ask for {show_amount(waiting.needs)} in all, "
        f"the machines have {show_amount(sum_of(wholes))}"
    )


def _no_room(waiting: Waiting, ledger: Ledger) -> str:
    needs, free = waiting.needs, sum_of(ledger.free.values())
    if needs.fits(free) and len(ledger.nodes) > 1:
        return f"It asks for {show_amount(needs)}; that much is free in all, but not on machines where its tasks fit."
    return f"It asks for {show_amount(needs)}; free now: {show_amount(free)}."
