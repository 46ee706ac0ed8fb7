"""The containers of docs/deployment/containers, built and run by podman as the compose file describes them.

Some parts have substitutes. Images made of Debian's packages (`.ci/containers`) replace a registry's images, and this
machine's PostgreSQL and Redis replace the containers of the two engines. `Composition` replaces compose; it fails on
keys that it does not implement. Podman runs in a mount namespace with control groups of version 2, because this machine
may have version 1.
"""

import os
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.site.inspector import ROOT
from tests.support.site.programs import Program
from tests.support.site.stack import Server
from tests.support.waiting import eventually

FILES: Final = ROOT / "docs" / "deployment" / "containers"
KEPT: Final = ROOT / ".containers"
"""The base of the images, and podman's storage, which keeps built images for the next run."""
BASE: Final = KEPT / "python.tar"
PYTHON: Final = "localhost/mcp-python"
IMAGES: Final = {"mysite": "localhost/mcp-mysite", "nginx:1.28": "localhost/mcp-nginx"}
NGINX: Final = f"""
FROM {PYTHON}
RUN apt-get update && apt-get install --yes --no-install-recommends curl nginx-light
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
"""
SITE: Final = ("manage.py", "mcpsite", "mcp_app", "tests", ":!tests/clients")
NETWORK: Final = "mysite"
BUILDING: Final = 1800.0
PATIENCE: Final = 300.0
CONFIGURATION: Final = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
network_backend = "netavark"
network_config_dir = "{networks}"
"""
MACHINE: Final = """
mount --make-rprivate / && mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo ready && exec sleep infinity
"""
UNDERSTOOD: Final = {
    *("image", "build", "env_file", "environment", "command", "read_only", "tmpfs", "cap_drop", "security_opt"),
    *("networks", "volumes", "stop_grace_period", "healthcheck", "deploy"),
    # Tests start the services that they need, in the order that they need.
    *("restart", "depends_on"),
    # Tests connect to the containers' addresses.
    "ports",
}


class ContainersMissingError(Exception):
    """No container can be run here, for the reason in the message."""


class Podman:
    """Podman in its mount namespace, with its configuration and storage."""

    def __init__(self, folder: Path, machine: Program) -> None:
        configuration = folder / "containers.conf"
        configuration.write_text(CONFIGURATION.format(networks=folder / "networks"))
        self.environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}
        where = ("--root", str(KEPT / "storage"), "--runroot", str(KEPT / "run"), "--storage-driver", "overlay")
        self._command = ("nsenter", f"--target={machine.pid}", "--mount", "podman", *where)

    def command(self, *words: str) -> list[str]:
        return [*self._command, *words]

    def __call__(self, *words: str, within: float = PATIENCE) -> str:
        """Run a podman command and return its output. Raises `AssertionError` if it fails."""
        done = subprocess.run(
            self.command(*words), env=self.environment, capture_output=True, text=True, timeout=within, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def status(self, *words: str) -> int:
        """Run a podman command and return its exit status. For `exec` this is the status of the command inside."""
        return subprocess.run(
            self.command(*words), env=self.environment, capture_output=True, timeout=PATIENCE, check=False
        ).returncode


class Container(Server):
    """A container that runs, or has run. As a server it is reached at its address."""

    def __init__(self, podman: Podman, name: str, options: list[str], log: Path, host: str, port: int) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._podman = podman
        self.program = Program(podman.command("run", *options), podman.environment, log)

    def inside(self, *words: str) -> str:
        """Run a command in the container and return its output."""
        return self._podman("exec", self.name, *words)

    def status_inside(self, *words: str) -> int:
        return self._podman.status("exec", self.name, *words)

    def processes(self) -> dict[int, str]:
        """Return the container's processes by their ids on this machine, and their states (proc_pid_stat(5))."""
        first = self._podman("inspect", "--format", "{{.State.Pid}}", self.name).strip()
        namespace = os.readlink(f"/proc/{first}/ns/pid")
        return {pid: state for pid, state in _states() if _namespace(pid) == namespace}

    def end(self) -> int:
        """Stop the container as `docker stop` does. Return its exit status: 137 if its grace period was too short."""
        self._podman("stop", self.name)
        return self.program.wait(PATIENCE)

    def stop(self) -> None:
        assert self.end() in (0, 143), self.program.output()

    def kill(self) -> None:
        """Kill the container, as if it ran out of memory or its machine lost power."""
        self._podman("kill", "--signal", "KILL", self.name)
        self.program.wait(PATIENCE)

    def start_again(self) -> None:
        """Start the same container again, with the same name and host name; its process ids begin at 1 again."""
        command = self._podman.command("start", "--attach", self.name)
        self.program = Program(command, self._podman.environment, self.program.log)


