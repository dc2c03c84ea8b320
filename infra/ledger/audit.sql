-- Each query counts what breaks one invariant, and names up to ten of them. `value` is the figure, `detail` says
-- where. All run in one snapshot, so a live system doesn't disturb them.
-- The comment right under a name is the invariant, and is printed.

-- name: entries_sum_to_zero
-- Every credit that one account lost, another gained.
select coalesce(sum(credits), 0)::bigint as value, null as detail from entry

-- name: counters_differ_from_transfers
-- An account's counters are what its transfers say.
with facts as (
    select a.id,
        (a.credits_posted, a.debits_posted, a.debits_pending) as counted,
        (coalesce((select sum(amount) from transfer where credit_account = a.id and kind in ('direct', 'post')), 0)::bigint,
         coalesce((select sum(amount) from transfer where debit_account = a.id and kind in ('direct', 'post')), 0)::bigint,
         coalesce((select sum(amount) from transfer h where h.debit_account = a.id and h.kind = 'pending'
                   and not exists (select from transfer r where r.pending_id = h.id)), 0)::bigint) as summed
    from account a where holdfast.pays(a.kind)
), bad as (select id, counted, summed from facts where counted <> summed)
select count(*) as value,
       (select string_agg(id || ' ' || counted || ' <> ' || summed, '; ') from (select * from bad order by id limit 10) b) as detail
from bad

-- name: accounts_overdrawn
-- No account has less than nothing.
select count(*) as value, string_agg(id, '; ' order by id) as detail
from account where credits_posted - debits_posted - debits_pending < 0

