"""A Hub in memory: the part of its protocol that unmodified `datasets`, `evaluate` and `huggingface_hub` clients use.

Not imitated: Xet storage, gating, token scopes, server-side validation of cards, merging of pull requests.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from tests.servers.serving import serving

TOKEN = "hf_test_token_of_the_local_hub"
TEXT = (".md", ".py", ".json", ".yaml", ".yml", ".txt", ".gitattributes", ".jsonl")

Fault = Callable[[str, str], str | None]
"""(method, path) -> None, or what goes wrong: "409", "412", "429", "500", "500-after-commit", "timeout" (the connection
is closed), "silence" (the connection stays open, without an answer)."""


@dataclass
class Repo:
    """One repository: the files of every commit, newest last, and what each name points to."""

    kind: str
    name: str
    sdk: str | None = None
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=lambda: [("0" * 40, {})])
    refs: dict[str, int] = field(default_factory=lambda: {"main": 0})
    pull_requests: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    private: bool = False

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Return (sha, files) of a branch, tag, pull request or commit."""
        if revision in self.refs:
            return self.commits[self.refs[revision]]
        return next((commit for commit in self.commits if commit[0] == revision), None)

    def commit(self, ref: str, files: dict[str, bytes]) -> str:
        """Add a commit with these files to a ref."""
        digest = hashlib.sha1(f"{self.name}{ref}{len(self.commits)}".encode(), usedforsecurity=False)
        for path in sorted(files):
            digest.update(path.encode() + files[path])
        self.commits.append((digest.hexdigest(), files))
        self.refs[ref] = len(self.commits) - 1
        return digest.hexdigest()

    def added(self) -> list[dict[str, bytes]]:
        """Return what each commit on `main` added or changed, oldest first."""
        states = [files for _, files in self.commits[: self.refs["main"] + 1]]
        return [
            {path: data for path, data in after.items() if before.get(path) != data}
            for before, after in pairwise(states)
        ]

    def replay(self, additions: Iterable[dict[str, bytes]]) -> None:
        """Put another history in the place of that of `main`: these additions, one commit each."""
        self.commits, self.refs["main"] = self.commits[:1], 0
        for files in additions:
            self.commit("main", {**self.commits[-1][1], **files})


