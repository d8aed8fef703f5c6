#!/bin/sh
# Make the passwords of the database's roles, once, and the addresses that use them. Run it in this folder.
set -eu
umask 077
mkdir secrets
for role in superuser setwise_owner setwise_app; do
    head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > "secrets/$role"
done
address() { printf 'SETWISE_LEDGER=postgresql://%s:%s@database/setwise\n' "$1" "$(cat "secrets/$1")"; }
address setwise_owner > secrets/owner.env
address setwise_app > secrets/replica.env
# The database's container sees the three files themselves and reads them as a user of its own; on this machine the
# folder, which is closed to others, guards them.
chmod 444 secrets/superuser secrets/setwise_owner secrets/setwise_app
