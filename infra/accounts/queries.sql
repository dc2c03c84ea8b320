-- name: create_member
-- Makes a member; one_member_per_email refuses a second one with the same address.
insert into member (id, account_id, email, password_hash, role)
values (%(id)s, %(account_id)s, %(email)s, %(password_hash)s, %(role)s)
returning id, account_id, email, role

-- name: by_email
-- A member with what proves him.
select id, account_id, email, role, password_hash from member where email = %(email)s

-- name: by_id
-- A member.
select id, account_id, email, role from member where id = %(id)s

-- name: set_password
-- Replaces what proves him.
update member set password_hash = %(password_hash)s where id = %(id)s
