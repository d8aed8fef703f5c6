#!/usr/bin/python3
"""Run the compose file of this folder once, as on a fresh machine, and check what a team relies on.

    apt-get install buildah podman netavark aardvark-dns crun docker-compose mmdebstrap
    python3 deploy/rehearse.py [--base BASE.tar]

It needs root on Debian, and pulls no image: stand-ins for python, postgres and caddy are made of Debian's packages (or
of --base, a root file system that an earlier run wrote there). The image is built from deploy/Dockerfile as it is. The
containers run in a network namespace of their own, below one folder that is removed at the end. Changed for the
rehearsal: the proxy signs its own certificate, limits on open files are left to the machine, and health checks are
called by this program, because podman leaves them to systemd.
"""

import argparse
import contextlib
import http.client
import http.cookiejar
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
PACKAGES = "ca-certificates,python3,python3-venv,python-is-python3,postgresql,caddy"
SITE = "https://setwise.example"
PATIENCE = 240.0
PLANTED = "planted-9c1f"

POSTGRES = r"""#!/bin/sh
# As the image postgres does: read the password as root, then make the database once as the user postgres.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
cluster=/var/lib/postgresql/cluster
if [ "$(id -u)" = 0 ]; then
    POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    export POSTGRES_PASSWORD
    mkdir -p "$cluster" /run/postgresql
    chown postgres:postgres /var/lib/postgresql "$cluster" /run/postgresql
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0"
fi
if [ ! -s "$cluster/PG_VERSION" ]; then
    printf '%s\n' "$POSTGRES_PASSWORD" > /tmp/password
    initdb -D "$cluster" -U "$POSTGRES_USER" --pwfile=/tmp/password -E UTF8 --auth-host=scram-sha-256
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$cluster/pg_hba.conf"
    pg_ctl -D "$cluster" -o "-c listen_addresses=''" -w start
    createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
            *.sql) psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -f "$file" ;;
        esac
    done
    pg_ctl -D "$cluster" -m fast -w stop
fi
exec postgres -D "$cluster" -c 'listen_addresses=*'
"""

RUNTIME = """#!/usr/bin/python3
# crun without limits on open files and processes: to raise them takes a capability that a virtual machine may lack.
import json, os, sys
for flag, path in zip(sys.argv, sys.argv[1:]):
    if flag in ("--bundle", "--process", "-b", "-p"):
        path += "/config.json" if flag in ("--bundle", "-b") else ""
        with open(path) as file:
            config = json.load(file)
        config.get("process", config).pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(config, file)
os.execvp("crun", ["crun", *sys.argv[1:]])
"""


