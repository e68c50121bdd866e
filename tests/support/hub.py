"""A JupyterHub as docs/jupyterhub.md sets it up, with accounts of its own, and people who use it."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import websocket

from autograde.course.bundle import build_wheel
from tests.support import programs

__all__ = ["ROOT", "Account", "Hub", "Visit", "running_hub"]

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "jupyterhub"
CHECKOUT = ("src", "autograde", "notebooks", "solutions")
SECONDS = 300


@dataclass(frozen=True)
class Account:
    """A system account that the test made."""

    name: str
    home: Path
    password: str = field(default_factory=secrets.token_hex, repr=False)

    def run(self, *command: str | Path, cwd: Path | None = None, path: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command as this user, in their home."""
        env = {"HOME": str(self.home), "PATH": f"{path}:/usr/sbin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=cwd or self.home, env=env, user=self.name, group=self.name, extra_groups=[],
                              capture_output=True, text=True, check=False, timeout=SECONDS)  # fmt: skip


@dataclass(frozen=True)
class Hub:
    """A running hub."""

    folder: Path
    port: int
    group: str
    instructor: Account
    learners: tuple[Account, ...]

    @property
    def exchange(self) -> Path:
        return self.folder / "exchange"

    @property
    def env(self) -> Path:
        return self.folder / "env"

    @property
    def checkout(self) -> Path:
        return self.instructor.home / "torchcourse"

    @property
    def room(self) -> Path:
        return self.instructor.home / "spring"

    def instruct(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command of the instructor's environment as the instructor, and return its output."""
        there = self.checkout / ".venv" / "bin"
        done = self.instructor.run(there / command[0], *command[1:], cwd=cwd, path=str(there))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextlib.contextmanager
def accounts(group: str, home: Path, names: Sequence[str]) -> Iterator[list[Account]]:
    """Make system accounts whose home nobody else may enter, and remove them with what they still run."""
    made = [Account(f"{group}-{name}", home / f"{group}-{name}") for name in names]
    home.mkdir()
    subprocess.run(["groupadd", group], check=True)
    try:
        for one in made:
            words = ["--create-home", "--base-dir", home, "--shell", "/bin/sh", "-K", "HOME_MODE=0700"]
            subprocess.run(["useradd", *words, one.name], check=True)
        lines = "".join(f"{one.name}:{one.password}\n" for one in made)
        subprocess.run(["chpasswd"], input=lines, text=True, check=True)
        yield made
    finally:
        for one in made:
            with contextlib.suppress(KeyError):
                _end_processes_of(pwd.getpwnam(one.name).pw_uid)
                subprocess.run(["userdel", one.name], check=True)
        subprocess.run(["groupdel", group], check=True)


def _end_processes_of(uid: int) -> None:
    left = [process for process in psutil.process_iter(["uids"]) if process.info["uids"].real == uid]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, 10)


@contextlib.contextmanager
def running_hub(port: int, *learners: str) -> Iterator[Hub]:
    """Set up a hub, its instructor, a class and an exchange, as the documentation has it, and start it."""
    group = f"tc-hub-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix=f"{group}-"))
    folder.chmod(0o755)
    try:
        with accounts(group, folder / "home", ("prof", *learners)) as (prof, *others):
            hub = Hub(folder, port, group, prof, tuple(others))
            for one in others:
                subprocess.run(["usermod", "-aG", group, one.name], check=True)
            make_exchange(hub)
            make_environments(hub)
            words = ["--lessons", "01_tensors", "--roster", roster(hub), "--exchange", hub.exchange]
            hub.instruct("torchcourse", "class", "init", "spring", *words)
            with served(hub):
                yield hub
    finally:
        shutil.rmtree(folder)


def roster(hub: Hub) -> Path:
    path = hub.instructor.home / "roster.csv"
    lines = [f"{one.name},{one.name.rpartition('-')[2].title()},Example,\n" for one in hub.learners]
    path.write_text("id,first_name,last_name,email\n" + "".join(lines))
    path.chmod(0o644)
    return path


