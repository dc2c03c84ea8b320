-- name: open_account
-- Creates an account, or finds it as it is; answers its kind.
with made as (
    insert into account (id, kind, display_name) values (%(account_id)s, %(kind)s, %(name)s)
    on conflict (id) do nothing
    returning kind
)
select kind from made union all select kind from account where id = %(account_id)s limit 1

-- name: grant
select holdfast.grant_v1(%(account_id)s, %(credits)s::numeric, %(cause)s, %(expires_at)s, %(reason)s, %(actor)s,
                         %(key)s) as answer

-- name: adjust
select holdfast.adjust_v1(%(account_id)s, %(credits)s::numeric, %(task_id)s, %(reason)s, %(actor)s, %(key)s) as answer

-- name: expire_lots
select holdfast.expire_lots_v1(%(account_id)s, %(limit)s) as lots

-- name: freeze
select holdfast.freeze_v1(%(account_id)s, %(frozen)s, %(reason)s, %(actor)s) as changed

-- name: balance
-- What an account can spend, holds and spent. What is past its date and not booked as lost yet doesn't count.
-- Accounts that don't pay have entries instead of counters.
select a.credits_posted - a.debits_posted - a.debits_pending - l.due as available, a.debits_pending as held,
       a.debits_posted - l.lost as spent
from account a
cross join lateral (
    select coalesce(sum(remaining) filter (where expires_at <= clock_timestamp()), 0)::bigint as due,
           coalesce(sum(expired), 0)::bigint as lost
    from credit_lot where account_id = a.id
) l
where a.id = %(account_id)s and holdfast.pays(a.kind)
union all
select coalesce(sum(e.credits), 0)::bigint, 0, 0
from account a left join entry e on e.account_id = a.id
where a.id = %(account_id)s and not holdfast.pays(a.kind)
group by a.id
