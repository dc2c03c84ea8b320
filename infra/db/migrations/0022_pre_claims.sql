-- A card has one host. Its agent is known by an identity of its own, kept beside the journal, since names of hosts
-- may repeat: a restarted agent is the same host, so the newest agent of it owns the card; another host that claims
-- the same card is refused while the first reports. All times are the database's, so clocks of hosts don't matter.
-- And figures that can't be are refused: a card keeps its last good ones, and isn't free after several in a row.

alter table card
    add column host_id         text not null default '',
    -- Reports in a row whose figures can't be; and what was wrong with the last.
    add column nonsense_in_row integer not null default 0,
    add column nonsense        text;

-- Claims of a card by hosts that don't own it.
create table card_claim (
    card_uuid text not null references card (uuid),
    host_id   text not null,
    host      text not null,
    boot_id   text not null,
    reason    text not null,
    times     bigint not null default 1,
    first_at  timestamptz not null default clock_timestamp(),
    last_at   timestamptz not null default clock_timestamp(),
    primary key (card_uuid, host_id)
) with (fillfactor = 50);

-- How many reports in a row that can't be make a card unfit for work: one may be the driver's, two chance.
create function nonsense_to_refuse() returns integer language sql immutable as $$ select 3 $$;

-- Whether a card may be leased, all from its own row: a row that a lock made us re-read is judged afresh.
create or replace function card_is_free(c card, p_fresh interval) returns boolean language sql volatile as $$
    select not c.cordoned and c.quarantined_at is null and c.lease_id is null and c.running_task is null
       and c.settled_fence >= c.fetched_fence and c.last_report_at > clock_timestamp() - p_fresh
       and c.nonsense_in_row < nonsense_to_refuse()
$$;

-- The same for a canary that was asked of this very card: a quarantine ends by one.
create or replace function card_is_free_for_canary(c card, p_fresh interval) returns boolean
language sql volatile as $$
    select not c.cordoned and c.lease_id is null and c.running_task is null
       and c.settled_fence >= c.fetched_fence and c.last_report_at > clock_timestamp() - p_fresh
       and c.nonsense_in_row < nonsense_to_refuse()
$$;

