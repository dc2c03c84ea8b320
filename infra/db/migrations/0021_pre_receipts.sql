-- Receipts as they were issued: a repeated request has the same bytes, also after a new key or a new release.

-- Public halves of all keys that ever signed, so that old receipts stay verifiable.
create table receipt_key (
    id            text primary key constraint receipt_key_id check (id ~ '^[0-9a-f]{16}$'),
    public_key    text not null constraint one_id_per_key unique,
    first_used_at timestamptz not null default clock_timestamp()
);

-- At most two for a generation: of its end, and of the result that was found after its release.
create table receipt (
    task_id   text not null references generation (task_id),
    late      boolean not null,
    key_id    text not null references receipt_key (id),
    document  text not null,
    issued_at timestamptz not null default clock_timestamp(),
    constraint one_receipt_per_end primary key (task_id, late)
);

create trigger receipt_key_only_grows before update or delete on receipt_key
    for each row execute function refuse_change();
create trigger receipt_key_is_never_emptied before truncate on receipt_key
    for each statement execute function refuse_change();
create trigger receipt_only_grows before update or delete on receipt
    for each row execute function refuse_change();
create trigger receipt_is_never_emptied before truncate on receipt
    for each statement execute function refuse_change();

-- Keeps a receipt, or finds the one that was issued first; answers the document that counts.
create function keep_receipt_v1(p_task text, p_late boolean, p_key text, p_public_key text, p_document text)
returns text language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_document text;
begin
    if exists (select from generation where task_id = p_task
               and (status = 'pending' or p_late <> (late_at is not null))) then
        raise exception 'generation % is not over so', p_task using errcode = 'HF004';
    end if;
    insert into receipt_key (id, public_key) values (p_key, p_public_key) on conflict (id) do nothing;
    insert into receipt (task_id, late, key_id, document) values (p_task, p_late, p_key, p_document)
    on conflict (task_id, late) do nothing;
    select document into v_document from receipt where task_id = p_task and late = p_late;
    return v_document;
end $$;
