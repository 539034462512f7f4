"""PrimeHub jobs on imported images, whatever those hold: no bash, things in the way, another home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded.images.image_store import ImageStore
from tests.engines.archives import Entry, config, docker_archive, entry, folder, link, shell_entries, tar
from tests.engines.scenarios import health_here, need

from .primehub_scene import Place, primehub_job
from .scene import Ran

TOOLS = ("/bin/ln", "/bin/mkdir", "/bin/rm", "/bin/rmdir", "/bin/chmod", "/bin/readlink", "/bin/touch", "/usr/bin/id")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    need(Isolation.FULL, Isolation.READ_ONLY)
    return Place(Path(os.path.realpath(tmp_path)))


def run_on(place: Place, entries: list[Entry], command: str, tools: tuple[str, ...] = TOOLS, **more: Any) -> Ran:
    images = place.root / "home/images"
    images.mkdir(parents=True)
    file = place.root / "image.tar"
    settings = config(Env=["HOME=/opt/home", "PATH=/bin"], WorkingDir="/opt/app")
    file.write_bytes(docker_archive([tar([*shell_entries(*tools), *entries])], settings))
    ImageStore(images).add("tiny:1", file)
    return place.run(primehub_job(command, image="tiny:1"), **more)


def test_a_plain_image_with_sh_alone(place: Place) -> None:
    place.dataset("mnist")
    (place.volume / ".primehub").mkdir()
    (place.volume / ".primehub/profile").write_text("MODEL=bert\nexport MODEL\n")
    ran = run_on(
        place,
        [],
        'echo "$PWD $HOME $MODEL $IMAGE_NAME $GRANT_SUDO"; readlink datasets /datasets/mnist team-a; sudo -E id -u',
    )
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "/home/jovyan /home/jovyan bert tiny:1 true",
        "/datasets",
        "/mnt/dataset-mnist",
        "/project/team-a",
        "0",
    ]


def test_where_there_can_be_no_datasets_folder_the_links_are_in_the_home(place: Place) -> None:
    """As where the root filesystem is read-only."""
    (place.dataset("mnist") / "seen").write_text("digits\n")
    ran = run_on(place, [entry("datasets", b"a file")], "cat datasets/mnist/seen")
    assert (ran.code, ran.out) == (0, "digits\n")
    assert "/datasets is not writable" in ran.err


def test_what_the_image_put_in_the_way_stays_and_is_told(place: Place) -> None:
    way = [
        folder("home"), folder("home/jovyan"), folder("home/jovyan/phfs"), entry("home/jovyan/phfs/own", b"x"),
        folder("home/jovyan/team-a"), link("home/jovyan/datasets", "/etc"),
    ]  # fmt: skip
    (place.files / "seen").write_text("files\n")
    ran = run_on(place, way, "ls phfs; cat /phfs/seen; readlink team-a datasets")
    assert (ran.code, ran.out.splitlines()) == (0, ["own", "files", "/project/team-a", "/datasets"])
    assert "Cannot link /home/jovyan/phfs to /phfs: it already exists." in ran.err


def test_links_of_the_image_lead_nowhere_outside(place: Place) -> None:
    (place.root / "outside").mkdir()
    (place.volume / "seen").write_text("volume\n")
    way = [link("project", str(place.root / "outside")), link("phfs", "/etc"), link("datasets", "/proc")]
    place.dataset("mnist")
    ran = run_on(place, way, "cat /project/team-a/seen; touch /phfs/new")
    assert (ran.code, ran.out) == (0, "volume\n")
    assert list((place.root / "outside").iterdir()) == []
    assert (place.files / "new").exists()


def test_an_image_without_the_programs_that_make_links(place: Place) -> None:
    place.dataset("mnist")
    ran = run_on(place, [], "cat /etc/issue; ls /mnt", tools=())
    assert (ran.code, ran.out.splitlines()) == (0, ["tiny image", "dataset-mnist"])
    assert "datasets in your home: mkdir is not in the image." in ran.err
    assert "team-a to /project/team-a: ln is not in the image." in ran.err
    assert "not found" not in ran.err.replace("group profile not found", "")


def test_no_sudo_is_promised_where_none_can_be_made_to_run(place: Place) -> None:
    ran = run_on(place, [], "echo $GRANT_SUDO; ls /usr/bin/sudo /run/primehub", tools=("/usr/bin/id", "/bin/mkdir"))
    assert ran.out.splitlines()[:1] == ["false"], ran.err
    assert "/sudo" not in ran.out


def test_the_image_stays_as_it_was(place: Place) -> None:
    if any("In imported images" in note for note in health_here().notes):
        pytest.skip("places to mount at are made in the image itself where no overlay is possible")
    run_on(place, [], "touch /bin/new /home/jovyan/new")
    (issue,) = (place.root / "home/images").rglob("issue")
    root = issue.parents[1]
    assert not [name for name in ("project", "phfs", "datasets", "bin/new", "bin/sudo") if (root / name).exists()]
