-- The pool: what cards hold and how they fare, what work needs, shares of accounts, gangs, and what is learned of
-- run times. Lock order as before; a gang's cards are locked in the order of their uuids.
--
-- NOTIFY holdfast_place names what changed: `card:<uuid>` or `ticket:<task id>`. The fast path of the admission
-- sends none, since a notifying commit holds a lock of the whole server: the placer learns of such a lease when its
-- own offer of the card fails.

alter table card
    add column foreign_mib       integer not null default 0 check (foreign_mib >= 0),
    -- What is loaded, in the order of last use, oldest first: [{"name", "mib", "load_s", "stop_s"}].
    add column residents         jsonb not null default '[]',
    -- The names of the same, so that "warm for this work" is one comparison.
    add column resident_names    text[] not null default '{}',
    add column telemetry         jsonb not null default '{}',
    -- Faults of runs on it since its last good one; the third in a row puts it into quarantine.
    add column faults_in_row     integer not null default 0,
    add column quarantined_at    timestamptz,
    add column quarantine_reason text,
    -- When what runs on it is expected to be over.
    add column free_at           timestamptz,
    add constraint quarantine_has_a_reason check ((quarantined_at is null) = (quarantine_reason is null));

-- Whether a card may be leased, all from its own row: a row that a lock made us re-read is judged afresh.
create or replace function card_is_free(c card, p_fresh interval) returns boolean language sql volatile as $$
    select not c.cordoned and c.quarantined_at is null and c.lease_id is null and c.running_task is null
       and c.settled_fence >= c.fetched_fence and c.last_report_at > clock_timestamp() - p_fresh
$$;

-- The same for a canary that was asked of this very card: a quarantine ends by one.
create function card_is_free_for_canary(c card, p_fresh interval) returns boolean language sql volatile as $$
    select not c.cordoned and c.lease_id is null and c.running_task is null
       and c.settled_fence >= c.fetched_fence and c.last_report_at > clock_timestamp() - p_fresh
$$;

-- What an account may have of the fleet beside others. Without a row: weight 1, no bound.
create table account_share (
    account_id   text primary key references account (id),
    weight       double precision not null default 1 check (weight between 0.01 and 100),
    on_cards_max integer check (on_cards_max between 0 and 100000),
    set_by       text not null,
    set_at       timestamptz not null default clock_timestamp(),
    reason       text not null check (reason ~ '[^[:space:]]')
);

alter table lease
    -- Whether all that the work uses was loaded when the card was given.
    add column warm       boolean not null default false,
    add column expected_s double precision;

-- The other cards of a gang's lease. They carry the lease in their own rows and have fences of their own.
create table lease_companion (
    lease_id  uuid not null references lease (id),
    card_uuid text not null references card (uuid),
    fence     bigint not null,
    primary key (lease_id, card_uuid),
    constraint companion_fence_never_repeats unique (card_uuid, fence)
);

alter table ticket
    add column mode        text not null default '',
    -- What placement needs to know of the work: {"run_s", "reserve_mib", "cards", "priority", "residents"}.
    add column work        jsonb not null default '{}',
    -- A canary may be asked of one card.
    add column only_card   text references card (uuid),
    -- What the placer last told of it.
    add column position    integer,
    add column eta_s       double precision,
    add column why         text[] not null default '{}',
    add column told_at     timestamptz;

-- How long work takes on cards, by model, mode, size and whether the card was warm: from the fetch of the order to
-- the end of the lease. The mean moves by a tenth with each run, faster at first.
create table run_time (
    model_id   text not null,
    mode       text not null,
    -- Twofold steps of the output's pixels: floor(log2(pixels)).
    size_class integer not null,
    warm       boolean not null,
    runs       bigint not null,
    mean_s     double precision not null,
    deviation_s double precision not null,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (model_id, mode, size_class, warm)
) with (fillfactor = 50);

create function size_class(p_request jsonb) returns integer language sql immutable as $$
    select coalesce(floor(log(2, greatest(sum((o ->> 'width')::numeric * (o ->> 'height')::numeric), 1))), 0)::integer
    from jsonb_array_elements(p_request -> 'outputs') o
$$;

-- Learns from a run that came to its end on a card.
create function learn_run_time_v1(p_lease lease) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen     generation;
    v_seconds double precision := extract(epoch from clock_timestamp() - p_lease.order_fetched_at);
