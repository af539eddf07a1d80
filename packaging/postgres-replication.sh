#!/bin/sh
# Runs once, when the primary server of compose-postgres.yaml is created. The standbys copy both files.
echo 'host replication all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
# After this start no change is acknowledged until one of the other servers has it.
echo "synchronous_standby_names = 'ANY 1 (db1, db2, db3)'" >> "$PGDATA/postgresql.conf"