class LocalHub(ThreadingHTTPServer):
    """The server; `repos` is its whole state, `log` the requests it saw, `fault` what it does wrong on purpose."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[tuple[str, str], Repo] = {}
        self.blobs: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []
        self.fault: Fault = lambda method, path: None
        self.per_page = 1000
        """So many entries of a tree are in one answer; the next page is in its header `Link`, as on the Hub."""
        self.lock = threading.RLock()
        self.ended = threading.Event()

    def server_close(self) -> None:
        """Stop, and let the requests go that are kept waiting."""
        self.ended.set()
        super().server_close()

    @property
    def url(self) -> str:
        """The endpoint to give to clients as HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def environment(self, home: str) -> dict[str, str]:
        """Return the environment of a client process with an empty cache at `home`."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": TOKEN,
            "HF_HOME": home,
            "HF_HUB_DISABLE_XET": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_EVALUATE_OFFLINE": "0",
        }


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """Run a hub on a free port of 127.0.0.1 until the block ends."""
    with serving(LocalHub()) as hub:
        yield hub


class Handler(BaseHTTPRequestHandler):
    """Answers one request; the routes are the table at the end of this file."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Without it, each answer waits 40 ms for the client to acknowledge its headers."""
    server: LocalHub

    def log_message(self, *args: object) -> None:
        """Keep quiet; `server.log` has every request."""

    def _dispatch(self) -> None:
        split = urlsplit(self.path)
        path = unquote(split.path)
        self.query = {key: values[-1] for key, values in parse_qs(split.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else b""
        with self.server.lock:
            self.server.log.append((self.command, path))
            self.fault = self.server.fault(self.command, path)
        if self.fault == "silence":
            self.server.ended.wait(600)
        with self.server.lock:
            if self.fault in ("timeout", "silence"):
                self.close_connection = True
                return
            if self.fault and self.fault != "500-after-commit":
                headers = {"Retry-After": "0"} if self.fault == "429" else {}
                self.reply(int(self.fault), {"error": "injected fault"}, headers)
                return
            method = "GET" if self.command == "HEAD" else self.command
            for verb, pattern, action in ROUTES:
                match = re.fullmatch(pattern, path)
                if verb == method and match:
                    action(self, **match.groupdict())
                    return
        self.reply(404, {"error": "no such route"})

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _dispatch

    def reply(self, status: int, value: Any = None, headers: dict[str, str] | None = None) -> None:
        """Send JSON, or bytes as they are."""
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json", **(headers or {})}
        headers.setdefault("Content-Length", str(len(body)))
        for key, text in headers.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def repo(self, kind: str, name: str) -> Repo | None:
        """Return a repository, or answer 404."""
        found = self.server.repos.get((kind, name))
        if found is None:
            self.reply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        return found

    def allowed(self) -> bool:
        """Say whether the request carries the token, or answer 401."""
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self.reply(401, {"error": "Invalid username or password."})
        return False

    def whoami(self) -> None:
        if self.allowed():
            token = {"role": "write", "displayName": "tests"}
            user = {"type": "user", "name": "tester", "fullname": "Tester", "orgs": [], "auth": {"accessToken": token}}
            self.reply(200, {**user, "id": "1", "avatarUrl": "", "isPro": False, "email": "", "emailVerified": True})

    def create(self) -> None:
        if not self.allowed():
            return
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
        kind = asked.get("type") or "model"
        exists = (kind, name) in self.server.repos
        if not exists:
            given = {each["key"]: each["value"] for each in asked.get("variables", ())}
            is_private = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.server.repos[kind, name] = Repo(kind, name, asked.get("sdk"), variables=given, private=is_private)
        prefix = "" if kind == "model" else f"{kind}s/"
        self.reply(409 if exists else 200, {"url": f"{self.server.url}/{prefix}{name}", "name": name})

    def delete(self) -> None:
        if self.allowed():
            asked = json.loads(self.body)
            self.server.repos.pop((asked.get("type") or "model", f"{asked.get('organization')}/{asked['name']}"), None)
            self.reply(200, {})

    def valid_yaml(self) -> None:
        self.reply(200, {"errors": [], "warnings": []})

    def preupload(self, kind: str, name: str, revision: str) -> None:
        if self.allowed() and self.repo(kind, name):
            files = json.loads(self.body)["files"]
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "regular" if file["path"].endswith(TEXT) else "lfs",
                    "shouldIgnore": False,
                    "oid": None,
                }
                for file in files
            ]
            self.reply(200, {"files": modes})

    def lfs_batch(self, kind: str | None, name: str) -> None:
        objects = [
            {
                "oid": each["oid"],
                "size": each["size"],
                **(
                    {}
                    if each["oid"] in self.server.blobs
                    else {"actions": {"upload": {"href": f"{self.server.url}/lfs/{each['oid']}"}}}
                ),
            }
            for each in json.loads(self.body)["objects"]
        ]
        self.reply(200, {"transfer": "basic", "objects": objects})

    def lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            self.reply(422, {"error": "oid mismatch"})
            return
        self.server.blobs[oid] = self.body
        self.reply(200, {})

    def commit(self, kind: str, name: str, revision: str) -> None:
        found = self.repo(kind, name) if self.allowed() else None
        if found is None:
            return
        lines = [json.loads(line) for line in self.body.splitlines() if line.strip()]
        parent = lines[0]["value"].get("parentCommit")
        head = found.at(revision)
        if head is None or (parent and parent != head[0]):
            self.reply(412, {"error": "A commit has happened since. Please refresh and try again."})
            return
        files = dict(head[1])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                files.pop(value["path"], None)
            elif line["key"] == "deletedFolder":
                files = {path: data for path, data in files.items() if not path.startswith(value["path"])}
        answer: dict[str, Any] = {"success": True, "hookOutput": ""}
        if self.query.get("create_pr") == "1":
            found.pull_requests += 1
            revision = f"refs/pr/{found.pull_requests}"
            prefix = "" if kind == "model" else f"{kind}s/"
            answer["pullRequestUrl"] = f"{self.server.url}/{prefix}{name}/discussions/{found.pull_requests}"
        sha = found.commit(revision, files)
        if self.fault == "500-after-commit":
            self.reply(500, {"error": "injected fault"})
            return
        self.reply(200, {**answer, "commitOid": sha, "commitUrl": f"{self.server.url}/{name}/commit/{sha}"})

    def info(self, kind: str, name: str, revision: str | None = None) -> None:
        found = self.repo(kind, name)
        state = found.at(revision or "main") if found else None
        if state:
            siblings = [{"rfilename": path, "size": len(data)} for path, data in sorted(state[1].items())]
            facts = {"id": name, "sha": state[0], "siblings": siblings, "private": found.private, "gated": False}
            self.reply(200, {**facts, "tags": [], "downloads": 0, "likes": 0, "disabled": False})
        elif found:
            self.reply(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})

    def tree(self, kind: str, name: str, revision: str, folder: str | None = None) -> None:
        found = self.repo(kind, name)
        state = found.at(revision) if found else None
        if state is None:
            if found:
                self.reply(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
            return
        prefix = f"{folder.strip('/')}/" if folder and folder.strip("/") else ""
        inside = {path: data for path, data in state[1].items() if path.startswith(prefix)}
        if prefix and not inside:
            self.reply(404, {"error": "no such folder"}, {"X-Error-Code": "EntryNotFound"})
            return
        recursive = self.query.get("recursive", "").lower() in {"1", "true"}
        entries: dict[str, dict[str, Any]] = {}
        for path, data in sorted(inside.items()):
            parts = path.removeprefix(prefix).split("/")
            for depth in range(1, len(parts)):
                if recursive or depth == 1:
                    folder_path = prefix + "/".join(parts[:depth])
                    entries[folder_path] = {"type": "directory", "path": folder_path, "oid": "", "size": 0}
            if recursive or len(parts) == 1:
                entries[path] = file_entry(path, data)
        first = int(self.query.get("cursor", 0))
        last = first + self.server.per_page
        following = urlencode({**self.query, "cursor": last})
        place = f"{self.server.url}{urlsplit(self.path).path}?{following}"
        headers = {"Link": f'<{place}>; rel="next"'} if last < len(entries) else {}
        self.reply(200, list(entries.values())[first:last], headers)

    def paths_info(self, kind: str, name: str, revision: str) -> None:
        found = self.repo(kind, name)
        state = found.at(revision) if found else None
        if state:
            text = self.body.decode()
            asked = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text).get("paths", [])
            self.reply(200, [file_entry(path, state[1][path]) for path in asked if path in state[1]])

    def references(self, kind: str, name: str) -> None:
        found = self.repo(kind, name)
        if found:
            branches = [
                {"name": ref, "ref": f"refs/heads/{ref}", "targetCommit": found.commits[position][0]}
                for ref, position in found.refs.items()
                if not ref.startswith("refs/")
            ]
            self.reply(200, {"branches": branches, "tags": [], "converts": [], "pullRequests": []})

    def tag(self, kind: str, name: str, revision: str) -> None:
        found = self.repo(kind, name) if self.allowed() else None
        if found:
            label = json.loads(self.body)["tag"]
            taken = label in found.refs
            if not taken:
                found.refs[label] = found.refs.get(revision, len(found.commits) - 1)
            self.reply(409 if taken else 200, {})

    def variables(self, kind: str, name: str) -> None:
        found = self.repo(kind, name) if self.allowed() else None
        if found:
            if self.command == "POST":
                asked = json.loads(self.body)
                found.variables[asked["key"]] = asked["value"]
            self.reply(200, {key: {"key": key, "value": value} for key, value in found.variables.items()})

    def listed(self, kind: str) -> None:
        names = [name for of, name in self.server.repos if of == kind]
        author = self.query.get("author")
        self.reply(200, [{"id": name} for name in sorted(names) if author in (None, name.partition("/")[0])])

    def resolve(self, kind: str | None, name: str, revision: str, file: str) -> None:
        found = self.repo((kind or "models")[:-1], name)
        if found is None:
            return
        state = found.at(revision)
        if state is None or file not in state[1]:
            code = "EntryNotFound" if state else "RevisionNotFound"
            self.reply(404, {"error": "Entry not found"}, {"X-Error-Code": code})
            return
        data = state[1][file]
        headers = {
            "ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            "X-Repo-Commit": state[0],
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if span:
            first, last = int(span[1]), min(int(span[2] or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self.reply(206, data[first : last + 1], headers)
        else:
            self.reply(200, data, headers)


def file_entry(path: str, data: bytes) -> dict[str, Any]:
    """Return a file as the tree route shows it: git's blob id, and the sha256 of what is stored as LFS."""
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": blob}
    if not path.endswith(TEXT):
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return entry


_REPO = r"(?P<name>[^/]+/[^/]+)"
_API = rf"/api/(?P<kind>model|dataset|space)s/{_REPO}"
_PLACE = rf"/(?:(?P<kind>datasets|spaces)/)?{_REPO}"
ROUTES: list[tuple[str, str, Callable[..., None]]] = [
    ("GET", r"/api/whoami-v2", Handler.whoami),
    ("POST", r"/api/repos/create", Handler.create),
    ("DELETE", r"/api/repos/delete", Handler.delete),
    ("POST", r"/api/validate-yaml", Handler.valid_yaml),
    ("POST", rf"{_API}/preupload/(?P<revision>.+)", Handler.preupload),
    ("POST", rf"{_API}/commit/(?P<revision>.+)", Handler.commit),
    ("POST", rf"{_API}/tag/(?P<revision>.+)", Handler.tag),
    ("POST", rf"{_API}/paths-info/(?P<revision>.+)", Handler.paths_info),
    ("GET", rf"{_API}/tree/(?P<revision>refs/pr/\d+|[^/]+)(?P<folder>/.*)?", Handler.tree),
    ("GET", rf"{_API}/refs", Handler.references),
    ("GET", rf"{_API}/variables", Handler.variables),
    ("POST", rf"{_API}/variables", Handler.variables),
    ("GET", r"/api/(?P<kind>model|dataset|space)s", Handler.listed),
    ("GET", rf"{_API}/revision/(?P<revision>.+)", Handler.info),
    ("GET", _API, Handler.info),
    ("POST", rf"{_PLACE}\.git/info/lfs/objects/batch", Handler.lfs_batch),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", Handler.lfs_put),
    ("GET", rf"{_PLACE}/resolve/(?P<revision>refs/pr/\d+|[^/]+)/(?P<file>.+)", Handler.resolve),
]
