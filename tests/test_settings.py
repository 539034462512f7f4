from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import UserError
from holdfast.settings import get_setting_names_by_section, load_settings
from holdfast.settings_names import list_unknown_variable_warnings


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


@pytest.mark.parametrize(
    ("text", "said", "advice"),
    [
        ('[acess]\nreading = "users"\n', "unknown section acess", "Did you mean access?"),
        ("[jobs]\ntime_limt = 3\n", "unknown setting jobs.time_limt", "Did you mean jobs.time_limit?"),
        ("port = 3\n", "unknown section port", "Move port to [server] or [ssh] or [mail]."),
        ("[server]\nzzz = 3\n", "unknown setting server.zzz", "for all settings"),
        ("[jobs.instance_types.x]\ncores = 3\n", "unknown setting jobs.instance_types.x.cores", "for all settings"),
    ],
)
def test_a_setting_there_is_not(tmp_path: Path, text: str, said: str, advice: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert caught.value.message == f"{tmp_path / 'holdfast.toml'}: {said}"
    assert advice in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[slurm]\nconstraint = "-x"', "Setting slurm.constraint: .*constraint must be ASCII characters"),
        ('[slurm]\nreservation = "a b"', "Setting slurm.reservation: .*reservation must be ASCII characters"),
        ('[jobs.instance_types.a]\nslurm = {nodes = "2"}', "'nodes' is not an option"),
        ('[jobs.instance_types.a]\nslurm = {gres = "gpu:2"}', "gres has 2 GPUs, but gpu is 0"),
    ],
)
def test_options_for_slurm_are_checked(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load(tmp_path, text)


def test_variables_that_look_like_settings_and_are_none() -> None:
    ours = ("HOLDFAST_HOME", "HOLDFAST_URL", "HOLDFAST_TOKEN", "HOLDFAST_DEBUG", "HOLDFAST_JOB_NAME", "HOLDFAST_ROLE")
    assert list_unknown_variable_warnings([*ours, "HOLDFAST_SERVER_PORT", "PATH"], get_setting_names_by_section()) == []
    found = list_unknown_variable_warnings(
        ["HOLDFAST_SERVER_PROT", "HOLDFAST_SEVER_PORT", "HOLDFAST_NODE_X"], get_setting_names_by_section()
    )
    assert [line.split()[0] for line in found] == ["HOLDFAST_NODE_X", "HOLDFAST_SERVER_PROT", "HOLDFAST_SEVER_PORT"]
    assert found[1].endswith("Did you mean HOLDFAST_SERVER_PORT?")
