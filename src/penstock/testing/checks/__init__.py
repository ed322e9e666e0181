"""Every check: a function of a case that raises AssertionError when the join breaks a promise."""

from __future__ import annotations

from collections.abc import Callable

from penstock.testing.cases import Case
from penstock.testing.checks import answers, changes, columns, counting, failures, plans, waiting

CheckFunction = Callable[[Case], None]

EVERY_KIND: tuple[CheckFunction, ...] = (
    answers.matches_oracle,
    answers.matches_oracle_dropping_misses,
    answers.matches_oracle_marking_misses,
    answers.matches_oracle_with_room,
    answers.any_batching,
    answers.any_distribution,
    answers.all_keys_missing,
    columns.key_of_other_names,
    waiting.waiting_is_restored_elsewhere,
    changes.refresh_gives_new_values,
)
"""Checks in which keys of another kind take another way through the code."""

HASHED_KINDS: tuple[CheckFunction, ...] = (failures.collisions_are_told_apart,)
"""Checks for keys whose codes are hashes."""

SOME_KINDS: tuple[CheckFunction, ...] = (
    answers.no_loss_no_duplicate,
    answers.many_rows_of_one_key,
    answers.every_key_twice,
    answers.empty_batches,
    answers.empty_master,
    answers.empty_stream,
    answers.master_of_one_page,
    answers.flush_twice,
    answers.input_is_not_changed,
    answers.answers_stay_as_they_are,
    columns.chosen_columns,
    columns.output_schema,
    columns.wrong_columns_are_refused,
    columns.other_batches_are_refused,
    columns.every_column_type,
    plans.plan_is_frozen,
    plans.plan_pickles,
    plans.same_seed_same_result,
    plans.least_budget_works,
    plans.budget_of_any_size,
    plans.budget_holds_wide_rows,
    plans.budget_holds_late_nulls,
    plans.huge_row_is_refused_or_answered,
    plans.too_big_batch_is_refused,
    plans.memory_is_given_back,
    counting.counters_add_up,
    counting.reads_are_counted,
    failures.any_read_may_fail,
    failures.every_other_read_fails,
    failures.failed_read_changes_nothing,
    failures.batch_after_a_failure_counts_anew,
    failures.abandoned_iterators,
    failures.interleaved_iterators,
    failures.reads_into_one_buffer,
    waiting.max_wait_in_rows,
    waiting.max_wait_in_time,
    waiting.slow_reads_are_no_loop,
    waiting.idle_stream_drains,
    waiting.waiting_is_restored,
    waiting.rows_in_hand_wait_too,
    waiting.restored_rows_keep_their_time,
    waiting.restored_rows_keep_their_place,
    waiting.restore_comes_first,
    waiting.restore_survives_failing_reads,
    changes.refresh_of_some_keys,
    changes.refresh_from_and_to_nothing,
    changes.refresh_without_change,
    changes.refresh_keeps_the_budget,
    changes.refresh_waits_for_answers,
)
"""Checks for which one kind of number and one kind of text tell everything."""

__all__ = ["EVERY_KIND", "HASHED_KINDS", "SOME_KINDS", "CheckFunction"]
