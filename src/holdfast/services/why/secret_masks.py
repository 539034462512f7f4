"""Hides a job's secrets in what is concluded from its logs, or kept beyond them."""

from __future__ import annotations

import logging
from dataclasses import replace

from holdfast.core.errors import UserError
from holdfast.core.exits.exit import Exit
from holdfast.core.masking import SecretMasker, shorten_stars
from holdfast.core.messages import map_text
from holdfast.core.verdicts import Diagnosis, Evidence, Frame
from holdfast.diagnosis.case import Case, Piece, TaskCase
from holdfast.store.database import Store
from holdfast.store.jobs.job_secrets import values_given_to

log = logging.getLogger(__name__)


async def load_masker(store: Store, job_id: str) -> SecretMasker:
    """For the texts of this job. Where its secrets cannot be read, it hides everything."""
    try:
        return SecretMasker(await store.read(values_given_to, job_id))
    except UserError as error:
        log.warning("cannot read the secrets of a job", extra={"event": "secrets", "job": job_id, "error": str(error)})
        return SecretMasker((), hides_all=True)


def mask_case(masker: SecretMasker, case: Case) -> Case:
    """With stars in place of secrets; every byte of a log stays where it is."""
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
        title=_mask(masker, found.title),
        explanation=_mask(masker, found.explanation),
        evidence=tuple(_mask_evidence(masker, each) for each in found.evidence),
        remedies=tuple(_mask(masker, each) for each in found.remedies),
        frame=_mask_frame(masker, frame) if frame else None,
    )


def _mask_task(masker: SecretMasker, task: TaskCase) -> TaskCase:
    return replace(
        task,
        exit=_mask_exit(masker, task.exit),
        log=_mask_pieces(masker, task.log),
        errors=_mask_pieces(masker, task.errors),
    )


def _mask_pieces(masker: SecretMasker, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    last = len(pieces) - 1
    return tuple(
        Piece(piece.start, masker.mask_bytes(piece.data, cut_start=piece.start > 0, cut_end=number < last))
        for number, piece in enumerate(pieces)
    )


def _mask_exit(masker: SecretMasker, exit: Exit) -> Exit:
    return replace(exit, message=masker.mask_text(exit.message))


def _mask_evidence(masker: SecretMasker, evidence: Evidence) -> Evidence:
    return replace(evidence, text=_mask(masker, evidence.text))


def _mask_frame(masker: SecretMasker, frame: Frame) -> Frame:
    return replace(
        frame,
        file=_mask(masker, frame.file),
        function=_mask(masker, frame.function),
        code=_mask(masker, frame.code),
    )


def _mask(masker: SecretMasker, text: str) -> str:
    """Also what was masked with as many stars as the value has bytes, before it was judged."""
    masked = masker.mask_text(text)
    return map_text(masked, shorten_stars) if masker.has_values else masked
