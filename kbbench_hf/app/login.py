"""Sign-in with the Hub: whether it is available, and the session of the visitor."""

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from kbbench_hf.hub.repository import answer_within

OAUTH = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
"""What the Hub sets in a Space whose README.md says `hf_oauth: true`; Gradio does not start a sign-in without them."""
WHO_S = 10.0
"""Within so many seconds the Hub must say whose token this machine has; the pages do not wait longer."""
LOG = logging.getLogger("kbbench")
LOCAL = (
    "Score a file of any size on your own machine: `kbbench score FILE --benchmark NAME`. "
    "To show it on a board of your own: `kbbench submit FILE --benchmark NAME --name SYSTEM`, then `kbbench serve`."
)


class Login:
    """Knows whether visitors can sign in: on a Space by OAuth, elsewhere as the owner of this machine's token."""

    def __init__(self) -> None:
        from huggingface_hub import get_token

        self.user: Mapping[str, Any] = {}
        self._reason, self._until = "", time.monotonic() + WHO_S
        self._request: threading.Thread | None = None
        if "SPACE_ID" in os.environ:  # before Gradio is imported: it is given a secret of its own where there is none
            if missing := [name for name in OAUTH if not os.environ.get(name)]:
                self._reason = f"this Space has no {missing[0]} (its owner adds `hf_oauth: true` to its README.md)"
        elif get_token() is None:
            self._reason = "this machine has no Hugging Face token (its owner runs `hf auth login`, then starts again)"
        else:
            self._request = threading.Thread(target=self._ask_hub, name="login", daemon=True)
            self._request.start()

    def problem(self) -> str:
        """Return why nobody can sign in; empty where visitors can. Waits for the Hub until `WHO_S` after the start."""
        if self._request:
            self._request.join(max(0.0, self._until - time.monotonic()))
            if not self.user and not self._reason:
                self._reason = f"the Hub did not answer within {WHO_S:g} s when this was started"
        if self._reason:
            LOG.warning("Nobody can sign in: %s", self._reason)
        return self._reason

    def _ask_hub(self) -> None:
        from huggingface_hub import whoami

        try:
            answer_within(WHO_S)
            user = whoami()
        except Exception as error:  # whatever the Hub's client raises, whose classes depend on its HTTP library
            self._reason = f"the Hub did not say whose token this machine has ({type(error).__name__})"
            return
        if user.get("type") == "user":
            self.user = user
        else:
            self._reason = "the token of this machine belongs to no person (Gradio signs in persons only)"


def remember(login: Login) -> None:
    """Give Gradio the answer of the Hub: it asks again while it starts, and does not start where none comes."""
    if login.user:
        import gradio.oauth

        gradio.oauth.whoami = lambda *_, **__: dict(login.user)
