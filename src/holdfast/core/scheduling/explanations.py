"""Explains why a job waits, or can never run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..messages import join_messages, msg
from .blockers import Blocker, BlockerKind
from .fitting import find_unplaced_amounts, fit_amounts, fit_requests, has_port_shortage
from .ledger import Ledger
from .placement import (
    EPSILON,
    Node,
    QueueEntry,
    Quota,
    ResourceAmount,
    format_amount,
    format_bytes,
    format_cores,
    format_gpus,
    format_nonzero_amount,
    sum_amounts,
)
from .queue import Queue
from .queue_scan import QueueScan

MAX_SCANNED_PER_GROUP = 20  # jobs of each group, to find the blocking one
MAX_NODES_NAMED = 5


def find_impossible_reasons(waiting: QueueEntry, ledger: Ledger) -> tuple[str, ...]:
    """Return why the cluster can never run it: requested resources against the largest available."""
    nodes = [ledger.nodes[name] for name in ledger.free if ledger.nodes[name].belongs_to(waiting.engine)]
    return (*(_find_oversize_reasons(waiting, nodes) if nodes else ()), *_find_quota_reasons(waiting, ledger))


def _find_oversize_reasons(waiting: QueueEntry, nodes: Sequence[Node]) -> list[str]:
    """Return what exceeds all nodes together, also those that are not available now."""
    wholes = [node.capacity for node in nodes]
    reasons = list(
        dict.fromkeys(
            reason for request in waiting.requests for reason in _describe_too_large_request(request.needs, wholes)
        )
    )
    if not reasons and fit_amounts([request.needs for request in waiting.requests], wholes) is None:
        reasons.append(_describe_too_many_tasks(waiting, wholes))
    wanted = sum(request.port_count for request in waiting.requests)
    there = sum(node.port_count for node in nodes)
    if wanted > there:
        reasons.append(
            msg("it requests {wanted} ports, but the nodes have {available}", wanted=wanted, available=there)
        )
    return reasons


def _find_quota_reasons(waiting: QueueEntry, ledger: Ledger) -> list[str]:
    group_quota, user_quota = ledger.get_quotas(waiting.group)
    total = waiting.total
    reasons = [
        msg("the quota of group {group} is {text}", group=waiting.group, text=text)
        for text in _describe_over_quota(group_quota, total)
    ]
    reasons += [
        msg("each user's quota in {group} is {text}", group=waiting.group, text=text)
        for text in _describe_over_quota(user_quota, total)
    ]
    return reasons


def find_blockers(waiting: QueueEntry, queue: Queue, ledger: Ledger, *, backfill: bool = False) -> list[Blocker]:
    """Return why it does not run now, without resource holders; empty if it would be placed."""
    found = find_own_blockers(waiting, ledger) or find_queue_blockers(waiting, queue, ledger, backfill=backfill)
    ahead = queue.count_entries_ahead_in_group(waiting)
    return [*found, _build_queue_blocker(describe_queue_position(ahead, waiting.group))] if ahead else found


def explain_blockers(
    waiting: QueueEntry, queue: Queue, ledger: Ledger, *, backfill: bool = False, held: Collection[str] = ()
) -> tuple[str, ...]:
    """Return all reasons why it does not run now; empty if it would be placed. `held`: ids of failed tasks on hold that
    could be released."""
    found = find_blockers(waiting, queue, ledger, backfill=backfill)
    own = [blocker.text for blocker in found if blocker.kind is not BlockerKind.QUEUE]
    others = [blocker.text for blocker in found if blocker.kind is BlockerKind.QUEUE]
    return (*own, *(_describe_held_resources(waiting, ledger, held) if own else ()), *others)


def describe_queue_position(ahead: int, group: str) -> str:
    jobs = msg("job is") if ahead == 1 else msg("jobs are")
    return msg("{ahead} {jobs} ahead of it in the queue of group {group}.", ahead=ahead, jobs=jobs, group=group)


def find_own_blockers(waiting: QueueEntry, ledger: Ledger) -> list[Blocker]:
    """Return the blockers that would exist without other waiting jobs."""
    group, user, total = waiting.group, waiting.user, waiting.total
    group_quota, user_quota = ledger.get_quotas(group)
    found = [
        Blocker(
            kind=BlockerKind.GROUP_QUOTA,
            text=msg("The quota of group {group} is {text}.", group=group, text=text),
            lacks=lacks,
        )
        for text, lacks in _find_exceeded_limits(group_quota, ledger.get_group_usage(group), total)
    ]
    for text, lacks in _find_exceeded_limits(user_quota, ledger.get_user_usage(group, user), total):
        message = msg("The quota of user {user} in group {group} is {text}.", user=user, group=group, text=text)
        found.append(Blocker(kind=BlockerKind.USER_QUOTA, text=message, lacks=lacks))
    spots = fit_requests(waiting, ledger.free, ledger)
    if spots is None:
        found.append(_build_capacity_blocker(waiting, ledger))
    elif has_port_shortage(waiting.requests, spots, ledger.free_ports):
        found.append(Blocker(kind=BlockerKind.PORTS, text=msg("Not enough ports are free for its tasks.")))
    return found


def _describe_held_resources(waiting: QueueEntry, ledger: Ledger, held: Collection[str]) -> list[str]:
    """Describe how much of the missing resources tasks on hold use, without owners: they may be in hidden groups."""
    group, user = waiting.group, waiting.user
    group_quota, user_quota = ledger.get_quotas(group)
    of_group = build_quota_excess_mask(group_quota, ledger.get_group_usage(group), waiting.total)
    of_user = build_quota_excess_mask(user_quota, ledger.get_user_usage(group, user), waiting.total)
    of_machines = build_node_shortage_mask(waiting, ledger)
    found = []
    for spot in (ledger.assignments[id] for id in held if id in ledger.assignments):
        has = spot.needs.elementwise_min(of_machines) if spot.node in ledger.free else ResourceAmount()
        if spot.group == group:
            has = has.elementwise_max(spot.amount.elementwise_min(of_group))
            has = has.elementwise_max(spot.amount.elementwise_min(of_user)) if spot.user == user else has
        if has != ResourceAmount():
            found.append(has)
    if not found:
        return []
    count, shown = len(found), format_nonzero_amount(sum_amounts(found))
    return [
        msg(
            "Tasks on hold ({count}) use {shown}. Their owners can free it with `holdfast release` or `holdfast "
            "extend --files-only`.",
            count=count,
            shown=shown,
        )
    ]


_UNLIMITED_AMOUNT = ResourceAmount(cpu=float("inf"), memory=1 << 63, gpu=1 << 63)


def build_quota_excess_mask(quota: Quota, used: ResourceAmount, asked: ResourceAmount) -> ResourceAmount:
    """Return an unlimited amount of each resource that exceeds the quota, and none of the others."""
    after = used.plus(asked)
    return ResourceAmount(
        cpu=_UNLIMITED_AMOUNT.cpu if quota.cpu is not None and after.cpu > quota.cpu + EPSILON else 0.0,
        memory=_UNLIMITED_AMOUNT.memory if quota.memory is not None and after.memory > quota.memory else 0,
        gpu=_UNLIMITED_AMOUNT.gpu if quota.gpu is not None and after.gpu > quota.gpu else 0,
    )


def build_node_shortage_mask(waiting: QueueEntry, ledger: Ledger) -> ResourceAmount:
    """The same for the nodes; if enough is free in total but not together, for each requested resource."""
    if ledger.find_queue_node(waiting.engine) or fit_requests(waiting, ledger.free, ledger) is not None:
        return ResourceAmount()
    free = sum_amounts(ledger.get_available_amounts(waiting.engine).values())
    short = build_quota_excess_mask(
        Quota(cpu=free.cpu, memory=free.memory, gpu=free.gpu), ResourceAmount(), waiting.needs
    )
    return (
        build_quota_excess_mask(Quota(cpu=0, memory=0, gpu=0), ResourceAmount(), waiting.needs)
        if short == ResourceAmount()
        else short
    )


def find_queue_blockers(waiting: QueueEntry, queue: Queue, ledger: Ledger, *, backfill: bool) -> list[Blocker]:
    """Return the queue entries it waits behind, though resources may be free."""
    walk = QueueScan(ledger)
    queue_node = ledger.find_queue_node(waiting.engine)
    backfill = backfill and queue_node is None
    others: list[QueueEntry] = []  # with reserved resources
    for other in queue.list_first_entries(MAX_SCANNED_PER_GROUP, 2 * MAX_SCANNED_PER_GROUP):
        if (other.key, other.id) >= (waiting.key, waiting.id):
            break
        if (
            other.group not in walk.closed_groups
            and walk.find_or_reserve_nodes(other) is None
            and other.group in walk.starved_groups
        ):
            others.append(other)
        if waiting.group in walk.closed_groups:
            message = msg(
                "{job_id}, ahead of it in the queue, is waiting for the quota of group {group}.",
                job_id=other.job_id,
                group=other.group,
            )
            return [_build_queue_blocker(message), *_build_backfill_blockers(backfill)]
    if others and walk.find_or_reserve_nodes(waiting) is None:
        message = msg("Free resources are reserved for jobs ahead of it in the queue.")
        if queue_node is not None and queue_node.name in walk.closed_queues:
            message = msg("Jobs ahead of it enter the queue of {engine} first.", engine=waiting.engine)
        elif all(other.priority > waiting.priority for other in others):
            message = msg("Free resources are reserved for jobs of higher priority.")
        return [_build_queue_blocker(message), *_build_backfill_blockers(backfill)]
    return []


def _build_backfill_blockers(backfill: bool) -> list[Blocker]:
    message = msg("It cannot be backfilled: its time limit would delay a job ahead of it.")
    return [_build_queue_blocker(message)] if backfill else []


def _build_queue_blocker(text: str) -> Blocker:
    return Blocker(kind=BlockerKind.QUEUE, text=text)


def _describe_over_quota(quota: Quota, asked: ResourceAmount) -> list[str]:
    """Describe each limit that `asked` exceeds with nothing in use."""
    found = []
    if quota.cpu is not None and asked.cpu > quota.cpu + EPSILON:
        found.append(msg("{limit}, {requested} requested", limit=format_cores(quota.cpu), requested=f"{asked.cpu:g}"))
    if quota.memory is not None and asked.memory > quota.memory:
        found.append(
            msg(
                "{limit} of memory, {requested} requested",
                limit=format_bytes(quota.memory),
                requested=format_bytes(asked.memory),
            )
        )
    if quota.gpu is not None and asked.gpu > quota.gpu:
        found.append(msg("{limit}, {requested} requested", limit=format_gpus(quota.gpu), requested=asked.gpu))
    return found


def _find_exceeded_limits(
    quota: Quota, used: ResourceAmount, asked: ResourceAmount
) -> list[tuple[str, ResourceAmount]]:
    """Describe each exceeded limit, and by how much."""
    found = []
    after = used.plus(asked)
    if quota.cpu is not None and after.cpu > quota.cpu + EPSILON:
        text = msg(
            "{limit}, {used} in use, {requested} requested",
            limit=format_cores(quota.cpu),
            used=f"{used.cpu:g}",
            requested=f"{asked.cpu:g}",
        )
        found.append((text, ResourceAmount(cpu=after.cpu - quota.cpu)))
    if quota.memory is not None and after.memory > quota.memory:
        text = msg(
            "{memory} of memory, {used} in use, {requested} requested",
            memory=format_bytes(quota.memory),
            used=format_bytes(used.memory),
            requested=format_bytes(asked.memory),
        )
        found.append((text, ResourceAmount(memory=after.memory - quota.memory)))
    if quota.gpu is not None and after.gpu > quota.gpu:
        text = msg(
            "{limit}, {used} in use, {requested} requested",
            limit=format_gpus(quota.gpu),
            used=used.gpu,
            requested=asked.gpu,
        )
        found.append((text, ResourceAmount(gpu=after.gpu - quota.gpu)))
    return found


def _describe_too_large_request(needs: ResourceAmount, wholes: Sequence[ResourceAmount]) -> list[str]:
    found = []
    cpu = max((whole.cpu for whole in wholes), default=0.0)
    memory = max((whole.memory for whole in wholes), default=0)
    gpu = max((whole.gpu for whole in wholes), default=0)
    if needs.cpu > cpu + EPSILON:
        found.append(
            msg(
                "a task requests {requested}, but the largest node has {available}",
                requested=format_cores(needs.cpu),
                available=f"{cpu:g}",
            )
        )
    if needs.memory > memory:
        found.append(
            msg(
                "a task requests {requested} of memory, but the largest node has {available}",
                requested=format_bytes(needs.memory),
                available=format_bytes(memory),
            )
        )
    if needs.gpu > gpu:
        found.append(
            msg(
                "a task requests {requested}, but the largest node has {available}",
                requested=format_gpus(needs.gpu),
                available=gpu,
            )
        )
    if not found and not any(needs.fits_in(whole) for whole in wholes):
        found.append(msg("no single node has all the resources that a task requests"))
    return found


def _describe_too_many_tasks(waiting: QueueEntry, wholes: Sequence[ResourceAmount]) -> str:
    return msg(
        "its {requests} tasks start together and request {needs} in total, but the nodes have {capacity}",
        requests=len(waiting.requests),
        needs=format_amount(waiting.needs),
        capacity=format_amount(sum_amounts(wholes)),
    )


def _build_capacity_blocker(waiting: QueueEntry, ledger: Ledger) -> Blocker:
    queue_node = ledger.find_queue_node(waiting.engine)
    if queue_node is not None:
        return _build_engine_queue_blocker(waiting, queue_node, ledger)
    available = ledger.get_available_amounts(waiting.engine)
    needs, free = waiting.needs, sum_amounts(available.values())
    if not _fits_available_nodes(waiting, ledger) and (text := _describe_unavailable_nodes(waiting, ledger)):
        return Blocker(kind=BlockerKind.UNAVAILABLE, text=text, lacks=_compute_shortage(needs, free))
    if needs.fits_in(free) and len(available) > 1:
        return _build_fragmented_blocker(waiting, available)
    text = msg("It requests {needs}; free: {free}.", needs=format_amount(needs), free=format_amount(free))
    return Blocker(kind=BlockerKind.CAPACITY, text=text, lacks=_compute_shortage(needs, free))


def _build_engine_queue_blocker(waiting: QueueEntry, node: Node, ledger: Ledger) -> Blocker:
    if not node.is_available(waiting.engine):
        return Blocker(kind=BlockerKind.UNAVAILABLE, text=_describe_unavailable_nodes(waiting, ledger))
    count, engine = ledger.queued[node.name], waiting.engine or node.name
    text = msg("{count} tasks already wait in the queue of {engine}.", count=count, engine=engine)
    if count == 1:
        text = msg("One task already waits in the queue of {engine}.", engine=engine)
    return Blocker(kind=BlockerKind.ENGINE_QUEUE, text=text)


def _fits_available_nodes(waiting: QueueEntry, ledger: Ledger) -> bool:
    """Return whether it would fit if no other task ran."""
    wholes = list(ledger.get_available_nodes(waiting.engine).values())
    return fit_amounts([request.needs for request in waiting.requests], wholes) is not None


def _describe_unavailable_nodes(waiting: QueueEntry, ledger: Ledger) -> str:
    """Describe the nodes that could run it but are not available now; empty if there are none."""
    nodes = [node for node in ledger.nodes.values() if node.belongs_to(waiting.engine)]
    if not nodes:
        return msg("The engine {engine} has no nodes.", engine=waiting.engine)
    unavailable = [node for node in nodes if not node.is_available(waiting.engine)]
    if not unavailable:
        return ""
    listed = [
        msg("Node {name}: {reason}", name=node.name, reason=node.engines[waiting.engine])
        for node in unavailable[:MAX_NODES_NAMED]
    ]
    return join_messages(" ", (msg("No available node can run it."), *listed))


def _build_fragmented_blocker(waiting: QueueEntry, available: Mapping[str, ResourceAmount]) -> Blocker:
    """Describe the free resources of each node, and how many tasks fit."""
    needs, rooms = [request.needs for request in waiting.requests], list(available.values())
    failed, left = find_unplaced_amounts(needs, rooms)
    asks, listed, count = format_amount(waiting.needs), _format_free_by_node(available), len(needs)
    text = msg(
        "It requests {request}: enough is free in total, but not on nodes where its tasks fit. Free: {listed}.",
        request=asks,
        listed=listed,
    )
    if count > 1:
        fitting = count - len(failed)
        text = msg(
            "It requests {request}: enough is free in total, but only {fitting} of its {count} tasks fit."
            " Free: {listed}.",
            request=asks,
            fitting=fitting,
            count=count,
            listed=listed,
        )
    lacks = min((_compute_shortage(failed[0], room) for room in left), key=_get_amount_sort_key)
    return Blocker(kind=BlockerKind.FRAGMENTED, text=text, lacks=lacks)


def _format_free_by_node(available: Mapping[str, ResourceAmount]) -> str:
    emptiest_first = sorted(available.items(), key=lambda each: (-each[1].gpu, -each[1].cpu, -each[1].memory, each[0]))
    listed = [
        msg("node {name} has {free}", name=name, free=format_amount(free))
        for name, free in emptiest_first[:MAX_NODES_NAMED]
    ]
    more = len(emptiest_first) - MAX_NODES_NAMED
    if more > 0:
        listed.append(msg("and one more node") if more == 1 else msg("and {more} more nodes", more=more))
    return join_messages("; ", listed)


def _get_amount_sort_key(amount: ResourceAmount) -> tuple[int, int, float]:
    return amount.gpu, amount.memory, amount.cpu


def _compute_shortage(needs: ResourceAmount, free: ResourceAmount) -> ResourceAmount:
    return needs.minus(free).elementwise_max(ResourceAmount())
