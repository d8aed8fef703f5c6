#!/bin/sh
# Check the files of this folder with the programs that will read them, as far as this machine has them.
set -eu
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r . "$scratch/deploy"
cd "$scratch/deploy"
rm -rf secrets
sh make-secrets.sh

if docker compose version >/dev/null 2>&1; then compose="docker compose"
elif command -v docker-compose >/dev/null; then compose=docker-compose
else compose=""; fi
if [ -n "$compose" ]; then
    $compose -f compose.yaml config -q
    echo "compose.yaml: accepted by $compose"
else
    echo "compose.yaml: not checked, there is no docker compose"
fi

if command -v caddy >/dev/null; then
    XDG_DATA_HOME=$scratch XDG_CONFIG_HOME=$scratch caddy validate --config Caddyfile --adapter caddyfile >/dev/null 2>&1
    echo "Caddyfile: accepted by caddy"
else
    echo "Caddyfile: not checked, there is no caddy"
fi

if command -v systemd-analyze >/dev/null; then
    # The program is not installed here: a shell stands for it.
    sed 's#^ExecStart=/opt/setwise/venv/bin/setwise#ExecStart=/bin/sh#' setwise.service > "$scratch/setwise.service"
    systemd-analyze verify --man=no "$scratch/setwise.service"
    systemd-analyze security --offline=yes --threshold=25 --no-pager "$scratch/setwise.service" >/dev/null
    echo "setwise.service: accepted by systemd-analyze, exposure below 2.5 of 10"
else
    echo "setwise.service: not checked, there is no systemd-analyze"
fi
