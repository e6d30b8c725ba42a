-- Folders of working copies whose rows were erased: every server and worker removes its own copy of them. The
-- names are random ids and digests, so that they say nothing about the tenant or the user.

CREATE TABLE nacre.erased (
    folder text PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE nacre.erased ENABLE ROW LEVEL SECURITY;
ALTER TABLE nacre.erased FORCE ROW LEVEL SECURITY;
CREATE POLICY every_server ON nacre.erased USING (true);
GRANT SELECT ON nacre.erased TO nacre_server;