class Composition:
    """The services of the compose file, for a test's site. Its folder `data` is mounted in every container."""

    def __init__(self, podman: Podman, data: Path, variables: Mapping[str, str]) -> None:
        self.said: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text())
        self.containers: list[Container] = []
        self._podman = podman
        self._data = data
        self._variables = data / "site.env"
        self._variables.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        [network] = self.said["networks"]["site"]["ipam"]["config"]
        podman("network", "create", "--subnet", network["subnet"], NETWORK)

    def health(self, name: str) -> list[str]:
        """Return the command of the service's health check."""
        kind, *command = self.said["services"][name]["healthcheck"]["test"]
        assert kind == "CMD"
        return command

    def run(self, name: str, *more: str, port: int = 8000) -> Container:
        """Run a container of a service. `more` are podman options that come before the image."""
        service = self.said["services"][name]
        assert service.keys() <= UNDERSTOOD, service.keys() - UNDERSTOOD
        number = len(self.containers)
        address = _address(service)
        options = [f"--name=mysite-{name}-{number}", *_options(service, self._variables, address)]
        for volume in service.get("volumes", ()):
            source, _, inside = volume.partition(":")
            options.append(f"--volume={FILES / source}:{inside}")
        options.append(f"--volume={self._data}:{self._data}")
        command = [] if any(option.startswith("--entrypoint") for option in more) else service.get("command", [])
        words = [*options, *more, IMAGES[service["image"]], *command]
        log = self._data / f"{name}-{number}.log"
        container = Container(self._podman, f"mysite-{name}-{number}", words, log, address, port)
        self.containers.append(container)
        return container


def _options(service: Mapping[str, Any], variables: Path, address: str) -> list[str]:
    options = [f"--network={NETWORK}", f"--stop-timeout={service.get('stop_grace_period', '10s').removesuffix('s')}"]
    if address:
        options.append(f"--ip={address}")
    if service.get("read_only"):
        options.append("--read-only")
    options += [f"--tmpfs={path}" for path in service.get("tmpfs", ())]
    options += [f"--cap-drop={name}" for name in service.get("cap_drop", ())]
    options += [f"--security-opt={option.removesuffix(':true')}" for option in service.get("security_opt", ())]
    if service.get("env_file"):
        options.append(f"--env-file={variables}")
    return options + [f"--env={name}={value}" for name, value in service.get("environment", {}).items()]


def _address(service: Mapping[str, Any]) -> str:
    networks = service["networks"]
    return str(networks["site"]["ipv4_address"]) if isinstance(networks, dict) else ""


@contextmanager
def podman(folder: Path) -> Iterator[Podman]:
    """Build the images, and yield podman. Raises `ContainersMissingError`."""
    if not BASE.exists() or shutil.which("podman") is None:
        raise ContainersMissingError("podman or the base of the images is not here: .ci/containers")
    if os.geteuid():
        raise ContainersMissingError("making namespaces takes root")
    machine = Program(["unshare", "--mount", "sh", "-c", MACHINE], os.environ, folder / "machine.log", Path("/"))
    try:
        eventually(lambda: machine.ended or "ready" in machine.output(), "there is a machine for podman")
        if machine.ended:
            raise ContainersMissingError(machine.output())
        found = Podman(folder, machine)
        _build(found, folder / "context")
        yield found
    finally:
        machine.kill()


