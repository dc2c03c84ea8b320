-- name: is_operator
-- Whether a member operates.
select exists (select from operator where member_id = %(member_id)s)

-- name: set_operator
select holdfast.set_operator_v1(%(email)s, %(operates)s, %(reason)s, %(actor)s) as changed

-- name: by_task
-- One generation.
select * from generation_brief where task_id = %(task_id)s

-- name: by_hold
-- The generation of a hold.
select * from generation_brief where hold = %(hold)s

-- name: by_operation
-- Every account's generation of one operation id, the newest first: one probe of each account.
select b.* from account a join generation_brief b on b.account_id = a.id and b.operation_id = %(operation_id)s
where holdfast.pays(a.kind) and (%(account_id)s::text is null or a.id = %(account_id)s)
order by b.admitted_at desc, b.task_id limit %(limit)s

-- name: by_account
-- An account's latest generations.
select b.* from (
    select task_id, id from transfer where debit_account = %(account_id)s and kind = 'pending'
    order by id desc limit %(limit)s
) h join generation_brief b on b.task_id = h.task_id
order by h.id desc

-- name: story
-- One generation with everything that the database knows of it, each part in its order.
select to_jsonb(g) - 'request' as row, g.request,
       coalesce((select jsonb_agg(to_jsonb(e) - 'task_id' order by e.id) from event e
                 where e.task_id = g.task_id), '[]') as events,
       coalesce((select jsonb_agg(jsonb_build_object(
                    'id', t.id, 'kind', t.kind, 'cause', t.cause, 'debit', t.debit_account,
                    'credit', t.credit_account, 'credits', t.amount, 'resolves', t.pending_id, 'key', t.key,
                    'reason', t.reason, 'actor', t.actor, 'at', t.created_at) order by t.id)
                 from transfer t where t.task_id = g.task_id or t.refers_to = g.task_id), '[]') as transfers,
       coalesce((select jsonb_agg(jsonb_build_object(
                    'card', c.label, 'fence', l.fence, 'state', l.state, 'offered_at', l.offered_at,
                    'accepted_at', l.accepted_at, 'order_fetched_at', l.order_fetched_at, 'ended_at', l.ended_at,
                    'end_reason', l.end_reason, 'card_reports', c.last_report_at) order by l.offered_at, l.fence)
                 from lease l join card c on c.uuid = l.card_uuid where l.task_id = g.task_id), '[]') as leases,
       (select jsonb_build_object('since', t.enqueued_at, 'ahead', (
            select count(*) from ticket w where w.capability = t.capability
              and (-w.priority, w.enqueued_at, w.task_id) < (-t.priority, t.enqueued_at, t.task_id)))
        from ticket t where t.task_id = g.task_id) as ticket,
       coalesce((select jsonb_agg(jsonb_build_object('index', a.idx, 'sha256', a.sha256, 'size', a.size,
                    'mime', a.mime, 'kept_at', a.created_at, 'expires_at', a.expires_at) order by a.idx)
                 from artifact a where a.task_id = g.task_id), '[]') as artifacts,
       coalesce((select jsonb_agg(to_jsonb(r) - 'task_id' order by r.idx) from refused_output r
                 where r.task_id = g.task_id), '[]') as refused,
       coalesce((select jsonb_agg(jsonb_build_object('index', u.idx, 'fence', u.fence, 'sha256', u.sha256,
                    'size', u.size, 'granted_at', u.granted_at) order by u.granted_at, u.idx)
                 from result_upload u where u.task_id = g.task_id), '[]') as uploads,
       (select to_jsonb(s) - 'task_id' from late_look s where s.task_id = g.task_id) as late_look,
       coalesce((select jsonb_agg(to_jsonb(o) order by o.id) from (
                     select * from operator_act where subject = g.task_id
                     union
                     select * from operator_act where data ->> 'task_id' = g.task_id) o), '[]') as acts,
       coalesce((select jsonb_agg(to_jsonb(f) - 'subject' order by f.id) from sweep_finding f
                 where f.subject = g.task_id), '[]') as findings,
       coalesce((select jsonb_agg(jsonb_build_object('topic', m.topic, 'written_at', m.created_at,
                    'delivered_at', m.done_at, 'tries', m.tries) order by m.id)
                 from outbox m where m.key = g.task_id), '[]') as messages
from generation g where g.task_id = %(task_id)s

-- name: payer
-- An account that pays, with its members, limits and what it uses of them.
select a.id, a.kind, a.display_name as name, a.frozen, a.created_at,
       a.credits_posted - a.debits_posted - a.debits_pending as available, a.debits_pending as held,
       a.debits_posted as spent,
       coalesce((select sum(remaining) from credit_lot where account_id = a.id and remaining > 0
                 and expires_at > clock_timestamp()), 0)::bigint as expiring,
       (select min(expires_at) from credit_lot where account_id = a.id and remaining > 0
        and expires_at > clock_timestamp()) as next_expiry,
       (select count(*) from generation where account_id = a.id and status = 'pending') as in_flight,
       coalesce((select jsonb_agg(jsonb_build_object('email', m.email, 'role', m.role) order by m.email)
                 from member m where m.account_id = a.id), '[]') as members,
       coalesce((select jsonb_agg(to_jsonb(l) - 'account_id' || jsonb_build_object(
                    'used', holdfast.limit_use_v1(l.subject)) order by l.subject)
                 from spending_limit l where l.account_id = a.id), '[]') as limits
from account a where a.id = %(account_id)s and holdfast.pays(a.kind)

-- name: key_owner
-- Whose an API key is.
select account_id from api_key where id = %(key_id)s

-- name: grant
select holdfast.grant_v1(%(account_id)s, %(credits)s, %(cause)s, %(expires_at)s, %(reason)s, %(actor)s, %(key)s)
    as answer

-- name: adjust
select holdfast.adjust_v1(%(account_id)s, %(credits)s, %(task_id)s, %(reason)s, %(actor)s, %(key)s) as answer

-- name: freeze
select holdfast.freeze_v1(%(account_id)s, %(frozen)s, %(reason)s, %(actor)s) as changed

-- name: set_limit
select holdfast.set_limit_v1(%(subject)s, %(limits)s::jsonb, %(reason)s, %(actor)s) as before

-- name: raise_contradiction
-- Shows a generation as raised whose workflow ran to its end; then it can be resolved.
select holdfast.raise_contradiction_v1(%(task_id)s, %(reason)s)

-- name: acts
-- What was done, the latest first, before one act.
select id, at, actor, act, subject, reason, data from operator_act
where id < %(before)s order by id desc limit %(limit)s

-- name: acts_of
-- What was done to one subject, or about one generation, the latest first, before one act.
select id, at, actor, act, subject, reason, data from operator_act where subject = %(subject)s and id < %(before)s
union
select id, at, actor, act, subject, reason, data from operator_act
where data ->> 'task_id' = %(subject)s and id < %(before)s
order by id desc limit %(limit)s

-- name: findings
-- What sweeps found: all that is open, and what ended last.
(select id, kind, subject, detail, remedy, found_at, seen_at, ended_at, outcome from sweep_finding
 where ended_at is null order by id limit %(limit)s)
union all
(select id, kind, subject, detail, remedy, found_at, seen_at, ended_at, outcome from sweep_finding
 where ended_at is not null order by ended_at desc, id desc limit %(limit)s)

-- name: looks
-- When each step was last done.
select step, at, actor, looked_at from sweep_look order by step
