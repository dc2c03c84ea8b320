-- Partial delivery: of n outputs asked for, k are kept and paid; why the others are not is kept beside them.

-- An output that was asked for and wasn't delivered, by its place among those asked for.
create table refused_output (
    task_id    text not null references generation (task_id),
    idx        integer not null check (idx >= 0),
    code       text not null,
    message    text not null,
    created_at timestamptz not null default clock_timestamp(),
    constraint one_refusal_per_output primary key (task_id, idx)
);

create trigger refused_output_never_changes before update or delete on refused_output
    for each row execute function refuse_change();
create trigger refused_output_is_never_emptied before truncate on refused_output
    for each statement execute function refuse_change();
