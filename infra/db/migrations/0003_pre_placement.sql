-- Cards, leases and those who wait.

create table card (
    uuid             text primary key,
    host             text not null,
    label            text not null,
    gpu_model        text not null,
    vram_total_mib   integer not null check (vram_total_mib >= 0),
    vram_free_mib    integer not null,
    engines          text[] not null,
    capabilities     text[] not null,
    -- The agent that owns the card now; see card_boot.
    boot_id          text not null,
    running_task     text,
    running_fence    bigint,
    running_fraction double precision,
    -- The highest fence whose run the host knows to be over, and the highest whose order it ever fetched:
    -- the card may be dirty while the second is higher.
    settled_fence    bigint not null default 0,
    fetched_fence    bigint not null default 0,
    next_fence       bigint not null default 1,
    -- The open lease, repeated here so that "free" can be read, and re-read after a lock, from one row.
    lease_id         uuid,
    last_report_at   timestamptz not null default clock_timestamp(),
    last_leased_at   timestamptz,
    cordoned         boolean not null default false
) with (fillfactor = 50);  -- reported once a second: updated in place

-- Every agent that ever owned a card, by its first report. The latest newcomer owns it; a known but older
-- one is a stray whose reports and orders are ignored.
create table card_boot (
    card_uuid     text not null references card (uuid),
    boot_id       text not null,
    first_seen_at timestamptz not null default clock_timestamp(),
    primary key (card_uuid, boot_id)
);

create table lease (
    id               uuid primary key default gen_random_uuid(),
    task_id          text not null references generation (task_id),
    card_uuid        text not null references card (uuid),
    fence            bigint not null,
    state            text not null constraint lease_state check (state in ('offered', 'accepted', 'ended')),
    at_admission     boolean not null default false,
    offered_at       timestamptz not null default clock_timestamp(),
    lapses_at        timestamptz not null,
    accepted_at      timestamptz,
    order_fetched_at timestamptz,
    boot_id          text,
    ended_at         timestamptz,
    end_reason       text,
    constraint ended_has_an_end check ((state = 'ended') = (ended_at is not null and end_reason is not null)),
    constraint fence_never_repeats unique (card_uuid, fence)
);
create unique index one_open_lease_per_card on lease (card_uuid) where state <> 'ended';
create unique index one_open_lease_per_generation on lease (task_id) where state <> 'ended';
create index lease_by_task on lease (task_id, offered_at);
create index lease_offers on lease (lapses_at) where state = 'offered';

create table ticket (
    task_id         text primary key references generation (task_id),
    model_id        text not null,
    capability      text not null,
    engine          text not null,
    vram_budget_mib integer not null,
    account_id      text not null,
    priority        integer not null default 0,
    enqueued_at     timestamptz not null
);
create index ticket_order on ticket (capability, priority desc, enqueued_at, task_id);
create index ticket_by_model on ticket (model_id);

create table model_readiness (
    model_id  text not null,
    digest    text not null,
    card_uuid text not null references card (uuid),
    boot_id   text not null,
    task_id   text not null references generation (task_id),
    passed_at timestamptz not null default clock_timestamp(),
    primary key (model_id, digest, card_uuid, boot_id)
);

-- Whether a card may be leased, all from its own row: a row that a lock made us re-read is judged afresh.
create function card_is_free(c card, p_fresh interval) returns boolean language sql volatile as $$
    select not c.cordoned and c.lease_id is null and c.running_task is null
       and c.settled_fence >= c.fetched_fence and c.last_report_at > clock_timestamp() - p_fresh
$$;

-- Ends a lease and gives its card back; true when it was open. The caller holds the generation's lock.
create function end_lease_v1(p_lease uuid, p_reason text) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_card text;
begin
    update lease set state = 'ended', ended_at = clock_timestamp(), end_reason = p_reason
    where id = p_lease and state <> 'ended'
    returning card_uuid into v_card;
    if not found then
        return false;
    end if;
    update card set lease_id = null where uuid = v_card and lease_id = p_lease;
    perform pg_notify('holdfast_place', '');
    return true;
end $$;

-- Takes a generation out of the queue and off its card. The caller holds the generation's lock.
create function withdraw_v1(p_task text, p_reason text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    delete from ticket where task_id = p_task;
    perform end_lease_v1(id, p_reason) from lease where task_id = p_task and state <> 'ended';
end $$;

-- Queues a generation, at the place that its admission gave it. The caller holds the generation's lock.
create function enqueue_v1(p_task text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    insert into ticket (task_id, model_id, capability, engine, vram_budget_mib, account_id, enqueued_at)
    select task_id, model_id, request #>> '{model,capability}', request #>> '{model,engine}',
           (request #>> '{model,vram_budget_mib}')::integer, account_id, admitted_at
    from generation where task_id = p_task
    on conflict (task_id) do nothing;
    perform pg_notify('holdfast_place', '');
end $$;
