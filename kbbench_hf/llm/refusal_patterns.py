"""The words by which servers say what they refuse: patterns of sentences in lower case, and of codes."""

import re

from kbbench_hf.text.patterns import lazy_pattern

PARAMETERS = frozenset(
    "max_tokens max_completion_tokens max_new_tokens max_output_tokens temperature top_p top_k min_p seed stop "
    "response_format reasoning_effort enable_thinking thinking thinking_budget chat_template_kwargs extra_body "
    "frequency_penalty presence_penalty repetition_penalty logprobs top_logprobs logit_bias tools tool_choice "
    "guided_json guided_grammar guided_regex structured_outputs grammar json_schema n stream stream_options messages "
    "service_tier user verbosity parallel_tool_calls typical_p tfs_z mirostat best_of num_ctx num_predict".split()
)
"""Parameters of chat requests, under the names that errors call them by."""
SAME = {
    "json_schema": "response_format",
    "json_object": "response_format",
    "guided_json": "response_format",
    "guided_grammar": "response_format",
    "structured_outputs": "response_format",
    "grammar": "response_format",
    "text": "response_format",  # text.format of the newer protocol
    "thinking": "reasoning_effort",
    "reasoning": "reasoning_effort",
    "stop_sequences": "stop",
    "generation_config": "max_tokens",
}
PROMPT_FIELDS = {"prompt", "input", "inputs", "input_tokens", "contents", "prompt_token_ids", "quota", "body"}
"""Fields that are no parameters."""
COMMON_WORDS = {"n", "stop", "seed", "stream", "user", "tools", "messages", "grammar", "thinking", "text", "reasoning"}
"""Names that are words too: only in quotation marks do they name a parameter."""


def any_of(*patterns: str) -> re.Pattern[str]:
    """Return the pattern that any of these patterns matches."""
    return lazy_pattern("|".join(patterns))


