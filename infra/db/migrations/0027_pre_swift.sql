-- Swiftness: the same steps with fewer statements. Nothing here changes what a step answers or guarantees.
--
-- Who is only called by a step that is called from outside sets no settings of its own: they are that step's. A
-- trigger names the schema of all that it uses, and so needs none either; only the two that look at the commit keep
-- theirs of plans. Several inserts are one statement with parts, where none needs to see what another wrote.

-- Twofold steps of the outputs' pixels: the highest bit of their number.
create or replace function size_class(p_request jsonb) returns integer language plpgsql immutable as $$
declare
    v_outputs jsonb := p_request -> 'outputs';
    v_pixels  bigint := 0;
begin
    for i in 0 .. coalesce(jsonb_array_length(v_outputs), 0) - 1 loop
        v_pixels := v_pixels + (v_outputs -> i ->> 'width')::bigint * (v_outputs -> i ->> 'height')::bigint;
    end loop;
    return greatest(length(ltrim(v_pixels::bit(64)::text, '0')) - 1, 0);
end $$;

create or replace function residents_of(p_model jsonb) returns text[] language plpgsql immutable as $$
begin
    if jsonb_typeof(p_model #> '{placement,residents}') is distinct from 'array' then
        return '{}';
    end if;
    return array(select r ->> 'name' from jsonb_array_elements(p_model #> '{placement,residents}') r);
end $$;

-- What the placer reads of a request, beside the columns of its ticket.
create function ticket_work(p_request jsonb) returns jsonb language sql stable as $$
    select coalesce(nullif(p_request #> '{model,placement}', 'null'), '{}') || jsonb_build_object(
        'size_class', size_class(p_request), 'digest', p_request #>> '{model,digest}')
$$;

-- Wakes the placer for a new ticket where it could do something for it.
create function tell_of_ticket_v1(p_ticket ticket) returns void language plpgsql as $$
begin
    if p_ticket.only_card is not null or exists (
        select from card c
        where c.lease_id is null and not c.cordoned and c.quarantined_at is null and c.running_task is null
          and p_ticket.capability = any (c.capabilities) and p_ticket.engine = any (c.engines)) then
        perform pg_notify('holdfast_place', 'ticket:' || p_ticket.task_id);
    end if;
end $$;

-- Queues a generation, at the place that its admission gave it. The caller holds the generation's lock.
create or replace function enqueue_v1(p_task text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_ticket ticket;
begin
    insert into ticket (task_id, model_id, mode, capability, engine, vram_budget_mib, account_id, enqueued_at, work,
                        only_card)
    select task_id, model_id, mode, request #>> '{model,capability}', request #>> '{model,engine}',
           (request #>> '{model,vram_budget_mib}')::integer, account_id, admitted_at, ticket_work(request),
           (select uuid from card where uuid = request #>> '{model,placement,only_card}')
    from generation where task_id = p_task
    on conflict (task_id) do nothing
    returning * into v_ticket;
    perform tell_of_ticket_v1(v_ticket);
end $$;

-- What an earlier delivery of the same request was answered; null when it may be admitted now.
create or replace function admission_answer_v1(p_account text, p_operation text, p_attempt integer) returns jsonb
language plpgsql stable as $$
declare
    v_op    record;
    v_gen   record;
    v_grant jsonb;
begin
    select task_id, fingerprint, attempt, refusal into v_op from operation
    where account_id = p_account and operation_id = p_operation;
    if not found then
        return null;
    end if;
    select status, credit_status, balance_held, balance_closed into v_gen from generation
    where task_id = v_op.task_id;
    if not found then
        if p_attempt >= v_op.attempt then
            return null;  -- the refused attempt is behind us, this is the next one
        end if;
        return jsonb_build_object('outcome', 'refused', 'fingerprint', v_op.fingerprint, 'refusal', v_op.refusal);
    end if;
    if v_gen.status <> 'pending' then
        return jsonb_build_object('outcome', 'finished', 'fingerprint', v_op.fingerprint,
                                  'credit_status', v_gen.credit_status, 'balance', v_gen.balance_closed);
    end if;
    -- The latest lease is part of the answer, so that a course that was lost can be taken up again: `accepted`
    -- when it stands; else parked or over, and then evidence of its run is to be looked for. One that is only
    -- offered lapses and is offered again; a generation that waits has none. A first admission has its own.
    select jsonb_build_object('lease_id', l.id, 'card_uuid', l.card_uuid, 'card_label', c.label,
                              'fence', l.fence, 'accepted', l.state = 'accepted')
    into v_grant
    from latest_lease_v1(v_op.task_id) l
    join card c on c.uuid = l.card_uuid
    where l.state = 'accepted' or l.end_reason in ('unknown', 'run_over');
    return jsonb_build_object('outcome', 'held', 'fingerprint', v_op.fingerprint,
                              'credit_status', v_gen.credit_status, 'balance', v_gen.balance_held,
                              'lease', v_grant);
end $$;

-- The first limit that a creation would break, of the account and then of the key.
create or replace function limits_refusal_v1(
    p_account text, p_key text, p_price bigint, p_in_flight_max integer
) returns jsonb language plpgsql volatile as $$
declare
    v_limit   spending_limit;
    v_used    bigint := (select count(*) from generation where account_id = p_account and status = 'pending');
    v_refusal jsonb;
begin
    select * into v_limit from spending_limit where subject = 'account:' || p_account;
    if v_used >= coalesce(v_limit.in_flight, p_in_flight_max) then
        return refusal_v1('quota_exceeded', 'account', 'in_flight', coalesce(v_limit.in_flight, p_in_flight_max),
                          v_used, 5);
    end if;
    if v_limit.subject is not null then
        v_refusal := limit_reached_v1(v_limit, p_price);
    end if;
    if v_refusal is null and p_key is not null then
        select * into v_limit from spending_limit where subject = 'key:' || p_key;
        if found then
            v_refusal := limit_reached_v1(v_limit, p_price);
        end if;
    end if;
    return v_refusal;
end $$;

-- An idle card that fits, locked; null when none is free or somebody waits who may have it.
create or replace function pick_card_v1(p_model jsonb, p_fresh interval) returns card language plpgsql volatile as $$
declare
    v_card       card;
    v_names      text[];
    v_capability text;
    v_engine     text;
    v_mib        integer;
    v_only       text;
begin
    if coalesce((p_model #>> '{placement,cards}')::integer, 1) > 1 then
        return null;
    end if;
    v_names := residents_of(p_model);
    v_capability := p_model ->> 'capability';
    v_engine := p_model ->> 'engine';
    v_only := p_model #>> '{placement,only_card}';
    v_mib := (p_model ->> 'vram_budget_mib')::integer
        + coalesce((p_model #>> '{placement,reserve_mib}')::integer, 0);
    select c.* into v_card from card c
    where (v_only is null and card_is_free(c, p_fresh) or c.uuid = v_only and card_is_free_for_canary(c, p_fresh))
      and v_capability = any (c.capabilities)
      and v_engine = any (c.engines)
      and c.vram_total_mib - c.foreign_mib >= v_mib
      and not exists (select from ticket t where t.capability = any (c.capabilities) and t.engine = any (c.engines)
                      and t.vram_budget_mib <= c.vram_total_mib)
    order by v_names <@ c.resident_names desc, c.vram_total_mib, c.last_leased_at nulls first
    limit 1 for no key update skip locked;
    return v_card;
end $$;

-- Writes all that a hold consists of, and the ticket of who waits. The caller holds the account's lock and has found
-- no reason to refuse. One statement: its triggers run after the last part, and so see the others.
create function hold_v2(p_request jsonb, p_balance bigint, p_phase text) returns timestamptz language plpgsql as $$
declare
    v_task      text := p_request ->> 'task_id';
    v_account   text := p_request ->> 'account_id';
    v_operation text := p_request ->> 'operation_id';
    v_price     bigint := (p_request ->> 'price_credits')::bigint;
    v_model     jsonb := p_request -> 'model';
    v_admitted  timestamptz := clock_timestamp();
begin
    with input as materialized (
        select distinct on (i #>> '{blob,sha256}')
               i #>> '{blob,sha256}' as sha256, (i #>> '{blob,size}')::bigint as size,
               i #>> '{blob,mime}' as mime
        from jsonb_array_elements(p_request -> 'inputs') i
        order by i #>> '{blob,sha256}'
    ), stored as (
        insert into blob (sha256, size, mime) select sha256, size, mime from input
        on conflict (sha256) do nothing
    ), asked as (
        insert into operation (account_id, operation_id, task_id, fingerprint, fields, attempt)
        values (v_account, v_operation, v_task, p_request ->> 'fingerprint', p_request -> 'fields',
                (p_request ->> 'attempt')::integer)
        on conflict (account_id, operation_id) do update set
            fingerprint = excluded.fingerprint, fields = excluded.fields, attempt = excluded.attempt,
            refusal = null, refused_at = null
    ), made as (
        insert into generation (task_id, account_id, operation_id, model_id, mode, phase, request, price_credits,
                                balance_held, created_at, admitted_at, expires_at, is_canary, key_id, made_by)
        values (v_task, v_account, v_operation, v_model ->> 'model_id', v_model ->> 'mode',
                p_phase, p_request, v_price, p_balance, (p_request ->> 'created_at')::timestamptz, v_admitted,
                (p_request ->> 'expires_at')::timestamptz, (p_request ->> 'is_canary')::boolean,
                p_request ->> 'key_id', coalesce(p_request ->> 'made_by', ''))
    ), held as (
        insert into transfer (kind, cause, debit_account, credit_account, amount, task_id, reason, actor)
        values ('pending', null, v_account, 'revenue', v_price, v_task, 'generation', 'workflow:' || v_task)
    ), used as (
        insert into input_use (task_id, sha256) select v_task, sha256 from input
    ), queued as (
        insert into ticket (task_id, model_id, mode, capability, engine, vram_budget_mib, account_id, enqueued_at,
                            work, only_card)
        select v_task, v_model ->> 'model_id', v_model ->> 'mode', v_model ->> 'capability', v_model ->> 'engine',
               (v_model ->> 'vram_budget_mib')::integer, v_account, v_admitted, ticket_work(p_request),
               (select uuid from card where uuid = v_model #>> '{placement,only_card}')
        where p_phase = 'waiting'
    )
    insert into event (task_id, kind, data) values (v_task, 'held', jsonb_build_object('credits', v_price));
    return v_admitted;
end $$;
drop function hold_v1(jsonb, bigint, text);

-- Counts a hold for the limits of its account and key.
create function count_spending_v1(p_request jsonb, p_admitted timestamptz) returns void language plpgsql as $$
begin
    insert into spend_day (subject, day, credits, creations)
    select subject, (p_admitted at time zone 'UTC')::date, (p_request ->> 'price_credits')::bigint, 1
    from spending_limit
    where subject = any (subjects(p_request ->> 'account_id', p_request ->> 'key_id'))
    on conflict (subject, day) do update set
        credits = spend_day.credits + excluded.credits, creations = spend_day.creations + 1;
end $$;

-- Locks the account and then the generation; a final one needs no lock, since it never changes.
create or replace function lock_generation_v1(p_task text) returns generation language plpgsql as $$
declare
    v_gen generation;
begin
    perform from account
    where id = (select account_id from generation where task_id = p_task and status = 'pending') for no key update;
    if found then
        select * into v_gen from generation where task_id = p_task for no key update;
    else
        select * into v_gen from generation where task_id = p_task;
    end if;
    if not found then
        raise exception 'no generation %', p_task using errcode = 'HF001';
    end if;
    return v_gen;
end $$;

-- Takes a generation out of the queue and off its card. The caller holds the generation's lock.
create or replace function withdraw_v1(p_task text, p_reason text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_lease uuid;
begin
    delete from ticket where task_id = p_task;
    select id into v_lease from lease where task_id = p_task and state <> 'ended';
    if found then
        perform end_lease_v1(v_lease, p_reason);
    end if;
end $$;

-- Books an end. The caller holds the generation's lock and knows that it is open.
create or replace function close_v1(
    p_gen generation, p_status text, p_credits bigint, p_failure jsonb, p_actor text
) returns jsonb language plpgsql as $$
declare
    v_task    text := p_gen.task_id;
    v_post    boolean := p_status = 'completed';
    v_charged bigint := case when p_status = 'completed' then p_credits else 0 end;
    v_shown   text := case when p_status = 'completed' then 'settled' else 'released' end;
    v_balance bigint;
    v_lots    boolean;
    v_lease   uuid;
    v_told    jsonb;
begin
    insert into transfer (kind, cause, pending_id, debit_account, credit_account, amount, task_id, reason, actor)
    select case when v_post then 'post' else 'void' end, null, id, debit_account, credit_account, v_charged,
           task_id, p_status, p_actor
    from transfer where task_id = v_task and kind = 'pending';
    select a.has_lots, a.credits_posted - a.debits_posted - a.debits_pending,
           (select id from lease where task_id = v_task and state <> 'ended')
    into v_lots, v_balance, v_lease from account a where a.id = p_gen.account_id;
    if v_lots and expire_lots_v1(p_gen.account_id, 1000) > 0 then
        select credits_posted - debits_posted - debits_pending into v_balance
        from account where id = p_gen.account_id;
    end if;
    if v_charged < p_gen.price_credits then
        update spend_day set credits = credits - (p_gen.price_credits - v_charged)
        where subject = any (subjects(p_gen.account_id, p_gen.key_id))
          and day = (p_gen.admitted_at at time zone 'UTC')::date;
    end if;
    if v_lease is not null then
        perform end_lease_v1(v_lease, p_status);
    end if;
    v_told := jsonb_build_object('status', p_status, 'credit_status', v_shown, 'charged', v_charged);
    with dequeued as (
        delete from ticket where task_id = v_task
    ), closed as (
        update generation set status = p_status, phase = 'finished', finished_at = clock_timestamp(),
            credit_status = v_shown, charged_credits = v_charged, balance_closed = v_balance,
            failure = p_failure, awaiting = null, next_look_at = null, raised = false
        where task_id = v_task
    ), noted as (
        insert into event (task_id, kind, data)
        values (v_task, v_shown, v_told || jsonb_build_object('actor', p_actor, 'code', p_failure ->> 'code'))
    )
    insert into outbox (topic, key, payload)
    values ('generation.closed', v_task,
            v_told || jsonb_build_object('task_id', v_task, 'account_id', p_gen.account_id));
    return v_told || jsonb_build_object('balance', v_balance);
end $$;

-- Applies one transfer to the counters of who pays.
create or replace function apply_transfer() returns trigger language plpgsql as $$
declare
    v_held bigint;
    v_lots boolean;
begin
    -- A million million is far above any price, and thousands of such transfers still sum up exactly.
    if new.amount not between 0 and 1000000000000 then
        raise exception 'transfer % of % credits', new.id, new.amount
            using errcode = 'check_violation', constraint = 'amount_in_range';
    end if;
    if holdfast.transfer_fits(new) is not true then
        raise exception 'transfer % is none', new.id
            using errcode = 'check_violation', constraint = 'transfer_fits';
    end if;
    if new.reason !~ '[^[:space:]]' or new.actor !~ '[^[:space:]]' then
        raise exception 'transfer % needs a reason and an actor', new.id using errcode = 'HF008';
    end if;
    if new.kind = 'direct' then
        perform holdfast.apply_direct_v1(new);
    elsif new.kind = 'pending' then
        update holdfast.account set debits_pending = debits_pending + new.amount
        where id = new.debit_account and holdfast.pays(kind) and new.credit_account = 'revenue'
          and exists (select from holdfast.generation where task_id = new.task_id
                      and account_id = new.debit_account and price_credits = new.amount)
        returning has_lots into v_lots;
        if not found then
            perform holdfast.refuse_hold_v1(new);
        end if;
        if v_lots then
            perform holdfast.draw_lots_v1(new.id, new.debit_account, new.amount, false);
        end if;
    else
        update holdfast.account a
        set debits_pending = a.debits_pending - h.amount, debits_posted = a.debits_posted + new.amount
        from holdfast.transfer h
        where a.id = new.debit_account and h.id = new.pending_id and h.kind = 'pending'
          and h.debit_account = new.debit_account and h.credit_account = new.credit_account
          and h.task_id = new.task_id and new.amount <= h.amount
        returning a.has_lots into v_lots;
        if not found then
            perform holdfast.refuse_resolution_v1(new);
        end if;
        if v_lots then
            perform holdfast.return_lots_v1(new.pending_id, new.amount);
        end if;
    end if;
    return null;
end $$;

-- Says what is wrong with a hold that could not be applied.
create function refuse_hold_v1(p_hold transfer) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    if p_hold.credit_account <> 'revenue' then
        raise exception 'hold % is not for revenue', p_hold.id using errcode = 'HF006';
    end if;
    if not exists (select from generation where task_id = p_hold.task_id and account_id = p_hold.debit_account
                   and price_credits = p_hold.amount) then
        raise exception 'hold % is not that of a generation', p_hold.id using errcode = 'HF004';
    end if;
    raise exception 'no account % that pays', p_hold.debit_account using errcode = 'HF001';
end $$;

-- Says what is wrong with a post or a void that could not be applied.
create function refuse_resolution_v1(p_resolution transfer) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    if exists (
        select from transfer h
        where h.id = p_resolution.pending_id and h.kind = 'pending' and h.amount < p_resolution.amount
          and (h.debit_account, h.credit_account, h.task_id)
              = (p_resolution.debit_account, p_resolution.credit_account, p_resolution.task_id)) then
        raise exception 'transfer % takes more than its hold', p_resolution.id using errcode = 'HF005';
    end if;
    raise exception 'transfer % resolves another hold than its own', p_resolution.id using errcode = 'HF006';
end $$;

create or replace function guard_account() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        if (new.credits_posted, new.debits_posted, new.debits_pending, new.has_lots) <> (0, 0, 0, false) then
            raise exception 'account % must start empty', new.id using errcode = 'HF003';
        end if;
        if length(new.id) not between 1 and 64 then
            raise exception 'the id of an account has 1 to 64 characters'
                using errcode = 'check_violation', constraint = 'account_id_is_short';
        end if;
        if new.kind not in ('user', 'organisation', 'house', 'revenue', 'issuance', 'promotion', 'loss') then
            raise exception 'no account is of kind %', new.kind
                using errcode = 'check_violation', constraint = 'account_kind';
        end if;
        return new;
    end if;
    if (new.id, new.kind) is distinct from (old.id, old.kind) then
        raise exception 'account % keeps its id and kind', old.id using errcode = 'HF003';
    end if;
    if (new.credits_posted, new.debits_posted, new.debits_pending, new.has_lots)
        is distinct from (old.credits_posted, old.debits_posted, old.debits_pending, old.has_lots) then
        if pg_trigger_depth() < 2 then
            raise exception 'counters of account % move by transfers only', old.id using errcode = 'HF003';
        end if;
        if new.credits_posted < 0 or new.debits_posted < 0 or new.debits_pending < 0
            or not holdfast.pays(new.kind) then
            raise exception 'account % can not have such counters', old.id
                using errcode = 'check_violation', constraint = 'counters_fit';
        end if;
        -- 2^53 - 1: whoever reads a figure as a double, as JavaScript does, reads it exactly.
        if new.credits_posted > 9007199254740991 then
            raise exception 'account % would have more credits than can be told exactly', old.id
                using errcode = 'check_violation', constraint = 'figures_are_exact';
        end if;
    end if;
    return new;
end $$;

-- What was admitted never changes: asked only where a statement names such a column.
create function guard_admitted() returns trigger language plpgsql as $$
begin
    if (new.task_id, new.account_id, new.operation_id, new.model_id, new.mode, new.request, new.price_credits,
        new.balance_held, new.created_at, new.admitted_at, new.is_canary, new.key_id, new.made_by)
       is distinct from
       (old.task_id, old.account_id, old.operation_id, old.model_id, old.mode, old.request, old.price_credits,
        old.balance_held, old.created_at, old.admitted_at, old.is_canary, old.key_id, old.made_by) then
        raise exception 'generation %: what was admitted does not change', old.task_id using errcode = 'HF004';
    end if;
    return new;
end $$;

create trigger generation_as_admitted before update of
    task_id, account_id, operation_id, model_id, mode, request, price_credits, balance_held, created_at, admitted_at,
    is_canary, key_id, made_by on generation
    for each row execute function guard_admitted();

create or replace function guard_generation() returns trigger language plpgsql as $$
begin
    new.version := old.version + 1;
    if old.status <> 'pending' then
        if holdfast.is_late_delivery(old, new) then
            return new;
        end if;
        raise exception 'generation % is over', old.task_id using errcode = 'HF004';
    end if;
    if holdfast.generation_fits(new) is not true then
        raise exception 'generation % would contradict itself', old.task_id
            using errcode = 'check_violation', constraint = 'generation_fits';
    end if;
    if old.credit_status = 'unknown' and new.credit_status = 'held' then
        raise exception 'generation %: unknown does not become held again', old.task_id using errcode = 'HF004';
    end if;
    if new.credit_status = 'settled' and not exists (
        select from holdfast.transfer
        where task_id = new.task_id and kind = 'post' and amount = new.charged_credits) then
        raise exception 'generation %: settled without its post', old.task_id using errcode = 'HF004';
    end if;
    if new.credit_status = 'released' and not exists (
        select from holdfast.transfer where task_id = new.task_id and kind = 'void') then
        raise exception 'generation %: released without its void', old.task_id using errcode = 'HF004';
    end if;
    return new;
end $$;

-- What a card learns of how a run on it ended.
create or replace function card_learns() returns trigger language plpgsql as $$
declare
    v_card text;
begin
    select card_uuid into v_card from holdfast.lease
    where task_id = new.task_id and order_fetched_at is not null order by seq desc limit 1;
    if not found then
        return null;
    end if;
    if new.status = 'completed' then
        update holdfast.card set faults_in_row = 0,
            quarantined_at = case when new.is_canary then null else quarantined_at end,
            quarantine_reason = case when new.is_canary then null else quarantine_reason end
        where uuid = v_card and (faults_in_row > 0 or (new.is_canary and quarantined_at is not null));
        if found then
            perform pg_notify('holdfast_place', 'card:' || v_card);
        end if;
    elsif new.failure ->> 'code' in ('upstream_failed', 'out_of_memory', 'image_output_local_black_collapse') then
        perform holdfast.card_fault_v1(v_card, new.failure ->> 'code', new.is_canary);
    end if;
    return null;
end $$;

create or replace function tell_watchers() returns trigger language plpgsql as $$
begin
    if exists (select from holdfast.watch where task_id = new.task_id and until > clock_timestamp()) then
        perform pg_notify('holdfast_event', new.task_id);
    end if;
    return null;
end $$;

create or replace function check_generation_is_held() returns trigger language plpgsql
set enable_seqscan = off as $$
begin
    if new.status <> 'pending' or new.credit_status <> 'held' or new.price_credits < 0
        or holdfast.generation_fits(new) is not true
        or not exists (select from holdfast.transfer where task_id = new.task_id and kind = 'pending'
                       and amount = new.price_credits and debit_account = new.account_id) then
        raise exception 'generation % did not begin with its hold', new.task_id using errcode = 'HF004';
    end if;
    return null;
end $$;

create or replace function check_transfer_shows() returns trigger language plpgsql
set enable_seqscan = off as $$
begin
    if not exists (
        select from holdfast.generation where task_id = new.task_id and (credit_status, charged_credits)
            = (case new.kind when 'post' then 'settled' else 'released' end, new.amount)) then
        raise exception 'transfer % moved credits that generation % does not show', new.id, new.task_id
            using errcode = 'HF004';
    end if;
    return null;
end $$;

-- Whether an account ever asked for the very same: most often not, and then nothing can be a click.
create index operation_by_fingerprint on operation (account_id, fingerprint);

-- The admission.
-- {"outcome": held|finished|refused, "fingerprint", "credit_status"?, "balance"?, "lease"?, "refusal"?}
-- One look under the account's lock tells whether anything is out of the ordinary; only then it is looked at closely.
create or replace function admit_v2(
    p_request jsonb, p_in_flight_max integer, p_fresh interval, p_offer interval, p_duplicates interval
) returns jsonb language plpgsql set search_path = holdfast, pg_temp set enable_seqscan = off as $$
declare
    v_task      text := p_request ->> 'task_id';
    v_who       text := p_request ->> 'account_id';
    v_operation text := p_request ->> 'operation_id';
    v_key       text := p_request ->> 'key_id';
    v_model     text := p_request #>> '{model,model_id}';
    v_queue_max integer := (p_request #>> '{model,queue_max}')::integer;
    v_price     bigint := (p_request ->> 'price_credits')::bigint;
    v_account   account;
    v_look      record;
    v_balance   bigint;
    v_answer    jsonb;
    v_refusal   jsonb;
    v_card      card;
    v_grant     jsonb;
    v_admitted  timestamptz;
begin
    select * into v_account from account where id = v_who and pays(kind) for no key update;
    if not found then
        return jsonb_build_object('outcome', 'refused', 'fingerprint', p_request ->> 'fingerprint',
                                  'refusal', jsonb_build_object('code', 'forbidden'));
    end if;
    -- Whoever was admitted while we waited for the account is visible now.
    select exists (select from operation where account_id = v_who and operation_id = v_operation) as is_known,
           exists (select from operation where account_id = v_who and fingerprint = p_request ->> 'fingerprint')
               as is_like_another,
           exists (select from spending_limit where subject = any (subjects(v_who, v_key))) as is_limited,
           (select count(*) from generation where account_id = v_who and status = 'pending') as in_flight,
           exists (select from card where lease_id is null) as may_place,
           (select count(*) from ticket where model_id = v_model) as queued
    into v_look;
    if v_look.is_known then
        v_answer := admission_answer_v1(v_who, v_operation, (p_request ->> 'attempt')::integer);
        if v_answer is not null then
            return v_answer;
        end if;
    end if;
    if v_key is not null and not key_fits_v1(v_key, v_who) then
        return jsonb_build_object('outcome', 'refused', 'fingerprint', p_request ->> 'fingerprint',
                                  'refusal', jsonb_build_object('code', 'forbidden'));
    end if;
    if v_account.has_lots and expire_lots_v1(v_who, 1000) > 0 then
        select * into v_account from account where id = v_who;
    end if;
    v_balance := v_account.credits_posted - v_account.debits_posted - v_account.debits_pending;
    -- Before balance and limits: a click that makes nothing needs none. Not for who gave up, and heard no answer.
    v_refusal := case when v_look.is_like_another and not v_account.frozen
                           and clock_timestamp() <= (p_request ->> 'admit_by')::timestamptz
                      then duplicate_refusal_v1(p_request, p_duplicates) end;
    if v_refusal is null and (v_look.is_limited or v_account.frozen or v_balance < v_price
        or v_look.in_flight >= p_in_flight_max or clock_timestamp() > (p_request ->> 'admit_by')::timestamptz) then
        v_refusal := admission_refusal_v1(p_request, v_account, v_balance, p_in_flight_max);
    end if;
    if v_refusal is null then
        if v_look.may_place then
            v_card := pick_card_v1(p_request -> 'model', p_fresh);
        end if;
        if v_card.uuid is null and v_look.queued + 64 >= v_queue_max
            and not queue_has_room_v1(v_model, v_queue_max) then
            v_refusal := jsonb_build_object('code', 'queue_full', 'limit', v_queue_max);
        end if;
    end if;
    if v_refusal is not null then
        return refuse_v1(p_request, v_refusal);
    end if;
    v_balance := v_balance - v_price;
    v_admitted := hold_v2(p_request, v_balance, case when v_card.uuid is null then 'waiting' else 'placed' end);
    if v_look.is_limited then
        perform count_spending_v1(p_request, v_admitted);
    end if;
    if v_card.uuid is not null then
        v_grant := lease_card_v1(v_task, v_card, 'accepted', p_offer);
        insert into event (task_id, kind, data)
        values (v_task, 'placed', jsonb_build_object('card', v_card.label, 'fence', v_grant -> 'fence'));
    else
        perform tell_of_ticket_v1(t) from ticket t
        where t.task_id = v_task and (v_look.may_place or t.only_card is not null);
    end if;
    return jsonb_build_object('outcome', 'held', 'fingerprint', p_request ->> 'fingerprint',
                              'credit_status', 'held', 'balance', v_balance, 'lease', v_grant);
end $$;
