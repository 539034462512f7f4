"""Removing what a hostile task left."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.engines.embedded.tree_removal import remove_tree


def test_any_depth(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(1200):  # far beyond the longest path, and beyond the stack of a recursive remover
        os.mkdir("d" * 20, dir_fd=fd)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=inner))
        os.close(fd)
        fd = inner
    os.close(fd)
    assert remove_tree(str(top))
    assert not top.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    top = tmp_path / "top"
    (top / "a").mkdir(parents=True)
    (top / "link").symlink_to(outside)
    (top / "a" / "link").symlink_to(outside)
    (top / "a" / "loop").symlink_to("loop")
    assert remove_tree(str(top))
    assert (outside / "precious").exists()
    (tmp_path / "instead").symlink_to(outside)
    assert remove_tree(str(tmp_path / "instead"))
    assert (outside / "precious").exists()


def test_folders_that_let_nobody_in(tmp_path: Path) -> None:
    top = tmp_path / "top"
    closed = top / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").write_text("x")
    (closed / "inner").chmod(0)
    closed.chmod(0o500)
    top.chmod(0)
    assert remove_tree(str(top))


def test_names_that_are_in_the_way(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in (".lifted-1", ".lifted-2", "a"):
        (top / name / "b" / ".lifted-1").mkdir(parents=True)
    (top / "\n").mkdir()
    os.mkfifo(top / "fifo")
    assert remove_tree(str(top))


def test_what_is_not_there_is_gone(tmp_path: Path) -> None:
    assert remove_tree(str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("x")
    assert remove_tree(str(tmp_path / "file"))