def main() -> None:
    """Make the images with the network of this machine, then run them in a namespace without one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", type=Path, help="the stand-ins' root file system: read if it is there, else kept")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        _rehearse(given.inside)
        return
    missing = [name for name in ("buildah", "podman", "crun", "docker-compose", "mmdebstrap") if not shutil.which(name)]
    if missing or os.geteuid():
        sys.exit(f"not run: {'it takes root' if os.geteuid() else 'missing ' + ', '.join(missing)}")
    scratch = Path(tempfile.mkdtemp(prefix="setwise-rehearsal-"))
    try:
        _configure(scratch)
        _make_images(scratch, given.base or scratch / "base.tar")
        again = ["unshare", "--net", "--mount", sys.executable, __file__, "--inside", str(scratch)]
        sys.exit(subprocess.run(again, check=False).returncode)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _configure(scratch: Path) -> None:
    """Keep images, networks and state of containers below the scratch folder, for buildah and podman alike."""
    storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{scratch}/storage"\nrunroot = "{scratch}/run"\n'
    (scratch / "storage.conf").write_text(storage)
    engine = f'cgroup_manager = "cgroupfs"\nevents_logger = "file"\ntmp_dir = "{scratch}/tmp"\nruntime = "rehearsal"\n'
    network = f'network_backend = "netavark"\nnetwork_config_dir = "{scratch}/networks"\n'
    runtimes = f'[engine.runtimes]\nrehearsal = ["{scratch}/runtime"]\n'
    (scratch / "containers.conf").write_text(f"[network]\n{network}[engine]\n{engine}{runtimes}")
    (scratch / "runtime").write_text(RUNTIME)
    (scratch / "runtime").chmod(0o755)
    os.environ["CONTAINERS_STORAGE_CONF"] = str(scratch / "storage.conf")
    os.environ["CONTAINERS_CONF"] = str(scratch / "containers.conf")
    os.environ["BUILDAH_ISOLATION"] = "chroot"


def _make_images(scratch: Path, base: Path) -> None:
    """Make the stand-ins, and build the image from a copy of the sources with private files beside them."""
    if not base.exists():
        sources = [
            str(path) for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.sources"))
        ]
        found = [path for path in sources if Path(path).exists()]
        suite = _run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME")
        _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", suite.strip(), str(base), *found)
    (scratch / "entrypoint").write_text(POSTGRES)
    (scratch / "entrypoint").chmod(0o755)
    made = _run("buildah", "from", "scratch").strip()
    _run("buildah", "add", made, str(base), "/")
    _run("buildah", "commit", made, "docker.io/library/python:3.11-slim")
    serve = "caddy run --config /etc/caddy/Caddyfile --adapter caddyfile"
    _run("buildah", "config", "--cmd", serve, "--env", "XDG_DATA_HOME=/data", "--env", "XDG_CONFIG_HOME=/tmp", made)
    _run("buildah", "commit", made, "docker.io/library/caddy:2")
    _run("buildah", "add", made, str(scratch / "entrypoint"), "/entrypoint")
    _run("buildah", "config", "--cmd", "[]", "--entrypoint", '["/entrypoint"]', made)
    _run("buildah", "commit", made, "docker.io/library/postgres:18")
    _run("buildah", "rm", made)

    context = scratch / "source"
    kept_out = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "site", "secrets")
    shutil.copytree(SOURCE, context, ignore=kept_out)
    _run("sh", "make-secrets.sh", cwd=context / "deploy")
    for private in (
        "setwise.db",
        "deploy/data/events.csv",
        "deploy/secrets/token",
        ".git/config",
        "src/setwise.db-wal",
    ):
        (context / private).parent.mkdir(parents=True, exist_ok=True)
        (context / private).write_text(PLANTED)
    # What pip needs to reach an index from here, and nothing of it in the image.
    mounts = [f"--volume={path}:{path}:ro" for path in ("/etc/pip.conf", "/etc/ssl/certs") if Path(path).exists()]
    build = ("buildah", "bud", "--pull-never", "--network=host", *mounts)
    (scratch / "Probe").write_text("FROM python:3.11-slim\nCOPY . /context\n")
    _run(*build, "-f", str(scratch / "Probe"), "-t", "probe", ".", cwd=context)
    _run(*build, "-f", "deploy/Dockerfile", "-t", "setwise", ".", cwd=context)
    probe = _run("buildah", "from", "probe").strip()
    entered = Path(_run("buildah", "mount", probe).strip()) / "context"
    leaked = [path for path in entered.rglob("*") if path.is_file() and PLANTED.encode() in path.read_bytes()]
    _check("nothing private enters the build's context", not leaked, leaked)
    _check("the sources do", (entered / "src/setwise/__init__.py").exists(), entered)
    _run("buildah", "rm", probe)
    for part in ("migrate", "first", "second"):
        _run("buildah", "tag", "setwise", f"docker.io/library/deploy_{part}")


def _rehearse(scratch: Path) -> None:
    """Start everything by the compose file, and check it from outside and inside."""
    _run("ip", "link", "set", "lo", "up")
    subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=False, capture_output=True)  # crun takes one hierarchy
    (scratch / "hosts").write_text(f"127.0.0.1 localhost {urllib.parse.urlsplit(SITE).hostname}\n")
    _run("mount", "--bind", str(scratch / "hosts"), "/etc/hosts")
    deploy = scratch / "source/deploy"
    proxy = deploy / "Caddyfile"
    proxy.write_text(proxy.read_text().replace("setwise.example {", "setwise.example {\n\ttls internal", 1))
    rows = "".join(f"{user},{word}\n" for user in range(3000) for word in ("the", "to")[: 1 + user % 2])
    (deploy / "data/events.csv").write_text(f"user_id,word\n{rows}")
    with _engine(scratch), _health_checks():
        try:
            _compose(deploy, "up", "-d", "--no-build")
            _check_containers(deploy)
            _check_service(scratch, deploy)
        except BaseException:
            checks = "{{.Name}} {{.State.Status}} {{json .State.Health}}"
            print(_run("podman", "inspect", "--format", checks, *_run("podman", "ps", "-aq").split()), file=sys.stderr)
            print(_compose(deploy, "logs", "--tail", "30"), file=sys.stderr)
            raise
        finally:
            _compose(deploy, "down", "--volumes", "--timeout", "5")
    print("everything held")


@contextlib.contextmanager
def _engine(scratch: Path) -> Iterator[None]:
    """Serve podman's interface of Docker, which docker-compose speaks."""
    address = f"unix://{scratch}/podman.sock"
    with (scratch / "podman.log").open("w") as log:
        engine = subprocess.Popen(["podman", "system", "service", "--time=0", address], stdout=log, stderr=log)
    os.environ["DOCKER_HOST"] = address
    try:
        _wait((scratch / "podman.sock").exists, "podman serves")
        yield
    finally:
        engine.terminate()
        engine.wait()


