"""The leaderboard as a process of its own, as `kbbench serve` runs it, and its write handler called over plain HTTP."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers.serving import await_answer, free_port

ROOT = Path(__file__).resolve().parents[2]


class Site:
    """A running leaderboard: its address and its process."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], port: int, temporary: Path
    ) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.on_stop: list[Callable[[], None]] = []
        self.log = temporary / f"serve-{port}-{uuid4().hex[:6]}.log"
        given = {"GRADIO_ANALYTICS_ENABLED": "False", "OMP_NUM_THREADS": "1", "GRADIO_TEMP_DIR": f"{temporary}/uploads"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **given, **environment}, cwd=folder, stdout=log, stderr=log
            )
        await_answer(f"{self.url}/config", self.process, self.log)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        for close in self.on_stop:
            close()

    def stop(self) -> None:
        """End it."""
        for close in self.on_stop:
            close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def memory_kb(self) -> int:
        """The memory it has in use now."""
        return self._status("VmRSS")

    def peak_kb(self) -> int:
        """The most memory it ever had in use."""
        return self._status("VmHWM")

    def _status(self, key: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(key)).split()[1])


class Server(Site):
    """A leaderboard as `kbbench serve` runs it."""

    def __init__(self, store: Path, environment: dict[str, str] | None = None, port: int | None = None) -> None:
        port = port or free_port()
        arguments = ["serve", "--store", str(store), "--port", str(port)]
        store.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-W", "ignore", "-m", "kbbench_hf.cli", *arguments]
        environment = {"PYTHONPATH": str(ROOT), **(environment or {})}
        super().__init__(command, store.parent, environment, port, store.parent)


class Space(Site):
    """A leaderboard as the Hub runs a Space: the files of its repository, an interpreter, an environment."""

    def __init__(self, python: str, folder: Path, environment: Mapping[str, str], temporary: Path) -> None:
        port = free_port()
        command = [python, "-W", "ignore", "app.py"]
        super().__init__(command, folder, {"GRADIO_SERVER_PORT": str(port), **environment}, port, temporary)


@contextmanager
def board_server(store: Path, environment: dict[str, str] | None = None) -> Iterator[Server]:
    """Serve a store until the block ends."""
    server = Server(store, environment)
    try:
        yield server
    finally:
        server.stop()


class Visitor:
    """What a browser does, without one: upload a file, call a handler, keep cookies."""

    def __init__(self, server: Site) -> None:
        import httpx

        self.session = uuid4().hex
        server.on_stop.append(lambda: self.client.close())
        self.client = httpx.Client(base_url=server.url, timeout=120, follow_redirects=True)
        config = self.client.get("/config").json()
        self.handlers = {each["api_name"]: each["id"] for each in config["dependencies"] if each["api_name"]}

    def log_in(self) -> None:
        """Log in as whom the machine's token belongs to, as Gradio does where there is no OAuth."""
        answers = [*(first := self.client.get("/login/huggingface")).history, first]
        cookies = [value.split(";")[0] for each in answers for value in each.headers.get_list("set-cookie")]
        self.client.headers["Cookie"] = cookies[-1]  # it is for https only; browsers make an exception for 127.0.0.1

    def log_in_as(self, user: str) -> None:
        """Log in as a user of the provider, as on a Space."""
        import httpx

        left = self.client.get("/login/huggingface", follow_redirects=False)
        self.client.headers["Cookie"] = left.headers["set-cookie"].split(";")[0]
        sent_back = httpx.get(f"{left.headers['location']}&user={user}")
        back = self.client.get(sent_back.headers["location"], follow_redirects=False)
        assert back.status_code in (302, 307), back.text
        self.client.headers["Cookie"] = back.headers["set-cookie"].split(";")[0]

    def upload(self, name: str, data: bytes) -> dict[str, Any]:
        """Send a file; return what a file component takes."""
        answer = self.client.post("/gradio_api/upload", files={"files": (name, data)})
        answer.raise_for_status()
        return {"path": answer.json()[0], "orig_name": name, "meta": {"_type": "gradio.FileData"}}

    def call(self, handler: str, *values: Any) -> Any:
        """Call a handler through the queue and return its output, or the error event."""
        body = {"data": values, "fn_index": self.handlers[handler], "session_hash": self.session}
        joined = self.client.post("/gradio_api/queue/join", json=body)
        if joined.status_code != 200:
            return {"status": joined.status_code, "error": joined.text}
        event = joined.json()["event_id"]
        with self.client.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as lines:
            for line in lines.iter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed" and message.get("event_id") == event:
                    return message["output"].get("data", message["output"])
        return None

    def submit(self, place: str, file: dict[str, Any] | None, name: str, **others: Any) -> str:
        """Submit as the form does; return what it says."""
        texts = [others.get(key, "") for key in ("link", "licence")]
        files = file and [file, *others.get("annotations", ())]
        answer = self.call("submit", place, files, name, *texts, 0, 0, 0, others.get("notes", ""))
        return str(answer[0] if isinstance(answer, list) else answer)
