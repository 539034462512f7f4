"""Stored values are encrypted together with a text that names them: another text could not decrypt them."""

from __future__ import annotations

from holdfast.store import datasets, people, secrets
from holdfast.store.notifications import recipients, records


def test_texts_that_stored_values_are_bound_to_never_change() -> None:
    assert secrets._build_seal_context("x") == "the secret x"
    assert datasets._build_seal_context("x") == "the dataset x"
    assert people._build_mlflow_context("x") == "the MLflow of group x"
    assert recipients._build_seal_context("x") == "the recipient x"
    assert records._build_seal_context("x") == "the notice x"
