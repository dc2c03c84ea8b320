-- Memory of runs: what each was seen to take stands with its lease, once, and is learned from.

alter table lease
    -- Of ours on the card when the run began, and at most while it ran.
    add column baseline_mib integer,
    add column peak_mib     integer;

-- Takes what a host saw of a run's memory; `p_oom` when it was not enough. Then neither was the budget by which its
-- card was chosen, whatever was seen in use when it failed.
create or replace function observe_memory_v1(p_task text, p_peak_mib integer, p_oom boolean) returns void
language sql set search_path = holdfast, pg_temp as $$
    insert into observed_memory as o (model_id, mode, runs, peak_mib, oom, oom_mib)
    select model_id, mode, 1, p_peak_mib, p_oom::integer,
           case when p_oom then greatest(p_peak_mib, (request #>> '{model,vram_budget_mib}')::integer) else 0 end
    from generation where task_id = p_task
    on conflict (model_id, mode) do update set
        runs = o.runs + 1, peak_mib = greatest(o.peak_mib, excluded.peak_mib), oom = o.oom + excluded.oom,
        oom_mib = greatest(o.oom_mib, excluded.oom_mib), updated_at = clock_timestamp()
$$;

-- Takes the memory of runs that are over; a run that was told before, or that is none of the card's, changes
-- nothing. Figures that can't be are left out.
create function runs_measured_v1(p_report jsonb) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_run record;
begin
    for v_run in
        select l.id, l.task_id, (m ->> 'baseline_mib')::integer as baseline_mib,
               (m ->> 'peak_mib')::integer as peak_mib, (m ->> 'out_of_memory')::boolean as oom
        from jsonb_array_elements(p_report -> 'cards') c
        cross join jsonb_array_elements(coalesce(c -> 'measured', '[]')) m
        join lease l on l.card_uuid = c ->> 'card_uuid' and l.fence = (m ->> 'fence')::numeric
                    and l.task_id = m ->> 'task_id'
        join generation g on g.task_id = l.task_id
        where (m ->> 'baseline_mib')::numeric between 0 and 16777216
          and (m ->> 'peak_mib')::numeric between 0 and 16777216
        order by g.model_id, g.mode, l.id
    loop
        update lease set baseline_mib = v_run.baseline_mib, peak_mib = v_run.peak_mib
        where id = v_run.id and peak_mib is null;
        if found then
            perform observe_memory_v1(v_run.task_id, v_run.peak_mib, v_run.oom);
        end if;
    end loop;
end $$;

-- Takes a host's report: first what its runs took, since leases are locked before cards, then its cards. Answers
-- which cards it has no say about, and why.
create function take_report_v1(p_report jsonb, p_fresh interval, p_gone interval) returns jsonb language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    perform runs_measured_v1(p_report);
    return report_v2(p_report, p_fresh, p_gone);
end $$;
