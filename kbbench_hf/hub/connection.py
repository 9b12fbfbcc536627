"""What can go wrong between here and the Hub, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from kbbench_hf.errors import KBBenchError, UsageError

ANSWER_S = 60.0
"""After so many seconds without an answer the Hub counts as down."""
LOGIN = 401, 403
"""What the Hub answers whom it does not know, or does not let."""


@contextmanager
def connection(repository: str) -> Iterator[None]:
    """Turn what fails while the block talks to the Hub about a repository into errors of ours.

    Raises:
        UsageError: the repository's name is none, or it is not there for whoever asks.
        KBBenchError: there is no connection, or the Hub refuses.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HfHubHTTPError,
        HFValidationError,
        HTTPError,  # httpx's or httpx2's, as the version has it
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        yield
    except HFValidationError:
        raise UsageError(f"{repository!r} is not a repository's name; expected OWNER/NAME, as on the Hub.") from None
    except (LocalTokenNotFoundError, RepositoryNotFoundError) as error:
        raise UsageError(f"{_words(error)}. Check the name {repository!r}, and log in: hf auth login") from error
    except HfHubHTTPError as error:
        remedy = "Log in with a token that may write: hf auth login" if _status(error) in LOGIN else "Try again later."
        raise KBBenchError(f"The Hub refuses, about {repository}: {_words(error)}. {remedy}") from error
    except (OfflineModeIsEnabled, HTTPError, TimeoutError) as error:
        raise KBBenchError(
            f"The Hub at {constants.ENDPOINT} cannot be reached: {_words(error)}. "
            "Check the network, and HF_HUB_OFFLINE and HF_ENDPOINT where they are set; then run this again."
        ) from error


def answer_within(seconds: float) -> None:
    """Have what asks the Hub next fail where it says nothing for so long; huggingface_hub alone would wait for ever."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    get_session().timeout = seconds


def check_name(repository: str) -> None:
    """Refuse what cannot be the name of a repository, before anything is sent or written.

    Raises:
        UsageError: it is none.
    """
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with connection(repository):
        validate_repo_id(repository)


def _words(error: Exception) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.strip().rstrip(".")


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
