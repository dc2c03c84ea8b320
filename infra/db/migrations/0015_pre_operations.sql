-- Who may operate the platform, and what the sweep finds: one row for each thing that is wrong, until it is mended.

-- Members who operate. Whoever reaches this table's command line may do anything to the database anyway, so that
-- operators are made there and nowhere else.
create table operator (
    member_id  text primary key references member (id),
    made_at    timestamptz not null default clock_timestamp(),
    made_by    text not null constraint operator_is_made_by_somebody check (made_by ~ '[^[:space:]]')
);

-- Makes a member an operator, or takes it back; whether anything changed.
create function set_operator_v1(p_email text, p_operates boolean, p_reason text, p_actor text) returns boolean
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_member text;
    v_found  boolean;
begin
    select id into v_member from member where email = p_email for no key update;
    if not found then
        raise exception 'no member %', p_email using errcode = 'HF001';
    end if;
    if p_operates then
        insert into operator (member_id, made_by) values (v_member, p_actor) on conflict do nothing;
    else
        delete from operator where member_id = v_member;
    end if;
    v_found := found;
    if v_found then
        perform act_v1('member', v_member, p_reason, p_actor, jsonb_build_object('operates', p_operates));
    end if;
    return v_found;
end $$;

-- What a sweep found, once for as long as it lasts.
create table sweep_finding (
    id       bigint generated always as identity primary key,
    kind     text not null,
    subject  text not null,
    detail   text not null,
    remedy   text not null,
    found_at timestamptz not null default clock_timestamp(),
    seen_at  timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    -- `repaired` by the sweep, or `gone` when it was looked for again.
    outcome  text constraint finding_outcome check (outcome in ('repaired', 'gone')),
    constraint ended_has_an_outcome check ((ended_at is null) = (outcome is null))
);
create unique index one_open_finding on sweep_finding (kind, subject) where ended_at is null;
create index sweep_finding_ended on sweep_finding (ended_at) where ended_at is not null;

-- When each step of the sweep last ended, and for whom.
create table sweep_look (
    step      text primary key,
    at        timestamptz not null,
    actor     text not null,
    looked_at bigint not null check (looked_at >= 0)
);

-- Records one step of a sweep: what it found, [{"kind", "subject", "detail", "remedy", "repaired", "act"}], and, of the
-- kinds that it looked for, what is there no more. Repairs with `act` are kept as acts. Ended findings stay 90 days.
create function record_sweep_v1(p_step text, p_kinds text[], p_found jsonb, p_looked_at bigint, p_actor text)
returns void language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_now timestamptz := clock_timestamp();
    v_one jsonb;
begin
    perform pg_advisory_xact_lock(hashtextextended('sweep:' || p_step, 0));
    for v_one in select f from jsonb_array_elements(p_found) f loop
        insert into sweep_finding (kind, subject, detail, remedy, found_at, seen_at)
        values (v_one ->> 'kind', v_one ->> 'subject', v_one ->> 'detail', v_one ->> 'remedy', v_now, v_now)
        on conflict (kind, subject) where ended_at is null do update set
            detail = excluded.detail, remedy = excluded.remedy, seen_at = excluded.seen_at;
        if (v_one ->> 'repaired')::boolean then
            update sweep_finding set ended_at = v_now, outcome = 'repaired'
            where kind = v_one ->> 'kind' and subject = v_one ->> 'subject' and ended_at is null;
            if (v_one ->> 'act')::boolean then
                perform act_v1('sweep_repair', v_one ->> 'subject', v_one ->> 'detail', p_actor,
                               jsonb_build_object('kind', v_one ->> 'kind', 'remedy', v_one ->> 'remedy'));
            end if;
        end if;
    end loop;
    update sweep_finding set ended_at = v_now, outcome = 'gone'
    where ended_at is null and kind = any (p_kinds) and seen_at < v_now;
    delete from sweep_finding where ended_at < v_now - interval '90 days';
    insert into sweep_look (step, at, actor, looked_at) values (p_step, v_now, p_actor, p_looked_at)
    on conflict (step) do update set at = excluded.at, actor = excluded.actor, looked_at = excluded.looked_at;
end $$;

-- Shows a generation as unknown and raised whose workflow ran to its end though credits are held still: nobody but a person can say what
-- became of it. True when that is news.
create function raise_contradiction_v1(p_task text, p_reason text) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen generation;
begin
    select * into v_gen from generation where task_id = p_task for no key update;
    if not found or v_gen.status <> 'pending' or v_gen.raised then
        return false;
    end if;
    return mark_unknown_v1(jsonb_build_object(
        'task_id', p_task, 'since', coalesce(v_gen.unknown_since, clock_timestamp()), 'reason', p_reason,
        'awaiting', 'an operator''s decision', 'next_look_at', clock_timestamp(),
        'resolve_by', coalesce(v_gen.resolve_by, clock_timestamp()), 'raised', true));
end $$;
