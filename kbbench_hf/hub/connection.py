"""Errors of requests to the Hub as `UsageError` or `KBBenchError` with a remedy; timeouts; check of names."""

from collections.abc import Iterator
from contextlib import contextmanager

from kbbench_hf.errors import KBBenchError, UsageError

ANSWER_S = 60.0
"""Timeout in seconds."""
LOGIN = 401, 403
"""Statuses of a missing login or permission."""


@contextmanager
def connection(repository: str) -> Iterator[None]:
    """Convert errors of requests about a repository inside the block.

    Raises:
        UsageError: the name is invalid, or the repository does not exist for this user.
        KBBenchError: there is no connection, or the Hub refuses the request.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HfHubHTTPError,
        HFValidationError,
        HTTPError,  # of httpx or httpx2, by version
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        yield
    except HFValidationError:
        raise UsageError(f"{repository!r} is not a repository's name; expected OWNER/NAME, as on the Hub.") from None
    except (LocalTokenNotFoundError, RepositoryNotFoundError) as error:
        raise UsageError(f"{_first_line(error)}. Check the name {repository!r}, and log in: hf auth login") from error
    except HfHubHTTPError as error:
        remedy = "Log in with a token that may write: hf auth login" if _status(error) in LOGIN else "Try again later."
        raise KBBenchError(f"The Hub refuses, about {repository}: {_first_line(error)}. {remedy}") from error
    except (OfflineModeIsEnabled, HTTPError, TimeoutError) as error:
        raise KBBenchError(
            f"The Hub at {constants.ENDPOINT} cannot be reached: {_first_line(error)}. "
            "Check the network, and HF_HUB_OFFLINE and HF_ENDPOINT where they are set; then run this again."
        ) from error


def answer_within(seconds: float) -> None:
    """Set the timeout of the next requests to the Hub; huggingface_hub has none."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    get_session().timeout = seconds


def check_name(repository: str) -> None:
    """Check a repository's name before anything is sent or written.

    Raises:
        UsageError: it is invalid.
    """
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with connection(repository):
        validate_repo_id(repository)


def _first_line(error: Exception) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.strip().rstrip(".")


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
