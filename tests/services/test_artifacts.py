from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import NotFound

from .house import House

pytestmark = pytest.mark.anyio

JOB = "name: one\nroles:\n  main:\n    commands: [echo]\n"


async def test_artifacts_are_listed_and_read(house: House) -> None:
    job = await house.submit(JOB)
    folder = house.services.shared.get_artifacts_folder("default", job.id)
    (folder / ".metadata").mkdir(parents=True)
    (folder / ".metadata/expiredAt").write_text("0")
    (folder / "plots").mkdir()
    (folder / "plots/a.png").write_bytes(b"png")
    (folder / "result.txt").write_bytes(b"42")
    (folder / "link").symlink_to("/etc/passwd")
    found = await house.services.artifacts.list(house.admin, "one")
    assert found.prefix == f"groups/default/jobArtifacts/{job.id}"
    assert [(item.name, item.size) for item in found.items] == [("plots/a.png", 3), ("result.txt", 2)]
    assert found.complete
    file = await house.services.artifacts.open(house.admin, job.id, "plots/a.png")
    assert await file.read() == b"png"
    for path in ("link", "none", ".metadata/expiredAt", "plots"):
        with pytest.raises(NotFound):
            await house.services.artifacts.open(house.admin, job.id, path)


async def test_a_job_without_artifacts_has_none(house: House) -> None:
    job = await house.submit(JOB)
    assert (await house.services.artifacts.list(house.admin, job.id)).items == ()


async def test_a_folder_that_became_a_link_holds_nothing(house: House, tmp_path: Path) -> None:
    job = await house.submit(JOB)
    (tmp_path / "secret").write_text("x")
    files = house.services.shared.create_folder(house.services.shared.get_files_folder("default"))
    (files / "jobArtifacts").mkdir()
    (files / "jobArtifacts" / job.id).symlink_to(tmp_path)
    assert (await house.services.artifacts.list(house.admin, job.id)).items == ()
    with pytest.raises(NotFound):
        await house.services.artifacts.open(house.admin, job.id, "secret")


async def test_whoever_may_see_the_job_may_read_them(house: House) -> None:
    job = await house.submit(JOB)
    folder = house.services.shared.get_artifacts_folder("default", job.id)
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"x")
    ann = await house.user("ann", "vision")
    with pytest.raises(NotFound):
        await house.services.artifacts.list(ann, job.id)
    with pytest.raises(NotFound):
        await house.services.artifacts.open(ann, job.id, "a")
    reader = replace(ann, can_read_all_jobs=True)
    assert len((await house.services.artifacts.list(reader, job.id)).items) == 1
    assert await (await house.services.artifacts.open(reader, job.id, "a")).read() == b"x"
