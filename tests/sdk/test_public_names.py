from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast.sdk

LOADED = """
import sys
import holdfast.sdk.plain_client
from holdfast.sdk import Client
print(*(name for name in ("pydantic", "fastapi", "sqlalchemy") if name in sys.modules))
"""


@pytest.mark.parametrize("name", holdfast.sdk.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(holdfast.sdk, name).__name__ == name


def test_a_client_loads_no_framework_of_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
