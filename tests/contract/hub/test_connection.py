"""What fails between here and the Hub is said in words that mend it."""

import pytest
from huggingface_hub import errors

from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.hub.repository import check_name, connection


class Response:
    """As much of an answer as an error of the Hub reads."""

    def __init__(self, status: int) -> None:
        self.status_code, self.headers, self.request, self.text = status, {}, None, ""


def refused(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    return kind("No.\n\nRequest ID: 1", response=Response(status))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (errors.OfflineModeIsEnabled("offline"), KBBenchError, "cannot be reached: offline. Check the network"),
        (errors.HTTPError("[Errno 111] Connection refused"), KBBenchError, "cannot be reached"),
        (TimeoutError(), KBBenchError, "cannot be reached: TimeoutError"),
        (errors.HFValidationError("too long"), UsageError, "'me/model' is not a repository's name"),
        (errors.LocalTokenNotFoundError("no token"), UsageError, "hf auth login"),
        (refused(errors.RepositoryNotFoundError, 404), UsageError, "No. Check the name 'me/model'"),
        (refused(errors.HfHubHTTPError, 403), KBBenchError, "The Hub refuses, about me/model: No. Log in with a token"),
        (refused(errors.HfHubHTTPError, 503), KBBenchError, "Try again later."),
    ],
)
def test_each_way_to_fail_has_its_remedy(error, kind, words):
    with pytest.raises(kind) as raised, connection("me/model"):
        raise error
    assert words in str(raised.value)
    assert type(raised.value) is kind


def test_a_mistake_of_ours_is_not_taken_for_the_hubs():
    with pytest.raises(KeyError), connection("me/model"):
        raise KeyError


@pytest.mark.parametrize("name", ["", "no model", "a/b/c", "-a/b"])
def test_what_cannot_be_a_repository_is_refused_before_anything_is_sent(name):
    with pytest.raises(UsageError, match="expected OWNER/NAME"):
        check_name(name)
    check_name("my-org/my-model")
