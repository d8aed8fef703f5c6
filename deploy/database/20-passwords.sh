#!/bin/sh
# Give both roles their passwords, from files that only the database's container sees.
set -eu
owner=$(cat /run/secrets/setwise_owner)
app=$(cat /run/secrets/setwise_app)
psql --quiet --no-psqlrc -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<STATEMENTS
ALTER ROLE setwise_owner PASSWORD '$owner';
ALTER ROLE setwise_app PASSWORD '$app';
STATEMENTS