begin
    select * into v_gen from generation where task_id = p_lease.task_id;
    insert into run_time as r (model_id, mode, size_class, warm, runs, mean_s, deviation_s)
    values (v_gen.model_id, v_gen.mode, size_class(v_gen.request), p_lease.warm, 1, v_seconds, 0)
    on conflict (model_id, mode, size_class, warm) do update set
        runs = r.runs + 1,
        mean_s = r.mean_s + (v_seconds - r.mean_s) / least(r.runs + 1, 10),
        deviation_s = r.deviation_s + (abs(v_seconds - r.mean_s) - r.deviation_s) / least(r.runs + 1, 10),
        updated_at = clock_timestamp();
end $$;

-- Ends a lease and gives its cards back; true when it was open. The caller holds the generation's lock.
create or replace function end_lease_v1(p_lease uuid, p_reason text) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_lease lease;
begin
    update lease set state = 'ended', ended_at = clock_timestamp(), end_reason = p_reason
    where id = p_lease and state <> 'ended'
    returning * into v_lease;
    if not found then
        return false;
    end if;
    update card set lease_id = null, free_at = null where uuid = v_lease.card_uuid and lease_id = p_lease;
    perform pg_notify('holdfast_place', 'card:' || v_lease.card_uuid);
    perform free_companion_v1(c.card_uuid, p_lease)
    from lease_companion c where c.lease_id = p_lease order by c.card_uuid;
    if p_reason = 'run_over' and v_lease.order_fetched_at is not null then
        perform learn_run_time_v1(v_lease);
    end if;
    return true;
end $$;

-- Gives one more card of a gang back. Nothing of ours runs on it by itself: its fence is settled with the lease.
create function free_companion_v1(p_card text, p_lease uuid) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    update card set lease_id = null, free_at = null where uuid = p_card and lease_id = p_lease;
    perform pg_notify('holdfast_place', 'card:' || p_card);
end $$;

