-- name: create_database
-- A database like another one.
create database {name} template {template}

-- name: drop_database
-- Drops it, with whoever is still connected.
drop database if exists {name} with (force)
