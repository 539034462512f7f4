"""Paths of the groups' data on disk: one root, a folder for each kind. Access is checked elsewhere."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from holdfast.core.volumes import SharedFolder


class SharedFolders:
    """Below `root`: groups/GROUP/volume, groups/GROUP/files, volumes/NAME, git/NAME. All are named exactly after their
    owner, so that no two groups ever share one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def from_setting(cls, folder: str, home: Path) -> SharedFolders:
        """`folder` empty: in `home`. By its real path, since a mount whose path contains a link is refused."""
        return cls(Path(os.path.realpath(folder or home / "shared")))

    def make_volume(self, folder: Path) -> SharedFolder:
        """Return a folder below the root as a volume."""
        return SharedFolder(folder=str(folder), path=str(folder.relative_to(self.root)))

    def get_volume_folder(self, group: str) -> Path:
        """The folder that jobs see as /project/GROUP."""
        return self.root / "groups" / group / "volume"

    def get_files_folder(self, group: str) -> Path:
        """The folder that jobs see as /phfs, and users by `holdfast files`."""
        return self.root / "groups" / group / "files"

    def get_uploads_folder(self, group: str) -> Path:
        """Files being uploaded, hidden from jobs and on the same disk."""
        return self.root / "groups" / group / "uploads"

    def get_removed_folder(self, group: str) -> Path:
        """Files being deleted, likewise."""
        return self.root / "groups" / group / "removed"

    def get_artifacts_folder(self, group: str, job_id: str) -> Path:
        return self.get_files_folder(group) / "jobArtifacts" / job_id

    def get_artifact_drafts_folder(self, group: str) -> Path:
        """Artifacts being collected, hidden from jobs."""
        return self.root / "groups" / group / "drafts"

    def get_artifact_markers_folder(self, group: str) -> Path:
        """An empty file for each job with artifacts, as old as they are: no job can delay their expiry."""
        return self.root / "groups" / group / "kept"

    def get_dataset_folder(self, name: str) -> Path:
        """The folder of a dataset of the kind volume."""
        return self.root / "volumes" / name

    def get_git_folder(self, name: str) -> Path:
        return self.root / "git" / name

    def archive_group(self, group: str) -> None:
        """Move the data of an earlier group to earlier/GROUP.NUMBER: a new one of this name must not see it."""
        before = self.root / "groups" / group
        if not before.exists():
            return
        earlier = self.create_folder(self.root / "earlier")
        before.rename(earlier / f"{group}.{secrets.token_hex(8)}")

    def create_files_folder(self, group: str) -> Path:
        """Create the folder of its files, and the one for deletions: on a full disk that would be too late."""
        self.create_folder(self.get_removed_folder(group))
        return self.create_folder(self.get_files_folder(group))

    def create_folder(self, folder: Path) -> Path:
        """Create the folder if it is missing; only the server's user has access from outside."""
        folder.relative_to(self.root)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
