-- Generations and all that people read of them.

-- One row for each operation id of an account, from its first admission on; this row, not any retention of
-- histories, is the authority for "never twice".
create table operation (
    account_id  text not null references account (id),
    operation_id text not null constraint operation_id_is_short check (length(operation_id) between 1 and 200),
    task_id     text not null,
    fingerprint text not null,
    fields      jsonb not null,
    -- The attempt to use next. It rises only with a refusal.
    attempt     integer not null default 1 check (attempt >= 1),
    -- Why the attempt before `attempt` was refused: {"code", …figures}. Null once credits were held.
    refusal     jsonb,
    refused_at  timestamptz,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (account_id, operation_id),
    constraint one_operation_per_task unique (task_id)
);

create table generation (
    task_id          text primary key,
    account_id       text not null references account (id),
    operation_id     text not null,
    model_id         text not null,
    mode             text not null,
    phase            text not null default 'waiting' constraint generation_phase check (phase in
                     ('waiting', 'placed', 'running', 'inspecting', 'keeping', 'reconciling', 'finished')),
    status           text not null default 'pending' constraint generation_status check (status in
                     ('pending', 'completed', 'failed', 'canceled', 'expired')),
    credit_status    text not null default 'held' constraint generation_credit_status check (credit_status in
                     ('held', 'settled', 'released', 'unknown')),
    request          jsonb not null,
    price_credits    bigint not null check (price_credits >= 0),
    charged_credits  bigint not null default 0 check (charged_credits between 0 and price_credits),
    -- The payer's available credits right after the hold and right after the end, so that a repeated
    -- step gives the very answer of the first.
    balance_held     bigint not null,
    balance_closed   bigint,
    created_at       timestamptz not null,
    admitted_at      timestamptz not null default clock_timestamp(),
    started_at       timestamptz,
    finished_at      timestamptz,
    expires_at       timestamptz not null,
    failure          jsonb,
    cancel           jsonb,
    unknown_since    timestamptz,
    unknown_reason   text,
    awaiting         text,
    next_look_at     timestamptz,
    resolve_by       timestamptz,
    raised           boolean not null default false,
    version          bigint not null default 1,
    is_canary        boolean not null default false,
    constraint one_generation_per_operation unique (account_id, operation_id),
    constraint final_is_finished check ((status = 'pending') = (phase <> 'finished')),
    constraint final_has_an_end check ((status = 'pending') = (finished_at is null)),
    constraint pending_is_held check ((status = 'pending') = (credit_status in ('held', 'unknown'))),
    constraint completed_is_settled check ((status = 'completed') = (credit_status = 'settled')),
    constraint only_settled_is_charged check (credit_status = 'settled' or charged_credits = 0),
    constraint unknown_has_a_since check (credit_status <> 'unknown' or
        (unknown_since is not null and unknown_reason is not null and resolve_by is not null))
) with (fillfactor = 70);

create index generation_open_by_account on generation (account_id) where status = 'pending';
create index generation_open_by_age on generation (admitted_at) where status = 'pending';

alter table transfer
    add constraint transfer_names_a_generation foreign key (task_id) references generation (task_id);

create table event (
    id      bigint generated always as identity primary key,
    task_id text not null references generation (task_id),
    at      timestamptz not null default clock_timestamp(),
    kind    text not null,
    data    jsonb not null default '{}'
);
create index event_by_task on event (task_id, id);

create table outbox (
    id         bigint generated always as identity primary key,
    topic      text not null constraint outbox_topic check (topic in ('signal.assigned', 'generation.closed')),
    key        text not null,
    payload    jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    done_at    timestamptz,
    tries      integer not null default 0,
    try_at     timestamptz not null default clock_timestamp(),
    last_error text,
    constraint one_outbox_row_per_key unique (topic, key)
);
create index outbox_open on outbox (id) where done_at is null;

