"""What a refusal means, in the words of many servers: the status decides nothing by itself."""

import json
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pytest

from kbbench_hf.llm.failures import Refusal, RefusalKind
from kbbench_hf.llm.refusals import classify_refusal, parse_error


def nested(message: str, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


CONTEXT: list[tuple[int, str]] = [
    (400, "This model's maximum context length is 4096 tokens, however you requested 4100 tokens."),
    (400, "The input (9000 tokens) is longer than the model's context length (4096 tokens)."),
    (400, "Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens)."),
    (400, "Please reduce the length of the messages or completion. Current length is 9012 while limit is 8192"),
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000."),
    (400, "input length and `max_tokens` exceed context limit: 199759 + 20000 > 204698, decrease input length"),
    (400, "The model returned the following errors: Input is too long for requested model."),
    (400, "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 "
     "tokens and your request has 5000 input tokens (4096 > 8192 - 5000)."),
    (400, "max_tokens must be at least 1, got -200."),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
    (400, "Prompt exceeds max length"),
    (400, "invalid params, context window exceeds limit"),
    (400, "input token count exceeds the maximum"),
    (400, "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context "
     "length of only 4096 tokens, which is not enough."),
    (400, "Cannot truncate prompt with n_keep (7000) >= n_ctx (4096)"),
    (422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 3000"),
    (413, "Payload Too Large"),
    (429, "Request too large for gpt-4 in organization org-X on tokens per min (TPM): Limit 10000, Requested 14010. "
     "The input or output tokens must be reduced in order to run successfully."),
    (500, "the request exceeds the available context size, try increasing it"),
    (500, "input is too large to process. increase the physical batch size"),
    (500, "Context size has been exceeded."),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300102 tokens."),
    (400, "the prompt has 9,214 tokens, more than the 8,192 this deployment supports"),
    (422, "Sequence length 9001 exceeds model limit of 8192."),
    (400, "提示词过长，超过模型最大长度"),
]  # fmt: skip
CONTENT: list[tuple[int, str]] = [
    (400, "The response was filtered due to the prompt triggering our content management policy."),
    (400, "Your request was rejected as a result of our safety system."),
    (400, "Output data may contain inappropriate content."),
    (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"),
    (400, "Your input was flagged by our moderation."),
    (400, "The request was blocked because it violates our acceptable use policy"),
    (400, "Sorry, the prompt contains sensitive words"),
    (400, "The prompt could not be submitted. The content was blocked by safety filters."),
    (451, "Blocked by guardrail: prompt injection"),
    (400, "输入内容违规"),
]
LATER: list[tuple[int, str]] = [
    (429, "Rate limit exceeded: free-models-per-min."),
    (429, "Too many tokens processed."),
    (429, "Resource has been exhausted (e.g. check quota)."),
    (429, "Quota exceeded for requests per minute per project per base model. Please submit a quota increase request."),
    (429, "REQUEST_LIMIT_EXCEEDED: Exceeded workspace input tokens per minute rate limit"),
    (429, "Your account has reached max organization concurrency: 3"),
    (429, "Requests rate limit exceeded, please try again later."),
    (429, ""),
    (503, "The engine is currently overloaded, please try again later"),
    (529, "Overloaded"),
    (498, "capacity exceeded"),
    (400, "ThrottlingException: Too many requests, please wait before trying again."),
    (403, "Rate limit exceeded"),
    (503, "Service is at capacity, please retry shortly"),
    (429, "您的账户已达到速率限制，请您控制请求频率"),
    (429, "Allocated quota exceeded, too many requests per minute. See billing at https://example.com/billing"),
]
QUOTA: list[tuple[int, str]] = [
    (402, ""),
    (402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only "
     "afford 2000."),
    (403, "Sorry, your account balance is insufficient"),
    (400, "Billing hard limit has been reached"),
    (429, "Your account is not active, please check your billing details on our website."),
    (429, "You exceeded your current quota, please check your plan and billing details."),
    (403, "Your team has either used all available credits or reached its monthly spending limit."),
    (400, "Access denied, please make sure your account is in good standing and has no overdue payment."),
    (403, "The free tier of the model has been exhausted. To continue on a paid basis, change the setting."),
    (429, "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."),
    (402, "You have depleted your monthly included credits. Purchase pre-paid credits to continue."),
    (400, "litellm.BudgetExceededError: Budget has been exceeded! Current cost: 11.2, Max budget: 10.0"),
    (429, "Quota exceeded for metric: generate_content_free_tier_requests, limit: 0 Please retry in 20.04466179s."),
    (412, "Account X is suspended due to unpaid invoices"),
    (429, "余额不足或无可用资源包,请充值。"),
    (403, "Your workspace has hit its spending cap for November."),
]  # fmt: skip
KEY: list[tuple[int, str]] = [
    (401, ""),
    (401, "invalid x-api-key"),
    (400, "API key not valid. Please pass a valid API key."),
    (403, "This authentication method does not have sufficient permissions to call Inference Providers"),
    (401, "Access denied due to invalid subscription key or wrong API endpoint."),
    (403, "Country, region, or territory not supported"),
    (403, "The security token included in the request is invalid."),
    (401, "Missing bearer authentication in header"),
    (403, "Your organization has been disabled."),
    (401, "令牌已过期或验证不正确"),
    (403, "You are not allowed to sample from this"),
]
MODEL: list[tuple[int, str]] = [
    (404, "The model `x` does not exist or you do not have access to it."),
    (404, ""),
    (404, "Unknown parameter: 'seed'"),
    (400, "Server is pinned to 'org/m'; requested 'another'."),
    (400, "The provided model identifier is invalid."),
    (400, "Invalid model: mistral-huge"),
    (400, "The model `mixtral` has been decommissioned and is no longer supported. Please refer to the docs."),
    (400, "Model 'x' is not found. Available models: a, b"),
    (404, 'model "llama9" not found, try pulling it first'),
    (403, "Project `proj_x` does not have access to model `gpt-4o`"),
    (400, "qwen-mega is not a valid model ID"),
    (404, "This is not a chat model and thus not supported in the v1/chat/completions endpoint."),
    (404, "No models loaded. Please load a model in the developer page."),
    (400, "/chat/completions: Invalid model name passed in model=foo. Call `/v1/models` to view available models"),
    (400, "The requested model 'a/b' is not supported by provider groq"),
    (404, "Function 'x': Not found for account"),
    (400, "模型不存在，请检查模型代码。"),
]
PARAMETER: list[tuple[int, str, str]] = [
    (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens", "max_tokens"),
    (400, "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
     "`context_window` for this model", "max_tokens"),
    (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "max_tokens"),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", "max_tokens"),
    (400, "property 'top_k' is unsupported, did you mean 'top_p'?", "top_k"),
    (400, "Unrecognized request argument supplied: min_p", "min_p"),
    (422, "Failed to deserialize the JSON body into the target type: response_format: unknown variant `json_schema`, "
     "expected `text` or `json_object` at line 1 column 90", "response_format"),
    (500, "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or "
     "'json_object'\"}]", "response_format"),
    (400, "The provided JSON schema contains features not supported by xgrammar.", "response_format"),
    (400, "This model does not support response format `json_schema`.", "response_format"),
    (400, "invalid temperature: only 1 is allowed for this model", "temperature"),
    (400, "`temperature` and `top_p` cannot both be specified for this model. Please use only one.", "temperature"),
    (422, "Input validation error: `temperature` must be strictly positive", "temperature"),
    (422, "Input validation error: `stop` supports up to 4 stop sequences. Given: 7", "stop"),
    (400, "Unsupported parameter: 'stop' is not supported with this model.", "stop"),
    (400, "json: unknown field \"chat_template_kwargs\"", "chat_template_kwargs"),
    (500, "create_chat_completion() got an unexpected keyword argument 'my_option'", "my_option"),
    (400, "System role not supported", "messages"),
    (400, "Conversation roles must alternate user/assistant/user/assistant/...", "messages"),
    (400, "qwen-x does not support thinking", "reasoning_effort"),
    (400, "logprobs are not supported with reasoning models. Unsupported parameter: `logprobs`", "logprobs"),
    (400, "Argument not supported on this model: presencePenalty", "presence_penalty"),
    (400, "seed: Extra inputs are not permitted", "seed"),
]  # fmt: skip
FAULT: list[tuple[int, str]] = [
    (500, "Internal server error"),
    (500, "CUDA error: device-side assert triggered"),
    (424, "Request failed during generation: Server error: "),
    (502, ""),
    (503, ""),
    (504, "upstream request timeout"),
    (408, "Request timed out"),
    (520, "error code: 520"),
    (500, "EngineCore encountered an issue. See stack trace (above) for the root cause."),
    (500, "unexpected error while reading max bytes"),
    (502, "Upstream model not found"),
    (500, "Image is not supported by this worker"),
    (500, "Invalid seed: internal state is broken"),
]
LOADING: list[tuple[int, str]] = [
    (503, "Loading model"),
    (503, "Model is still loading, please wait"),
    (503, "The endpoint is scaling up from zero, replicas not ready"),
    (429, "Model is not ready for inference: model is loading"),
    (500, "llm server loading model"),
]
UNCLEAR: list[tuple[int, str]] = [
    (400, ""),
    (400, "Bad Request"),
    (400, "scripted 400"),
    (403, ""),
    (422, "Unprocessable Entity"),
    (400, "Something in there we do not like"),
]

CASES = [
    *((*case, Refusal(RefusalKind.PROMPT, cause="context_length")) for case in CONTEXT),
    *((*case, Refusal(RefusalKind.PROMPT, cause="content_filter")) for case in CONTENT),
    *((*case, Refusal(RefusalKind.LATER)) for case in LATER),
    *((*case, Refusal(RefusalKind.QUOTA)) for case in QUOTA),
    *((*case, Refusal(RefusalKind.KEY)) for case in KEY),
    *((*case, Refusal(RefusalKind.MODEL)) for case in MODEL),
    *((status, text, Refusal(RefusalKind.PARAMETER, parameter=name)) for status, text, name in PARAMETER),
    *((*case, Refusal(RefusalKind.FAULT)) for case in FAULT),
    *((*case, Refusal(RefusalKind.LOADING)) for case in LOADING),
    *((*case, Refusal(RefusalKind.UNCLEAR)) for case in UNCLEAR),
]


@pytest.mark.parametrize(("status", "message", "means"), CASES, ids=lambda each: str(each)[:60])
def test_the_words_say_whose_refusal_it_is(status: int, message: str, means: Refusal) -> None:
    shapes = (
        nested(message),
        nested(message, type="invalid_request_error", param=None, code=None),
        json.dumps({"object": "error", "message": message, "code": status}).encode(),
        json.dumps({"detail": message}).encode(),
        json.dumps([{"error": {"code": status, "message": message, "status": "FAILED_PRECONDITION"}}]).encode(),
        nested("Provider returned error", metadata={"raw": nested(message).decode()}),
        nested(f"litellm.APIError: {message} (request id: 20261122)"),
    )
    for shape in shapes:
        assert classify_refusal(status, {}, shape, sent=["my_option"]) == means, shape


@pytest.mark.parametrize(
    ("body", "means"),
    [
        ({"error": {"message": "Bad value.", "param": "seed"}}, Refusal(RefusalKind.PARAMETER, parameter="seed")),
        (
            {"error": {"message": "Bad value.", "param": "stop_sequences"}},
            Refusal(RefusalKind.PARAMETER, parameter="stop"),
        ),
        ({"detail": [{"loc": ["body", "top_k"], "msg": "Bad."}]}, Refusal(RefusalKind.PARAMETER, parameter="top_k")),
        (
            {"error": {"message": "Bad value.", "param": "response_format.json_schema"}},
            Refusal(RefusalKind.PARAMETER, parameter="response_format"),
        ),
        ({"error": {"message": "Bad value.", "param": "model"}}, Refusal(RefusalKind.MODEL)),
        (
            {"error": {"message": "Bad value.", "param": "messages[0].content"}},
            Refusal(RefusalKind.PARAMETER, parameter="messages"),
        ),
        ({"error": {"message": "Bad value.", "param": "input"}}, Refusal(RefusalKind.UNCLEAR)),
        (
            {"error": {"message": "Bad value.", "param": "prompt_tokens"}},
            Refusal(RefusalKind.PROMPT, cause="context_length"),
        ),
    ],
)
def test_the_field_that_an_error_names_says_what_was_refused(body: dict[str, Any], means: Refusal) -> None:
    assert classify_refusal(400, {}, json.dumps(body).encode()) == means


def test_a_page_of_a_proxys_means_what_its_status_says() -> None:
    page = b"<html><head><title>Error</title></head><body>Sorry, you have been blocked by our policy</body></html>"
    assert classify_refusal(502, {}, page).kind is RefusalKind.FAULT
    assert classify_refusal(403, {}, page).kind is RefusalKind.UNCLEAR
    assert classify_refusal(404, {}, page).kind is RefusalKind.MODEL


WAITS = [
    ("Please try again in 174ms.", 0.174),
    ("Please try again in 500 milliseconds.", 0.5),
    ("Please try again in 1m47.5854s. Visit us.", 107.5854),
    ("Please try again in 9m38.016s", 578.016),
    ("Please retry after 60 seconds. Go here.", 60.0),
    ("please try again after 1 seconds", 1.0),
    ("Limit 100, Used 99. Please try again in 2h3m4s.", 7384.0),
    ("You can retry in 2 days", 172800.0),
    ("Slow down, wait 3 minutes and 5 seconds", 185.0),
    ("Slow down.", None),
    ("The limit is 500 ms of work", None),
    ("Please try again at 14:05 UTC.", 300.0),
    ("Please try again at 2:05 p.m. (UTC).", 300.0),
    ("Your limit resets at 14:00:30 GMT", 30.0),
    ("Your limit resets at 13:55 UTC", 0.0),  # it has just passed: clocks differ
    ("Your limit resets at 12:00 AM UTC", 36_000.0),
    ("Quota resets at 00:30 UTC", 37_800.0),
    ("The daily limit is reset after 2026-11-28T00:00:00Z.", 36_000.0),
    ("Try again after 2026-11-27 15:00 UTC", 3_600.0),
    ("Available again: 2026-11-27T15:00:00+01:00", 0.0),
    ("Try again at 14:05.", None),  # in a zone that is not known
    ("Try again at 25:00 UTC.", None),
    ("Try again after 2026-13-01T00:00Z", None),
]


@pytest.mark.parametrize(("sentence", "seconds"), WAITS)
def test_the_waiting_time_is_read_from_the_sentence(
    sentence: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 11, 27, 14, tzinfo=UTC).timestamp()
    monkeypatch.setattr("kbbench_hf.llm.refusals.time", SimpleNamespace(time=lambda: now))
    found = classify_refusal(429, {}, nested(sentence)).seconds
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_the_waiting_time_is_read_from_headers_and_fields() -> None:
    def seconds(headers: dict[str, str], body: bytes = b"{}") -> float | None:
        return parse_error(body, headers).seconds

    assert seconds({"Retry-After": "7"}) == 7
    assert seconds({"retry-after-ms": "1500"}) == 1.5
    assert seconds({"Retry-After": "-3"}) == 0
    assert seconds({"Retry-After": "soon"}) is seconds({"Retry-After": "nan"}) is seconds({}) is None
    dated = seconds({"Retry-After": formatdate(time() + 60, usegmt=True)})
    assert dated is not None and 50 < dated <= 60
    limits = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2s"}
    assert seconds(limits) == 62
    assert seconds(limits | {"x-ratelimit-remaining-tokens": "5"}) is None
    assert seconds({}, b'{"error": "loading", "estimated_time": 20.0}') == 20
    assert seconds({}, b'{"error": {"details": [{"retryDelay": "40s"}]}}') == 40
    assert seconds({}, b'{"error": {"details": [{"retryDelay": "soon"}]}}') is None
    assert seconds({}, b'{"error": "loading", "estimated_time": true}') is None


MEANINGS = {
    "refusal_of_this_prompt": RefusalKind.PROMPT,
    "retry_soon": RefusalKind.LATER,
    "retry_after": RefusalKind.LATER,
    "loading": RefusalKind.LOADING,
    "server_fault": RefusalKind.FAULT,
    "quota_exhausted": RefusalKind.QUOTA,
    "auth": RefusalKind.KEY,
    "model_not_found": RefusalKind.MODEL,
    "bad_parameter": RefusalKind.PARAMETER,
}


def test_recorded_errors_of_providers_mean_what_they_meant(shared: Path) -> None:
    cases = [json.loads(line) for line in (shared / "data" / "provider_replies.jsonl").read_text("utf-8").splitlines()]
    wrong = []
    for case in cases:
        found = classify_refusal(case["status"], case["headers"], case["body"].encode())
        right = found.kind in [MEANINGS[each] for each in (case["meaning"], *case.get("also_accepted", []))]
        if found.kind is RefusalKind.PROMPT:
            right &= found.cause == case.get("cause", found.cause)
        if found.kind is RefusalKind.PARAMETER:
            right &= found.parameter == case["parameter"]
        if "seconds" in case:
            right &= found.seconds == pytest.approx(case["seconds"])
        if not right:
            wrong.append((case["id"], found))
    assert len(cases) == 99
    assert not wrong
