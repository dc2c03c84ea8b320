-- Who begins to wait tells the placer only when a card is free for him: a commit that notifies holds one lock of the
-- whole server until it is on disk, and a queue that grows would make all money steps wait for each other. The
-- placer reads new tickets by their number each time it looks, which is at every change of a card, and each second.

alter table ticket add column seq bigint generated always as identity;
create index ticket_by_seq on ticket (seq);

-- Queues a generation, at the place that its admission gave it. The caller holds the generation's lock.
create or replace function enqueue_v1(p_task text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_ticket ticket;
begin
    insert into ticket (task_id, model_id, mode, capability, engine, vram_budget_mib, account_id, enqueued_at, work,
                        only_card)
    select task_id, model_id, mode, request #>> '{model,capability}', request #>> '{model,engine}',
           (request #>> '{model,vram_budget_mib}')::integer, account_id, admitted_at,
           coalesce(nullif(request #> '{model,placement}', 'null'), '{}') || jsonb_build_object(
               'size_class', size_class(request), 'digest', request #>> '{model,digest}'),
           (select uuid from card where uuid = request #>> '{model,placement,only_card}')
    from generation where task_id = p_task
    on conflict (task_id) do nothing
    returning * into v_ticket;
    if v_ticket.only_card is not null or exists (
        select from card c
        where c.lease_id is null and not c.cordoned and c.quarantined_at is null and c.running_task is null
          and v_ticket.capability = any (c.capabilities) and v_ticket.engine = any (c.engines)) then
        perform pg_notify('holdfast_place', 'ticket:' || p_task);
    end if;
end $$;

-- Takes a generation out of the queue and off its card. The caller holds the generation's lock. The placer notices
-- within a second that a ticket is gone, or when its offer fails.
create or replace function withdraw_v1(p_task text, p_reason text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    delete from ticket where task_id = p_task;
    perform end_lease_v1(id, p_reason) from lease where task_id = p_task and state <> 'ended';
end $$;
