"""Faults in judgements, plans, costs, records and state."""

from __future__ import annotations

from tests.faults.fault import Fault

JUDGING = (
    Fault(
        "judging/equivalence.py",
        "answer = SAME if size <= tolerance else DIFFERENT",
        "answer = SAME",
        "A check calls a training that learns something else equal.",
        "tests/training/job/checking/test_check.py::test_a_planted_fault_is_found[a mask that is forgotten]",
    ),
    Fault(
        "judging/intervals.py",
        "    freedom = len(values) - 1\n",
        "    freedom = len(values)\n",
        "The variance of a mean is divided by n, so intervals are too narrow.",
        "tests/judging/test_intervals.py::test_difference_interval_by_hand",
    ),
    Fault(
        "judging/intervals.py",
        "confidence = 1 - (1 - CONFIDENCE) / len(remaining)",
        "confidence = CONFIDENCE",
        "Several arms do not share the error of 5 %.",
        "tests/judging/test_intervals.py::test_several_ratios_share_the_error_by_hand",
    ),
    Fault(
        "judging/sequential.py",
        "level = design.levels(comparisons)[number]",
        "level = design.levels(1)[number]",
        "A look at several arms spends the whole error on each.",
        "tests/judging/test_sequential.py::test_holm_divides_the_error_among_arms_that_show_no_difference",
    ),
    Fault(
        "judging/sequential.py",
        "if self.ratio.high < 1 and",
        "if self.ratio.estimate < 1 and",
        "An arm is called cheaper by its estimate, without its interval.",
        "tests/judging/test_sequential.py::test_an_undecided_arm_continues_until_the_last_look",
    ),
    Fault(
        "judging/non_inferiority.py",
        "kept=lost[1] <= limit and is_above,",
        "kept=lost[0] <= limit and is_above,",
        "A quality counts as kept if a loss is not proven.",
        "tests/judging/test_non_inferiority.py::test_an_equal_arm_keeps_the_quality_only_with_enough_repeats",
    ),
    Fault(
        "judging/non_inferiority.py",
        "lost = (-most_change, -least_change) if measure.higher_is_better",
        "lost = (-most_change, -least_change) if not measure.higher_is_better",
        "A lower loss counts as worse.",
        "tests/judging/test_non_inferiority.py::test_a_loss_may_rise_by_a_share_of_the_baselines",
    ),
    Fault(
        "judging/break_even.py",
        "minutes = (mine.setup + samples * mine.pace) / 60",
        "minutes = samples * mine.pace / 60",
        "The break-even time leaves out compilation.",
        "tests/judging/test_break_even.py::test_break_even_by_hand",
    ),
    Fault(
        "judging/cost_ratio.py",
        "[result.cost or 0.0 for result in results if not result.succeeded]",
        "[0.0 for result in results if not result.succeeded]",
        "Failed jobs cost nothing.",
        "tests/judging/test_cost_ratio.py::test_failed_jobs_add_their_cost_with_their_own_error",
    ),
)
PLANNING = (
    Fault(
        "sweeps/search_space.py",
        "return replace(base, learning_rate=base.learning_rate * factor)",
        "return replace(base, learning_rate=base.learning_rate)",
        "The learning rate does not follow the batch size.",
        "tests/experiments/planning/test_load.py::test_the_learning_rate_follows_from_the_global_batch",
    ),
    Fault(
        "experiments/planning/load.py",
        'return {"eval_batch_size": experiment.batch_size} if is_used',
        "return {} if is_used",
        "Arms evaluate with batches of different sizes.",
        "tests/experiments/planning/test_arms.py::test_all_arms_evaluate_with_the_same_batch_size",
    ),
    Fault(
        "experiments/planning/load.py",
        "    if wanted is None:\n        return 0\n",
        "    if wanted is None:\n        return len(names) - 1\n",
        "The last arm is the baseline.",
        "tests/experiments/planning/test_arms.py::test_the_first_overridden_arm_is_the_baseline",
    ),
    Fault(
        "experiments/planning/plan.py",
        'update={"seed": first_seed + repeat}',
        'update={"seed": first_seed}',
        "All repeats have the same seed.",
        "tests/experiments/planning/test_inputs.py::test_a_job_runs_an_unchanged_copy_of_the_script",
    ),
    Fault(
        "experiments/schema/overrides.py",
        "            if chosen and field not in chosen:\n",
        "            if chosen and field not in group:\n",
        "An override of max_steps leaves the file's epochs in place.",
        "tests/experiments/planning/test_load.py::test_max_steps_replaces_epochs",
    ),
    Fault(
        "experiments/planning/plan.py",
        "experiment.eval_batch_size or experiment.batch_size",
        "experiment.batch_size",
        "The job evaluates with the batch size of the training.",
        "tests/experiments/planning/test_hyperparameters.py::test_optional_arguments_appear_when_set",
    ),
)
COSTS = (
    Fault(
        "experiments/planning/costs.py",
        "return max(0.0, whole - steady) + samples / rate",
        "return whole + samples / rate",
        "The expected cost counts the training of the earlier job, too.",
        "tests/experiments/planning/test_expected_cost.py::test_similar_jobs_are_scaled_to_the_samples",
    ),
    Fault(
        "training/services/budget.py",
        "return _amount(spec, price, spec.max_run_seconds + overhead_seconds(spec))",
        "return _amount(spec, price, spec.max_run_seconds)",
        "The worst case of a job leaves out its stop and upload, so a budget can be exceeded.",
        "tests/training/services/test_budget.py::test_a_job_costs_at_most_its_limit_the_grace_and_the_upload",
    ),
    Fault(
        "tracking/budgets/ledger.py",
        "        return record.worst or NOTHING\n",
        "        return NOTHING\n",
        "Running jobs take nothing of the budget.",
        "tests/tracking/budgets/test_records.py::test_a_job_that_has_not_ended_counts_with_its_largest_reservation",
    ),
    Fault(
        "training/contract/price.py",
        "return InstanceSeconds(seconds * instances)",
        "return InstanceSeconds(seconds)",
        "Two machines cost as much as one.",
        "tests/training/contract/test_price.py::test_two_instances_cost_twice_as_much",
    ),
)
RECORDER = "tests/tracking/recording/test_recorder.py::test_every_point_is_recorded_once_and_the_run_ends_with_its_cost"
RECORDING = (
    Fault(
        "tracking/recording/recorder.py",
        "metrics=metrics[at : at + _BATCH_METRICS])",
        "metrics=metrics[at + 1 : at + _BATCH_METRICS])",
        "The first point of each batch is lost.",
        RECORDER,
    ),
    Fault(
        "tracking/recording/metrics.py",
        "            if key not in self._recorded:\n",
        "            if key:\n",
        "A line that the log agent sends twice is recorded twice.",
        "tests/tracking/recording/test_metric_points.py::test_an_event_that_is_sent_again_is_not_new",
    ),
    Fault(
        "tracking/recording/metrics.py",
        "            self._last_steps_before_start = dict(self._last_steps)\n",
        "            self._last_steps_before_start = {}\n",
        "Steps that a resumed job repeats are recorded again.",
        "tests/tracking/recording/test_metric_points.py::test_steps_before_a_restart_are_not_recorded_again",
    ),
    Fault(
        "tracking/recording/metrics.py",
        "return [Metric(name, float(value), at_ms, step) for",
        "return [Metric(name, float(value), at_ms, step - 1) for",
        "Points have the step before theirs.",
        RECORDER,
    ),
    Fault(
        "tracking/recording/metrics.py",
        "instance_seconds(float(billable), instance_count(description))",
        "instance_seconds(float(billable), 1)",
        "A run states the cost of one machine.",
        RECORDER,
    ),
    Fault(
        "tracking/recording/recorder.py",
        'status = "FINISHED" if failure is None else',
        'status = "FINISHED" if failure is None or failure.failure_class == "Error" else',
        "The run of a failed job ends FINISHED.",
        RECORDER,
    ),
)
FOLLOWING = (
    Fault(
        "experiments/running/scheduler.py",
        "if run and run.has_ended and not run.is_incomplete:",
        "if run and run.has_ended and run.is_incomplete:",
        "A job whose outcome is recorded is followed or started again.",
        "tests/experiments/running/test_scheduler.py::test_a_recorded_job_is_not_started_again",
    ),
    Fault(
        "tracking/groups/group.py",
        '        group_id = open_runs[0].data.tags["platform.group"] if open_runs else new_id\n',
        "        group_id = new_id\n",
        "A command that is repeated starts all its jobs again under new names.",
        "tests/tracking/groups/test_group.py::test_the_same_request_continues_its_open_group",
    ),
    Fault(
        "tracking/groups/group.py",
        'rivals = [run for run in runs.values() if run.data.tags.get(KIND, "").startswith(CLAIM)]',
        "rivals = list[Run]()",
        "A launcher ignores the claims of others, so a job gets two runs.",
        "tests/tracking/groups/test_claim.py::test_the_run_of_another_machine_is_used_once_it_is_open",
    ),
    Fault(
        "experiments/planning/plan.py",
        '        "repeats": repeats,\n        "arms": [',
        '        "arms": [',
        "A command with more repeats continues a group of fewer.",
        "tests/experiments/planning/test_plan.py::test_more_repeats_are_another_group",
    ),
)
FAULTS = (*JUDGING, *PLANNING, *COSTS, *RECORDING, *FOLLOWING)
