"""Money faults that others had in public, by the number of their row, and the tests that hold each class down.

A class counts as covered when its whole kind is tried, not when one example passes: so a row names the tests of
the rule, beside those of the example. Paths are from `tests/`.
"""

RACING = "integration/generations/test_racing.py"
MODEL = "integration/generations/test_model.py::test_any_order_of_steps_keeps_money_media_and_machine_in_agreement"
KILLS = "integration/money/test_statement_faults.py::test_a_kill_between_any_two_statements_changes_nothing"
RACE = "integration/money/test_decisions_race.py::test_everybody_decides_at_once_and_one_end_is_booked"
ELSEWHERE = "integration/money/test_faults_elsewhere.py"
CALLERS = "contract/test_money_faults.py"
OPERATIONS = "contract/test_operations.py"
SWEEP = "integration/temporal/test_sweep.py"
CANCEL = "flows/test_cancel.py"
UNKNOWN = "flows/test_unknown.py"
CARD = "integration/hosts/test_card_run.py"
FENCES = "integration/leases/test_fences.py"
LIMITS = "contract/test_limits.py"

CLASSES: dict[str, tuple[str, ...]] = {
    # Credits that don't come back, or come back wrongly.
    "O01": ("flows/test_delivery.py::test_a_failed_run_is_released", RACE, MODEL),
    "O02": (f"{ELSEWHERE}::test_a_refund_gives_back_what_was_taken_and_makes_nothing", MODEL),
    "O03": (
        KILLS,
        "acceptance/test_kill.py::test_a_kill_ends_in_the_right_picture_or_a_released_hold",
        f"{SWEEP}::test_a_row_whose_workflow_is_lost_is_taken_up_with_its_own_request",
        f"{SWEEP}::test_a_terminated_workflow_is_taken_up_again",
    ),
    "O04": (f"{ELSEWHERE}::test_a_run_that_cost_more_than_its_price_never_takes_more_than_its_hold", MODEL),
    "O05": (f"{CALLERS}::test_callers_without_credits_cost_no_run_and_no_health",),
    "O06": (
        f"{RACING}::test_sixty_holds_of_ten_on_a_hundred_credits_are_exactly_ten",
        "integration/ledger/test_by_hand.py::test_such_a_transfer_is_refused",
        MODEL,
    ),
    # One operation, one charge.
    "O07": (
        "contract/test_away.py::test_a_hold_whose_answer_was_lost_is_found_at_once",
        f"{OPERATIONS}::test_sixty_four_at_once_are_one_hold_and_one_answer",
    ),
    "O08": (
        f"{CALLERS}::test_the_same_operation_after_its_end_is_neither_run_nor_paid_again",
        "integration/generations/test_admission.py::test_a_finished_operation_is_never_run_again",
    ),
    "O09": (f"{CALLERS}::test_a_client_that_retries_by_itself_has_one_task",),
    "O10": ("contract/test_tasks.py::test_a_wait_that_ends_first_gives_the_ids_and_loses_nothing",),
    "O11": (
        f"{OPERATIONS}::test_sixty_four_at_once_are_one_hold_and_one_answer",
        f"{OPERATIONS}::test_two_bodies_at_once_are_one_task_and_one_conflict",
        f"{OPERATIONS}::test_another_body_is_a_conflict_that_names_its_field_before_and_after_the_end",
    ),
    # Paid for what was delivered.
    "O12": (
        "flows/test_partial.py::test_the_good_ones_are_delivered_and_paid_at_their_own_prices",
        "contract/test_partial.py::test_the_task_says_what_is_delivered_and_charged_and_why_not_all",
    ),
    "O13": (
        "flows/test_partial.py::test_the_good_ones_are_delivered_and_paid_at_their_own_prices",
        "flows/test_partial.py::test_none_good_is_a_failure_with_its_reason_and_all_is_given_back",
    ),
    "O14": ("contract/test_partial.py::test_a_cancel_after_the_end_says_what_was_delivered_charged_and_released",),
    "O34": ("flows/test_partial.py::test_an_engine_that_finished_with_no_file_is_not_paid",),
    "O57": (
        "flows/test_delivery.py::test_a_result_that_breaks_its_contract_is_not_paid",
        "unit/media/test_judging.py::test_an_output_that_breaks_its_contract_is_no_result",
    ),
    # Cancel.
    "O15": (
        "integration/leases/test_meetings.py::test_the_cancel_waits_and_leaves_nothing_behind",
        f"{FENCES}::test_after_the_end_nothing_starts_and_nothing_is_delivered",
    ),
    "O16": (
        f"{ELSEWHERE}::test_who_begins_and_gets_it_back_for_ever_is_limited",
        f"{LIMITS}::test_sixty_four_at_once_against_ten_a_minute_are_exactly_ten",
    ),
    "O17": (f"{ELSEWHERE}::test_a_cancel_of_one_that_waits_touches_no_other",),
    "O18": ("contract/test_tasks.py::test_a_strangers_task_is_as_absent_as_one_that_never_was",),
    "O19": (f"{CANCEL}::test_while_running_only_the_engines_word_releases",),
    # Lost, doubled and late runs.
    "O22": (
        f"{UNKNOWN}::test_proof_that_it_never_ran_places_it_again",
        f"{CARD}::test_an_engine_that_dies_or_hangs_once_costs_one_more_run",
    ),
    "O23": ("acceptance/test_kill.py::test_a_kill_ends_in_the_right_picture_or_a_released_hold",),
    "O26": (
        f"{CARD}::test_a_lost_acknowledgement_is_no_second_run",
        f"{FENCES}::test_a_stale_fence_neither_starts_nor_delivers",
        RACE,
    ),
    "O28": ("flows/test_placement.py::test_a_deadline_ends_the_wait_released",),
    "O30": (
        "flows/test_placement.py::test_a_deadline_ends_the_wait_released",
        f"{OPERATIONS}::test_an_unready_model_is_refused_before_anything_is_held",
    ),
    "O35": (f"{OPERATIONS}::test_an_unready_model_is_refused_before_anything_is_held",),
    "O41": ("contract/test_bad_input.py::test_a_bad_picture_is_refused_by_name",),
    "O47": (f"{ELSEWHERE}::test_every_end_is_told_exactly_once", RACE),
    "O48": ("flows/test_placement.py::test_a_host_that_proves_that_nothing_ran_costs_only_time",),
    "O51": (f"{CARD}::test_out_of_memory_is_the_engines_own_verdict",),
    "O53": ("contract/test_tasks.py::test_a_wait_that_ends_first_gives_the_ids_and_loses_nothing",),
    "O56": (
        f"{ELSEWHERE}::test_who_begins_and_gets_it_back_for_ever_is_limited",
        "contract/test_bad_input.py::test_a_bad_picture_is_refused_by_name",
    ),
    "O58": (
        f"{CARD}::test_a_job_that_kills_its_engine_is_parked_for_good",
        f"{CARD}::test_an_engine_that_dies_each_time_ends_as_failed",
    ),
    "O60": (
        f"{UNKNOWN}::test_a_silent_host_is_unknown_when_the_order_was_fetched",
        f"{CARD}::test_an_engine_that_falls_silent_makes_it_unknown_and_keeps_the_card",
    ),
}
"""Row to tests."""

NOT_YET: dict[str, str] = {
    "O45": "webhooks are not built; a generation's end is one outbox row whoever fetches it (O47)",
    "O46": "webhooks are not built",
}
"""Rows about credits, or about what is told of them, that have to wait for a part."""
