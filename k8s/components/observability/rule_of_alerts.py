"""``python k8s/components/observability/rule_of_alerts.py``: writes ``prometheus_rule.yaml``.

Its groups are those of compose/observability/alerts.yml, which kustomize cannot read from here.
"""

from __future__ import annotations

from pathlib import Path

import yaml

HERE = Path(__file__).parent
ALERTS = HERE.parents[2] / "compose" / "observability" / "alerts.yml"
RULE = HERE / "prometheus_rule.yaml"


def rule_text(alerts: str) -> str:
    """The PrometheusRule with the groups of a Prometheus rules file."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "dspark"},
        "spec": {"groups": yaml.safe_load(alerts)["groups"]},
    }
    origin = f"# Written by {Path(__file__).name} from compose/observability/{ALERTS.name}.\n"
    return origin + yaml.safe_dump(rule, sort_keys=False, width=100)


if __name__ == "__main__":
    RULE.write_text(rule_text(ALERTS.read_text()))
