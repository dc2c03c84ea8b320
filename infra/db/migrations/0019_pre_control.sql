-- Control of cards by operators: each act is kept with who and why, in the same transaction. And memory that runs
-- were seen to take, beside what is configured.

alter table operator_act
    drop constraint operator_act_name,
    add constraint operator_act_name check (act in
        ('grant', 'top_up', 'promotion', 'adjust', 'freeze', 'unfreeze', 'resolve', 'limit', 'key', 'member',
         'sweep_repair', 'replay', 'cordon', 'uncordon', 'quarantine', 'readmit', 'share'));

-- The cards that an operator means: by uuid, by label, or all of a host.
create function cards_named_v1(p_name text) returns setof card language sql stable
set search_path = holdfast, pg_temp as $$
    select * from card where p_name in (uuid, label, host) order by uuid
$$;

-- Stops new work on the cards named, or allows it again; what runs goes on. How many were otherwise before.
create function cordon_v1(p_name text, p_on boolean, p_reason text, p_actor text) returns integer
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_card  card;
    v_count integer := 0;
begin
    perform act_v1(case when p_on then 'cordon' else 'uncordon' end, 'card:' || p_name, p_reason, p_actor, '{}');
    if not exists (select from cards_named_v1(p_name)) then
        raise exception 'no card %', p_name using errcode = 'HF001';
    end if;
    for v_card in select * from cards_named_v1(p_name) loop
        update card set cordoned = p_on where uuid = v_card.uuid and cordoned <> p_on;
        if found then
            v_count := v_count + 1;
            perform pg_notify('holdfast_place', 'card:' || v_card.uuid);
        end if;
    end loop;
    return v_count;
end $$;

-- Puts the cards named into quarantine, until a canary passes, or takes them out of it without one.
create function quarantine_v1(p_name text, p_on boolean, p_reason text, p_actor text) returns integer
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_card  card;
    v_count integer := 0;
begin
    perform act_v1(case when p_on then 'quarantine' else 'readmit' end, 'card:' || p_name, p_reason, p_actor, '{}');
    if not exists (select from cards_named_v1(p_name)) then
        raise exception 'no card %', p_name using errcode = 'HF001';
    end if;
    for v_card in select * from cards_named_v1(p_name) loop
        update card set
            quarantined_at = case when p_on then clock_timestamp() end,
            quarantine_reason = case when p_on then p_reason end,
            faults_in_row = case when p_on then faults_in_row else 0 end
        where uuid = v_card.uuid and (quarantined_at is not null) <> p_on;
        if found then
            v_count := v_count + 1;
            perform pg_notify('holdfast_place', 'card:' || v_card.uuid);
        end if;
    end loop;
    return v_count;
end $$;

-- Sets what an account may have of the fleet beside others.
create function set_share_v1(p_account text, p_weight double precision, p_on_cards_max integer, p_reason text, p_actor text)
returns void language plpgsql set search_path = holdfast, pg_temp as $$
begin
    perform act_v1('share', 'account:' || p_account, p_reason, p_actor,
                   jsonb_build_object('weight', p_weight, 'on_cards_max', p_on_cards_max));
    if not exists (select from account where id = p_account and pays(kind)) then
        raise exception 'no account %', p_account using errcode = 'HF001';
    end if;
    insert into account_share (account_id, weight, on_cards_max, set_by, reason)
    values (p_account, p_weight, p_on_cards_max, p_actor, p_reason)
    on conflict (account_id) do update set weight = excluded.weight, on_cards_max = excluded.on_cards_max,
        set_by = excluded.set_by, set_at = clock_timestamp(), reason = excluded.reason;
    perform pg_notify('holdfast_place', 'all');
end $$;

-- Memory that runs of a model and mode were seen to take on their card, and how often it was not enough. A budget
-- is a filter and never shown as a peak; this is the peak, from which a budget is suggested.
create table observed_memory (
    model_id   text not null,
    mode       text not null,
    runs       bigint not null default 0,
    peak_mib   integer not null default 0 check (peak_mib >= 0),
    oom        bigint not null default 0,
    -- The largest memory on which it was not enough.
    oom_mib    integer not null default 0,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (model_id, mode)
) with (fillfactor = 50);

-- Takes what a host saw of a run's memory; `p_oom` when it was not enough.
create function observe_memory_v1(p_task text, p_peak_mib integer, p_oom boolean) returns void
language sql set search_path = holdfast, pg_temp as $$
    insert into observed_memory as o (model_id, mode, runs, peak_mib, oom, oom_mib)
    select model_id, mode, 1, p_peak_mib, p_oom::integer, case when p_oom then p_peak_mib else 0 end
    from generation where task_id = p_task
    on conflict (model_id, mode) do update set
        runs = o.runs + 1, peak_mib = greatest(o.peak_mib, excluded.peak_mib), oom = o.oom + excluded.oom,
        oom_mib = greatest(o.oom_mib, excluded.oom_mib), updated_at = clock_timestamp()
$$;
