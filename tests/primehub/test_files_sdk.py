"""`primehub files` and `primehub datasets` against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from primehub.utils import GraphQLException, SharedFileException

from .place import FORM, GROUP, Place, User

pytestmark = pytest.mark.release


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Some files to send."""
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("alpha\n")
    (folder / "empty").touch()
    (folder / "sub" / "üñ ☃ + 1&2.bin").write_bytes(bytes(range(256)) * 100)
    return folder


@pytest.fixture
def files(ann: User) -> Iterator[Any]:
    """ph.files, with nothing left behind."""
    made = ann.library().files
    yield made
    if made._execute_list("/", limit=1):
        made.delete("/", recursive=True)


def paths(user: User) -> dict[str, int]:
    """Every file of the group with its size, as our own API lists them; without artifacts, which other tests leave."""
    found = user.rest(f"/groups/{GROUP}/files?recursive=true")
    kept = (each for each in found["items"] if not each["name"].startswith("jobArtifacts/"))
    return {each["name"]: each["size"] for each in kept if not each["name"].endswith("/")}


def test_up_and_down_again(ann: User, files: Any, tree: Path, tmp_path: Path) -> None:
    one = ann.json("files", "upload", str(tree / "a.txt"), "/single.txt")
    assert one == [{"success": True, "phfs": "/single.txt", "file": str(tree / "a.txt")}]
    many = ann.json("files", "upload", str(tree), "/inbox/", "--recursive")
    assert {each["success"] for each in many} == {True}
    assert paths(ann) == {
        "single.txt": 6,
        "inbox/tree/a.txt": 6,
        "inbox/tree/empty": 0,
        "inbox/tree/sub/üñ ☃ + 1&2.bin": 25600,
    }
    ann.run("files", "download", "/single.txt", str(tmp_path / "one.txt"))
    assert (tmp_path / "one.txt").read_text() == "alpha\n"
    (tmp_path / "back").mkdir()
    ann.run("files", "download", "/inbox/tree", str(tmp_path / "back"), "--recursive")
    for path in tree.rglob("*"):
        if path.is_file():
            assert (tmp_path / "back" / "tree" / path.relative_to(tree)).read_bytes() == path.read_bytes()


def test_lists(ann: User, files: Any, tree: Path) -> None:
    files.upload(str(tree), "/", recursive=True)
    listed = {each["name"]: each for each in ann.json("files", "list", "/tree")}
    assert set(listed) == {"a.txt", "empty", "sub/"}
    assert (listed["a.txt"]["size"], listed["a.txt"]["phfsUri"]) == (6, "phfs:///tree/a.txt")
    assert (listed["sub/"]["size"], listed["sub/"]["lastModified"]) == (0, None)
    (one,) = files.list("/tree/a.txt")
    assert (one["name"], one["size"]) == ("a.txt", 6)
    assert ann.run("files", "list", "/tree").splitlines()[0].split() == ["name", "size", "lastModified", "phfsUri"]
    assert ann.run("files", "get-phfs-uri", "/tree").strip() == "phfs:///tree"
    assert "No such file or directory: /none" in ann.fails("files", "list", "/none")
    with pytest.raises(SharedFileException, match="Not a directory"):
        files.list("/tree/a.txt/")


def test_delete(ann: User, files: Any, tree: Path) -> None:
    files.upload(str(tree), "/", recursive=True)
    files.upload(str(tree / "a.txt"), "/tree2")
    assert ann.run("files", "delete", "/tree/a.txt").split() == ["deleteFiles:", "1"]
    assert "please delete it recursively" in ann.fails("files", "delete", "/tree/")
    assert ann.json("files", "delete", "/tree", "--recursive") == {"deleteFiles": 2}
    assert paths(ann) == {"tree2": 6}  # which only begins like it
    with pytest.raises(SharedFileException, match="No such file"):
        files.delete("/tree/a.txt")