-- Takes a generation out of the queue and off its card. The caller holds the generation's lock.
create or replace function withdraw_v1(p_task text, p_reason text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    delete from ticket where task_id = p_task;
    if found then
        perform pg_notify('holdfast_place', 'ticket:' || p_task);
    end if;
    perform end_lease_v1(id, p_reason) from lease where task_id = p_task and state <> 'ended';
end $$;

-- Queues a generation, at the place that its admission gave it. The caller holds the generation's lock.
create or replace function enqueue_v1(p_task text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    insert into ticket (task_id, model_id, mode, capability, engine, vram_budget_mib, account_id, enqueued_at, work,
                        only_card)
    select task_id, model_id, mode, request #>> '{model,capability}', request #>> '{model,engine}',
           (request #>> '{model,vram_budget_mib}')::integer, account_id, admitted_at,
           coalesce(nullif(request #> '{model,placement}', 'null'), '{}') || jsonb_build_object(
               'size_class', size_class(request), 'digest', request #>> '{model,digest}'),
           (select uuid from card where uuid = request #>> '{model,placement,only_card}')
    from generation where task_id = p_task
    on conflict (task_id) do nothing;
    perform pg_notify('holdfast_place', 'ticket:' || p_task);
end $$;

-- The names of what a model's work uses, from its part of the request.
create function residents_of(p_model jsonb) returns text[] language sql immutable as $$
    select coalesce(array_agg(r ->> 'name'), '{}')
    from jsonb_array_elements(coalesce(nullif(p_model #> '{placement,residents}', 'null'), '[]')) r
$$;

-- An idle card that fits, locked, or for a canary the one that it was asked of; null when none is free, when
-- somebody waits who could use it, or when one card isn't enough. Warm ones first; then the smallest, so that large ones stay for those who need them; then the
-- longest idle.
create or replace function pick_card_v1(p_model jsonb, p_fresh interval) returns card language plpgsql volatile
set search_path = holdfast, pg_temp as $$
declare
    v_card  card;
    v_names text[] := residents_of(p_model);
    v_only  text := p_model #>> '{placement,only_card}';
begin
    if coalesce((p_model #>> '{placement,cards}')::integer, 1) > 1 then
        return null;
    end if;
    select c.* into v_card from card c
    where (v_only is null and card_is_free(c, p_fresh) or c.uuid = v_only and card_is_free_for_canary(c, p_fresh))
      and p_model ->> 'capability' = any (c.capabilities)
      and p_model ->> 'engine' = any (c.engines)
      and c.vram_total_mib - c.foreign_mib
          >= (p_model ->> 'vram_budget_mib')::integer + coalesce((p_model #>> '{placement,reserve_mib}')::integer, 0)
      and not exists (select from ticket t where t.capability = any (c.capabilities) and t.engine = any (c.engines)
                      and t.vram_budget_mib <= c.vram_total_mib)
    order by v_names <@ c.resident_names desc, c.vram_total_mib, c.last_leased_at nulls first
    limit 1 for no key update skip locked;
    return v_card;
end $$;

-- Leases a locked card to a generation in the state given; answers the grant as JSON.
create or replace function lease_card_v1(p_task text, p_card card, p_state text, p_offer interval) returns jsonb
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_lease    uuid;
    v_model    jsonb;
    v_expected double precision;
begin
    select request -> 'model' into v_model from generation where task_id = p_task;
    v_expected := (v_model #>> '{placement,run_s}')::double precision;
    insert into lease (task_id, card_uuid, fence, state, at_admission, lapses_at, accepted_at, warm, expected_s)
    values (p_task, p_card.uuid, p_card.next_fence, p_state, p_state = 'accepted',
            clock_timestamp() + p_offer, case p_state when 'accepted' then clock_timestamp() end,
            residents_of(v_model) <@ p_card.resident_names, v_expected)
    returning id into v_lease;
    update card set next_fence = p_card.next_fence + 1, lease_id = v_lease, last_leased_at = clock_timestamp(),
        free_at = clock_timestamp() + make_interval(secs => v_expected)
    where uuid = p_card.uuid;
    return jsonb_build_object('lease_id', v_lease, 'card_uuid', p_card.uuid, 'card_label', p_card.label,
                              'fence', p_card.next_fence, 'accepted', p_state = 'accepted');
end $$;

-- Offers free cards of one host to a waiting generation: ticket out, lease in, message out, all or nothing. The
-- first card runs it, the others are kept for it. The grant, or null when anything of it was gone.
create function offer_v2(p_task text, p_cards text[], p_expected double precision, p_fresh interval, p_offer interval)
returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_gen    generation;
    v_ticket ticket;
    v_card   card;
    v_first  card;
    v_grant  jsonb;
    v_uuid   text;
begin
    select * into v_gen from generation where task_id = p_task and status = 'pending' for no key update;
    if not found then
        return null;
    end if;
    select * into v_ticket from ticket where task_id = p_task for update;
    if not found then
        return null;
    end if;
    for v_uuid in select u from unnest(p_cards) u order by u loop
        select c.* into v_card from card c
        where c.uuid = v_uuid
          and (card_is_free(c, p_fresh)
               or v_gen.is_canary and v_ticket.only_card = c.uuid and card_is_free_for_canary(c, p_fresh))
          and coalesce(v_ticket.only_card, c.uuid) = c.uuid
          and v_ticket.capability = any (c.capabilities) and v_ticket.engine = any (c.engines)
          and c.vram_total_mib - c.foreign_mib >= v_ticket.vram_budget_mib
        for no key update;
        if not found then
            return null;  -- nothing was written yet
        end if;
        if v_uuid = p_cards[1] then
            v_first := v_card;
        end if;
    end loop;
    delete from ticket where task_id = p_task;
    v_grant := lease_card_v1(p_task, v_first, 'offered', p_offer);
    update lease set expected_s = p_expected where id = (v_grant ->> 'lease_id')::uuid;
    with others as (
        update card set lease_id = (v_grant ->> 'lease_id')::uuid, next_fence = next_fence + 1,
            last_leased_at = clock_timestamp()
        where uuid = any (p_cards) and uuid <> p_cards[1]
        returning uuid, next_fence - 1 as fence
    )
    insert into lease_companion (lease_id, card_uuid, fence)
    select (v_grant ->> 'lease_id')::uuid, uuid, fence from others;
    update card set free_at = clock_timestamp() + make_interval(secs => p_expected) where uuid = any (p_cards);
    insert into outbox (topic, key, payload)
    values ('signal.assigned', v_grant ->> 'lease_id', jsonb_build_object('task_id', p_task, 'lease', v_grant));
    perform pg_notify('holdfast_outbox', '');
    return v_grant;
end $$;

-- Takes what a host says about its cards. Wakes placement when what it decides by is otherwise than before.
create or replace function report_v1(p_report jsonb, p_fresh interval) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_said jsonb;
    v_old  card;
    v_new  card;
begin
    for v_said in
        select c from jsonb_array_elements(p_report -> 'cards') c order by c ->> 'card_uuid'
    loop
        insert into card (uuid, host, label, gpu_model, vram_total_mib, vram_free_mib, engines, capabilities,
                          boot_id, last_report_at)
        values (v_said ->> 'card_uuid', p_report ->> 'host', v_said ->> 'label', v_said ->> 'gpu_model', 0, 0,
                '{}', '{}', v_said ->> 'boot_id', 'epoch')
        on conflict (uuid) do nothing;
        select * into v_old from card where uuid = v_said ->> 'card_uuid' for no key update;
        insert into card_boot (card_uuid, boot_id) values (v_old.uuid, v_said ->> 'boot_id')
        on conflict do nothing;
        -- A boot seen before but not the owner is a stray of an older agent: it has no say any more.
        continue when not found and v_old.boot_id <> v_said ->> 'boot_id';
        update card set
            host = p_report ->> 'host', label = v_said ->> 'label', gpu_model = v_said ->> 'gpu_model',
            vram_total_mib = (v_said ->> 'vram_total_mib')::integer,
            vram_free_mib = (v_said ->> 'vram_free_mib')::integer,
            foreign_mib = coalesce((v_said ->> 'foreign_mib')::integer, 0),
            residents = coalesce(v_said -> 'residents', '[]'),
            resident_names = array(select r ->> 'name' from jsonb_array_elements(v_said -> 'residents') r),
            telemetry = coalesce(v_said -> 'telemetry', '{}'),
            engines = array(select jsonb_array_elements_text(v_said -> 'engines')),
            capabilities = array(select jsonb_array_elements_text(v_said -> 'capabilities')),
            boot_id = v_said ->> 'boot_id',
            running_task = v_said #>> '{running,task_id}',
            running_fence = (v_said #>> '{running,fence}')::bigint,
            running_fraction = (v_said #>> '{running,fraction}')::double precision,
            -- Never back, and never past what was leased.
            settled_fence = greatest(settled_fence,
                                     least((v_said ->> 'settled_fence')::bigint, next_fence - 1)),
            last_report_at = clock_timestamp()
        where uuid = v_old.uuid returning * into v_new;
        if card_is_free(v_new, p_fresh) <> card_is_free(v_old, p_fresh)
            or (v_old.capabilities, v_old.engines, v_old.foreign_mib, v_old.resident_names, v_old.vram_total_mib)
               is distinct from
               (v_new.capabilities, v_new.engines, v_new.foreign_mib, v_new.resident_names, v_new.vram_total_mib)
            or v_old.last_report_at <= clock_timestamp() - p_fresh then
            perform pg_notify('holdfast_place', 'card:' || v_new.uuid);
        end if;
    end loop;
end $$;

-- How many faults in a row put a card into quarantine: one may be the request's, two chance.
create function faults_to_quarantine() returns integer language sql immutable as $$ select 3 $$;

-- A card learns from each end of a generation that ran on it: a good one clears its faults, an engine's fault
-- counts. A canary's counts at once: it is the card's own test.
create function card_learns() returns trigger language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_card text;
begin
    select card_uuid into v_card from lease
    where task_id = new.task_id and order_fetched_at is not null order by seq desc limit 1;
    if not found then
        return null;
    end if;
    if new.status = 'completed' then
        update card set faults_in_row = 0,
            quarantined_at = case when new.is_canary then null else quarantined_at end,
            quarantine_reason = case when new.is_canary then null else quarantine_reason end
        where uuid = v_card and (faults_in_row > 0 or (new.is_canary and quarantined_at is not null));
        if found then
            perform pg_notify('holdfast_place', 'card:' || v_card);
        end if;
    elsif new.failure ->> 'code' in ('upstream_failed', 'out_of_memory', 'image_output_local_black_collapse') then
        perform card_fault_v1(v_card, new.failure ->> 'code', new.is_canary);
    end if;
    return null;
end $$;

create trigger generation_teaches_its_card after update of status on generation
    for each row when (old.status = 'pending' and new.status <> 'pending') execute function card_learns();

-- Counts a fault of a card; the third in a row, or a canary's, puts it into quarantine: it takes nothing but
-- canaries until one passes.
create function card_fault_v1(p_card text, p_what text, p_at_once boolean) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    update card set faults_in_row = faults_in_row + 1,
        quarantined_at = case when quarantined_at is null and (p_at_once or faults_in_row + 1 >= faults_to_quarantine())
                              then clock_timestamp() else quarantined_at end,
        quarantine_reason = case when quarantined_at is null and (p_at_once or faults_in_row + 1 >= faults_to_quarantine())
                                 then case when p_at_once then 'its canary failed: ' || p_what
                                           else faults_in_row + 1 || ' faults in a row, the last ' || p_what end
                                 else quarantine_reason end
    where uuid = p_card;
    perform pg_notify('holdfast_place', 'card:' || p_card);
end $$;