-- What can't be in what a host says of a card's memory; null when it can. Bound: 16 TiB.
create function nonsense_of(p_said jsonb) returns text language sql immutable as $$
    select case
        when total not between 0 and 16777216 then 'total memory of ' || total || ' MiB'
        when free not between 0 and total then free || ' of ' || total || ' MiB free'
        when foreign_ not between 0 and total then foreign_ || ' of ' || total || ' MiB foreign'
        else array_to_string(array(select jsonb_array_elements_text(coalesce(p_said #> '{telemetry,nonsense}', '[]'))), '; ')
    end
    from (select (p_said ->> 'vram_total_mib')::numeric as total, (p_said ->> 'vram_free_mib')::numeric as free,
                 coalesce((p_said ->> 'foreign_mib')::numeric, 0) as foreign_) figures
$$;

-- What the driver tells that ends a card's fitness: an Xid that is the hardware's, or memory errors that rose;
-- null without any. Xids that programs cause, as 13 and 31, are shown and no more.
create function hardware_fault_of(p_old jsonb, p_new jsonb) returns text language sql immutable as $$
    select case
        when (p_new ->> 'xid')::integer in (48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140)
             and (p_new -> 'xid') is distinct from (p_old -> 'xid')
            then 'the driver reported Xid ' || (p_new ->> 'xid')
        when (p_new ->> 'ecc_errors')::numeric > (p_old ->> 'ecc_errors')::numeric
            then 'uncorrected memory errors rose from ' || (p_old ->> 'ecc_errors') || ' to ' || (p_new ->> 'ecc_errors')
    end
$$;

-- Who a host is; those that don't say are known by their name.
create function host_identity(p_report jsonb) returns text language sql immutable as $$
    select coalesce(nullif(p_report ->> 'host_id', ''), p_report ->> 'host')
$$;

-- Keeps a refused claim, so that it is seen.
create function claim_refused_v1(p_card text, p_report jsonb, p_boot text, p_reason text) returns void
language sql set search_path = holdfast, pg_temp as $$
    insert into card_claim as c (card_uuid, host_id, host, boot_id, reason)
    values (p_card, host_identity(p_report), p_report ->> 'host', p_boot, p_reason)
    on conflict (card_uuid, host_id) do update set host = excluded.host, boot_id = excluded.boot_id,
        reason = excluded.reason, times = c.times + 1, last_at = clock_timestamp()
$$;

-- Why a host has no say about a card; null when it has. A boot of it that is new makes it the owner. The caller
-- holds the card's lock.
create function claim_card_v1(p_card card, p_report jsonb, p_boot text, p_gone interval) returns text
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_same boolean := p_card.host_id in ('', host_identity(p_report));
    v_new  boolean;
begin
    if not v_same and p_card.last_report_at > clock_timestamp() - p_gone then
        return 'host ' || p_card.host || ' has this card and reports it';
    end if;
    insert into card_boot (card_uuid, boot_id) values (p_card.uuid, p_boot) on conflict do nothing;
    v_new := found;
    -- A boot seen before but not the owner is a stray of an older agent of this host: it has no say any more. That
    -- of another host, whose card was taken while it was silent, has it again when the other is.
    if v_same and not v_new and p_card.boot_id <> p_boot then
        return 'a newer agent of this host has this card';
    end if;
    return null;
end $$;

-- Takes what a host says about its cards; answers which of them it has no say about, and why. Wakes placement when
-- what it decides by is otherwise than before.
create function report_v2(p_report jsonb, p_fresh interval, p_gone interval) returns jsonb language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_said    jsonb;
    v_old     card;
    v_new     card;
    v_why     text;
    v_bad     text;
    v_fault   text;
    v_refused jsonb := '[]';
begin
    for v_said in
        select c from jsonb_array_elements(p_report -> 'cards') c order by c ->> 'card_uuid'
    loop
        insert into card (uuid, host, label, gpu_model, vram_total_mib, vram_free_mib, engines, capabilities,
                          boot_id, host_id, last_report_at)
        values (v_said ->> 'card_uuid', p_report ->> 'host', v_said ->> 'label', v_said ->> 'gpu_model', 0, 0,
                '{}', '{}', v_said ->> 'boot_id', host_identity(p_report), 'epoch')
        on conflict (uuid) do nothing;
        select * into v_old from card where uuid = v_said ->> 'card_uuid' for no key update;
        v_why := claim_card_v1(v_old, p_report, v_said ->> 'boot_id', p_gone);
        if v_why is not null then
            perform claim_refused_v1(v_old.uuid, p_report, v_said ->> 'boot_id', v_why);
            v_refused := v_refused || jsonb_build_object('card_uuid', v_old.uuid, 'reason', v_why);
            continue;
        end if;
        v_bad := nullif(nonsense_of(v_said), '');
        v_fault := hardware_fault_of(v_old.telemetry, v_said -> 'telemetry');
        v_new := v_old;
        if v_bad is null then
            v_new.vram_total_mib := v_said ->> 'vram_total_mib';
            v_new.vram_free_mib := v_said ->> 'vram_free_mib';
            v_new.foreign_mib := coalesce(v_said ->> 'foreign_mib', '0');
            v_new.residents := coalesce(v_said -> 'residents', '[]');
            v_new.resident_names := array(select r ->> 'name' from jsonb_array_elements(v_new.residents) r);
            v_new.telemetry := coalesce(v_said -> 'telemetry', '{}');
        end if;
        update card set
            vram_total_mib = v_new.vram_total_mib, vram_free_mib = v_new.vram_free_mib,
            foreign_mib = v_new.foreign_mib, residents = v_new.residents, resident_names = v_new.resident_names,
            telemetry = v_new.telemetry,
            nonsense = v_bad, nonsense_in_row = case when v_bad is null then 0 else nonsense_in_row + 1 end,
            host = p_report ->> 'host', host_id = host_identity(p_report),
            label = v_said ->> 'label', gpu_model = v_said ->> 'gpu_model',
            engines = array(select jsonb_array_elements_text(v_said -> 'engines')),
            capabilities = array(select jsonb_array_elements_text(v_said -> 'capabilities')),
            boot_id = v_said ->> 'boot_id',
            running_task = v_said #>> '{running,task_id}',
            running_fence = (v_said #>> '{running,fence}')::bigint,
            running_fraction = (v_said #>> '{running,fraction}')::double precision,
            quarantined_at = case when v_fault is not null and quarantined_at is null then clock_timestamp()
                                  else quarantined_at end,
            quarantine_reason = case when v_fault is not null and quarantined_at is null then v_fault
                                     else quarantine_reason end,
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
    return v_refused;
end $$;

-- As asked by an API of before.
create or replace function report_v1(p_report jsonb, p_fresh interval) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    perform report_v2(p_report, p_fresh, 6 * p_fresh);
end $$;
