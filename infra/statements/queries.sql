-- name: credit_balance
-- What an account has. Lots past their date are left out, booked as lost or not yet.
select a.credits_posted - a.debits_posted - l.due as posted, a.debits_pending as held,
       a.credits_posted - a.debits_posted - a.debits_pending - l.due as available,
       a.debits_posted - l.lost as spent, l.expiring
from account a
cross join lateral (
    select coalesce(sum(remaining) filter (where expires_at <= clock_timestamp()), 0)::bigint as due,
           coalesce(sum(expired), 0)::bigint as lost,
           coalesce(jsonb_agg(jsonb_build_object('credits', remaining, 'expires_at', expires_at)
                              order by expires_at, id)
                    filter (where remaining > 0 and expires_at > clock_timestamp()), '[]') as expiring
    from credit_lot where account_id = a.id
) l
where a.id = %(account_id)s and holdfast.pays(a.kind)

-- name: bounds
-- A span of time as a span of ids, so that what lies within it has no holes: ids of an account's transfers rise in
-- the order of their commits. Rows from `below` (left out) to `last` are in it.
select coalesce(case when %(since)s::timestamptz is not null then
           (select max(id) from (
               (select id from transfer where debit_account = %(account_id)s and created_at < %(since)s
                order by id desc limit 1)
               union all
               (select id from transfer
                where credit_account = %(account_id)s and kind = 'direct' and created_at < %(since)s
                order by id desc limit 1)) s) end, 0) as below,
       (select max(id) from (
           (select id from transfer
            where debit_account = %(account_id)s
              and (%(until)s::timestamptz is null or created_at < %(until)s) order by id desc limit 1)
           union all
           (select id from transfer
            where credit_account = %(account_id)s and kind = 'direct'
              and (%(until)s::timestamptz is null or created_at < %(until)s) order by id desc limit 1)) u) as last

-- name: figures_after
-- What the account had and held right after a transfer: its counters, less what came later. One moment.
select a.credits_posted - a.debits_posted - coalesce(later.posted, 0) as posted,
       a.debits_pending - coalesce(later.held, 0) as held
from account a
cross join lateral (
    select sum(case t.kind when 'direct' then t.amount * t.side when 'post' then -t.amount else 0 end)::bigint as posted,
           sum(case t.kind when 'pending' then t.amount when 'direct' then 0 else -h.amount end)::bigint as held
    from (
        select kind, amount, pending_id, -1 as side from transfer
        where debit_account = a.id and id > %(last)s
        union all
        select kind, amount, pending_id, 1 from transfer
        where credit_account = a.id and kind = 'direct' and id > %(last)s
    ) t
    left join transfer h on h.id = t.pending_id
) later
where a.id = %(account_id)s and holdfast.pays(a.kind)

-- name: lines
-- Transfers of an account from `last` down to above `below`, the newest first, with what they did to what it has
-- and holds, and who made the generation that they are about.
select t.id, t.created_at as at, coalesce(t.cause, t.kind) as kind,
       case t.kind when 'direct' then t.amount * t.side when 'post' then -t.amount else 0 end as credits,
       case t.kind when 'pending' then t.amount when 'direct' then 0 else -h.amount end as held,
       case when t.cause is not null then t.reason else '' end as reason, t.expires_at,
       g.task_id, g.operation_id, g.model_id, nullif(g.made_by, '') as made_by, coalesce(m.email, k.name) as made_by_name
from (
    (select *, -1 as side from transfer where debit_account = %(account_id)s and id <= %(last)s and id > %(below)s
     order by id desc limit %(limit)s)
    union all
    (select *, 1 as side from transfer
     where credit_account = %(account_id)s and kind = 'direct' and id <= %(last)s and id > %(below)s
     order by id desc limit %(limit)s)
) t
left join transfer h on h.id = t.pending_id
left join generation g on g.task_id = coalesce(t.task_id, t.refers_to)
left join member m on m.id = g.made_by
left join api_key k on k.id = g.key_id
order by t.id desc
limit %(limit)s
