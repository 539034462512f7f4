from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import UserError
from holdfast.settings import load_settings


def load(home: Path, text: str, environ: dict[str, str] | None = None) -> None:
    (home / "holdfast.toml").write_text(text)
    load_settings(home, environ or {}, {"server.port": 1234})


@pytest.mark.parametrize("text", ["server = 3", 'server = "x"', "server = []"])
def test_a_section_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="Setting server: must be a table") as caught:
        load(tmp_path, text)
    assert caught.value.field == "server"
    with pytest.raises(UserError, match="Setting jobs"):
        load(tmp_path, "jobs = 1", {"HOLDFAST_JOBS_GRACE": "3"})


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e300"])
@pytest.mark.parametrize("name", ["server.login_days", "jobs.time_limit", "jobs.grace", "logs.keep_days"])
def test_times_are_finite(tmp_path: Path, name: str, number: str) -> None:
    section, field = name.split(".")
    with pytest.raises(UserError, match=f"Setting {name}"):
        load(tmp_path, f"[{section}]\n{field} = {number}\n")
    with pytest.raises(UserError, match=f"Setting {name}"):
        load(tmp_path, "", {f"HOLDFAST_{section}_{field}".upper(): number})


@pytest.mark.parametrize("number", ["inf", "nan"])
def test_sizes_are_finite(tmp_path: Path, number: str) -> None:
    for name in ("node.cpus", "node.memory", "jobs.default_cpu", "server.max_job_bytes"):
        section, field = name.split(".")
        with pytest.raises(UserError, match=f"Setting {name}"):
            load(tmp_path, f"[{section}]\n{field} = {number}\n")