def make_exchange(hub: Hub) -> None:
    """Everybody may make entries in the exchange, and the course's own folder is the instructor's from the start."""
    hub.exchange.mkdir()
    hub.exchange.chmod(0o1777)
    (hub.exchange / "torchcourse").mkdir(mode=0o755)
    shutil.chown(hub.exchange / "torchcourse", hub.instructor.name, hub.instructor.name)


def make_environments(hub: Hub) -> None:
    """Make the learners' environment, with the wheel, and the instructor's, in a checkout that is theirs alone."""
    shared = [path for path in sys.path if Path(path).name == "site-packages"]
    packages = _make_environment(hub.env, shared)
    name, wheel = build_wheel(["01_tensors"], "torchcourse\n")
    (hub.folder / name).write_bytes(wheel)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, "--root-user-action=ignore", "--target", packages, hub.folder / name], check=True)
    shutil.copytree(DEPLOY / "learners", hub.env / "etc" / "jupyter", dirs_exist_ok=True)
    settings = hub.env / "etc" / "jupyter" / "nbgrader_config.py"
    settings.write_text(_replaced(settings.read_text(), '"/srv/exchange"', repr(str(hub.exchange))))

    for part in CHECKOUT:
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(ROOT / part, hub.checkout / part, ignore=ignored)
    for part in ("pyproject.toml", "constraints.txt", "setup.py", "LICENSE"):
        shutil.copy(ROOT / part, hub.checkout)
    _make_environment(hub.checkout / ".venv", [*shared, str(hub.checkout / "src")])
    subprocess.run(["chown", "-R", f"{hub.instructor.name}:", hub.checkout], check=True)


def _make_environment(place: Path, shared: list[str]) -> Path:
    """Make a virtual environment that has the packages of this one, and return its own folder of packages."""
    subprocess.run([programs.public_python(), "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python3.*/site-packages")
    (packages / "shared.pth").write_text("\n".join(reversed(shared)))  # a checkout's src goes before an installed wheel
    shutil.copytree(Path(sys.prefix, "etc", "jupyter"), place / "etc" / "jupyter")
    (place / "share").mkdir(exist_ok=True)
    (place / "share" / "jupyter").symlink_to(Path(sys.prefix, "share", "jupyter"))
    for name, module in (("torchcourse", "torchcourse.cli"), ("jupyterhub-singleuser", "jupyterhub.singleuser")):
        script = place / "bin" / name
        script.write_text(f"#!{place / 'bin' / 'python'}\nfrom {module} import main\nmain()\n")
        script.chmod(0o755)
    return packages


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


@contextlib.contextmanager
def served(hub: Hub) -> Iterator[None]:
    """Run JupyterHub with our configuration, whose names are replaced by those of here."""
    text = (DEPLOY / "jupyterhub_config.py").read_text()
    names = {"LEARNERS": str(hub.env), "CHECKOUT": str(hub.checkout), "CLASS": str(hub.room),
             "INSTRUCTORS": {hub.instructor.name}, "GROUP": hub.group, "PROXY": str(programs.PROXY)}  # fmt: skip
    for name, value in names.items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
        assert count == 1, name
    private = hub.folder / "hub"
    private.mkdir(mode=0o700)
    (private / "jupyterhub_config.py").write_text(_replaced(text, "127.0.0.1:8000", f"127.0.0.1:{hub.port}"))
    options = [f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{hub.port + 1}",
               f"--JupyterHub.hub_bind_url=http://127.0.0.1:{hub.port + 2}"]  # fmt: skip
    env = {name: value for name, value in os.environ.items() if name == "PATH" or "proxy" in name.lower()}
    with (private / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "jupyterhub", *options], cwd=private, env=env, stdout=log,
                                   stderr=log, stdin=subprocess.DEVNULL)  # fmt: skip
        try:
            _wait(private / "log", process)
            yield
        except Exception:
            lines = (private / "log").read_text().splitlines()
            print(*[line for line in lines if "GET" not in line][-60:], sep="\n")
            raise
        finally:
            process.terminate()
            process.wait(60)


