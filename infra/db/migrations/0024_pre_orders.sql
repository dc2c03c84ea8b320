-- Signed orders: what hosts refused is kept for operators, and a card's fences never fall behind what its host was
-- ordered under, so that a database restored from an older copy is not refused for every fence it counts again.

alter table card
    add column refused_order    jsonb,
    add column refused_order_at timestamptz;

comment on column card.refused_order is 'The last order its host refused: {fault, reason, task_id, fence, times}.';

-- Takes what a host says about orders. Called after its report was taken; heard is the agent that owns the card.
create function heed_orders_v1(p_report jsonb) returns void language sql set search_path = holdfast, pg_temp as $$
    update card c set
        next_fence = case when s.known_fence >= c.next_fence then s.known_fence + 1 else c.next_fence end,
        refused_order = coalesce(s.refused_order, c.refused_order),
        refused_order_at = case when s.refused_order is distinct from c.refused_order and s.refused_order is not null
                                then clock_timestamp() else c.refused_order_at end
    from (select said ->> 'card_uuid' as uuid, said ->> 'boot_id' as boot_id,
                 nullif(said -> 'refused_order', 'null') as refused_order,
                 -- Bound: fences count runs; 2^52 of them is nonsense, and is not heard.
                 case when (said ->> 'known_fence')::numeric between 1 and 4503599627370496
                      then (said ->> 'known_fence')::bigint else 0 end as known_fence
          from jsonb_array_elements(p_report -> 'cards') said) s
    where c.uuid = s.uuid and c.boot_id = s.boot_id
      and (s.known_fence >= c.next_fence
           or (s.refused_order is not null and s.refused_order is distinct from c.refused_order))
$$;

-- As before; and the card that the host names, if it does, is the lease's.
create function stale_lease_v2(p_task text, p_lease uuid, p_fence bigint, p_card text) returns text
language sql stable set search_path = holdfast, pg_temp as $$
    select coalesce(
        stale_lease_v1(p_task, p_lease, p_fence),
        (select 'the lease is of another card' from lease
         where id = p_lease and p_card <> '' and card_uuid <> p_card))
$$;
