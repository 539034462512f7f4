"""What the kinds of datasets and images are called."""

from __future__ import annotations

from holdfast.core.catalogue import ImageKind
from holdfast.services.datasets.kinds import ENV, FOLDER, GIT, NFS, VOLUME

from .visit import Visit


def dataset_kinds(visit: Visit) -> dict[str, tuple[str, str]]:
    """Kind -> what it is called, and what it is."""
    say = visit.say
    return {
        FOLDER: (say("Folder"), say("A folder of this machine that is there already.")),
        NFS: (say("NFS"), say("A folder of a file server that is mounted on this machine.")),
        VOLUME: (say("Volume"), say("A folder that is made and kept here.")),
        GIT: (say("Git"), say("The newest commit of a branch, brought up to date by itself.")),
        ENV: (say("Variables"), say("Environment variables, such as passwords of a database.")),
    }


def image_kind(visit: Visit, kind: ImageKind) -> str:
    words = {ImageKind.BOTH: visit.say("Universal"), ImageKind.CPU: visit.say("CPU"), ImageKind.GPU: visit.say("GPU")}
    return words[kind]