-- Which step may follow which. A final status never changes; credits go held → (unknown) → settled or released.
create function guard_generation() returns trigger language plpgsql set search_path = holdfast, pg_temp as $$
begin
    if (new.task_id, new.account_id, new.operation_id, new.model_id, new.mode, new.request, new.price_credits,
        new.balance_held, new.created_at, new.admitted_at, new.is_canary)
       is distinct from
       (old.task_id, old.account_id, old.operation_id, old.model_id, old.mode, old.request, old.price_credits,
        old.balance_held, old.created_at, old.admitted_at, old.is_canary) then
        raise exception 'generation %: what was admitted does not change', old.task_id using errcode = 'HF004';
    end if;
    if old.status <> 'pending' then
        raise exception 'generation % is over', old.task_id using errcode = 'HF004';
    end if;
    if old.credit_status = 'unknown' and new.credit_status = 'held' then
        raise exception 'generation %: unknown does not become held again', old.task_id using errcode = 'HF004';
    end if;
    if new.credit_status = 'settled' and not exists (
        select from transfer where task_id = new.task_id and kind = 'post' and amount = new.charged_credits) then
        raise exception 'generation %: settled without its post', old.task_id using errcode = 'HF004';
    end if;
    if new.credit_status = 'released' and not exists (
        select from transfer where task_id = new.task_id and kind = 'void') then
        raise exception 'generation %: released without its void', old.task_id using errcode = 'HF004';
    end if;
    new.version := old.version + 1;
    return new;
end $$;

create trigger generation_guard before update on generation
    for each row execute function guard_generation();

-- Checked at commit: a generation has its hold, and money that moved shows in its generation.
create function check_generation_is_held() returns trigger language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    if not exists (select from transfer where task_id = new.task_id and kind = 'pending'
                   and amount = new.price_credits and debit_account = new.account_id) then
        raise exception 'generation % without its hold', new.task_id using errcode = 'HF004';
    end if;
    return null;
end $$;

create constraint trigger generation_is_held after insert on generation
    deferrable initially deferred for each row execute function check_generation_is_held();

create function check_transfer_shows() returns trigger language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    if not exists (
        select from generation where task_id = new.task_id and (credit_status, charged_credits)
            = (case new.kind when 'post' then 'settled' else 'released' end, new.amount)) then
        raise exception 'transfer % moved credits that generation % does not show', new.id, new.task_id
            using errcode = 'HF004';
    end if;
    return null;
end $$;

create constraint trigger transfer_shows after insert on transfer
    deferrable initially deferred for each row when (new.kind in ('post', 'void'))
    execute function check_transfer_shows();

-- Bytes in the object store, as far as the database knows. `stored_at` is null until the store has them.
create table blob (
    sha256    text primary key constraint sha256_is_hex check (sha256 ~ '^[0-9a-f]{64}$'),
    size      bigint not null check (size >= 0),
    mime      text not null,
    stored_at timestamptz
);

-- Claims on blobs: of an admission in progress, of a generation's inputs, of its results. A blob without
-- any claim may be deleted.
create table upload (
    sha256       text not null references blob (sha256),
    account_id   text not null references account (id),
    operation_id text not null,
    stored_at    timestamptz not null default clock_timestamp(),
    primary key (sha256, account_id, operation_id)
);
create index upload_by_age on upload (stored_at);

create table input_use (
    task_id text not null references generation (task_id),
    sha256  text not null references blob (sha256),
    primary key (task_id, sha256)
);
create index input_use_by_blob on input_use (sha256);

create table artifact (
    task_id    text not null references generation (task_id),
    idx        integer not null check (idx >= 0),
    role       text not null,
    sha256     text not null references blob (sha256),
    mime       text not null,
    size       bigint not null check (size >= 0),
    width      integer not null check (width > 0),
    height     integer not null check (height > 0),
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    constraint one_artifact_per_index primary key (task_id, idx)
);
create index artifact_by_blob on artifact (sha256);
create index artifact_by_expiry on artifact (expires_at);
