"""Display names of dataset and image kinds."""

from __future__ import annotations

from holdfast.core.catalogue import ImageKind
from holdfast.services.datasets.kinds import ENV, FOLDER, GIT, NFS, VOLUME

from .visit import Visit


def get_dataset_kind_names(visit: Visit) -> dict[str, tuple[str, str]]:
    """Map each kind to its name and description."""
    _ = visit.translate_text
    return {
        FOLDER: (_("Folder"), _("An existing folder on this server.")),
        NFS: (_("NFS"), _("A folder on a file server that is mounted on this server.")),
        VOLUME: (_("Volume"), _("A folder that Holdfast creates and manages.")),
        GIT: (_("Git"), _("The newest commit of a branch, synced automatically.")),
        ENV: (_("Variables"), _("Environment variables, such as database passwords.")),
    }


def get_image_kind_name(visit: Visit, kind: ImageKind) -> str:
    words = {
        ImageKind.BOTH: visit.translate_text("Universal"),
        ImageKind.CPU: visit.translate_text("CPU"),
        ImageKind.GPU: visit.translate_text("GPU"),
    }
    return words[kind]
