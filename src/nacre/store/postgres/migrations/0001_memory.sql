-- Tenants, users, keys, audit log, and memory spaces with their history.
--
-- Every table has a tenant. Row-level security is forced, so that it binds the tables' owner, too; a row is
-- visible only in a transaction that was told its tenant (SET LOCAL nacre.tenant). The role nacre_server owns
-- nothing, cannot log in and cannot bypass these policies: a server's login is a member of it.

DO $$
BEGIN
    CREATE ROLE nacre_server NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- made by another database of this server
END
$$;

GRANT USAGE ON SCHEMA nacre TO nacre_server;
GRANT SELECT ON nacre.schema_versions TO nacre_server;

CREATE TABLE nacre.tenants (
    name    text PRIMARY KEY CHECK (name <> ''),
    created timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE nacre.users (
    tenant  text NOT NULL REFERENCES nacre.tenants,
    name    text NOT NULL CHECK (name <> ''),
    created timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, name)
);

CREATE TABLE nacre.api_keys (
    id        text PRIMARY KEY,
    tenant    text NOT NULL,
    user_name text NOT NULL,
    role      text NOT NULL CHECK (role IN ('reader', 'member', 'admin')),
    spaces    text[] NOT NULL DEFAULT '{}',
    local     boolean NOT NULL DEFAULT false,  -- the client's model runs on the server's machine
    digest    text NOT NULL,
    created   timestamptz NOT NULL,
    expires   timestamptz,
    FOREIGN KEY (tenant, user_name) REFERENCES nacre.users (tenant, name)
);
CREATE INDEX ON nacre.api_keys (tenant, user_name);

CREATE TABLE nacre.audit_log (
    seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    text NOT NULL REFERENCES nacre.tenants,
    id        text NOT NULL,
    at        timestamptz NOT NULL,
    user_name text NOT NULL,
    key_id    text NOT NULL,
    address   text NOT NULL,
    operation text NOT NULL,
    space     text,
    path      text NOT NULL,
    status    integer NOT NULL,
    commit_id text
);
CREATE INDEX ON nacre.audit_log (tenant, seq);

-- A space belongs to one user, or to the whole tenant if its owner is NULL.
CREATE TABLE nacre.spaces (
    id      uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant  text NOT NULL REFERENCES nacre.tenants,
    owner   text,
    kind    text NOT NULL CHECK (kind IN ('user', 'project', 'team', 'agent')),
    name    text NOT NULL,
    head    text NOT NULL DEFAULT '',
    created timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (tenant, owner, kind, name),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, owner) REFERENCES nacre.users (tenant, name)
);

-- The same commits that plain `git log` shows in a working copy; the ids are git's.
CREATE TABLE nacre.memory_commits (
    tenant  text NOT NULL,
    space   uuid NOT NULL,
    seq     bigint NOT NULL,
    id      text NOT NULL,
    parent  text NOT NULL,
    author  text NOT NULL,
    reason  text NOT NULL,
    session text NOT NULL,
    at      timestamptz NOT NULL,
    raw     bytea,  -- the git object, only if it cannot be made from the other columns
    PRIMARY KEY (space, seq),
    UNIQUE (space, id),
    FOREIGN KEY (tenant, space) REFERENCES nacre.spaces (tenant, id)
);

-- What each commit changed. Without content and raw, the file was removed.
CREATE TABLE nacre.memory_changes (
    tenant  text NOT NULL,
    space   uuid NOT NULL,
    seq     bigint NOT NULL,
    file    text NOT NULL,
    content text,
    raw     bytea,  -- in place of content, if a text column cannot hold it
    PRIMARY KEY (space, seq, file),
    FOREIGN KEY (space, seq) REFERENCES nacre.memory_commits (space, seq)
);

-- The files of the newest commit.
CREATE TABLE nacre.memory_files (
    tenant      text NOT NULL,
    space       uuid NOT NULL,
    file        text NOT NULL,
    version     text NOT NULL,
    name        text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    type        text,
    origin      text NOT NULL DEFAULT '',
    content     text,
    written     bigint NOT NULL,  -- modification time in nanoseconds, of which recall knows a memory's age
    PRIMARY KEY (space, file),
    FOREIGN KEY (tenant, space) REFERENCES nacre.spaces (tenant, id)
);

DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['tenants', 'users', 'api_keys', 'audit_log', 'spaces', 'memory_commits',
                               'memory_changes', 'memory_files'] LOOP
        EXECUTE format('ALTER TABLE nacre.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE nacre.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY one_tenant ON nacre.%I USING (%I = current_setting(''nacre.tenant'', true))',
            one, CASE one WHEN 'tenants' THEN 'name' ELSE 'tenant' END);
    END LOOP;
END
$$;

-- The owner of the tables lists tenants; everything else it does for one tenant at a time, like a server.
CREATE POLICY owner_lists ON nacre.tenants FOR SELECT TO CURRENT_USER USING (true);
-- A request names its key before its tenant is known.
CREATE POLICY named_key ON nacre.api_keys FOR SELECT USING (id = current_setting('nacre.key', true));

GRANT SELECT ON nacre.tenants, nacre.api_keys TO nacre_server;
GRANT SELECT, INSERT ON nacre.users, nacre.audit_log TO nacre_server;
GRANT SELECT, INSERT, UPDATE ON nacre.spaces TO nacre_server;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON nacre.memory_commits, nacre.memory_changes, nacre.memory_files TO nacre_server;
