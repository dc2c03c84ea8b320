-- name: accept
select holdfast.accept_v1(%(task_id)s, %(lease_id)s::uuid, %(fence)s) as accepted

-- name: requeue
select holdfast.requeue_v1(%(task_id)s, %(lease_id)s::uuid, %(never_ran)s) as waits

-- name: offer
select holdfast.offer_v2(%(task_id)s, %(card_uuids)s, %(expected_s)s, %(fresh)s, %(offer)s) as grant

-- name: lapse
select holdfast.lapse_v1() as lapsed

-- name: lock_generation
-- The generation's row is the mutex of its ticket and leases.
select task_id from generation where task_id = %(task_id)s for no key update

-- name: withdraw
select holdfast.withdraw_v1(%(task_id)s, %(reason)s)

-- name: report
-- Takes a host's report: what its runs took, its cards, and the orders that it refused.
with taken as materialized (select holdfast.take_report_v1(%(report)s::jsonb, %(fresh)s, %(gone)s) as refused)
select refused, holdfast.heed_orders_v1(%(report)s::jsonb) from taken

-- name: open_order
select holdfast.open_order_v1(%(task_id)s, %(lease_id)s::uuid, %(card_uuid)s, %(fence)s, %(boot_id)s,
                              %(attach_only)s) as answer

-- name: stale_lease
-- Null when the host may deliver. A boot that isn't the card's is an older agent's, or another host's.
select case
    when why is not null then jsonb_build_object('reason', why, 'stray', false)
    when %(boot_id)s <> '' and exists (select from card where uuid = %(card_uuid)s and boot_id <> %(boot_id)s)
        then jsonb_build_object('reason', 'another agent owns the card', 'stray', true)
end as stale
from holdfast.stale_lease_v2(%(task_id)s, %(lease_id)s::uuid, %(fence)s, %(card_uuid)s) as why

-- name: cards
-- Cards as placement sees them, all or those given, each with whose generation has it. Times as unix seconds. Hosts
-- by identity: cards of two hosts with one name can't do one task together.
select c.uuid, c.label, coalesce(nullif(c.host_id, ''), c.host) as host, c.engines, c.capabilities,
       c.vram_total_mib, c.foreign_mib, c.residents, c.cordoned,
       c.quarantined_at is not null as quarantined,
       extract(epoch from c.last_report_at)::float8 as reported_at, extract(epoch from c.free_at)::float8 as free_at,
       extract(epoch from clock_timestamp())::float8 as now,
       c.last_report_at <= clock_timestamp() - %(fresh)s or c.nonsense_in_row >= nonsense_to_refuse() as silent,
       c.lease_id is not null or c.running_task is not null or c.settled_fence < c.fetched_fence as busy,
       g.account_id
from card c
left join lease l on l.id = c.lease_id
left join generation g on g.task_id = l.task_id
where %(uuids)s::text[] is null or c.uuid = any (%(uuids)s)
order by c.uuid

-- name: silent_cards
-- Cards whose host has not reported for a while, or nothing that can be.
select uuid from card
where last_report_at <= clock_timestamp() - %(fresh)s or nonsense_in_row >= nonsense_to_refuse()

-- name: tickets
-- Who waits: all, those given, or those that began after a number; in the order of their waiting.
select task_id, seq, account_id, model_id, mode, engine, capability, vram_budget_mib, work, only_card,
       extract(epoch from enqueued_at)::float8 as enqueued_at,
       array(select card_uuid from lease l where l.task_id = ticket.task_id and l.end_reason = 'requeued')
           as came_back_from
from ticket
where (%(task_ids)s::text[] is null or task_id = any (%(task_ids)s))
  and (%(after)s::bigint is null or seq > %(after)s)
order by ticket.enqueued_at, task_id

-- name: still_waiting
-- Those of the given that still wait.
select task_id from ticket where task_id = any (%(task_ids)s)

-- name: shares
-- Shares of accounts that have one of their own.
select account_id, weight, on_cards_max from account_share

-- name: run_times
-- What was learned of how long work takes.
select model_id, mode, size_class, warm, runs, mean_s, deviation_s from run_time

-- name: arrivals
-- What was created in the two halves of the last while, by model; of no more than the newest 4,000 holds.
select g.model_id, count(*) filter (where h.created_at <= clock_timestamp() - %(half)s) as earlier,
       count(*) filter (where h.created_at > clock_timestamp() - %(half)s) as recent
from (select task_id, created_at from transfer where kind = 'pending' order by id desc limit 4000) h
join generation g on g.task_id = h.task_id
where h.created_at > clock_timestamp() - 2 * %(half)s::interval and not g.is_canary
group by g.model_id

-- name: tell
-- Writes what waiting generations are told.
update ticket set position = t.position, eta_s = t.eta_s, why = string_to_array(t.why, E'\n'),
    told_at = clock_timestamp()
from unnest(%(task_ids)s::text[], %(positions)s::integer[], %(etas)s::float8[], %(whys)s::text[])
    t (task_id, position, eta_s, why)
where ticket.task_id = t.task_id