def _wait(log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while "JupyterHub is now running" not in log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


class Visit:
    """Somebody who has logged in to the hub with their password, and whose server runs."""

    def __init__(self, hub: Hub, account: Account) -> None:
        self.name, self.base = account.name, f"http://127.0.0.1:{hub.port}"
        self.cookies = http.cookiejar.CookieJar()
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self.cookies)
        self._opener = urllib.request.build_opener(*handlers)
        self._ask("/hub/login")
        form = {"username": account.name, "password": account.password, "_xsrf": self._token("/hub/")}
        self._ask("/hub/login", urllib.parse.urlencode(form).encode())
        self._ask(f"/hub/spawn/{self.name}")
        while not self._ready():
            time.sleep(1)
        self._ask(f"/user/{self.name}/lab")

    def _ready(self) -> bool:
        servers = json.loads(self._ask(f"/hub/api/users/{self.name}"))["servers"]
        assert "" in servers, f"the server of {self.name} did not start"  # the hub gave up
        return bool(servers[""]["ready"])

    def _token(self, path: str) -> str:
        """Return what proves that a request comes from our own pages: a cookie, sent again as a header."""
        found = [cookie for cookie in self.cookies if cookie.name == "_xsrf" and path.startswith(cookie.path)]
        return str(max(found, key=lambda cookie: len(cookie.path)).value)

    def _ask(self, path: str, data: bytes | None = None, method: str | None = None) -> str:
        form = data is not None and not data.startswith(b"{")
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        request = urllib.request.Request(
            self.base + urllib.parse.quote(path), data, {"Content-Type": kind}, method=method
        )
        if data is not None and path != "/hub/login":
            request.add_header("X-XSRFToken", self._token(path))
        with self._opener.open(request, timeout=SECONDS) as answer:
            return str(answer.read().decode())

    def get(self, path: str, of: str = "") -> Any:
        """Return what a server answers, from JSON if it is; of one's own server, if nobody else is named."""
        text = self._ask(f"/user/{of or self.name}/{path}")
        return json.loads(text) if text[:1] in "[{" else text

    def refused(self, path: str, of: str = "") -> int:
        """Return the status with which a page is refused; 0 if it is not."""
        try:
            self.get(path, of)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        return 0

    def put(self, path: str, body: dict[str, Any], method: str = "PUT") -> Any:
        return json.loads(self._ask(f"/user/{self.name}/{path}", json.dumps(body).encode(), method))

    def press(self, path: str, **form: str) -> Any:
        """Press a button of nbgrader's: return what its address answers; it has to say that this worked."""
        answer = json.loads(self._ask(f"/user/{self.name}/{path}", urllib.parse.urlencode(form).encode(), "POST"))
        assert answer["success"], answer
        return answer

    def run(self, notebook: str, *sources: str) -> list[str]:
        """Run cells in a kernel of the notebook, on the hub, and return what the last one displays as HTML."""
        body = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
        kernel = self.put("api/sessions", body, "POST")["kernel"]["id"]
        path = f"/user/{self.name}/api/kernels/{kernel}/channels"
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.cookies if path.startswith(c.path))
        address = self.base.replace("http", "ws", 1) + path
        shown: list[str] = []
        with contextlib.closing(
            websocket.create_connection(address, SECONDS, cookie=cookies, origin=self.base)
        ) as wire:
            for source in sources:
                shown = _execute(wire, source)
        return shown


def _execute(wire: websocket.WebSocket, source: str) -> list[str]:
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "", "session": "test",
              "date": "", "version": "5.3"}  # fmt: skip
    content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    wire.send(json.dumps(message))
    shown = []
    while True:
        reply = json.loads(wire.recv())
        if reply["parent_header"].get("msg_id") != header["msg_id"]:
            continue
        if reply["msg_type"] == "display_data":
            shown.append("".join(reply["content"]["data"].get("text/html", "")))
        if reply["msg_type"] == "error":
            raise RuntimeError(reply["content"]["evalue"])
        if reply["msg_type"] == "status" and reply["content"]["execution_state"] == "idle":
            return shown