CLOSED = any_of(
    r"(account|organi[sz]ation|workspace|subscription|team|project|tenant)\b.{0,60}"
    r"\b(suspended|deactivated|disabled|banned|terminated|locked|inactive|not active|closed|restricted|not in good)",
)
MONEY = any_of(
    r"insufficient[ _]?(account )?(quota|balance|credit|fund)",
    r"balance\b.{0,30}(insufficient|too low|not enough|negative|exhausted|is 0)|not enough (balance|credit|fund)",
    r"billing|prepay|credit card|payment|unpaid|invoice|arrear|overdue|recharge|top[- ]?up|余额|欠费|充值",
    r"(credit|prepaid|allowance|resource pack)\w*\b.{0,60}"
    r"(exhaust|exceed|deplet|insufficient|too low|used up|run out|ran out|expired|required|remaining)",
    r"(out of|(have|has) no|not enough|more|add|buy|purchase|(exceeded|depleted) (your|the) .{0,30}) credits?\b",
    r"(can(not)?|can't) (only )?afford",
    r"spend(ing)?[ _-]?(limit|cap)|hard limit|usage (limit|cap|quota)|(monthly|weekly|budget) .{0,30}limit",
    r"key limit exceeded|budget (has been |is )?(exceeded|exhausted|reached)|exceededbudget|over budget|"
    r"exceeded\w*budget",
    r"used up (all )?(of )?your|free (tier|quota|trial|credits?|allocation)\b.{0,60}(exhaust|exceed|used up|"
    r"ended|expired|only|over|finished)",
    r"trial\b.{0,40}(ended|expired|over|exhausted)|upgrade (to a paid|your plan)|paid (plan|account|"
    r"tier) (is )?required|quota is (insufficient|exhausted)|insufficient.{0,20}quota",
)
MONEY_CODES = any_of(
    r"insufficient[_-]?(quota|balance|credit|fund)|exceeded_current_quota|billing|arrearage|payment|credits?_|"
    r"out_of_credit|no_credit|budget_exceeded|freetieronly|balance|^1113$|^30001$|spend"
)
QUOTA = any_of(r"exceeded your (current )?quota", r"quota.{0,40}(exceeded|exhausted|used up|reached)", r"out of quota")
NO_ALLOWANCE = any_of(r"\blimit: 0\b")
RATE = any_of(
    r"rate[ _-]?limit|too many (requests|concurrent|tokens|pending)|throttl|per[ _-](second|minute|hour|day)(\b|_)|"
    r"\b[rt]pm\b|concurren|overload|\bbusy\b|slow down|retry later|try again later",
    r"temporarily|(at|no|insufficient|exceeded|over|limited) (model |server |the )?capacity|resource.{0,9}exhausted",
    r"queue.{0,20}full|too frequent|frequency|速率|繁忙|稍后|频率|并发",
)
RATE_CODES = any_of(r"rate_?limit|throttl|too_?many|overload|resource_exhausted|request_limit|capacity|^130[0235]$")
RATE_LIMIT = any_of(
    r"rate[ _-]?limit(ed)?\b",
    r"too many requests",
    r"throttl",
    r"(requests|tokens|queries) per (second|minute|hour|day)",
)
RATE_UNIT = any_of(r"per[ _-](second|minute)|\b[rt]pm\b")
LOADING = any_of(
    r"(model|engine|server|endpoint|replica|deployment|service|instance|container)\b.{0,80}"
    r"\b(loading|warming|starting|initiali[sz]ing|booting|scaling|not (yet )?ready|being (loaded|deployed|started))",
    r"\bloading (the )?model|still (loading|starting)|cold start|waking|scaled to zero|estimated_time",
)
CONTENT = any_of(
    r"content[ _]?(management|filter|polic|exists risk|moderation|safety|violation|blocked)|exists risk",
    r"\bflagged\b|moderation|inappropriate|sensitive (content|word|information|data)|unsafe|harmful|"
    r"prohibited content",
    r"(violat|against|breach)\w*.{0,40}(polic|guideline|terms|standard|rules)|(usage|acceptable use|safety) polic",
    r"safety (system|filter|setting|check|reason|concern)|blocked (by|due to|because|for).{0,40}(content|safety"
    r"|polic|filter)",
    r"responsible ?ai|guardrail|recitation|data.?inspection|jailbreak|敏感|不安全|违规|违法|不当|合规|审核",
    r"(input|prompt|output|request|response|content) (was |is |has been |were |data )?(filtered|rejected by|"
    r"may contain)",
)
FILTERED = any_of(r"content[ _](management|filter|polic|moderation)", r"flagged")
"""What even a fault may mean by it."""
CONTENT_CODES = any_of(
    r"content_?filter|content_?policy|contentpolicy|data_inspection|datainspection|invalid_prompt|moderation|"
    r"responsibleai|safety|flagged|sensitive|prohibited|guardrail|^1301$|content_violation|content_moderation"
)
TOO_LONG = any_of(
    r"context[ _-]?(length|window|size|limit|overflow|shift)|n_ctx|n_keep|max_model_len|max_seq_len",
    r"maximum (context|prompt|model|input|sequence|allowed|number of (input )?tokens|length)|max(imum)? input",
    r"\b(prompt|inputs?|messages?|text|request|sequence|conversation|it)`?( \([^)]*\))? ?(length |size )?"
    r"(is|are|was|were|has|contains?|of)?( \d+ tokens)?,? ?(that is |which is )?"
    r"(too (long|large|big)|longer than|exceed|over the|larger than|超长|too many tokens)",
    r"too many (input |prompt )?tokens|too large for (the )?model|input.{0,20}too (long|large)",
    r"(token|length|prompt|input|request)\w*\b.{0,80}\b(exceed|surpass|greater than|more than|larger than|over)\w*\b"
    r".{0,60}\b(limit|max|window|length|context|allowed|supported|\d)",
    r"(exceed|surpass)\w*.{0,40}(token|context|input|prompt)\w*.{0,20}(limit|length|size|window|max)|"
    r"model token limit",
    r"reduce (the |your )?(length|size|number|prompt|input|message)|shorten|shorter (input|prompt)|"
    r"(prompt|input) (length|too)|input length|range of input|tokens must be reduced|过长|超长|超过",
    r"(must have|must be) (less|fewer|<=?) ?(than )?\d+( tokens)?\.? given: ?\d+ `?inputs|`inputs`",
    r"physical batch size|kv cache|request entity too large|payload too large|body too large",
)
TOO_LONG_CODES = any_of(
    r"context_?(length|window|size)|exceed_context|string_above_max|too_long|toolong|too_large|^1261$"
)
OF_A_WINDOW = any_of(r"\bcontext\b|\btokens?\b|\bprompt\b|batch size|n_ctx")
"""What even a fault may mean by it: other limits are of time and room."""
TOO_LARGE_AT_ONCE = any_of(
    r"request too large|must be reduced|context (length|window)",
    r"(prompt|input|message|request) (is |was )?too (long|large)|larger than (the|your) .{0,20}limit",
)
"""What makes even a 429 one prompt's own: it would never fit."""
LIMIT_ASKED = any_of(
    r"max_?(completion_|new_|output_)?tokens|maxtokens|maxoutputtokens|max(imum)? (output|completion|new) tokens|"
    r"output tokens|completion tokens"
)
INPUT_TOKENS = any_of(
    r"(input|prompt|message)s?`?.{0,40}(token|length)|tokens? (in|from|of) (the|your) (input|message|prompt|request)",
    r"\d+ (input|prompt)|your (request|prompt|input|messages?) (has|have|contain|result)|got -\d|`inputs`",
)
NO_ROOM = any_of(
    r"(max_?(completion_|new_|output_)?tokens|maxtokens).{0,80}(got|given|value[:= ]*|is|was|to) ?-\d",
    r"however,? you requested \d+ tokens",
)
"""A limit that nobody sent: the window minus a prompt that is longer."""
KEY = any_of(
    r"api[ _-]?(key|token)|unauthori[sz]ed|not authori[sz]ed|authenticat|authori[sz]ation|credential|bearer",
    r"(invalid|incorrect|expired|missing|wrong|bad|revoked|malformed) (access |auth |bearer |user |hub )?(token|key)",
    r"access denied|\bforbidden\b|permission|not (allowed|permitted|entitled|enabled) (to|for|in)|"
    r"username or password",
    r"(does|do)(n't| not) have (access|permission)|signature|security token|country|region|location is not|"
    r"unsupported_country|鉴权|令牌",
    r"gated|must (accept|agree)|subscription key|ip (address|not)",
)
WRONG_KEY = any_of(r"(invalid|incorrect|wrong|expired|revoked|leaked).{0,12}api[ _-]?key|api[ _-]?key (not|is|was)")
KEY_CODES = any_of(
    r"api_key|auth|permission|(?<!extra_)forbidden|access_?denied|accessdenied|unrecognizedclient|country|^100[0-4]$"
)
MODEL = any_of(
    r"model[s]?\b[^.]{0,100}\b(not (found|exist|available|known|deployed|served|a valid|supported (by|for|in)|"
    r"running)|"
    r"does(n't| not) exist|does not work|enabled only|is unknown|no longer|deprecated|decommissioned|retired|"
    r"inaccessible|unavailable for|"
    r"not exist|could not be found|is not (a )?(valid|chat)|has been (removed|shut|retired|deprecated))",
    r"\b(no|unknown|invalid|unsupported|nonexistent|unrecognized|incorrect|such|wrong) model\b(?! ?(input|"
    r"output|param))",
    r"model (identifier|id|name)?.{0,3}is (invalid|incorrect|wrong|not (valid|supported|available|found))",
    r"no endpoints? (found|available)|deployment.{0,60}(not (exist|found)|does not exist)|non-serverless|pulling it",
    r"no (allowed )?providers? (are |is )?(available|support|found)|no models? (is |are )?loaded|load a model",
    r"not a valid model|model: \S+$|requested model|only serves|pinned to|cannot find model|can't find model|"
    r"failed to find model|模型不存在",
    r"access to (the )?(requested )?model",
)
MODEL_CODES = any_of(r"model_?not|modelnot|invalid_?model|model_(decomm|deprecat|unavail|unknown)|unknown_model|"
                      r"no_such_model|deploymentnotfound|model_not_found|^1211$|^20012$|model_?does")  # fmt: skip
