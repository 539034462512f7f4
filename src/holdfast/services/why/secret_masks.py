"""Masks a job's secrets in its logs and in results derived from them."""

from __future__ import annotations

import logging
from dataclasses import replace

from holdfast.core.errors import UserError
from holdfast.core.exits.exit import Exit
from holdfast.core.masking import SecretMasker, shorten_stars
from holdfast.core.messages import map_text
from holdfast.core.verdicts import Diagnosis, Frame
from holdfast.diagnosis.case import JobDiagnosisInput, LogExcerpt, TaskDiagnosisInput
from holdfast.store.database import Store
from holdfast.store.jobs.job_secrets import list_job_secret_values

log = logging.getLogger(__name__)


async def load_masker(store: Store, job_id: str) -> SecretMasker:
    """Return a masker for this job. If its secrets cannot be read, it masks everything."""
    try:
        return SecretMasker(await store.read(list_job_secret_values, job_id))
    except UserError as error:
        log.warning("cannot read the secrets of a job", extra={"event": "secrets", "job": job_id, "error": str(error)})
        return SecretMasker((), hides_all=True)


def mask_case(masker: SecretMasker, case: JobDiagnosisInput) -> JobDiagnosisInput:
    """Replace secrets by stars, without moving any byte of a log."""
    return replace(
        case,
        exit=_mask_exit(masker, case.exit) if case.exit else None,
        message=masker.mask_text(case.message),
        tasks=tuple(_mask_task(masker, task) for task in case.tasks),
    )


def mask_diagnosis(masker: SecretMasker, found: Diagnosis) -> Diagnosis:
    frame = found.frame
    return replace(
        found,
        title=_mask_text(masker, found.title),
        explanation=_mask_text(masker, found.explanation),
        evidence=tuple(replace(each, text=_mask_text(masker, each.text)) for each in found.evidence),
        remedies=tuple(_mask_text(masker, each) for each in found.remedies),
        frame=_mask_frame(masker, frame) if frame else None,
    )


def _mask_task(masker: SecretMasker, task: TaskDiagnosisInput) -> TaskDiagnosisInput:
    return replace(
        task,
        exit=_mask_exit(masker, task.exit),
        log=_mask_excerpts(masker, task.log),
        errors=_mask_excerpts(masker, task.errors),
    )


def _mask_excerpts(masker: SecretMasker, pieces: tuple[LogExcerpt, ...]) -> tuple[LogExcerpt, ...]:
    last = len(pieces) - 1
    return tuple(
        LogExcerpt(piece.start, masker.mask_bytes(piece.data, cut_start=piece.start > 0, cut_end=number < last))
        for number, piece in enumerate(pieces)
    )


def _mask_exit(masker: SecretMasker, exit: Exit) -> Exit:
    return replace(exit, message=masker.mask_text(exit.message))


def _mask_frame(masker: SecretMasker, frame: Frame) -> Frame:
    return replace(
        frame,
        file=_mask_text(masker, frame.file),
        function=_mask_text(masker, frame.function),
        code=_mask_text(masker, frame.code),
    )


def _mask_text(masker: SecretMasker, text: str) -> str:
    """Mask secrets, and shorten the stars of earlier masking, which show the length of a secret."""
    masked = masker.mask_text(text)
    return map_text(masked, shorten_stars) if masker.is_active else masked
