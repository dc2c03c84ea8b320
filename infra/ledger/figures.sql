-- What the audit tells beside its invariants: figures without a goal, so that a reader sees what was looked at.

-- name: transfers
-- Transfers looked at.
select count(*) as value from transfer

-- name: generations
-- Generations looked at.
select count(*) as value from generation

-- name: credits_granted
-- Credits ever granted, topped up or given as promotions.
select coalesce(sum(amount), 0)::bigint as value from transfer where cause in ('grant', 'top_up', 'promotion')

-- name: credits_spent
-- Credits ever charged.
select coalesce(sum(amount), 0)::bigint as value from transfer where kind = 'post'

-- name: credits_held
-- Credits of open holds.
select coalesce(sum(debits_pending), 0)::bigint as value from account

-- name: outcomes_unknown
-- Open generations whose outcome isn't known.
select count(*) as value from generation where credit_status = 'unknown'

-- name: settled_by_an_operator
-- Generations that an operator settled.
select count(*) as value from transfer where kind = 'post' and actor like 'operator:%%'

-- name: credits_expired
-- Credits ever lost by their date.
select coalesce(sum(amount), 0)::bigint as value from transfer where cause = 'expiry'

-- name: credits_due
-- Credits past their date that are not booked as lost yet; they count nowhere.
select coalesce(sum(remaining), 0)::bigint as value from credit_lot where expires_at <= clock_timestamp()

-- name: credits_borne
-- Credits that the house bore.
select coalesce(sum(amount), 0)::bigint as value from transfer where cause = 'loss'

-- name: adjustments
-- Compensating entries.
select count(*) as value from transfer where cause = 'adjustment'

-- name: delivered_late
-- Results that were found after a release, delivered free of charge.
select count(*) as value from generation where late_at is not null

-- name: acts
-- Deeds of operators.
select count(*) as value from operator_act