def _build(run: Podman, context: Path) -> None:
    if run.status("image", "exists", PYTHON):
        run("import", str(BASE), PYTHON, within=BUILDING)
    context.mkdir()
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SITE]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, context / name)
    (context / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements()))
    shutil.copy2(FILES / ".dockerignore", context)
    (context / "site.env").write_text("SECRET=not to be in the image\n")
    text = (FILES / "Containerfile").read_text()
    _build_image(run, context, text.replace("mysite.asgi", "mcpsite.asgi"), IMAGES["mysite"])
    empty = context / "nginx"
    empty.mkdir()
    _build_image(run, empty, NGINX, IMAGES["nginx:1.28"])


def _build_image(run: Podman, context: Path, text: str, tag: str) -> None:
    file = context / "Containerfile"
    file.write_text(text)
    # Not isolated in a container, because a builder sets limits that this machine may not permit.
    options = ("--isolation=chroot", "--network=host", "--pull=never", f"--build-arg=PYTHON={PYTHON}")
    run("build", *options, f"--file={file}", f"--tag={tag}", str(context), within=BUILDING)


def requirements() -> list[str]:
    """Return the requirements of the site's image: this app's and its real engines', in the versions that CI has."""
    pinned = {}
    for file in ("requirements.txt", ".ci/requirements.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if "==" in line:
                requirement = Requirement(line.partition("#")[0])
                pinned[canonicalize_name(requirement.name)] = requirement.specifier
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    engines = [line for extra in ("postgres", "redis", "uvicorn") for line in project["optional-dependencies"][extra]]
    found = []
    for line in (*project["dependencies"], *engines, "pytest"):  # a tool of the fixture site imports it
        requirement = Requirement(line)
        requirement.specifier = pinned[canonicalize_name(requirement.name)]
        found.append(str(requirement))
    return found


@contextmanager
def reachable(url: str, gateway: str, log: Path) -> Iterator[str]:
    """Relay an engine's port to the containers' gateway, and yield its URL there.

    The engine itself listens on an address that containers cannot reach.
    """
    parts = urlsplit(url)
    listen = f"TCP-LISTEN:{parts.port or 5432},bind={gateway},freebind,fork,reuseaddr"
    relay = Program(["socat", listen, f"TCP:{parts.hostname}:{parts.port or 5432}"], os.environ, log)
    try:
        yield parts._replace(netloc=parts.netloc.replace(str(parts.hostname), gateway)).geturl()
    finally:
        relay.kill()


@contextmanager
def composition(podman: Podman, data: Path, environment: Mapping[str, str]) -> Iterator[Composition]:
    """Create the compose file's network, and yield its services. Afterwards, remove all containers and the network."""
    said = yaml.safe_load((FILES / "compose.yaml").read_text())
    gateway = said["networks"]["site"]["ipam"]["config"][0]["subnet"].replace(".0/24", ".1")
    with ExitStack() as exits:
        relayed: dict[str, str] = {}
        for url in (environment["MCPSITE_DATABASE"], environment["MCPSITE_BROKER"]):
            log = data / f"relay-{len(relayed)}.log"
            relayed[url] = exits.enter_context(reachable(url, gateway, log))
        exits.callback(podman.status, "network", "rm", "--force", NETWORK)
        composed = Composition(podman, data, {name: relayed.get(value, value) for name, value in environment.items()})
        exits.callback(_remove, podman, composed)
        yield composed


def _remove(podman: Podman, composed: Composition) -> None:
    for container in composed.containers:
        podman.status("rm", "--force", "--time=0", container.name)
        container.program.wait(PATIENCE)


def _states() -> Iterator[tuple[int, str]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                yield int(entry), Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
