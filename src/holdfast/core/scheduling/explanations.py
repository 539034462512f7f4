"""Why a job waits, or can never run, in plain words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..messages import join_messages, msg
from .blockers import Blocker, BlockerKind
from .fitting import fit, fit_amounts, lacks_ports, without_room
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
from .queue_scan import Walk

LOOKED_AT = 20  # jobs of each group, for the one that holds it up
MACHINES_NAMED = 5


def impossible(waiting: Waiting, ledger: Ledger) -> tuple[str, ...]:
    """Why no state of the cluster could ever run it: each resource, requested against the largest available."""
    wholes = [node.whole for node in ledger.nodes.values()]
    reasons = list(dict.fromkeys(reason for request in waiting.requests for reason in _too_big(request.needs, wholes)))
    if not reasons and fit_amounts([request.needs for request in waiting.requests], wholes) is None:
        reasons.append(_too_many(waiting, wholes))
    wanted = sum(request.port_count for request in waiting.requests)
    there = sum(node.port_count for node in ledger.nodes.values())
    if wanted > there:
        reasons.append(msg("it asks for {wanted} ports, the machines have {there}", wanted=wanted, there=there))
    group_quota, user_quota = ledger.quota_of(waiting.group)
    total = waiting.total
    reasons += [
        msg("the quota of group {group} is {text}", group=waiting.group, text=text)
        for text in _over_quota(group_quota, total)
    ]
    reasons += [
        msg("each user's quota in {group} is {text}", group=waiting.group, text=text)
        for text in _over_quota(user_quota, total)
    ]
    return tuple(reasons)


def blockers(waiting: Waiting, queue: Queue, ledger: Ledger, *, backfill: bool = False) -> list[Blocker]:
    """Why it is not running now, without who has what it lacks; none when it would be placed."""
    found = own_blockers(waiting, ledger) or held_up(waiting, queue, ledger, backfill=backfill)
    ahead = queue.ahead(waiting)
    return [*found, _in_queue(stands_behind(ahead, waiting.group))] if ahead else found


def explain(
    waiting: Waiting, queue: Queue, ledger: Ledger, *, backfill: bool = False, held: Collection[str] = ()
) -> tuple[str, ...]:
    """Every reason why it is not running now, in plain words; empty when it would be placed. `held`: ids of failed
    tasks that are kept for debugging, and might be let go."""
    found = blockers(waiting, queue, ledger, backfill=backfill)
    own = [blocker.text for blocker in found if blocker.kind is not BlockerKind.QUEUE]
    others = [blocker.text for blocker in found if blocker.kind is BlockerKind.QUEUE]
    return (*own, *(_with_held(waiting, ledger, held) if own else ()), *others)


def stands_behind(ahead: int, group: str) -> str:
    jobs = msg("job stands") if ahead == 1 else msg("jobs stand")
    return msg("{ahead} {jobs} before it in the queue of group {group}.", ahead=ahead, jobs=jobs, group=group)


def own_blockers(waiting: Waiting, ledger: Ledger) -> list[Blocker]:
    """Those that would hold if nobody else waited."""
    group, user, total = waiting.group, waiting.user, waiting.total
    group_quota, user_quota = ledger.quota_of(group)
    found = [
        Blocker(
            kind=BlockerKind.GROUP_QUOTA,
            text=msg("The quota of group {group} is {text}.", group=group, text=text),
            lacks=lacks,
        )
        for text, lacks in _bounds_broken(group_quota, ledger.used_by(group), total)
    ]
    for text, lacks in _bounds_broken(user_quota, ledger.used_by_user(group, user), total):
        said = msg("The quota of user {user} in group {group} is {text}.", user=user, group=group, text=text)
        found.append(Blocker(kind=BlockerKind.USER_QUOTA, text=said, lacks=lacks))
    spots = fit(waiting.requests, ledger.free, ledger)
    if spots is None:
        found.append(_no_room(waiting, ledger))
    elif lacks_ports(waiting.requests, spots, ledger.free_ports):
        found.append(Blocker(kind=BlockerKind.PORTS, text=msg("Too few ports are free for its tasks.")))
    return found


def _with_held(waiting: Waiting, ledger: Ledger, held: Collection[str]) -> list[str]:
    """What held tasks have of that which it lacks. Not whose they are: they may be of groups that nobody here sees."""
    group, user = waiting.group, waiting.user
    group_quota, user_quota = ledger.quota_of(group)
    of_group = beyond(group_quota, ledger.used_by(group), waiting.total)
    of_user = beyond(user_quota, ledger.used_by_user(group, user), waiting.total)
    of_machines = short_of(waiting, ledger)
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
        msg(
            "Held tasks ({count}) have {shown}; their owners give that back by `holdfast release` or "
            "`holdfast extend --files-only`.",
            count=count,
            shown=shown,
        )
    ]


_ALL = Amount(cpu=float("inf"), memory=1 << 63, gpu=1 << 63)


def beyond(quota: Quota, used: Amount, asked: Amount) -> Amount:
    """All of each kind of which the quota has too little, nothing of the others."""
    after = used.plus(asked)
    return Amount(
        cpu=_ALL.cpu if quota.cpu is not None and after.cpu > quota.cpu + EPSILON else 0.0,
        memory=_ALL.memory if quota.memory is not None and after.memory > quota.memory else 0,
        gpu=_ALL.gpu if quota.gpu is not None and after.gpu > quota.gpu else 0,
    )


def short_of(waiting: Waiting, ledger: Ledger) -> Amount:
    """The same of the machines; where enough is free in all but not together, of each kind it asks for."""
    if fit(waiting.requests, ledger.free, ledger) is not None:
        return Amount()
    free = sum_of(ledger.free.values())
    short = beyond(Quota(cpu=free.cpu, memory=free.memory, gpu=free.gpu), Amount(), waiting.needs)
    return beyond(Quota(cpu=0, memory=0, gpu=0), Amount(), waiting.needs) if short == Amount() else short


def held_up(waiting: Waiting, queue: Queue, ledger: Ledger, *, backfill: bool) -> list[Blocker]:
    """Whom it waits behind, though it may have room itself."""
    walk = Walk(ledger)
    others: list[Waiting] = []  # for which something is set aside
    for other in queue.first(LOOKED_AT, 2 * LOOKED_AT):
        if (other.key, other.id) >= (waiting.key, waiting.id):
            break
        if other.group not in walk.closed and walk.look(other) is None and other.group in walk.short:
            others.append(other)
        if waiting.group in walk.closed:
            said = msg(
                "{job_id} before it waits for the quota of group {group}.", job_id=other.job_id, group=other.group
            )
            return [_in_queue(said), *_too_long(backfill)]
    if others and walk.look(waiting) is None:
        said = msg("What is free is set aside for jobs that go before it.")
        if all(other.priority > waiting.priority for other in others):
            said = msg("What is free is set aside for jobs of a higher priority.")
        return [_in_queue(said), *_too_long(backfill)]
    return []


def _too_long(backfill: bool) -> list[Blocker]:
    said = msg("By its time limit it is too long to pass without delaying one that waits.")
    return [_in_queue(said)] if backfill else []


def _in_queue(text: str) -> Blocker:
    return Blocker(kind=BlockerKind.QUEUE, text=text)


def _over_quota(quota: Quota, asked: Amount) -> list[str]:
    """One text for each bound that `asked` would break, were nothing in use."""
    found = []
    if quota.cpu is not None and asked.cpu > quota.cpu + EPSILON:
        found.append(msg("{cpu}, {cpu2} asked for", cpu=show_cores(quota.cpu), cpu2=f"{asked.cpu:g}"))
    if quota.memory is not None and asked.memory > quota.memory:
        found.append(
            msg(
                "{memory} of memory, {memory2} asked for",
                memory=show_bytes(quota.memory),
                memory2=show_bytes(asked.memory),
            )
        )
    if quota.gpu is not None and asked.gpu > quota.gpu:
        found.append(msg("{gpu}, {gpu2} asked for", gpu=show_gpus(quota.gpu), gpu2=asked.gpu))
    return found


def _bounds_broken(quota: Quota, used: Amount, asked: Amount) -> list[tuple[str, Amount]]:
    """Each with how far it would be broken."""
    found = []
    after = used.plus(asked)
    if quota.cpu is not None and after.cpu > quota.cpu + EPSILON:
        text = msg(
            "{cpu}, {cpu2} in use, {cpu3} asked for",
            cpu=show_cores(quota.cpu),
            cpu2=f"{used.cpu:g}",
            cpu3=f"{asked.cpu:g}",
        )
        found.append((text, Amount(cpu=after.cpu - quota.cpu)))
    if quota.memory is not None and after.memory > quota.memory:
        text = msg(
            "{memory} of memory, {used} in use, {asked} asked for",
            memory=show_bytes(quota.memory),
            used=show_bytes(used.memory),
            asked=show_bytes(asked.memory),
        )
        found.append((text, Amount(memory=after.memory - quota.memory)))
    if quota.gpu is not None and after.gpu > quota.gpu:
        text = msg("{gpu}, {gpu2} in use, {gpu3} asked for", gpu=show_gpus(quota.gpu), gpu2=used.gpu, gpu3=asked.gpu)
        found.append((text, Amount(gpu=after.gpu - quota.gpu)))
    return found


def _too_big(needs: Amount, wholes: Sequence[Amount]) -> list[str]:
    found = []
    cpu = max((whole.cpu for whole in wholes), default=0.0)
    memory = max((whole.memory for whole in wholes), default=0)
    gpu = max((whole.gpu for whole in wholes), default=0)
    if needs.cpu > cpu + EPSILON:
        found.append(
            msg("a task asks for {cpu}, the largest machine has {cpu2}", cpu=show_cores(needs.cpu), cpu2=f"{cpu:g}")
        )
    if needs.memory > memory:
        found.append(
            msg(
                "a task asks for {memory} of memory, the largest machine has {memory2}",
                memory=show_bytes(needs.memory),
                memory2=show_bytes(memory),
            )
        )
    if needs.gpu > gpu:
        found.append(msg("a task asks for {gpu}, the largest machine has {gpu2}", gpu=show_gpus(needs.gpu), gpu2=gpu))
    if not found and not any(needs.fits(whole) for whole in wholes):
        found.append(msg("no single machine has all that a task asks for, though each part is to be had somewhere"))
    return found


def _too_many(waiting: Waiting, wholes: Sequence[Amount]) -> str:
    return msg(
        "its {requests} tasks start together and ask for {needs} in all, the machines have {wholes}",
        requests=len(waiting.requests),
        needs=show_amount(waiting.needs),
        wholes=show_amount(sum_of(wholes)),
    )


def _no_room(waiting: Waiting, ledger: Ledger) -> Blocker:
    needs, free = waiting.needs, sum_of(ledger.free.values())
    if needs.fits(free) and len(ledger.nodes) > 1:
        return _fragmented(waiting, ledger)
    text = msg("It asks for {needs}; free now: {free}.", needs=show_amount(needs), free=show_amount(free))
    return Blocker(kind=BlockerKind.MACHINES, text=text, lacks=_missing(needs, free))


def _fragmented(waiting: Waiting, ledger: Ledger) -> Blocker:
    """Which machine has how much, and how many of the tasks would find room."""
    needs, rooms = [request.needs for request in waiting.requests], list(ledger.free.values())
    failed, left = without_room(needs, rooms)
    asks, listed, count = show_amount(waiting.needs), _free_on_each(ledger), len(needs)
    text = msg(
        "It asks for {asks}: that much is free in all, but not on machines where its tasks fit. Free now: {listed}.",
        asks=asks,
        listed=listed,
    )
    if count > 1:
        fitting = count - len(failed)
        text = msg(
            "It asks for {asks}: that much is free in all, but there is room for {fitting} of its "
            "{count} tasks. Free now: {listed}.",
            asks=asks,
            fitting=fitting,
            count=count,
            listed=listed,
        )
    lacks = min((_missing(failed[0], room) for room in left), key=_size)
    return Blocker(kind=BlockerKind.FRAGMENTED, text=text, lacks=lacks)


def _free_on_each(ledger: Ledger) -> str:
    emptiest_first = sorted(
        ledger.free.items(), key=lambda each: (-each[1].gpu, -each[1].cpu, -each[1].memory, each[0])
    )
    listed = [
        msg("machine {name} has {free}", name=name, free=show_amount(free))
        for name, free in emptiest_first[:MACHINES_NAMED]
    ]
    more = len(emptiest_first) - MACHINES_NAMED
    if more > 0:
        listed.append(msg("and one more machine") if more == 1 else msg("and {more} more machines", more=more))
    return join_messages("; ", listed)


def _size(amount: Amount) -> tuple[int, int, float]:
    return amount.gpu, amount.memory, amount.cpu


def _missing(needs: Amount, free: Amount) -> Amount:
    return needs.minus(free).most(Amount())
