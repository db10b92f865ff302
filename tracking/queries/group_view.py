"""View of a group's jobs in MLflow's UI: the columns, the repeats of an arm in one row, and the charts.

A saved view is a tag of the experiment, and an address selects it by `viewStateShareKey`. Its fields are those of
`ExperimentPageUIState` in MLflow's source. The UI leaves out columns that no run has.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mlflow.entities import Experiment, Run

from tracking.queries.job_tables import ARM, LOSSES, VERDICT, column_of, quoted, runs_where, tagged
from tracking.server.store import Store
from training.job.tasks import METRICS

MAX_VIEWS = 20
"""Views that are kept in an experiment. MLflow's UI lists them, and saves no view of its own beyond 40."""
_PREFIX = "mlflow.sharedViewState."
_COSTS = ("cost/billable_instance_seconds", "cost/usd", "projected/billable_instance_seconds", "projected/usd")
_RATES = ("throughput/steady_samples_per_second",)
_DATASET, _VERDICT = "attributes.`Dataset`", f"tags.`{VERDICT}`"
_WIDTHS = {_DATASET: 200, _VERDICT: 160}
_NAME, _CREATED = "attributes.`Run Name`", "runDateAndNestInfo"
"""Columns that the UI always shows."""
_MODEL, _SYSTEM = "Model metrics", "System metrics"
"""Sections of the UI for metrics without a prefix and with the prefix `system`."""
_LAST_SECTIONS = ("script", "memory", "machine", _SYSTEM)


def write_view(store: Store, parent: Run, scores: Collection[str] = ()) -> None:
    """Save the view of a group, whose run is `parent`, and delete the oldest views of other groups.

    `scores` are the columns, in the table of jobs, of the figures that the report shows. Without them, the view shows
    the first score and the loss.
    """
    group, experiment_id = parent.data.tags["platform.group"], parent.info.experiment_id
    runs = store.call(runs_where, store.client, tagged(kind="job", group=group), [experiment_id])
    is_grouped = parent.data.tags.get("platform.verb") == "compare"
    state = json.dumps(_state(group, runs, scores, is_grouped=is_grouped)).encode()
    view = {
        "name": parent.info.run_name,
        "createdAt": parent.info.start_time,
        "state": f"deflate;{base64.b64encode(zlib.compress(state)).decode()}",
        "group": group,
    }
    store.call(store.client.set_experiment_tag, experiment_id, _PREFIX + group, json.dumps(view))
    experiment: Experiment = store.call(store.client.get_experiment, experiment_id)
    # Users' views have no group.
    ours = {key: text for key, text in experiment.tags.items() if f'"group": "{key.removeprefix(_PREFIX)}"' in text}
    for key in sorted(ours, key=lambda key: json.loads(ours[key])["createdAt"])[:-MAX_VIEWS]:
        store.call(store.client.delete_experiment_tag, experiment_id, key)


def _state(group: str, runs: Iterable[Run], scores: Collection[str], *, is_grouped: bool) -> Mapping[str, Any]:
    runs = list(runs)
    metrics = list(dict.fromkeys(name for run in runs for name in run.data.metrics))
    figures = [*_COSTS, *_scores(metrics, scores), *_RATES]
    columns = [
        *([] if is_grouped else [_VERDICT]),
        *(f"metrics.`{name}`" for name in figures),
        *(f"params.`hp.{name}`" for name in ("batch_size", "learning_rate")),
        _DATASET,
    ]
    widths = {name: max(90, 7 * len(name) - 55) for name in columns}
    keys = [{"mode": "tag", "groupByData": name} for name in (ARM, VERDICT)]
    groups = [",".join(f"tag.{name}.{run.data.tags.get(name)}" for name in (ARM, VERDICT)) for run in runs]
    return {
        "searchFilter": f"tags.`platform.group` = {quoted(group)} and tags.`platform.kind` = 'job'",
        # Verdicts sort well: baseline, cheaper, inconclusive. Ordered by start time, the UI would add the parent run.
        "orderByKey": _VERDICT,
        "orderByAsc": True,
        "selectedColumns": columns,
        "columnOrder": [_NAME, _CREATED, *columns],
        "columnWidths": {_NAME: 360 if is_grouped else 250, _CREATED: 70, **widths, **_WIDTHS},
        "groupBy": {"aggregateFunction": "average", "groupByKeys": keys} if is_grouped else None,
        "groupsExpanded": dict.fromkeys(groups, False),
        "runsHiddenMode": "FIRST_20_RUNS",
        **_charts(metrics, figures),
    }


def _scores(metrics: Collection[str], scores: Collection[str]) -> list[str]:
    chosen = [name for name in metrics if column_of(name) in scores]
    known = [name for name in (*(metric.name for metric in METRICS), *LOSSES) if name in metrics]
    return chosen or list(dict.fromkeys([*known[:1], *[name for name in LOSSES if name in metrics][-1:]]))


def _charts(metrics: Iterable[str], figures: Iterable[str]) -> Mapping[str, Any]:
    """Return bars for the figures, and the sections in which the UI adds charts of all other metrics."""
    answer = "Cost, speed and quality"
    # The UI draws a curve of the training loss.
    bars = [name for name in figures if name in metrics and name not in LOSSES[:1]]
    prefixes = {name.rpartition("/")[0] for name in metrics} - {"", "system"}
    others = [*sorted(prefixes.difference(_LAST_SECTIONS)), *_LAST_SECTIONS]
    return {
        "compareRunCharts": [
            {"uuid": name, "type": "BAR", "metricKey": name, "metricSectionId": answer, "runsCountToCompare": 20}
            for name in bars
        ],
        "compareRunSections": [
            {"uuid": name, "name": name, "display": name not in _LAST_SECTIONS, "isReordered": False}
            for name in (answer, _MODEL, *others)
        ],
        "isAccordionReordered": True,
    }
