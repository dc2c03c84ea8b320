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
