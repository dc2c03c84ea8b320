-- name: unproven
-- Models and live cards, fit for each other, without a passed canary under the card's present agent, and cards in
-- quarantine, which come back by one; with what is known of the tries so far. A quarantine begins its own count.
select m.model_id, c.uuid as card_uuid, c.boot_id, p.operation_prefix,
       t.ended, t.open, clock_timestamp() - t.last_ended_at as since_last
from card c
cross join unnest(%(models)s::text[], %(digests)s::text[], %(capabilities)s::text[], %(engines)s::text[],
                  %(needed_mib)s::integer[], %(needed_cards)s::integer[])
    as m (model_id, digest, capability, engine, mib, cards)
cross join lateral (
    select format('canary:%%s:%%s:%%s:%%s:%%s', m.model_id, left(m.digest, 12), left(md5(c.uuid), 8), c.boot_id,
                  coalesce(extract(epoch from c.quarantined_at)::bigint || ':', '')) as operation_prefix
) as p
cross join lateral (
    select count(*) filter (where g.status <> 'pending') as ended,
           coalesce(bool_or(g.status = 'pending'), false) as open,
           max(g.finished_at) as last_ended_at
    from generation g
    where g.account_id = 'house' and starts_with(g.operation_id, p.operation_prefix)
) as t
where c.last_report_at > clock_timestamp() - %(fresh)s and not c.cordoned
  and m.capability = any (c.capabilities) and m.engine = any (c.engines) and m.mib <= c.vram_total_mib
  and m.cards <= (select count(*) from card h
                  where h.host = c.host and m.capability = any (h.capabilities) and m.engine = any (h.engines)
                    and m.mib <= h.vram_total_mib)
  and (c.quarantined_at is not null or not exists (
      select from model_readiness r
      where r.model_id = m.model_id and r.digest = m.digest and r.card_uuid = c.uuid and r.boot_id = c.boot_id))
order by m.model_id, c.uuid
