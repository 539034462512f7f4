"""What the user of a task can write to its report folder: nothing there may fail, or be about another task."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.engines.slurm.observer import _build_running
from holdfast.engines.slurm.revived_jobs import _replace_words, parse_replacements
from holdfast.engines.slurm.slurm_folder import SlurmFolder, parse_uptime, read_facts
from holdfast.engines.slurm.task_end import EndKind, EndRecord, add_run, build_end_observation
from holdfast.engines.slurm.usage import parse_usage

ALLOCATION = "run 9 1 2 n2 boot 12.50 0,2-3\n"
DIGITS = "9" * 5000


@pytest.fixture
def folder(tmp_path: Path) -> SlurmFolder:
    for name in ("report", "inner", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "report" / "allocation").write_text(ALLOCATION)
    return SlurmFolder(str(tmp_path))


@pytest.mark.parametrize(
    "text", ["web \u00b2\n", f"web {DIGITS}\n", "web 1-\n", "web -\n", "web\n", "\n \n", "x" * 20000]
)
def test_invalid_ports_are_none(folder: SlurmFolder, text: str) -> None:
    Path(folder["report/ports"]).write_text(text)
    facts = read_facts(folder, "a")
    assert facts.allocation is not None
    assert not any(facts.allocation.ports.values())


def test_there_is_a_limit_of_ports(folder: SlurmFolder) -> None:
    Path(folder["report/ports"]).write_text("web " + "0-99999," * 1000 + "1\n")
    facts = read_facts(folder, "a")
    assert facts.allocation is not None
    assert len(facts.allocation.ports.get("web", ())) <= 1000


@pytest.mark.parametrize("text", ["inf\n", "nan\n", "1e308\n", DIGITS, "-5\n", "", "\u00b2"])
def test_an_invalid_heartbeat_says_nothing(folder: SlurmFolder, text: str) -> None:
    Path(folder["report/heartbeat"]).write_text(text)
    facts = read_facts(folder, "a")
    assert parse_uptime(facts.heartbeat) is None
    assert _build_running(facts).elapsed == 0.0


@pytest.mark.parametrize("node", ["../../x", "a/b", ".", "..", "-w", ""])
def test_a_node_is_no_path_and_no_option(folder: SlurmFolder, node: str) -> None:
    Path(folder["report/allocation"]).write_text(ALLOCATION.replace("n2", node))
    assert read_facts(folder, "a").allocation is None


def test_a_time_that_no_calendar_has_is_none(folder: SlurmFolder) -> None:
    for seconds in (10**12, 253_402_300_700, 2**62 // 10**9):
        os.utime(folder["report/allocation"], ns=(0, min(seconds * 10**9, 2**63 - 1)))
        allocation = read_facts(folder, "a").allocation
        record = add_run(EndRecord(kind=EndKind.EXITED), allocation, 10.0**9 - 1)
        build_end_observation("a", record)


def test_a_run_has_a_length_that_a_calendar_has(folder: SlurmFolder) -> None:
    for number in ("999999999", "999999999999", "9" * 300):
        Path(folder["inner/claim"]).write_text(f"run 5 1250\nend 0 {number}.5 -\n")
        facts = read_facts(folder, "a")
        record = add_run(EndRecord(kind=EndKind.EXITED), facts.allocation, facts.report.ended)
        assert build_end_observation("a", record).finished_at is not None


@pytest.mark.parametrize("position", range(6))
def test_usage_has_numbers_that_can_be_stored(position: int) -> None:
    fields = ["1.5", "2", "3", "4", "5", "6"]
    assert parse_usage(" ".join(fields)) is not None
    fields[position] = "9" * 60
    assert parse_usage(" ".join(fields)) is None


@pytest.mark.parametrize(
    "name", ["allocation", "claim", "heartbeat", "step", "oom", "ports", "usage", "refusal", "isolation"]
)
def test_links_pipes_and_folders_are_not_read(folder: SlurmFolder, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text(ALLOCATION)
    path = Path(folder[f"report/{name}"])
    creators: list[Callable[[], None]] = [
        lambda: path.symlink_to(tmp_path / "secret"),
        lambda: os.mkfifo(path),
        lambda: path.mkdir(),
    ]
    for create in creators:
        path.unlink(missing_ok=True)
        create()
        assert folder.read_head(f"report/{name}", 100) == b""
        facts = read_facts(folder, "a")
        assert (facts.allocation is None) == (name == "allocation")
        assert folder.read_refusal() == folder.read_usage() == ""


def test_a_folder_full_of_files_is_not_read_to_its_end(folder: SlurmFolder) -> None:
    for number in range(3000):
        Path(folder[f"report/{number}"]).touch()
    assert len(folder.read_reports()) <= 6


def test_texts_have_no_control_characters(folder: SlurmFolder) -> None:
    Path(folder["report/refusal"]).write_bytes(b"missing /a\x1b[2J\xff\nb\n")
    assert folder.read_refusal() == "missing /a?[2J\ufffd b"


def test_replacements_do_not_grow() -> None:
    own = parse_replacements(b"s|@holdfast:0:address@|10.0.0.1|g\ns|@holdfast:1:port:0@|15000|g\n")
    assert own == {"@holdfast:0:address@": "10.0.0.1", "@holdfast:1:port:0@": "15000"}
    hostile = b"".join(b"s|%c|%c%c|g\n" % (97 + n, 98 + n, 98 + n) for n in range(20))
    hostile += b"s||x|g\ns|@holdfast:0:address@|@holdfast:1:address@@holdfast:1:address@|g\n"
    assert parse_replacements(hostile) == {}
    assert _replace_words("a", parse_replacements(hostile)) == "a"


def test_the_start_of_a_run_is_when_its_claim_was_written(folder: SlurmFolder) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    os.utime(folder["report/allocation"], (at.timestamp(), at.timestamp()))
    allocation = read_facts(folder, "a").allocation
    assert allocation is not None
    assert allocation.at == at