NOT_TAKEN = any_of(
    r"unsupported|(not|n't|never|no longer) (be )?(currently )?(support|allow|permit|accept|recogni|valid|implement|"
    r"compatible|available|enabled)|not permitted|is unavailable|unavailable now|unknown|unrecogni[sz]ed|unexpected",
    r"\bmust\b|should|cannot|can't|can only|may only|\bonly\b|invalid|out of range|expected|illegal|extra|required",
    r"too (large|high|low|small|big|many)|at (least|most)|(less|greater|lower|higher|more) than|between|"
    r"\brange\b|(minimum|maximum) value|>|<",
    r"do(es)? not (support|match|take)|doesn't support|incompatible|not a valid|failed to (parse|deserial|compile)",
    r"features not|not implemented|deprecated|up to \d",
)
NO_TOOLS = any_of(
    r"(tools?|tool[- ](use|call\w*|choice)|functions?|function[- ]call\w*)\b[^.;]{0,40}\b(requires?|(not|n't) (be )?"
    r"(support|enabl|availab|implement))",
    r"(not|n't|that) support (tools?|functions?|tool[- ]|function[- ])",
)
"""Who takes no tools at all: vLLM without a parser, smaller models, llama.cpp without a template, routers."""
QUOTED = lazy_pattern(r"[`'\"“]([A-Za-z_][\w.]*)[`'\"”]|(?:^|\s)([a-z_]+): ")
NAMED = lazy_pattern(
    r"(?i:unknown (?:name|field|parameter|argument|key)s?|unrecognized (?:request )?(?:argument|parameter|field"
    r"|key)s?"
    r"(?: supplied)?|unexpected (?:keyword argument|key|field|parameter|argument)s?(?: in the request)?|"
    r"(?:unsupported|invalid|illegal|extra|unused) (?:parameter|argument|field|option|key)s?|"
    r"support (?:the )?parameters?:?|extraneous key|parameters?\.|property|"
    r"['\"]body['\"],) ?[ :({\[]*[`'\"“]?([A-Za-z_]\w*)"
)
ROLES = any_of(r"\brole", r"alternat", r"system (message|prompt|instruction)", r"chat.?template", r"template error")
UNSUPPORTED_CONTENT = any_of(
    r"(generate|produce|parse)\w* (valid )?json|json_validate|tool_use_failed|tool call validation",
    r"(image|audio|video|multimodal|vision|file|document)s?\b.{0,40}(not support|unsupported|cannot|invalid)",
    r"(not|n't) (support|accept|process|handle).{0,30}(image|audio|video|multimodal|vision|language)",
    r"(must|can)( ?not|n't)? be (non-)?empty|is empty|non-empty|at least one (token|character|message)|"
    r"empty (prompt|input)",
    r"null (byte|character)|invalid (unicode|utf|character|encoding)|surrogate|unsupported (language|character)",
)
UNSUPPORTED_CODES = any_of(r"json_validate_failed|tool_use_failed|unsupported_content|unsupported_image|invalid_image")
JSON_WORD = any_of(r"the word.{0,3}json")
"""Some servers take `response_format` only where the prompt speaks of JSON."""
THINKING = any_of(r"not support (thinking|reasoning)|(thinking|reasoning) (mode )?(is )?not (supported|available)")
SCHEMA = any_of(
    r"json.?schema|json.?object|xgrammar|outlines|guidance|guided|grammar|response.?format|structured output|"
    r"text\.format"
)
