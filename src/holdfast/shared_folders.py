"""Where on disk lies what groups keep: one root, a folder for each thing. Paths only; who may see what, others say."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


class SharedFolders:
    """Below `root`: groups/GROUP/volume, groups/GROUP/files, volumes/NAME, git/NAME. All are named by what they belong
    to, exactly, so that no two groups ever share one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def at(cls, folder: str, home: Path) -> SharedFolders:
        """As the setting files.folder says; empty: in the state folder. By its real path, since a mount whose path
        holds a link is refused."""
        return cls(Path(os.path.realpath(folder or home / "shared")))

    def volume(self, group: str) -> Path:
        """What jobs see as /project/GROUP."""
        return self.root / "groups" / group / "volume"

    def files(self, group: str) -> Path:
        """What jobs see as /phfs, and people by `holdfast files`."""
        return self.root / "groups" / group / "files"

    def uploads(self, group: str) -> Path:
        """Files on their way in, out of jobs' sight and on the same disk."""
        return self.root / "groups" / group / "uploads"

    def removed(self, group: str) -> Path:
        """Files on their way out, likewise."""
        return self.root / "groups" / group / "removed"

    def artifacts(self, group: str, job_id: str) -> Path:
        return self.files(group) / "jobArtifacts" / job_id

    def drafts(self, group: str) -> Path:
        """Artifacts on their way in, out of jobs' sight."""
        return self.root / "groups" / group / "drafts"

    def kept(self, group: str) -> Path:
        """An empty file for each job whose artifacts are kept, as old as they are: no job can put off their end."""
        return self.root / "groups" / group / "kept"

    def dataset(self, name: str) -> Path:
        """Of the kind volume: a folder that we made."""
        return self.root / "volumes" / name

    def git(self, name: str) -> Path:
        return self.root / "git" / name

    def set_aside(self, group: str) -> None:
        """What an earlier group of this name kept is not for a new one: it stays on disk, in earlier/GROUP.NUMBER."""
        before = self.root / "groups" / group
        if not before.exists():
            return
        earlier = self.make(self.root / "earlier")
        before.rename(earlier / f"{group}.{secrets.token_hex(8)}")

    def make_files(self, group: str) -> Path:
        """The folder of its files, and the one by which they go: on a full disk that could not be made any more."""
        self.make(self.removed(group))
        return self.make(self.files(group))

    def make(self, folder: Path) -> Path:
        """The folder, made where it is missing; nobody but the server's user gets in from outside."""
        folder.relative_to(self.root)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
