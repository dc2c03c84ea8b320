-- name: facts
-- All that a receipt says of one account's generation, and the receipt where it was issued before. Attempts are
-- leases whose order a host fetched; cards go by their public labels.
select g.task_id, g.account_id, g.operation_id, g.made_by, g.request, g.status, g.credit_status, g.price_credits,
       g.charged_credits, g.created_at, g.admitted_at, g.started_at, g.finished_at, g.late_at, g.failure ->> 'code' as code,
       coalesce((select jsonb_agg(jsonb_build_object('card', c.label, 'gpu_model', c.gpu_model, 'started_at', l.order_fetched_at,
                                  'ended_at', l.ended_at, 'ended_as', l.end_reason) order by l.order_fetched_at, l.fence)
                 from lease l join card c on c.uuid = l.card_uuid
                 where l.task_id = g.task_id and l.order_fetched_at is not null), '[]') as attempts,
       coalesce((select jsonb_agg(jsonb_build_object('index', a.idx, 'role', a.role, 'sha256', a.sha256, 'mime', a.mime,
                                  'size', a.size, 'width', a.width, 'height', a.height) order by a.idx)
                 from artifact a where a.task_id = g.task_id), '[]') as artifacts,
       coalesce((select jsonb_agg(jsonb_build_object('index', r.idx, 'code', r.code) order by r.idx)
                 from refused_output r where r.task_id = g.task_id), '[]') as refused,
       (select jsonb_agg(jsonb_build_object('id', t.id::text, 'kind', t.kind, 'credits', t.amount, 'at', t.created_at)
                         order by t.id)
        from transfer t where t.task_id = g.task_id) as postings,
       (select document from receipt i where i.task_id = g.task_id and i.late = (g.late_at is not null)) as document
from generation g where g.task_id = %(task_id)s and g.account_id = %(account_id)s

-- name: account_of
-- Whose generation it is.
select account_id from generation where task_id = %(task_id)s

-- name: keep
select holdfast.keep_receipt_v1(%(task_id)s, %(late)s, %(key_id)s, %(public_key)s, %(document)s) as document

-- name: public_keys
-- All keys that ever signed, the first one first.
select id, public_key, first_used_at from receipt_key order by first_used_at, id