@contextlib.contextmanager
def _health_checks() -> Iterator[None]:
    """Call the health check of every container every five seconds, as a timer of systemd would."""
    ended = threading.Event()

    def call() -> None:
        while not ended.wait(5.0):
            for container in _run("podman", "ps", "--quiet").split():
                subprocess.run(["podman", "healthcheck", "run", container], check=False, capture_output=True)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        yield
    finally:
        ended.set()
        caller.join()


def _check_containers(deploy: Path) -> None:
    limits = {"database": 2**30, "first": 2**32, "second": 2**32, "proxy": 2**28}
    for part, limit in limits.items():
        found = json.loads(_run("podman", "inspect", f"deploy_{part}_1"))[0]
        _check(f"{part} has its memory limit", found["HostConfig"]["Memory"] == limit, found["HostConfig"]["Memory"])
        _check(f"{part} runs", found["State"]["Status"] == "running", found["State"])
    migrate = json.loads(_run("podman", "inspect", "deploy_migrate_1"))[0]["State"]
    _check("the migration has ended well", (migrate["Status"], migrate["ExitCode"]) == ("exited", 0), migrate)
    for part in ("first", "second"):
        status = _inside(part, "cat", "/proc/1/status")
        _check(f"{part} is not root", "\nUid:\t0" not in status, status)
        _check(f"{part} has no capabilities", "CapEff:\t0000000000000000" in status, status)
        written = _inside(part, "sh", "-c", "for file in /opt/x /data/x; do touch $file && echo $file; done; true")
        _check(f"{part} can write nothing but /tmp", not written, written)
        environment = _inside(part, "env")
        passwords = {path.name: path.read_text() for path in (deploy / "secrets").iterdir() if not path.suffix}
        seen = {name for name, password in passwords.items() if password in environment}
        _check(f"{part} has the application's password alone", seen == {"setwise_app"}, seen)
        listed = _inside(part, "sh", "-c", "ls /run/secrets 2>/dev/null; true")
        _check(f"{part} sees the signing key and no secrets of the database", listed.split() == ["head_key"], listed)
    address = f"postgresql://setwise_app:{passwords['setwise_app']}@127.0.0.1/setwise"
    for statement in ("ALTER TABLE ledger_entries DISABLE TRIGGER ALL", "DROP TABLE ledger_entries CASCADE"):
        said = _inside("database", "psql", address, "-c", statement)
        _check(f"the application may not {statement}", "must be owner" in said, said)


