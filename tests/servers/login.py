"""A provider of logins, as the Hub is one for its Spaces: OpenID Connect, its users those that a test names."""

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.servers.serving import serving

CLIENT = "the-space"


class Provider(ThreadingHTTPServer):
    """The server; whoever is sent to it is logged in as the user that the address names, at once."""

    daemon_threads = True

    def __init__(self, organisations: Mapping[str, Sequence[str]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.organisations = organisations
        self.key = RSAKey.generate_key(2048, {"kid": "1", "alg": "RS256", "use": "sig"})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def environment(self, space_id: str) -> dict[str, str]:
        """Return what the Hub gives to a Space with `hf_oauth: true`."""
        return {
            "SYSTEM": "spaces",
            "SPACE_ID": space_id,
            "OAUTH_CLIENT_ID": CLIENT,
            "OAUTH_CLIENT_SECRET": "between the two of us",
            "OAUTH_SCOPES": "openid profile",
            "OPENID_PROVIDER_URL": self.url,
        }


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Provider

    def log_message(self, *args: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        split, url = urlsplit(self.path), self.server.url
        asked = {key: values[-1] for key, values in parse_qs(split.query).items()}
        if split.path == "/.well-known/openid-configuration":
            names = {"authorization": "authorize", "token": "token"}
            endpoints = {f"{name}_endpoint": f"{url}/oauth/{path}" for name, path in names.items()}
            signed = {"id_token_signing_alg_values_supported": ["RS256"]}
            self._reply({"issuer": url, "jwks_uri": f"{url}/jwks", **endpoints, **signed})
        elif split.path == "/jwks":
            self._reply({"keys": [self.server.key.as_dict(private=False)]})
        elif split.path == "/oauth/authorize":
            code = base64.urlsafe_b64encode(json.dumps([asked["user"], asked.get("nonce", "")]).encode()).decode()
            back = asked["redirect_uri"]
            query = urlencode({"code": code, "state": asked["state"]})
            self.send_response(302)
            self.send_header("Location", f"{back}{'&' if '?' in back else '?'}{query}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        user, nonce = json.loads(base64.urlsafe_b64decode(form["code"][0]))
        now = int(time.time())
        of = [
            {"sub": name, "preferred_username": name, "name": name} for name in self.server.organisations.get(user, ())
        ]
        claims = {
            "iss": self.server.url, "aud": CLIENT, "iat": now, "exp": now + 3600, "nonce": nonce, "sub": user,
            "name": user.title(), "preferred_username": user, "profile": f"https://hub.example/{user}", "picture": "",
            "orgs": of,
        }  # fmt: skip
        token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.server.key)
        self._reply({"access_token": f"token-of-{user}", "token_type": "bearer", "expires_in": 3600, "id_token": token})

    def _reply(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def login_provider(organisations: Mapping[str, Sequence[str]] | None = None) -> Iterator[Provider]:
    """Run a provider until the block ends; `organisations` are those of each user."""
    with serving(Provider(organisations or {})) as provider:
        yield provider
