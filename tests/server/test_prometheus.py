"""GET /metrics: who may read it, and what it says. A real Prometheus reads it in tests/e2e."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.job import GIB, Job, Resources, Role
from holdfast.core.metrics.samples import CurrentMetrics, GpuReading, GpuState, Reading
from holdfast.core.metrics.samples import Sample as Used
from holdfast.core.notifications import NotificationState
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import GroupUsage, Node, NodeUsage, Quota, ResourceAmount
from holdfast.core.states import JobState, TaskState
from holdfast.server.prometheus import render_metrics
from holdfast.server.prometheus_metrics import TASK_LABELS
from holdfast.server.prometheus_requests import get_api_surface
from holdfast.services.installation.monitoring import MonitoringSnapshot
from holdfast.services.installation.status import DiskUsage, Health
from holdfast.services.metrics.server_metrics import ServerMetrics
from tests.services.house import open_house

from .rig import Rig, error_of, open_rig

pytestmark = pytest.mark.anyio

SANDBOX = Condition(kind=ConditionKind.SANDBOX, message="Tasks cannot be isolated.", blocks_starts=True)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
HOSTILE = 'a"b\\c\nd\u2028é</x>{},=\udc80\t'
CLEANED = HOSTILE.replace("\udc80", "?")


def job(name: str = "train", state: JobState = JobState.RUNNING, **more: object) -> JobSnapshot:
    role = Role(name="worker", commands=("true",), resources=Resources(cpu=2, memory=4 * GIB, gpu=1))
    known = {"id": "job-1", "user": "ann", "submitted_at": NOW - timedelta(hours=2)} | more
    return JobSnapshot(job=Job(name=name, roles=(role,), group="vision"), state=state, **known)  # type: ignore[arg-type]


def running(snapshot: JobSnapshot, **reading: object) -> tuple[JobSnapshot, TaskAttempt, CurrentMetrics]:
    task = TaskAttempt(role="worker", index=0, state=TaskState.RUNNING, node="gpu-7")
    known = {"at": 50.0, "cpu": 33.0, "memory": GIB} | reading
    sample = Used(at=NOW.timestamp(), seconds=10, cpu=151.5, memory=GIB, net_in=700.0, net_out=70.0)
    return snapshot, task, CurrentMetrics(sample=sample, reading=Reading(**known))  # type: ignore[arg-type]


FULL = {
    "memory_limit": 2 * GIB,
    "net_in": 7000,
    "net_out": 700,
    "disk_read": 123,
    "disk_written": 456,
    "gpus": (GpuReading(index=3, percent=42.0, memory=GIB, memory_total=4 * GIB),),
}


def standing(*those: tuple[JobSnapshot, TaskAttempt, CurrentMetrics], **more: object) -> MonitoringSnapshot:
    known = {"at": NOW, "jobs": [each[0] for each in those], "totals": {}, "nodes": (), "groups": ()} | more
    return MonitoringSnapshot(running=those, **known)  # type: ignore[arg-type]


def samples(text: str) -> list[Sample]:
    return [sample for family in parse_text(text) for sample in family.samples]


def found(told: MonitoringSnapshot, name: str) -> list[Sample]:
    return [
        sample
        for sample in samples(bytes(render_metrics(ServerMetrics(), told, "").body).decode())
        if sample.name == name
    ]


def value(told: MonitoringSnapshot, name: str, **labels: str) -> float:
    (one,) = [sample for sample in found(told, name) if labels.items() <= sample.labels.items()]
    return one.value


# -- tasks, by OpenPAI's names


def test_a_task_is_told_by_openpais_names_and_labels() -> None:
    told = standing(running(job(), **FULL))
    (cpu,) = found(told, "task_cpu_percent")
    assert cpu.value == 151.5
    assert set(cpu.labels) == set(TASK_LABELS)
    assert cpu.labels["job_name"] == "ann~train"
    assert (cpu.labels["username"], cpu.labels["virtual_cluster"]) == ("ann", "vision")
    assert (cpu.labels["role_name"], cpu.labels["task_index"]) == ("worker", "0")
    assert value(told, "task_mem_usage_byte") == GIB
    assert value(told, "task_mem_limit_byte") == 2 * GIB
    assert value(told, "task_mem_usage_percent") == 50
    assert (value(told, "task_net_in_byte"), value(told, "task_net_out_byte")) == (700, 70)
    assert (value(told, "task_block_in_byte"), value(told, "task_block_out_byte")) == (123, 456)
    assert value(told, "task_gpu_percent", minor_number="3") == 42
    assert value(told, "task_gpu_mem_percent", minor_number="3") == 25
    assert value(told, "gpu_utilization", minor_number="3", node="gpu-7", vender="nvidia") == 42
    assert value(told, "gpu_mem_utilization", minor_number="3") == 25


def test_every_gpu_of_a_machine_is_told_whoever_uses_it() -> None:
    own = {"temperature": 61.0, "ecc_single": 5, "ecc_double": 0, "performance": 8, "foreign_processes": 2}
    idle = GpuState(index=0, percent=7.0, memory=GIB, memory_total=8 * GIB, **own)  # type: ignore[arg-type]
    told = standing(running(job(), **FULL), gpus={"gpu-7": (idle, GpuState(index=3, percent=43.0))})
    assert value(told, "gpu_utilization", minor_number="0", node="gpu-7", vender="nvidia") == 7
    assert value(told, "gpu_utilization", minor_number="3") == 43
    first = {"minor_number": "0", "node_name": "gpu-7"}
    assert value(told, "nvidiasmi_utilization_gpu", **first) == 7
    assert value(told, "nvidiasmi_utilization_memory", **first) == 12.5
    assert value(told, "nvidiasmi_temperature", **first) == 61
    assert value(told, "nvidiasmi_performance_state", **first) == 8
    assert value(told, "nvidiasmi_ecc_error_count", type="single", **first) == 5
    assert value(told, "nvidiasmi_ecc_error_count", type="double", **first) == 0
    assert value(told, "gpu_used_by_external_process_count", **first) == 2
    for name in ("nvidiasmi_temperature", "nvidiasmi_ecc_error_count", "gpu_used_by_external_process_count"):
        assert {sample.labels["minor_number"] for sample in found(told, name)} == {"0"}  # the other does not tell


def test_the_servers_own_memory_is_told() -> None:
    assert value(standing(), "process_mem_usage_byte", cmd="holdfast") > 2**20


def test_what_was_not_measured_is_not_told() -> None:
    told = standing(running(job()))
    for name in ("task_net_in_byte", "task_block_in_byte", "task_gpu_percent", "gpu_utilization"):
        assert found(told, name) == []
    assert value(told, "task_mem_limit_byte") == 4 * GIB  # what the job asks for is its limit


def test_a_task_that_is_held_has_no_series() -> None:
    snapshot, task, current = running(job(), **FULL)
    assert found(standing((snapshot, replace(task, state=TaskState.HELD), current)), "task_cpu_percent") == []


def test_two_jobs_of_one_name_are_told_apart() -> None:
    told = standing(running(job()), running(job(id="job-2")))
    assert len({tuple(sorted(sample.labels.items())) for sample in found(told, "task_cpu_percent")}) == 2


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_hostile_names_come_out_as_they_are(accept: str) -> None:
    snapshot = replace(job(), user=HOSTILE, job=replace(job().job, name=HOSTILE, group=HOSTILE))
    quota = GroupUsage(group=HOSTILE, used=ResourceAmount(), quota=Quota(cpu=1), user_quota=Quota())
    answer = render_metrics(ServerMetrics(), standing(running(snapshot, **FULL), groups=[quota]), accept)
    parse = parse_openmetrics if accept else parse_text
    told = [sample for family in parse(bytes(answer.body).decode()) for sample in family.samples]
    (cpu,) = [sample for sample in told if sample.name == "task_cpu_percent"]
    assert cpu.labels["username"] == cpu.labels["virtual_cluster"] == CLEANED
    assert cpu.labels["job_name"] == f"{CLEANED}~{CLEANED}"
    assert {sample.labels["group"] for sample in told if sample.name.startswith("holdfast_group")} == {CLEANED}


# -- the rest


def test_jobs_the_queue_and_totals() -> None:
    old = job("old", JobState.PENDING, id="job-2")
    again = job("again", JobState.PENDING, id="job-3", started_at=NOW, submitted_at=NOW - timedelta(days=9))
    told = standing(
        running(job()),
        jobs=[job(), old, again],
        totals={JobState.PENDING: 7, JobState.FAILED: 2},
        groups=[GroupUsage(group="idle", used=ResourceAmount(), quota=Quota(), user_quota=Quota())],
    )
    assert value(told, "holdfast_jobs", state="Pending") == 2
    assert value(told, "holdfast_jobs", state="Held") == 0
    assert value(told, "holdfast_queue_length") == 2
    assert value(told, "holdfast_jobs_waiting", group="vision") == 2
    assert value(told, "holdfast_jobs_waiting", group="idle") == 0
    assert value(told, "holdfast_queue_oldest_wait_seconds", group="vision") == 7200  # `again` has had its turn
    assert value(told, "holdfast_jobs_submitted_total") == 7
    assert value(told, "holdfast_jobs_ended_total", result="failed") == 2
    assert value(told, "holdfast_jobs_ended_total", result="succeeded") == 0


def test_machines_groups_disks_and_notifications() -> None:
    node = NodeUsage(
        node=Node(name="gpu-7", cpu=8, memory=64 * GIB, gpus=(0, 1)), free=ResourceAmount(cpu=3, memory=GIB, gpu=1)
    )
    group = GroupUsage(
        group="vision", used=ResourceAmount(cpu=5, gpu=1), quota=Quota(gpu=0, memory=GIB), user_quota=Quota()
    )
    told = standing(
        nodes=[node],
        groups=[group],
        disks=[DiskUsage(path="/state", free=5, total=9), DiskUsage(path="/away", free=None, total=None)],
        notifications={NotificationState.FAILED: 3},
        health=Health((SANDBOX,)),
    )
    assert value(told, "configured_gpu_count", node="gpu-7") == 2
    assert (value(told, "holdfast_node_cpu_cores"), value(told, "holdfast_node_cpu_cores_free")) == (8, 3)
    assert (value(told, "holdfast_node_gpus"), value(told, "holdfast_node_gpus_free")) == (2, 1)
    assert value(told, "holdfast_node_memory_bytes_free") == GIB
    assert (value(told, "holdfast_group_gpus_used"), value(told, "holdfast_group_gpus_quota")) == (1, 0)
    assert found(told, "holdfast_group_cpu_cores_quota") == []  # there is none
    assert [(sample.labels, sample.value) for sample in found(told, "holdfast_disk_free_bytes")] == [
        ({"path": "/state"}, 5)
    ]
    assert value(told, "holdfast_notifications", state="failed") == 3
    assert value(told, "holdfast_well") == 0
    assert value(told, "holdfast_condition", kind="sandbox") == 1
    assert value(told, "holdfast_condition", kind="disk-full") == 0


def test_every_series_of_one_answer_is_told_once() -> None:
    told = standing(running(job(), **FULL), running(job(id="job-2"), **FULL))
    keys = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for sample in samples(bytes(render_metrics(ServerMetrics(), told, "").body).decode())
        if not sample.name.startswith("gpu_")
    ]
    assert len(keys) == len(set(keys)) > 100


@pytest.mark.parametrize(
    ("path", "surface"),
    [
        ("/api/v1/jobs", "rest"),
        ("/api/v1/jobs/x/wait", "waiting"),
        ("/rest-server/api/v2/jobs", "openpai"),
        ("/api/graphql", "primehub"),
        ("/static/abc/x.js", "static"),
        ("/metrics", "metrics"),
        ("/jobs/x", "portal"),
        ("/" + "x" * 5000, "portal"),
    ],
)
def test_requests_are_counted_by_few_words(path: str, surface: str) -> None:
    assert get_api_surface(path) == surface


# -- over HTTP


@pytest.fixture
async def open_to_all(tmp_path: Path) -> object:
    async with open_house(tmp_path / "home", settings={"metrics": {"open": True}}) as house, open_rig(house) as rig:
        yield rig


async def read(rig: Rig, **headers: str) -> httpx.Response:
    return await rig.client.get("/metrics", headers=headers)


def _of(response: httpx.Response, name: str) -> Iterator[Sample]:
    return (sample for sample in samples(response.text) if sample.name == name)


async def test_admins_alone_read_it(rig: Rig) -> None:
    assert (await read(rig)).status_code == 200
    assert error_of(await read(rig, Authorization=""), 401)["message"]
    refused = error_of(await read(rig, **(await rig.token_of("ann"))), 403)
    assert "metrics.open" in refused["hint"]
    assert (await rig.client.post("/metrics")).status_code == 405


async def test_it_can_be_opened_to_anybody(open_to_all: Rig) -> None:
    response = await read(open_to_all, Authorization="")
    assert response.status_code == 200
    assert list(_of(response, "holdfast_build_info"))


async def test_the_format_is_the_one_asked_for(rig: Rig) -> None:
    plain, asked = await read(rig), await read(rig, Accept=OPENMETRICS)
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert asked.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert asked.text.endswith("# EOF\n")
    assert {family.name for family in parse_openmetrics(asked.text)} > {"holdfast_jobs", "task_block_in_byte"}
    for odd in ("application/openmetrics-text;version=x", "text/plain;version=9.y", ";;,=", "a" * 9000):
        assert (await read(rig, Accept=odd)).status_code == 200


async def test_it_follows_jobs_from_submission_to_end(rig: Rig) -> None:
    await rig.house.services.groups.create(rig.house.admin, Group(name="small", quota=Quota(cpu=1)))
    first = await rig.house.submit("name: one\ncommand: sleep 9\n", group="small")
    await rig.house.until(first.id, JobState.RUNNING)
    await rig.house.submit("name: two\ncommand: sleep 9\n", group="small")
    rig.house.clock.forward(60)
    told = await read(rig)
    (waiting,) = [sample for sample in _of(told, "holdfast_jobs_waiting") if sample.labels["group"] == "small"]
    assert waiting.value == 1
    (oldest,) = _of(told, "holdfast_queue_oldest_wait_seconds")
    assert (oldest.labels, oldest.value >= 60) == ({"group": "small"}, True)
    rig.house.engine.finish_task(rig.house.engine.list_running()[0], 0)
    await rig.house.until(first.id)
    told = await read(rig)
    assert [s.value for s in _of(told, "holdfast_jobs_ended_total") if s.labels["result"] == "succeeded"] == [1]
    assert [s.value for s in _of(told, "holdfast_jobs_submitted_total")] == [2]


async def test_the_server_counts_requests_and_writes(rig: Rig) -> None:
    await rig.get("/me")
    await rig.get("/jobs/none")
    await rig.ask("BREW", "/jobs")
    await rig.house.submit("name: one\ncommand: sleep 9\n")
    told = await read(rig)
    seen = {
        (sample.labels["surface"], sample.labels["method"], sample.labels["status"])
        for sample in _of(told, "holdfast_http_requests_total")
    }
    assert seen >= {("rest", "GET", "200"), ("rest", "GET", "404"), ("rest", "other", "405")}
    assert next(_of(told, "holdfast_db_write_duration_seconds_count")).value > 0
    assert next(_of(told, "holdfast_db_write_batch_size_sum")).value > 0


async def test_all_that_is_told_is_in_the_guide(rig: Rig) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/monitor-with-prometheus.md").read_text()
    told = {family.name for family in parse_text((await read(rig)).text)}
    missing = {name for name in told if f"`{name}`" not in page and f"`{name}_total`" not in page}
    assert {name for name in missing if not name.startswith("process_")} == set()
