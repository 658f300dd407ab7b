"""Pages, dashboards and alerts name metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dspark.metrics.families import Kind
from harness.metric_tables import CATALOGUES, PAGE, PROCESS_METRICS, sample_names, with_tables
from harness.promql import Named, named_in
from harness.repository import ROOT

OBSERVABILITY = ROOT / "compose" / "observability"
RULES = OBSERVABILITY / "alerts.yml"
DASHBOARD = OBSERVABILITY / "grafana" / "dashboards" / "dspark.json"
RUNBOOK = ROOT / "docs" / "runbook.md"
# Put on every series by Prometheus when it scrapes.
TARGET_LABELS = {"job", "instance"}
FAMILIES = [family for catalogue in CATALOGUES.values() for family in catalogue]


def labels_by_sample() -> dict[str, set[str]]:
    """A metric that several services have may have other labels at each."""
    labels: dict[str, set[str]] = {name: set() for name in (*PROCESS_METRICS, "up")}
    for family in FAMILIES:
        more = {"le"} if family.kind is Kind.HISTOGRAM else set()
        for sample in sample_names(family):
            labels.setdefault(sample, set()).update(family.labels, more)
    return {name: known | TARGET_LABELS for name, known in labels.items()}


KNOWN = labels_by_sample()


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for alert in alerts():
        yield alert["alert"], alert["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]


def unknown_in(named: Named) -> list[str]:
    unknown = [name for name in named.metrics if name not in KNOWN]
    unknown += [f"{m}{{{label}}}" for m, label in named.selected if label not in KNOWN.get(m, ())]
    usable = set[str]().union(*(KNOWN.get(name, ()) for name in named.metrics))
    return unknown + [f"by ({label})" for label in named.grouped - usable]


def test_the_page_lists_every_metric() -> None:
    """After a change of metrics: PYTHONPATH=tests python tests/harness/metric_tables.py"""
    assert PAGE.read_text() == with_tables(PAGE.read_text())


def test_a_metric_of_several_services_means_one_thing() -> None:
    meanings: dict[str, set[tuple[Kind, str]]] = {}
    for family in FAMILIES:
        meanings.setdefault(family.name, set()).add((family.kind, family.text))
    assert not {name: found for name, found in meanings.items() if len(found) > 1}


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda value: value[:60])
def test_expressions_name_what_exists(where: str, expression: str) -> None:
    named = named_in(expression)
    assert named.metrics, "no metric is named"
    assert not unknown_in(named)


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("sum(rate(dspark_scheduler_nothing_total[5m]))", ["dspark_scheduler_nothing_total"]),
        ("dspark_scheduler_steps", ["dspark_scheduler_steps"]),
        ('up{nothing=~"a|b"} == 0', ["up{nothing}"]),
        ("sum by (le, nothing) (vllm:iteration_tokens_total_bucket)", ["by (nothing)"]),
        ('process_open_fds{job="{x}"} / on (instance) group_left () up > 1e3', []),
    ],
)
def test_the_check_finds_what_does_not_exist(expression: str, unknown: list[str]) -> None:
    assert unknown_in(named_in(expression)) == unknown


@pytest.mark.parametrize(
    "page", sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]), ids=lambda p: p.name
)
def test_pages_name_metrics_that_exist(page: Path) -> None:
    prefixes = "|".join(f"dspark_{service}_" for service in CATALOGUES)
    text = page.read_text()
    named = set(
        re.findall(rf"(?<![\w*])((?:vllm:|{prefixes}|dspark_breaker|dspark_source)\w+)\b", text)
    )
    assert not sorted(name for name in named - KNOWN.keys() if not is_family(name))


def is_family(name: str) -> bool:
    """Whether it names a histogram as a whole."""
    return any(family.name == name and family.kind is Kind.HISTOGRAM for family in FAMILIES)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_each_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    annotations = alert["annotations"]
    assert annotations["summary"] and annotations["description"]
    assert alert["labels"]["severity"] in ("warning", "critical")
    page, _, anchor = annotations["runbook"].partition("#")
    assert ROOT / page == RUNBOOK and anchor == alert["alert"].lower()
    assert f"\n### {alert['alert']}\n" in RUNBOOK.read_text()


def test_the_dashboard_has_its_panels_in_order() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    places = [tuple(p["gridPos"][k] for k in "yx") for p in dashboard["panels"]]
    assert places == sorted(set(places))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    sources = (OBSERVABILITY / "grafana/provisioning/datasources/prometheus.yml").read_text()
    uids = {source["uid"] for source in yaml.safe_load(sources)["datasources"]}
    assert {panel["datasource"]["uid"] for panel in panels()} == uids


def test_most_metrics_are_looked_at() -> None:
    """A family that neither the dashboard nor an alert shows is one that nobody will see."""
    seen = {name for _, expression in expressions() for name in named_in(expression).metrics}
    unseen = {f.name for f in FAMILIES if not sample_names(f) & seen}
    assert len(unseen) < len({f.name for f in FAMILIES}) / 2, sorted(unseen)


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    return found


@pytest.mark.parametrize(
    "arguments",
    [("rules", RULES), ("config", OBSERVABILITY / "prometheus.yml")],
    ids=lambda arguments: arguments[0],
)
def test_prometheus_accepts_the_files(promtool: str, arguments: tuple[str, Path]) -> None:
    done = subprocess.run(
        [promtool, "check", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_are_raised_when_they_should_be(promtool: str) -> None:
    cases = Path(__file__).with_name("alerts_test.yml")
    done = subprocess.run([promtool, "test", "rules", cases], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_such_a_case() -> None:
    cases = yaml.safe_load(Path(__file__).with_name("alerts_test.yml").read_text())["tests"]
    tested = {
        check["alertname"]
        for case in cases
        for check in case["alert_rule_test"]
        if check["exp_alerts"]
    }
    assert tested >= {alert["alert"] for alert in alerts()}


def test_prometheus_reads_the_expressions_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel_{index}", "expr": re.sub(r"\$\w+", "1m", target["expr"])}
        for index, target in enumerate(t for panel in panels() for t in panel["targets"])
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
