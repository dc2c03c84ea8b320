-- name: accept
select holdfast.accept_v1(%(task_id)s, %(lease_id)s::uuid, %(fence)s) as accepted

-- name: requeue
select holdfast.requeue_v1(%(task_id)s, %(lease_id)s::uuid, %(never_ran)s) as waits

-- name: offer
select holdfast.offer_v1(%(task_id)s, %(card_uuid)s, %(fresh)s, %(offer)s) as grant

-- name: lapse
select holdfast.lapse_v1() as lapsed

-- name: lock_generation
-- The generation's row is the mutex of its ticket and leases.
select task_id from generation where task_id = %(task_id)s for no key update

-- name: withdraw
select holdfast.withdraw_v1(%(task_id)s, %(reason)s)

-- name: report
select holdfast.report_v1(%(report)s::jsonb, %(fresh)s)

-- name: open_order
select holdfast.open_order_v1(%(task_id)s, %(lease_id)s::uuid, %(card_uuid)s, %(fence)s, %(boot_id)s,
                              %(attach_only)s) as answer

-- name: stale_lease
select holdfast.stale_lease_v1(%(task_id)s, %(lease_id)s::uuid, %(fence)s) as why

-- name: cards
-- All cards, as placement sees them.
select uuid, label, engines, capabilities, vram_total_mib, last_report_at, cordoned,
       lease_id is not null or running_task is not null or settled_fence < fetched_fence as busy
from card order by uuid

-- name: tickets
-- All who wait, in their order.
select task_id, account_id, engine, capability, vram_budget_mib, enqueued_at,
       array(select card_uuid from lease l where l.task_id = ticket.task_id and l.end_reason = 'requeued')
           as came_back_from
from ticket order by capability, priority desc, enqueued_at, task_id

-- name: cordon
-- An operator's word on whether a card takes new work.
update card set cordoned = %(cordoned)s where uuid = %(card_uuid)s
