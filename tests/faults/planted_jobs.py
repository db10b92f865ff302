"""Faults in local jobs, staging, training, messages and models in use."""

from __future__ import annotations

from tests.faults.fault import Fault

CONTRACT = "tests/training/services/local/test_contract.py"
LOCAL = (
    Fault(
        "training/services/supervision/processes.py",
        'return "time limit"',
        'return "itself"',
        "A job at its time limit is killed, without the time to save its model.",
        f"{CONTRACT}::TestOutcomes::test_a_job_that_exceeds_its_time_limit_is_stopped[local]",
    ),
    Fault(
        "training/services/supervision/supervise.py",
        '    if outcome.ended_by == "itself" and outcome.exit_code != 0:\n',
        '    if outcome.ended_by == "itself" and outcome.exit_code < 0:\n',
        "A job whose script fails counts as completed.",
        f"{CONTRACT}::TestOutcomes::test_a_failed_job_reports_its_error[local]",
    ),
    Fault(
        "training/services/supervision/job_folder.py",
        "seconds = max(0.0, now - started)",
        'seconds = max(0.0, now - state["CreationTime"])',
        "The wait for a free core is billed.",
        "tests/training/services/supervision/test_job_folder.py::test_billing_starts_with_the_download",
    ),
    Fault(
        "training/services/supervision/processes.py",
        "    _kill_until_none(lambda: _children() - not_of_job)\n",
        "",
        "Processes that left the session and the environment of a job survive it.",
        "tests/training/services/local/test_faults.py::TestFaults::test_no_process_of_a_script_outlives_its_job",
    ),
    Fault(
        "training/services/supervision/job_folder.py",
        '"MaxRuntimeExceeded": "Stopped"',
        '"MaxRuntimeExceeded": "Completed"',
        "A job that its time limit ended counts as completed.",
        f"{CONTRACT}::TestOutcomes::test_a_job_that_exceeds_its_time_limit_is_stopped[local]",
    ),
)
CORPUS = "tests/training/staging/test_corpus.py"
STAGING = (
    Fault(
        "training/staging/formats/readers.py",
        "        elif row and len(row) != len(header):\n",
        "        elif row and len(row) < len(header):\n",
        "A row with more fields than the header is accepted.",
        f"{CORPUS}::test_bad_files_are_refused_with_their_place[csv: too many fields]",
    ),
    Fault(
        "training/staging/tokens/rows.py",
        "(0, int(name), name) if",
        "(0, 0, name) if",
        "Class 10 comes before class 2.",
        "tests/training/staging/tokens/test_labels.py::test_numbers_are_numbered_in_numeric_order_also_as_text",
    ),
    Fault(
        "training/staging/tokens/rows.py",
        "enumerate(label_map.values()) for value in values}",
        "enumerate(reversed(label_map.values())) for value in values}",
        "A label map gives its classes each other's names.",
        f"{CORPUS}::test_rows_are_read_as_before[map of stars]",
    ),
    Fault(
        "training/staging/tokens/rows.py",
        "if side == is_validation)",
        "if not is_validation or side)",
        "Validation rows are trained on, too.",
        f"{CORPUS}::test_rows_are_read_as_before[another share and seed]",
    ),
    Fault(
        "training/staging/tokens/rows.py",
        "hash_of(row.group) if row.group",
        "hash_of(row.id) if row.group",
        "Questions about one context are on both sides of the split.",
        "tests/training/staging/tokens/test_questions.py::test_the_split_keeps_the_questions_of_a_context_together",
    ),
    Fault(
        "training/staging/stage.py",
        '        "max_length": request.max_length,\n        "options"',
        '        "options"',
        "Data of another max_length is reused.",
        "tests/training/staging/test_stage.py::test_a_change_of_the_channels_changes_the_key",
    ),
    Fault(
        "training/staging/stage.py",
        '        "rows": data.validation_rows,\n',
        "",
        "Models that were evaluated on different rows are compared.",
        "tests/training/staging/test_stage.py::test_different_validation_rows_or_labels_change_the_key",
    ),
)
TRAINING = (
    Fault(
        "training/job/loop/job_trainer.py",
        "count * len(batches) * processes / total",
        "len(batches)",
        "With accumulation, the loss and the gradients are as often too large.",
        "tests/training/job/test_train.py::test_accumulated_batches_give_the_same_step",
    ),
    Fault(
        "training/job/loop/job_trainer.py",
        "        torch.set_rng_state(cpu)\n",
        "",
        "An evaluation changes the dropout of the steps after it.",
        "tests/training/job/loop/test_random_states.py::test_draws_inside_do_not_change_later_ones",
    ),
    Fault(
        "training/job/loop/job_trainer.py",
        "            super()._load_optimizer_and_scheduler(checkpoint)\n",
        "            super()._load_optimizer_and_scheduler(None)\n",
        "A resumed training forgets the state of its optimizer, so it does not resume bit for bit.",
        "tests/training/job/test_train.py::test_a_stopped_job_saves_its_step_and_resumes_there",
    ),
    Fault(
        "training/job/data/padding.py",
        "tokens=int(lengths.sum()),",
        "tokens=len(texts) * length,",
        "Padding counts as tokens, so the throughput is too high.",
        "tests/training/job/data/test_padding.py::test_a_batch_by_hand",
    ),
    Fault(
        "training/job/data/padding.py",
        "        unique = [row for row in batch if DUPLICATE not in row]\n",
        "        unique = list(batch)\n",
        "Rows that only complete a batch are counted and trained on twice.",
        "tests/training/job/data/test_padding.py::test_duplicates_are_no_rows_of_a_training",
    ),
    Fault(
        "training/job/measuring/meter.py",
        "        self._paused_seconds += seconds\n",
        "",
        "Evaluations count in the steady rate.",
        "tests/training/job/measuring/test_meter.py::test_steady_time_excludes_warm_up_evaluations_and_checkpoints",
    ),
)
MESSAGES = (
    Fault(
        "training/contract/plain_text.py",
        "    text = _ADDRESS.sub(lambda match: _without_values(_without_user(match[0])), text)\n",
        "",
        "The password in an address is printed.",
        "tests/training/contract/test_plain_text.py::test_no_password_is_shown",
    ),
    Fault(
        "training/contract/failures.py",
        'STOPPED_BY.get(status, "Stopped"), _stop',
        '"Stopped", _stop',
        "A job that exceeded its time limit counts as stopped by a person.",
        "tests/training/contract/test_failures.py::test_a_stop_by_the_service_takes_precedence_over_the_failure_event",
    ),
)
IN_USE = (
    Fault(
        "models/registry.py",
        "elif is_worse(value, other_value, measure):",
        "elif is_worse(other_value, value, measure):",
        "A worse model replaces the one in use.",
        "tests/models/test_gate.py::test_a_worse_model_is_refused",
    ),
    Fault(
        "training/job/tasks/classification.py",
        "best = max(range(len(scores)), key=scores.__getitem__)",
        "best = min(range(len(scores)), key=scores.__getitem__)",
        "The least likely label is answered.",
        "tests/models/inference/test_classification.py::test_answers_equal_the_pipelines",
    ),
)
JOB_FAULTS = (*LOCAL, *STAGING, *TRAINING, *MESSAGES, *IN_USE)
