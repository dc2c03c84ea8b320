-- name: ready_cards
-- Cards that take work now, other than those given.
select count(*) as ready from card where card_is_free(card, interval '5 seconds') and not uuid = any (%(apart)s)

-- name: cards
-- All cards.
select uuid from card

-- name: open_by_account
-- How many generations of each account are open.
select account_id, count(*) as open from generation
where account_id = any (%(accounts)s) and status = 'pending' group by account_id

-- name: still_open
-- Generations that haven't ended, anybody's: what they wait for.
select task_id, phase, credit_status, unknown_reason from generation where status = 'pending' order by admitted_at

-- name: counts
-- The accounts' generations by their end, and the last end of all.
select count(*) as tasks, count(*) filter (where status = 'completed') as completed,
       count(*) filter (where status not in ('completed', 'pending')) as released,
       count(*) filter (where exists (select from event e where e.task_id = g.task_id and e.kind = 'looked')) as in_doubt,
       count(*) filter (where (select count(distinct card_uuid) from lease l
                               where l.task_id = g.task_id and l.order_fetched_at is not null) > 1) as moved,
       extract(epoch from max(finished_at))::float8 as last_end
from generation g where account_id = any (%(accounts)s)

-- name: failures
-- Why generations were released, and how often.
select coalesce(failure ->> 'code', status) as code, count(*) as times from generation
where account_id = any (%(accounts)s) and status not in ('completed', 'pending') group by 1 order by 2 desc

-- name: lost
-- Generations of the accounts that ended neither delivered and paid nor given back, and accepted ones that aren't there.
select task_id, phase || ', ' || status || ', ' || credit_status as what from generation
where account_id = any (%(accounts)s)
  and (status, credit_status) is distinct from ('completed', 'settled')
  and not (status in ('failed', 'canceled', 'expired') and credit_status = 'released')
union all
select task_id, 'accepted, and nowhere' from unnest(%(accepted)s::text[]) task_id
where not exists (select from generation g where g.task_id = task_id.task_id)

-- name: leased_at_once
-- Tasks that two cards had the lease of at one moment.
select a.task_id, a.card_uuid || ' and ' || b.card_uuid as what
from lease a join lease b on b.task_id = a.task_id and b.card_uuid <> a.card_uuid and b.seq > a.seq
where coalesce(a.ended_at, 'infinity') > b.offered_at

-- name: delivered_twice
-- Tasks with more than one delivery: ends that are told, payments, sets of artifacts.
select task_id, format('%%s ends, %%s resolutions, %%s artifacts of %%s, %%s charged, %%s paid',
                       ends, resolutions, artifacts, asked, charged_credits, paid) as what
from (
    select g.task_id, g.status, g.charged_credits, jsonb_array_length(g.request -> 'outputs') as asked,
           (select count(*) from event e
            where e.task_id = g.task_id and e.kind in ('settled', 'released', 'delivered_late')) as ends,
           (select count(*) from transfer t where t.task_id = g.task_id and t.kind in ('post', 'void')) as resolutions,
           (select coalesce(sum(amount), 0) from transfer t where t.task_id = g.task_id and t.kind = 'post') as paid,
           (select count(*) from artifact a where a.task_id = g.task_id) as artifacts
    from generation g where g.account_id = any (%(accounts)s) and g.status <> 'pending'
) ended
where ends <> 1 or resolutions <> 1 or paid <> charged_credits
   or artifacts <> case when status = 'completed' then asked else 0 end

-- name: uploaded_under_two_leases
-- Tasks of which two leases were granted the same output: run again after a result was lost on its way.
select count(*) as tasks from (
    select task_id from result_upload group by task_id, idx having count(distinct lease_id) > 1) twice

-- name: dirty_cards
-- Cards other than those given that take no work, each with why.
select uuid as task_id, concat_ws(', ',
           case when settled_fence < fetched_fence then format('fence %%s fetched, %%s over', fetched_fence, settled_fence) end,
           'lease ' || lease_id, 'running ' || running_task, quarantine_reason,
           case when cordoned then 'cordoned' end, 'heard ' || last_report_at) as what
from card where not card_is_free(card, interval '5 seconds') and not uuid = any (%(apart)s)
