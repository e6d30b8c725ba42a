-- Sessions with their records and files, letters, background jobs and what they cost.

-- The log of a session is the concatenation of its records; `bytes` is its length, which an append names.
CREATE TABLE nacre.sessions (
    tenant    text NOT NULL,
    id        text NOT NULL,
    user_name text NOT NULL,
    cwd       text NOT NULL,
    home      text NOT NULL,  -- where the process that made it keeps its copies; paths in records begin with it
    bytes     bigint NOT NULL DEFAULT 0,
    started   timestamptz NOT NULL DEFAULT now(),
    modified  timestamptz NOT NULL DEFAULT now(),
    fence     bigint NOT NULL DEFAULT 0,   -- counts the leases; an append names the one it was made with
    holder    text NOT NULL DEFAULT '',    -- process with the lease
    leased    timestamptz,                 -- end of the lease
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, user_name) REFERENCES nacre.users (tenant, name)
);
CREATE INDEX ON nacre.sessions (tenant, user_name, modified);

CREATE TABLE nacre.session_records (
    tenant   text NOT NULL,
    session  text NOT NULL,
    position bigint NOT NULL,  -- of the line in the log, in bytes
    kind     text NOT NULL,    -- the line's `type`
    content  text,
    raw      bytea,            -- in place of content, if a text column cannot hold it
    PRIMARY KEY (tenant, session, position),
    FOREIGN KEY (tenant, session) REFERENCES nacre.sessions (tenant, id) ON DELETE CASCADE
);

-- Tool results, notes and the logs of sub-agents: the files beside the log.
CREATE TABLE nacre.session_files (
    tenant  text NOT NULL,
    session text NOT NULL,
    file    text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (tenant, session, file),
    FOREIGN KEY (tenant, session) REFERENCES nacre.sessions (tenant, id) ON DELETE CASCADE
);

CREATE TABLE nacre.letters (
    seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    text NOT NULL,
    user_name text NOT NULL,
    inbox     text NOT NULL,  -- a session, or a name
    id        text NOT NULL,
    letter    text NOT NULL,  -- one line of JSON
    sent      timestamptz NOT NULL DEFAULT now(),
    received  timestamptz,
    UNIQUE (tenant, user_name, inbox, id),
    FOREIGN KEY (tenant, user_name) REFERENCES nacre.users (tenant, name)
);
CREATE INDEX ON nacre.letters (tenant, user_name, inbox, seq) WHERE received IS NULL;

CREATE TABLE nacre.jobs (
    id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant    text NOT NULL,
    user_name text NOT NULL,
    kind      text NOT NULL CHECK (kind IN ('dream', 'index', 'extract', 'notes', 'sync')),
    space     text NOT NULL,
    key       text NOT NULL,  -- one job of a key runs at a time, and one waits
    input     jsonb,          -- what it works on; removed when it has ended
    status    text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'completed', 'failed')),
    attempts  integer NOT NULL DEFAULT 0,
    created   timestamptz NOT NULL DEFAULT now(),
    started   timestamptz,
    finished  timestamptz,
    error     text,
    result    jsonb,
    FOREIGN KEY (tenant, user_name) REFERENCES nacre.users (tenant, name)
);
CREATE UNIQUE INDEX ON nacre.jobs (tenant, key) WHERE status = 'queued';
CREATE INDEX ON nacre.jobs (tenant, created);

-- What a tenant's jobs use, by day.
CREATE TABLE nacre.usage (
    tenant   text NOT NULL REFERENCES nacre.tenants,
    day      date NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    input    bigint NOT NULL DEFAULT 0,
    output   bigint NOT NULL DEFAULT 0,
    usd      double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
);

-- The model of a tenant's jobs. The credential is a reference: `env:NAME` or `file:/path`.
CREATE TABLE nacre.tenant_models (
    tenant     text PRIMARY KEY REFERENCES nacre.tenants,
    model      text NOT NULL,
    credential text NOT NULL CHECK (credential ~ '^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$'),
    daily_usd  double precision NOT NULL CHECK (daily_usd >= 0)
);

-- Answers to writes with an idempotency key, which every process of the server gives again.
CREATE TABLE nacre.repeated_writes (
    tenant      text NOT NULL,
    key_id      text NOT NULL,
    name        text NOT NULL,
    fingerprint text NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    status      integer NOT NULL DEFAULT 0,  -- 0 while the first request is in progress
    headers     jsonb NOT NULL DEFAULT '[]',
    content     bytea NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, key_id, name),
    FOREIGN KEY (tenant) REFERENCES nacre.tenants
);
CREATE INDEX ON nacre.repeated_writes (tenant, at);

DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['sessions', 'session_records', 'session_files', 'letters', 'jobs', 'usage',
                               'tenant_models', 'repeated_writes'] LOOP
        EXECUTE format('ALTER TABLE nacre.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE nacre.%I FORCE ROW LEVEL SECURITY', one);
        EXECUTE format(
            'CREATE POLICY one_tenant ON nacre.%I USING (tenant = current_setting(''nacre.tenant'', true))', one);
    END LOOP;
END
$$;

-- A worker gets the id of a job before it knows the tenant.
CREATE POLICY named_job ON nacre.jobs FOR SELECT USING (id::text = current_setting('nacre.key', true));

GRANT SELECT ON nacre.tenant_models TO nacre_server;
GRANT SELECT, INSERT, UPDATE ON nacre.usage TO nacre_server;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON nacre.sessions, nacre.session_records, nacre.session_files, nacre.letters, nacre.jobs,
       nacre.repeated_writes
    TO nacre_server;