def _check_service(scratch: Path, deploy: Path) -> None:
    (scratch / "root.crt").write_text(_inside("proxy", "cat", "/data/caddy/pki/authorities/local/root.crt"))
    context = ssl.create_default_context(cafile=str(scratch / "root.crt"))
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), cookies)

    def get(path: str, data: object = None, **headers: str) -> tuple[int, str, Message]:
        body = data if data is None or isinstance(data, bytes) else json.dumps(data).encode()
        kind = {} if body is data else {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{SITE}{path}", data=body, headers=kind | headers)
        try:
            with opener.open(request, timeout=30) as response:
                return response.status, response.read().decode(), response.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def healthy() -> bool:
        with contextlib.suppress(OSError):
            return get("/api/v1/health")[0] == 200
        return False

    _wait(healthy, "the service answers behind the proxy")
    plain = http.client.HTTPConnection(urllib.parse.urlsplit(SITE).hostname or "", 80, timeout=30)
    plain.request("GET", "/login")
    moved = plain.getresponse()
    _check("plain HTTP leads to https", moved.getheader("Location", "").startswith(SITE), moved.headers)
    _, login, headers = get("/login", Accept="text/html")
    _check("cookies travel over TLS alone", "; Secure" in (headers["set-cookie"] or ""), headers)
    _check("browsers are told to use TLS", "max-age" in (headers["strict-transport-security"] or ""), headers)

    logs = _compose(deploy, "logs", "first", "second")
    token = re.search(r"steward token \(shown once\): (\S+)", logs)
    _check("the steward's token is in the log, once", token is not None and logs.count("steward token") == 1, logs)
    assert token is not None
    bearer = {"Authorization": f"Bearer {token[1]}"}
    table = {"name": "events", "table": "events.csv", "user": "user_id", "items": ["word"], "contributions": 2}
    account = {
        "kind": "filter",
        "name": "mine",
        "analyst": "steward",
        "dataset": "events",
        "epsilon": 4.0,
        "delta": 1e-6,
    }
    question = {
        "dataset": "events",
        "account": "mine",
        "query": {"kind": "top-k", "item": "word", "k": 2},
        "spend": {"kind": "total", "epsilon": 1.0, "delta": 1e-8},
    }
    for path, body in (("/datasets", table), ("/accounts", account)):
        status, text, _ = get(f"/api/v1{path}", body, **bearer)
        _check(f"POST {path} is answered with 201", status == 201, text)
    key = {"Idempotency-Key": "first"}
    status, text, _ = get("/api/v1/queries", question, **bearer, **key)
    query = json.loads(text)
    while query["state"] == "running":
        time.sleep(0.5)
        query = json.loads(get(f"/api/v1/queries/{query['id']}", **bearer)[1])
    _check("a question is answered", query["state"] == "done", query)

    csrf = re.search(r'name="csrf" value="([^"]+)"', login)
    assert csrf is not None
    form = urllib.parse.urlencode({"token": token[1], "csrf": csrf[1], "next": f"/answers/{query['id']}"}).encode()
    status, page, _ = get("/login", form, Accept="text/html")
    _check("the answer's page shows https addresses", status == 200 and f"{SITE}/api/v1/queries" in page, page)
    _check("no snippet sends a token in clear", "http://setwise.example" not in page, page)

    _run("podman", "stop", "--time", "10", "deploy_first_1")
    statuses = [get("/api/v1/me", **bearer)[0] for _ in range(20)]
    _check("the other replica serves alone", statuses == [200] * 20, statuses)
    again = json.loads(get("/api/v1/queries", question, **bearer, **key)[1])
    _check("the same key has the same answer there", again["answer"] == query["answer"], again)
    trail = json.loads(get("/api/v1/trail", **bearer)[1])
    _check("a head of the ledger is signed", any(act["action"] == "head" for act in trail), trail)
    audit = json.loads(get("/api/v1/audit", **bearer)[1])
    _check("the ledger is verified", audit["verified"] and not audit["faults"], audit)


def _check(what: str, holds: bool, found: object) -> None:
    if not holds:
        sys.exit(f"FAILED: {what}: {found}")
    print(f"held: {what}", flush=True)


def _wait(until: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not until():
        if time.monotonic() > deadline:
            sys.exit(f"FAILED: {what}: not within {PATIENCE:g} s")
        time.sleep(0.5)


def _inside(part: str, *command: str) -> str:
    """Return what a command prints in a container, whatever its exit status."""
    done = subprocess.run(["podman", "exec", f"deploy_{part}_1", *command], check=False, capture_output=True, text=True)
    return done.stdout + (done.stderr if done.returncode else "")


def _compose(deploy: Path, *words: str) -> str:
    return _run("docker-compose", "--ansi", "never", "-p", "deploy", *words, cwd=deploy)


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