-- name: holds_resolved_twice
-- A hold is posted or voided at most once.
with bad as (select pending_id from transfer where pending_id is not null group by pending_id having count(*) > 1)
select count(*) as value, (select string_agg(pending_id::text, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: posts_above_their_hold
-- Nobody pays more than was held.
with bad as (
    select r.id from transfer r join transfer h on h.id = r.pending_id
    where r.amount > h.amount or h.kind <> 'pending' or r.task_id <> h.task_id
       or r.debit_account <> h.debit_account or r.credit_account <> h.credit_account
)
select count(*) as value, (select string_agg(id::text, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: generations_without_one_hold
-- Each generation has exactly one hold, of its price, on its account.
with bad as (
    select g.task_id from generation g
    left join transfer h on h.task_id = g.task_id and h.kind = 'pending'
        and h.amount = g.price_credits and h.debit_account = g.account_id
    group by g.task_id having count(h.id) <> 1
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: credit_status_differs_from_transfers
-- What a generation says of its credits is what was booked: held or unknown without a resolution, settled by a
-- post of what it charged, released by a void.
with facts as (
    select g.task_id, g.credit_status, g.charged_credits, r.kind, r.amount
    from generation g left join transfer r on r.task_id = g.task_id and r.kind in ('post', 'void')
), bad as (
    select task_id from facts where not case credit_status
        when 'settled' then kind is not distinct from 'post' and amount = charged_credits
        when 'released' then kind is not distinct from 'void'
        else kind is null end
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: completed_without_results
-- What was paid for was kept: a completed generation has results, numbered from 0, no more than were asked for.
-- An operator may settle without a result, with a reason; those are counted apart.
with facts as (
    select g.task_id, jsonb_array_length(g.request -> 'outputs') as asked,
           (select count(*) from artifact a where a.task_id = g.task_id) as kept,
           (select coalesce(max(idx), -1) + 1 from artifact a where a.task_id = g.task_id) as numbered
    from generation g join transfer p on p.task_id = g.task_id and p.kind = 'post'
    where g.status = 'completed' and p.actor not like 'operator:%%'
), bad as (select * from facts where kept = 0 or kept <> numbered or kept > asked)
select count(*) as value,
       (select string_agg(task_id || ' kept ' || kept || ' of ' || asked, '; ') from (select * from bad limit 10) b) as detail
from bad

-- name: charged_otherwise_than_delivered
-- What was charged is the sum of the own prices of the outputs that were delivered, as the request's terms say.
-- What an operator settled is charged as he decided.
with facts as (
    select g.task_id, g.charged_credits as charged, coalesce((
        select sum(terms.credits::bigint)
        from jsonb_array_elements_text(g.request #> '{price,per_output}') with ordinality terms (credits, place)
        where not exists (select from refused_output r where r.task_id = g.task_id and r.idx = terms.place - 1)
    ), 0) as due
    from generation g join transfer p on p.task_id = g.task_id and p.kind = 'post'
    where g.status = 'completed' and p.actor not like 'operator:%%'
      and jsonb_typeof(g.request #> '{price,per_output}') = 'array'
), bad as (select * from facts where charged <> due)
select count(*) as value,
       (select string_agg(task_id || ' charged ' || charged || ' of ' || due, '; ') from (select * from bad limit 10) b) as detail
from bad

-- name: final_with_open_lease
-- A generation that is over keeps no card and no place in the queue.
with bad as (
    select task_id from generation g where status <> 'pending' and (
        exists (select from lease l where l.task_id = g.task_id and l.state <> 'ended')
        or exists (select from ticket t where t.task_id = g.task_id))
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: waiting_without_ticket_or_lease
-- A generation that waits stands in the queue or is being offered a card; one that is placed or runs has a lease.
with facts as (
    select g.task_id, g.phase,
           exists (select from ticket t where t.task_id = g.task_id) as queued,
           exists (select from lease l where l.task_id = g.task_id and l.state = 'offered') as offered,
           exists (select from lease l where l.task_id = g.task_id and l.state = 'accepted') as leased
    from generation g where g.status = 'pending'
), bad as (
    select task_id, phase from facts where not case
        when phase = 'waiting' then (queued or offered) and not (queued and offered) and not leased
        when phase in ('placed', 'running') then leased and not queued
        else not queued and not offered and not leased end
)
select count(*) as value,
       (select string_agg(task_id || ' ' || phase, '; ') from (select * from bad limit 10) b) as detail
from bad

-- name: cards_and_leases_differ
-- A card's row names its open lease, of which it is the first or one more card, and no fence is beyond its next.
with held as (
    select card_uuid, id from lease where state <> 'ended'
    union all
    select o.card_uuid, l.id from lease_companion o join lease l on l.id = o.lease_id where l.state <> 'ended'
), fences as (
    select card_uuid, fence from lease union all select card_uuid, fence from lease_companion
), bad as (
    select c.uuid from card c left join held h on h.card_uuid = c.uuid
    where c.lease_id is distinct from h.id
       or exists (select from fences f where f.card_uuid = c.uuid and f.fence >= c.next_fence)
)
select count(*) as value, (select string_agg(uuid, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: results_of_blobs_not_stored
-- A kept result is in the store, as far as the database knows, for as long as it is promised.
with bad as (
    select a.task_id from artifact a join blob b using (sha256)
    where a.expires_at > clock_timestamp() and (b.stored_at is null or b.size <> a.size)
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: ends_not_told
-- Each generation that is over has its message in the outbox, and none that is open has one.
with bad as (
    select g.task_id from generation g
    left join outbox o on o.topic = 'generation.closed' and o.key = g.task_id
    where (g.status <> 'pending') <> (o.id is not null)
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: messages_undelivered
-- No message is older than five minutes and not delivered.
select count(*) as value, string_agg(topic || ' ' || key, '; ') filter (where row <= 10) as detail
from (select topic, key, row_number() over (order by id) as row from outbox
      where done_at is null and created_at < clock_timestamp() - interval '5 minutes') stale

-- name: unknown_past_their_date
-- Each unknown outcome whose date has passed was raised to an operator.
select count(*) as value, string_agg(task_id, '; ') as detail
from generation where status = 'pending' and credit_status = 'unknown' and resolve_by < clock_timestamp() - interval '1 minute'
  and not raised

-- name: transfers_out_of_shape
-- Each transfer has what its kind and cause need, and nothing else; nobody moves credits without a name and a reason.
with bad as (
    select id from transfer t
    where holdfast.transfer_fits(t) is not true or amount not between 0 and 1000000000000
       or reason !~ '[^[:space:]]' or actor !~ '[^[:space:]]'
       or kind = 'direct' and holdfast.direct_misfit(t) is not null
       or kind <> 'direct' and credit_account <> 'revenue'
)
select count(*) as value, (select string_agg(id::text, '; ') from (select * from bad order by id limit 10) b) as detail from bad

-- name: accounts_out_of_shape
-- Only accounts that pay have counters, and every figure is one that a double tells exactly.
with bad as (
    select id from account
    where least(credits_posted, debits_posted, debits_pending) < 0 or credits_posted > 9007199254740991
       or not holdfast.pays(kind) and (credits_posted, debits_posted, debits_pending) <> (0, 0, 0)
       or not has_lots and exists (select from credit_lot l where l.account_id = account.id)
)
select count(*) as value, (select string_agg(id, '; ') from (select * from bad order by id limit 10) b) as detail from bad

-- name: generations_out_of_shape
-- A generation's status, phase, credits, charge and dates agree with each other.
with bad as (select task_id from generation g where holdfast.generation_fits(g) is not true)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: rows_without_their_owner
-- What is kept without a foreign key, for the sake of speed, has its owner all the same.
with bad as (
    select 'transfer ' || id as what from transfer t
    where task_id is not null and not exists (select from generation g where g.task_id = t.task_id)
       or not exists (select from account a where a.id = t.debit_account)
       or not exists (select from account a where a.id = t.credit_account)
    union all
    select 'event ' || id from event e where not exists (select from generation g where g.task_id = e.task_id)
    union all
    select 'input of ' || task_id from input_use i
    where not exists (select from generation g where g.task_id = i.task_id)
    union all
    select 'generation ' || task_id from generation g
    where not exists (select from account a where a.id = g.account_id)
    union all
    select 'operation ' || operation_id from operation o
    where not exists (select from account a where a.id = o.account_id)
)
select count(*) as value, (select string_agg(what, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: lots_do_not_add_up
-- Each credit of a lot is there, held, spent or expired: as its transfer, its draws and its expiries say.
with facts as (
    select l.*, t.amount as given, t.credit_account, t.expires_at as given_until,
           coalesce((select sum(d.amount) from lot_draw d where d.lot_id = l.id and d.spent is null), 0) as open_draws,
           coalesce((select sum(d.spent) from lot_draw d where d.lot_id = l.id), 0) as spent_draws,
           coalesce((select sum(x.amount) from transfer x where x.lot_id = l.id), 0) as expiry_transfers
    from credit_lot l left join transfer t on t.id = l.transfer_id
), bad as (
    select id from facts
    where least(remaining, drawn, spent, expired) < 0 or amount <> remaining + drawn + spent + expired
       or (drawn, spent, expired) <> (open_draws, spent_draws, expiry_transfers)
       or (amount, account_id, expires_at) is distinct from (given, credit_account, given_until)
)
select count(*) as value, (select string_agg(id::text, '; ') from (select * from bad order by id limit 10) b) as detail from bad

-- name: gifts_without_their_lot
-- Whatever was given with an expiry has its lot.
with bad as (
    select id from transfer t
    where expires_at is not null and not exists (select from credit_lot l where l.transfer_id = t.id)
)
select count(*) as value, (select string_agg(id::text, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: lots_beyond_the_balance
-- What lots still have is available, and what is drawn of them is held.
with facts as (
    select account_id, sum(remaining) as remaining, sum(drawn) as drawn from credit_lot group by account_id
), bad as (
    select a.id from facts f join account a on a.id = f.account_id
    where f.remaining > a.credits_posted - a.debits_posted - a.debits_pending or f.drawn > a.debits_pending
)
select count(*) as value, (select string_agg(id, '; ') from (select * from bad order by id limit 10) b) as detail from bad

-- name: draws_differ_from_holds
-- A draw is open as long as its hold; then it spent no more than was paid, and all draws of a hold no more than it.
with facts as (
    select d.hold_id, sum(d.amount) as drawn, sum(d.spent) as spent, count(*) filter (where d.spent is null) as open,
           count(*) as draws
    from lot_draw d group by d.hold_id
), bad as (
    select f.hold_id from facts f
    left join transfer h on h.id = f.hold_id
    left join transfer r on r.pending_id = h.id
    where not coalesce(case
        when h.kind = 'direct' then f.open = 0 and f.drawn <= h.amount and f.spent = f.drawn
        when r.id is null then f.open = f.draws and f.drawn <= h.amount
        else f.open = 0 and f.drawn <= h.amount and f.spent = least(f.drawn, r.amount) end, false)
)
select count(*) as value, (select string_agg(hold_id::text, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: limit_counters_differ
-- What is counted against a limit is what the generations of that day say: held or charged.
with said as (
    select l.subject, (g.admitted_at at time zone 'UTC')::date as day, count(*) as creations,
           sum(case g.status when 'pending' then g.price_credits else g.charged_credits end) as credits
    from spending_limit l
    join generation g on g.account_id = l.account_id and (l.key_id is null or g.key_id = l.key_id)
    group by 1, 2
), bad as (
    select coalesce(s.subject, d.subject) as subject, coalesce(s.day, d.day) as day
    from said s full join spend_day d on d.subject = s.subject and d.day = s.day
    where (s.credits, s.creations) is distinct from (d.credits::numeric, d.creations::bigint)
      -- Days before a limit's first month were never counted for it.
      and coalesce(s.day, d.day) >= (
          select date_trunc('month', coalesce(min(f.day)::timestamp, min(l.set_at) at time zone 'UTC'))
          from spending_limit l left join spend_day f using (subject) where l.subject = coalesce(s.subject, d.subject))
)
select count(*) as value,
       (select string_agg(subject || ' ' || day, '; ') from (select * from bad order by 1, 2 limit 10) b) as detail
from bad

-- name: adjustments_beyond_the_charge
-- Adjustments of a generation are with its payer, and give back no more than was charged.
with facts as (
    select refers_to, sum(case when credit_account = 'revenue' then -amount else amount end) as back,
           array_agg(distinct case when credit_account = 'revenue' then debit_account else credit_account end) as payers
    from transfer where cause = 'adjustment' and refers_to is not null group by refers_to
), bad as (
    select f.refers_to from facts f left join generation g on g.task_id = f.refers_to
    where not coalesce(f.back between 0 and g.charged_credits and f.payers = array[g.account_id], false)
)
select count(*) as value, (select string_agg(refers_to, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: losses_differ_from_releases
-- The house bears the price of each generation that its manifest released without an outcome, and of no other.
with released as (
    select v.task_id, h.amount from transfer v join transfer h on h.id = v.pending_id
    where v.kind = 'void' and v.actor = 'manifest:release_unknown' and h.amount > 0
), lost as (
    select refers_to as task_id, sum(amount) as amount from transfer where cause = 'loss' group by refers_to
), bad as (
    select coalesce(r.task_id, l.task_id) as task_id from released r full join lost l on l.task_id = r.task_id
    where l.amount is distinct from r.amount
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: late_without_results
-- What was delivered after a release has results, numbered from 0, no more than were asked for, and was told of.
with facts as (
    select g.task_id, jsonb_array_length(g.request -> 'outputs') as asked, g.unknown_since,
           (select count(*) from artifact a where a.task_id = g.task_id) as kept,
           (select coalesce(max(idx), -1) + 1 from artifact a where a.task_id = g.task_id) as numbered,
           exists (select from outbox o where o.topic = 'generation.delivered_late' and o.key = g.task_id) as told
    from generation g where g.late_at is not null
), bad as (
    select task_id from facts
    where kept = 0 or kept <> numbered or kept > asked or not told or unknown_since is null
)
select count(*) as value, (select string_agg(task_id, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: deeds_without_their_act
-- Each adjustment, each frozen account, each limit and each unknown outcome that an operator ended has its act, with
-- actor and reason.
with bad as (
    select 'adjustment ' || t.id as what from transfer t
    where t.cause = 'adjustment' and not exists (
        select from operator_act a where a.act = 'adjust' and a.data ->> 'key' = t.key and a.actor = t.actor
          and a.subject in (t.debit_account, t.credit_account))
    union all
    select 'account ' || id from account where frozen and 'freeze' is distinct from (
        select act from operator_act a where a.subject = account.id and act in ('freeze', 'unfreeze')
        order by a.id desc limit 1)
    union all
    select 'limit of ' || subject from spending_limit l
    where not exists (select from operator_act a where a.subject = l.subject and a.act = 'limit')
    union all
    select 'end of ' || t.task_id from transfer t join generation g on g.task_id = t.task_id
    where t.kind in ('post', 'void') and t.actor like 'operator:%%' and g.unknown_since is not null
      and g.status <> 'canceled'  -- a cancel that evidence confirmed is nobody's decision
      and not exists (select from operator_act a where a.act = 'resolve' and a.subject = t.task_id)
)
select count(*) as value, (select string_agg(what, '; ') from (select * from bad limit 10) b) as detail from bad

-- name: users_with_other_members
-- A user's account has one member, its owner.
with bad as (
    select m.account_id from member m join account a on a.id = m.account_id
    where a.kind = 'user' group by m.account_id having count(*) > 1 or bool_or(m.role <> 'owner')
)
select count(*) as value, (select string_agg(account_id, '; ') from (select * from bad limit 10) b) as detail from bad
