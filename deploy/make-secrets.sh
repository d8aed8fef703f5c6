#!/bin/sh
# Make the passwords of the database's roles, once, the addresses that use them, and the key that signs heads of the
# ledger. Run it in this folder.
set -eu
umask 077
mkdir secrets
for role in superuser setwise_owner setwise_app; do
    head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > "secrets/$role"
done
# The key that heads of the ledger are signed with. Keep a copy of it away from this machine and from the database.
head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > secrets/head_key
address() { printf 'SETWISE_LEDGER=postgresql://%s:%s@database/setwise\n' "$1" "$(cat "secrets/$1")"; }
address setwise_owner > secrets/owner.env
address setwise_app > secrets/replica.env
# Containers see these files themselves and read them as a user of their own; on this machine the
# folder, which is closed to others, guards them.
chmod 444 secrets/superuser secrets/setwise_owner secrets/setwise_app secrets/head_key
