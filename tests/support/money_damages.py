"""Breaches of lots, limits, adjustments, losses, late deliveries and acts, and which invariants name them."""

DAMAGES: dict[str, tuple[str, set[str]]] = {
    "a transfer without a reason": (
        "update transfer set reason = ' ' where kind = 'void'",
        {"transfers_out_of_shape"},
    ),
    "a grant from nowhere": (
        "update transfer set debit_account = 'promotions' where cause = 'grant'",
        {"transfers_out_of_shape"},
    ),
    "counters of an account that has none": (
        "update account set credits_posted = 1 where id = 'revenue'",
        {"accounts_out_of_shape"},
    ),
    "lots that nobody draws from": ("update account set has_lots = false", {"accounts_out_of_shape"}),
    "a phase that is none": (
        "update generation set phase = 'x' where status = 'completed' and late_at is null",
        {"generations_out_of_shape"},
    ),
    "an event of nothing": (
        "update event set task_id = 'gen_none' where kind = 'held'",
        {"rows_without_their_owner"},
    ),
    "a lot with more than it got": (
        """
        alter table credit_lot drop constraint lot_adds_up;
        update credit_lot set remaining = remaining + 1
        """,
        {"lots_do_not_add_up"},
    ),
    "a lot that lives longer than its gift": (
        "update credit_lot set expires_at = expires_at + interval '1 day'",
        {"lots_do_not_add_up"},
    ),
    "a gift that lost its lot": (
        "delete from lot_draw; delete from credit_lot",
        {"gifts_without_their_lot"},
    ),
    "a lot beyond the balance": (
        """
        alter table credit_lot drop constraint lot_adds_up;
        update credit_lot set remaining = 1000, amount = 1000
        """,
        {"lots_beyond_the_balance", "lots_do_not_add_up"},
    ),
    "a draw that outlives its hold": (
        "update lot_draw set spent = null where spent is not null",
        {"draws_differ_from_holds", "lots_do_not_add_up"},
    ),
    "a counter that forgot": ("update spend_day set credits = credits - 1", {"limit_counters_differ"}),
    "a counter that vanished": ("delete from spend_day", {"limit_counters_differ"}),
    "an adjustment beyond the charge": (
        """
        update transfer set amount = 9 where cause = 'adjustment';
        update account set credits_posted = credits_posted + 4 where kind = 'user'
        """,
        {"adjustments_beyond_the_charge"},
    ),
    "a loss that nobody bore": ("delete from transfer where cause = 'loss'", {"losses_differ_from_releases"}),
    "a late delivery of nothing": (
        "delete from artifact where task_id = (select task_id from generation where late_at is not null)",
        {"late_without_results"},
    ),
    "an adjustment without its act": (
        "delete from operator_act where act = 'adjust'",
        {"deeds_without_their_act"},
    ),
    "a decision without its act": ("delete from operator_act where act = 'resolve'", {"deeds_without_their_act"}),
    "a frozen account without its act": (
        "delete from operator_act where act = 'freeze'",
        {"deeds_without_their_act"},
    ),
    "a limit that nobody set": ("delete from operator_act where act = 'limit'", {"deeds_without_their_act"}),
    "a second person at a user's account": (
        "update member set role = 'viewer'",
        {"users_with_other_members"},
    ),
}
