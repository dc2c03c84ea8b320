-- name: limits_of
-- Limits of an account and of its keys, with what is used of them now; the account's first.
select l.subject, l.in_flight, l.per_minute, l.credits_per_day, l.credits_per_month, l.set_by, l.set_at, l.reason,
       holdfast.limit_use_v1(l.subject) as use
from spending_limit l where l.account_id = %(account_id)s
order by l.key_id nulls first

-- name: set_limits
select holdfast.set_limit_v1(%(subject)s, %(limits)s::jsonb, %(reason)s, %(actor)s) as before