def test_jobs_and_clients_see_the_same_files(hub: Place, ann: User, files: Any, tree: Path, tmp_path: Path) -> None:
    if hub.admin("GET", "/capacity")["engine"]["isolation"] == "none":
        pytest.skip("tasks find /phfs only in a sandbox")
    files.upload(str(tree / "a.txt"), "/in.txt")
    job = hub.submit(ann, **{**FORM, "command": "tr a-z A-Z < /phfs/in.txt > phfs/out.txt"})
    assert ann.json("jobs", "wait", job)["phase"] == "Succeeded"
    files.download("/out.txt", str(tmp_path / "out.txt"))
    assert (tmp_path / "out.txt").read_text() == "ALPHA\n"


def test_other_groups_stay_out(hub: Place, ann: User, files: Any, tree: Path) -> None:
    files.upload(str(tree / "a.txt"), "/ours.txt")
    zoe = hub.zoe.library()
    assert zoe.files._execute_list("/") == []
    zoe.primehub_config.current_group = {"id": GROUP, "name": GROUP, "displayName": GROUP}
    with pytest.raises(GraphQLException, match="user not auth"):
        zoe.files.list("/")
    with pytest.raises(GraphQLException, match="user not auth"):
        zoe.files.delete("/", recursive=True)
    address = f"{ann.server.url}/api/files/groups/research-a/ours.txt"
    refused = httpx.get(address, headers={"Authorization": f"Bearer {hub.zoe.token}"}, timeout=30)
    assert refused.status_code == 403
    assert "alpha" not in refused.text
    assert paths(ann) == {"ours.txt": 6}


# -- datasets: folders of shared files with tags


def test_a_dataset_from_beginning_to_end(ann: User, files: Any) -> None:
    made = ann.json("datasets", "create", given={"id": "digits", "tags": ["small", "ten"]})
    assert (made["id"], made["name"], made["createdBy"], made["tags"]) == ("digits", "digits", "ann", ["small", "ten"])
    assert ann.json("datasets", "get", "digits") == made
    changed = ann.json("datasets", "update", "digits", given={"tags": ["big"]})
    assert changed["tags"] == ["big"]
    row = next(line for line in ann.run("datasets", "list").splitlines() if "digits" in line)
    assert "ann" in row
    assert "big" in row
    assert "RESOURCE_CONFLICT" in ann.fails("datasets", "create", given={"id": "digits"})
    assert ann.json("datasets", "delete", "digits") == {"id": "digits"}
    assert "Dataset digits not found" in ann.fails("datasets", "get", "digits")
    assert not [path for path in paths(ann) if path.startswith("datasets/")]


def test_files_of_a_dataset(ann: User, files: Any, tree: Path, tmp_path: Path) -> None:
    datasets = ann.library().datasets
    datasets.create({"id": "digits"})
    ann.run("datasets", "files-upload", "digits", str(tree), "/", "--recursive")
    datasets.files_upload("digits", str(tree / "a.txt"), "/b.txt")
    assert {each["name"] for each in ann.json("datasets", "files-list", "digits", "/")} == {"b.txt", "tree/"}
    assert datasets.get("digits")["size"] == 6 + 6 + 0 + 25600
    (tmp_path / "back").mkdir()
    ann.run("datasets", "files-download", "digits", "/tree", str(tmp_path / "back"), "--recursive")
    assert (tmp_path / "back/tree/a.txt").read_text() == "alpha\n"
    assert ann.json("datasets", "files-delete", "digits", "/b.txt") == {"deleteFiles": 1}
    assert datasets.files_delete("digits", "/", recursive=True) == {"deleteFiles": 3}
    assert [each["id"] for each in datasets.list()] == ["digits"]  # empty, but still there
    assert "Invalid Operation" in ann.fails("datasets", "files-delete", "digits", "/.dataset")
    datasets.delete("digits")


def test_all_datasets_are_listed_page_by_page(ann: User, files: Any) -> None:
    datasets = ann.library().datasets
    made = [f"many-{number:02}" for number in range(11)]
    for id in made:
        datasets.create({"id": id})
    assert sorted(each["id"] for each in datasets.list()) == made
    assert [len(list(datasets.list(page=page))) for page in (1, 2, 3)] == [10, 1, 0]
    for id in made:
        datasets.delete(id)
