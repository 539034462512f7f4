"""Job -> YAML -> Job and Job -> JSON -> Job, for any job."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.codec import mask_values
from holdfast.core.job import GIB, Job, JobFormat, Mount, Resources, Role
from holdfast.core.volumes import HostFolder, NfsExport, SharedFolder, Volume, VolumeClaim
from holdfast.jobspec import MASK, Defaults, job_from_json, job_to_json, parse_job, render_yaml
from holdfast.jobspec.document import parse_document
from holdfast.jobspec.render import dump_yaml
from tests.longer import examples

from .jobs import SIZES, jobs, json_values, sized_jobs

SITES = st.sampled_from(
    [Defaults(), Defaults(resources=Resources(cpu=4, memory=GIB, gpu=1, shm=GIB), image="base", group="staff")]
)
quick = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(jobs(), SITES)
def test_our_yaml_says_everything_a_job_can_be(job: Job, site: Defaults) -> None:
    written = render_yaml(job, mask_secrets=False, defaults=site)
    assert parse_job(written, defaults=site).job == replace(job, dialect=JobFormat.HOLDFAST)


@quick
@given(sized_jobs(), SITES)
def test_our_yaml_says_which_size_a_role_has_by_name(job: Job, site: Defaults) -> None:
    site = replace(site, instance_types=SIZES)
    written = render_yaml(job, mask_secrets=False, defaults=site)
    assert parse_job(written, defaults=site).job == replace(job, dialect=JobFormat.HOLDFAST)


def test_a_size_that_is_gone_is_written_out() -> None:
    role = Role(name="main", commands=("true",), resources=SIZES["gpu-1"], instance_type="gpu-1")
    assert "resources:\n  cpu: 2\n  memory: 7Gi\n  gpu: 1\n" in render_yaml(Job(name="x", roles=(role,)))


@quick
@given(sized_jobs())
def test_the_codec_loses_nothing(job: Job) -> None:
    through = json.loads(json.dumps(job_to_json(job, secrets=True)))
    assert job_from_json(through) == job


@quick
@given(json_values.map(lambda value: {"key": value}))
def test_yaml_we_write_is_yaml_we_read(value: dict[str, object]) -> None:
    assert parse_document(dump_yaml(value)).root.to_plain() == value


@quick
@given(jobs())
def test_masked_yaml_shows_no_secret(job: Job) -> None:
    known = replace(job, secrets={"A": "swordfish", "B": {"deep": ["swordfish"]}})
    written = render_yaml(known)
    assert "swordfish" not in written
    assert yaml.safe_load(written)["secrets"] == {"A": MASK, "B": {"deep": [MASK]}}


def test_defaults_are_left_out() -> None:
    job = Job(name="short", roles=(Role(name="main", commands=("echo hi",)),))
    assert render_yaml(job) == "name: short\ncommand: echo hi\n"


def test_what_roles_share_is_written_once() -> None:
    shared = {"commands": ("echo a\necho b\n",), "image": "base", "env": {"A": "1"}}
    job = Job(name="n", roles=(Role(name="a", **shared, instances=2), Role(name="b", **shared, shell_options=())))
    assert render_yaml(job) == (
        'name: n\nimage: base\ncommand: |\n  echo a\n  echo b\nenv:\n  A: "1"\n'
        "roles:\n  a:\n    instances: 2\n  b:\n    shell_options: []\n"
    )


def test_codec_masks_secrets_unless_asked() -> None:
    job = Job(name="n", roles=(Role(name="main", commands=("x",)),), secrets={"A": "hidden", "B": [1, {"c": None}]})
    assert job_to_json(job)["secrets"] == {"A": MASK, "B": [MASK, {"c": MASK}]}
    assert job_to_json(job, secrets=True)["secrets"] == {"A": "hidden", "B": [1, {"c": None}]}


def test_codec_reads_records_that_lack_newer_fields() -> None:
    role = {"name": "main", "commands": ["x"], "image": "host", "resources": {}, "shell_options": []}
    job = job_from_json({"name": "old", "group": "default", "roles": [role]})
    assert job == Job(name="old", roles=(Role(name="main", commands=("x",), shell_options=()),))


def test_nothing_is_masked_in_nothing() -> None:
    assert mask_values({}) == {}


def test_what_datasets_gave_is_kept_by_the_codec_and_left_out_of_files() -> None:
    own = Mount(volume=HostFolder("/a"), target="/b")
    given = Mount(volume=HostFolder("/data/x"), target="/datasets/x", read_only=False, dataset="x")
    role = Role(name="main", commands=("true",), mounts=(own, given))
    job = Job(name="j", roles=(role,), datasets=("x",))
    assert job_from_json(json.loads(json.dumps(job_to_json(job)))) == job
    assert parse_job(render_yaml(job)).job == replace(job, roles=(replace(role, mounts=(own,)),))


VOLUMES = [
    HostFolder("/a"),
    SharedFolder(folder="/shared/volumes/a", path="volumes/a"),
    NfsExport(server="files", path="/export"),
    NfsExport(server="files", path="/export", folder="/net/files/export"),
    VolumeClaim(name="models", path="team"),
]


@pytest.mark.parametrize("volume", VOLUMES)
@pytest.mark.parametrize("dataset", [None, "x"])
def test_the_codec_keeps_every_kind_of_volume(volume: Volume, dataset: str | None) -> None:
    mount = Mount(volume=volume, target="/b", dataset=dataset)
    job = Job(name="j", roles=(Role(name="main", commands=("true",), mounts=(mount,)),))
    assert job_from_json(json.loads(json.dumps(job_to_json(job)))) == job


def test_mounts_stored_before_there_were_volumes_are_folders() -> None:
    mounts = [
        {"source": "/data/a", "target": "/a", "read_only": False},
        {"source": "/net/files/x", "target": "/datasets/x", "read_only": True, "dataset": "x"},
    ]
    role = {"name": "main", "commands": ["x"], "resources": {}, "mounts": mounts}
    job = job_from_json({"name": "old", "roles": [role]})
    assert job.roles[0].mounts == (
        Mount(volume=HostFolder("/data/a"), target="/a", read_only=False),
        Mount(volume=HostFolder("/net/files/x"), target="/datasets/x", dataset="x"),
    )
    assert job_to_json(job)["roles"][0]["mounts"] == mounts


def test_jobs_stored_before_there_were_datasets_or_files_are_read() -> None:
    job = Job(
        name="j", roles=(Role(name="main", commands=("true",), mounts=(Mount(volume=HostFolder("/a"), target="/b"),)),)
    )
    old = job_to_json(job)
    del old["datasets"], old["files"]
    assert "dataset" not in old["roles"][0]["mounts"][0]
    assert job_from_json(old) == job
