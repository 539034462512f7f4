"""What a server leaves out is left out with the libraries' present releases, and not missed by them."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from holdfast.server.import_savings import skip_pydantic_v1, skip_uvicorn_cli

skip_pydantic_v1()
skip_uvicorn_cli()
import holdfast.server.app
import holdfast.server.http

print(*(name for name in ("pydantic.v1", "pydantic.v1.main", "uvicorn.supervisors", "click") if sys.modules.get(name)))
"""


def test_a_server_does_not_load_them() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
