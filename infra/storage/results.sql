-- name: note_grant
-- What a host may store as an output of a run; the latest grant counts.
insert into result_upload (task_id, lease_id, fence, idx, sha256, size, mime)
values (%(task_id)s, %(lease_id)s::uuid, %(fence)s, %(idx)s, %(sha256)s, %(size)s, %(mime)s)
on conflict (task_id, lease_id, idx) do update set
    sha256 = excluded.sha256, size = excluded.size, mime = excluded.mime, granted_at = clock_timestamp();

-- name: granted
-- What was granted under a lease.
select idx, sha256, size, mime from result_upload
where task_id = %(task_id)s and lease_id = %(lease_id)s::uuid order by idx;
