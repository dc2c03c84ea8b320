-- What the audit tells beside its invariants: figures without a goal, so that a reader sees what was looked at.

-- name: transfers
-- Transfers looked at.
select count(*) as value from transfer

-- name: generations
-- Generations looked at.
select count(*) as value from generation

-- name: credits_granted
-- Credits ever granted.
select coalesce(sum(amount), 0)::bigint as value from transfer where kind = 'direct'

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
