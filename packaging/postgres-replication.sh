#!/bin/sh
# Runs once, when the primary server of compose-postgres.yaml is created. The standbys copy both changed files.
echo 'host replication all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
# From the next start on, PostgreSQL acknowledges a change only when another server has stored the change, too.
echo "synchronous_standby_names = 'ANY 1 (db1, db2, db3)'" >> "$PGDATA/postgresql.conf"
