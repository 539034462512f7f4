"""What a server leaves out is left out with the libraries' present releases, and not missed by them."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from holdfast.server.import_savings import leave_out_pydantic_v1, leave_out_uvicorn_cli

leave_out_pydantic_v1()
leave_out_uvicorn_cli()
import holdfast.server.app
import holdfast.server.http

print(*(name for name in ("pydantic.v1", "pydantic.v1.main", "uvicorn.supervisors", "click") if sys.modules.get(name)))
"""


def test_a_server_does_not_load_them() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
