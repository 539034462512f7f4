"""A real Prometheus reads a real server that runs a real job: dashboards have data, alerts can be worked out."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .prometheus import DEPLOY, MISSING, Prometheus, example_config, panel_expressions
from .server import Server

needs_prometheus = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

JOB = """
name: watched
resources: {cpu: 0.5, memory: 256MiB}
commands:
  - while :; do dd if=/dev/zero of=big bs=64k count=40 conv=fsync 2>/dev/null; sleep 0.3; done
"""
# Without a GPU, a quota, a waiting job and a mistake of ours there is nothing to draw.
NO_DATA = ("task_gpu_", "gpu_utilization", "gpu_mem_utilization", "_quota", "oldest_wait", 'status=~"5.."')


def filled_in(expression: str, job: str) -> str:
    for blank, value in {"$__rate_interval": "20s", "$job": job, "$role": ".*", "$node": ".*"}.items():
        expression = expression.replace(blank, value)
    assert "$" not in expression
    return expression


@pytest.mark.release
@needs_prometheus
def test_dashboards_and_alerts_with_a_job_that_runs(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.start()
    try:
        prometheus = Prometheus(tmp_path, server)
        job_id = server.submit(JOB)["id"]
        with prometheus.running():
            # Two readings, so that there is a rate.
            wrote = 'rate(task_block_out_byte{job_name="admin~watched"}[20s])'
            prometheus.until(lambda: prometheus.query(wrote))
            _check_labels(prometheus)
            _check_dashboards(prometheus)
            _check_rules(prometheus)
            with server.client() as client:
                client.post(f"/jobs/{job_id}/stop").raise_for_status()
            server.wait(job_id)
            prometheus.until(lambda: not prometheus.query("task_cpu_percent"))  # its series have ended with it
            ended = prometheus.until(lambda: prometheus.query('holdfast_jobs_ended_total{result="cancelled"} > 0'))
            assert ended[0]["value"][1] == "1"
    finally:
        server.stop()


def _check_labels(prometheus: Prometheus) -> None:
    (found,) = prometheus.query('task_mem_limit_byte{job_name="admin~watched"}')
    labels = found["metric"]
    assert (labels["username"], labels["role_name"], labels["task_index"]) == ("admin", "main", "0")
    assert labels["virtual_cluster"] == "default"
    assert found["value"][1] == str(256 * 1024 * 1024)


def _check_dashboards(prometheus: Prometheus) -> None:
    """On a busy machine a scrape may time out; then no series has a value until the next one."""
    for _panel, expression in panel_expressions():
        if not any(part in expression for part in NO_DATA):
            query = filled_in(expression, "admin~watched")
            prometheus.until(functools.partial(prometheus.query, query))


def _check_rules(prometheus: Prometheus) -> None:
    def all_worked_out() -> list[dict[str, Any]]:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = prometheus.until(all_worked_out)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules if rule["state"] != "inactive"] == []


# -- without a server


@needs_prometheus
def test_the_example_configuration_is_right(tmp_path: Path) -> None:
    _promtool("check", "config", str(example_config(tmp_path, "127.0.0.1:8080", "secret")))
    given = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    assert [scrape["job_name"] for scrape in given["scrape_configs"]] == ["holdfast"]
    given["scrape_configs"][0]["authorization"]["credentials_file"] = str(tmp_path / "holdfast.token")
    (tmp_path / "whole.yml").write_text(yaml.safe_dump(given))
    _promtool("check", "config", str(tmp_path / "whole.yml"))


def test_dashboards_are_found_by_the_addresses_openpai_used() -> None:
    boards = [json.loads(path.read_text()) for path in (DEPLOY / "grafana").glob("*.json")]
    names = {board["uid"]: [each["name"] for each in board["templating"]["list"]] for board in boards}
    assert {uid for uid, variables in names.items() if "job" in variables} == {
        "joblevelmetrics",
        "taskrolelevelmetrics",
        "tasklevelmetrics",
    }
    assert {board["title"].lower() for board in boards} >= {
        "joblevelmetrics",
        "taskrolelevelmetrics",
        "pai_clusterview",
    }
    for board in boards:
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        assert all(panel["datasource"]["uid"] == "${datasource}" for panel in board["panels"])


SERVER = '{instance="a", job="holdfast"}'
GPU = 'node_name="a", minor_number="0"'
BAD = {
    "HoldfastDown": {f"up{SERVER}": "0x130"},
    "HoldfastNotWell": {f"holdfast_well{SERVER}": "0x130"},
    "HoldfastEventLoopSlow": {
        'holdfast_event_loop_lag_seconds_bucket{instance="a", le="0.5"}': "0+50x130",
        'holdfast_event_loop_lag_seconds_bucket{instance="a", le="1"}': "0+60x130",
        'holdfast_event_loop_lag_seconds_bucket{instance="a", le="+Inf"}': "0+60x130",
    },
    "HoldfastDatabaseSlow": {
        'holdfast_db_write_duration_seconds_bucket{instance="a", le="1"}': "0+90x130",
        'holdfast_db_write_duration_seconds_bucket{instance="a", le="5"}': "0+100x130",
        'holdfast_db_write_duration_seconds_bucket{instance="a", le="+Inf"}': "0+100x130",
    },
    "HoldfastRequestsFail": {
        'holdfast_http_requests_total{instance="a", surface="rest", method="GET", status="500"}': "0+1x130"
    },
    "HoldfastDiskLow": {
        'holdfast_disk_free_bytes{instance="a", path="/x"}': "4x130",
        'holdfast_disk_size_bytes{instance="a", path="/x"}': "100x130",
    },
    "HoldfastDiskFull": {'holdfast_condition{instance="a", kind="disk-full"}': "1x130"},
    "PaiJobPending": {'holdfast_queue_oldest_wait_seconds{group="vision"}': "0+60x130"},
    "HoldfastQueueStuck": {
        f"holdfast_queue_length{SERVER}": "3x130",
        'holdfast_jobs{instance="a", state="Running"}': "0x130",
        'holdfast_jobs{instance="a", state="Pending"}': "3x130",
    },
    "GpuIdleJob": {'task_gpu_percent{job_name="ann~x", username="ann", minor_number="0"}': "9x130"},
    "TaskMemoryNearLimit": {'task_mem_usage_percent{job_name="ann~x", role_name="w", task_index="0"}': "96x130"},
    "NvidiaSmiDoubleEccError": {f'nvidiasmi_ecc_error_count{{{GPU}, type="double"}}': "1x130"},
    "GpuUsedByExternalProcess": {f"gpu_used_by_external_process_count{{{GPU}}}": "1x130"},
    "GpuHot": {f"nvidiasmi_temperature{{{GPU}}}": "90x130"},
    "HoldfastManyHeldTasks": {'holdfast_tasks{instance="a", state="Held"}': "21x130"},
    "HoldfastManyFailures": {
        'holdfast_jobs_ended_total{instance="a", result="failed"}': "0+1x130",
        'holdfast_jobs_ended_total{instance="a", result="succeeded"}': "0x130",
    },
}
WELL = {
    f"up{SERVER}": "1x130",
    f"holdfast_well{SERVER}": "1x130",
    'holdfast_event_loop_lag_seconds_bucket{instance="a", le="0.5"}': "0+60x130",
    'holdfast_event_loop_lag_seconds_bucket{instance="a", le="+Inf"}': "0+60x130",
    'holdfast_db_write_duration_seconds_bucket{instance="a", le="1"}': "0+96x130",
    'holdfast_db_write_duration_seconds_bucket{instance="a", le="+Inf"}': "0+100x130",
    'holdfast_http_requests_total{instance="a", surface="rest", method="GET", status="200"}': "0+1000x130",
    'holdfast_http_requests_total{instance="a", surface="rest", method="GET", status="500"}': "5x130",
    'holdfast_disk_free_bytes{instance="a", path="/x"}': "5x130",
    'holdfast_disk_size_bytes{instance="a", path="/x"}': "100x130",
    'holdfast_queue_oldest_wait_seconds{group="vision"}': "3600x130",
    f"holdfast_queue_length{SERVER}": "3x130",
    'holdfast_jobs{instance="a", state="Running"}': "1x130",
    'task_gpu_percent{job_name="ann~x", username="ann", minor_number="0"}': "10x130",
    'task_mem_usage_percent{job_name="ann~x", role_name="w", task_index="0"}': "95x130",
    f'nvidiasmi_ecc_error_count{{{GPU}, type="single"}}': "7x130",
    f'nvidiasmi_ecc_error_count{{{GPU}, type="double"}}': "0x130",
    f"gpu_used_by_external_process_count{{{GPU}}}": "0x130",
    f"nvidiasmi_temperature{{{GPU}}}": "89x130",
    'holdfast_tasks{instance="a", state="Held"}': "20x130",
    'holdfast_jobs_ended_total{instance="a", result="failed"}': "0+1x130",
    'holdfast_jobs_ended_total{instance="a", result="succeeded"}': "0+1x130",
}


@needs_prometheus
@pytest.mark.release
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "prometheus/alerts.yml", tmp_path / "alerts.yml")
    tests = [_scenario(series, {name}) for name, series in BAD.items()] + [_scenario(WELL, set())]
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": tests}))
    _promtool("check", "rules", str(tmp_path / "alerts.yml"))
    _promtool("test", "rules", str(tmp_path / "test.yml"))
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())
    assert {rule["alert"] for group in rules["groups"] for rule in group["rules"]} == set(BAD)


def _scenario(series: dict[str, str], firing: set[str]) -> dict[str, Any]:
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "110m", "exp_samples": expected}],
    }


def _promtool(*argv: str) -> None:
    done = subprocess.run(["promtool", *argv], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
