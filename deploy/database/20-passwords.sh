#!/bin/sh
# Give both roles their passwords, from files that only the database's container sees.
set -eu
for role in setwise_owner setwise_app; do
    printf "ALTER ROLE %s PASSWORD '%s';\n" "$role" "$(cat "/run/secrets/$role")"
done | psql --quiet --no-psqlrc -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB"
