"""Cost of a run: prices from the user's dated file, the budget, and the estimate before the run.

Runs, agents and `synthesize` use it. The package has no prices of its own: they change. A `Price` is stored in
reports of running processes, so its fields keep their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from kbbench_hf.errors import DataError, KBBenchError, UsageError, unknown_name
from kbbench_hf.files.shards import Shard

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English text; each estimate names it among its assumptions."""
TOKENS_PER_SECOND = 50
"""The assumed speed of one request in estimates without a measured one."""


@dataclass(frozen=True)
class Price:
    """The price of one model on one day, per million tokens, in `currency`."""

    model: str
    input_per_million: float
    output_per_million: float
    currency: str
    as_of: str

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of these tokens, in `currency`.

        >>> Price("m", 2.0, 8.0, "USD", "2026-11-01").cost(1_000_000, 500_000)
        6.0
        """
        return (prompt_tokens * self.input_per_million + completion_tokens * self.output_per_million) / 1e6


def read_price(file: Path, model: str) -> Price:
    """Return the price of a model from a YAML or JSON file of the user's, like this one.

        as_of: 2026-11-01
        currency: USD
        models:
          my-model: {input_per_million: 0.15, output_per_million: 0.60}

    Raises:
        DataError: the file is not of this form, or says no date; a price without a date is a guess.
        UsageError: the file has no price for this model.
    """
    import yaml

    try:
        sheet = yaml.safe_load(file.read_text(encoding="utf-8"))
        as_of = sheet["as_of"] if isinstance(sheet["as_of"], date) else date.fromisoformat(sheet["as_of"])
        models: Mapping[str, Mapping[str, Any]] = sheet["models"]
        currency = str(sheet["currency"])
        if model not in models:
            raise unknown_name(f"model in the price file {file}", model, models)
        rates = [float(models[model][field]) for field in ("input_per_million", "output_per_million")]
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{file} is not a price file ({type(error).__name__}: {error}). Expected as_of (a date), currency, and "
            "models with input_per_million and output_per_million."
        ) from None
    if not all(0 <= rate < float("inf") for rate in rates):
        raise DataError(f"{file} has the price {rates} for {model!r}; expected numbers of at least 0.")
    return Price(model, rates[0], rates[1], currency, as_of.isoformat())


class BudgetSpentError(KBBenchError):
    """The budget of the run is used up; the responses are stored, and a larger budget resumes the run."""


class Budget:
    """The maximum number of requests and cost of a run, and how much of them is used.

    Earlier starts of the same run count: `n_requests` and `spent` are theirs. Each shard of a run has an equal share.

    Raises:
        UsageError: a maximum cost without a price.

    >>> budget = Budget(max_requests=1)
    >>> budget.take()
    >>> budget.take()
    Traceback (most recent call last):
    ...
    kbbench_hf.runners.cost.BudgetSpentError: All 1 requests of --max-requests are used. ...
    """

    def __init__(
        self,
        max_requests: int | None = None,
        max_cost: float | None = None,
        price: Price | None = None,
        n_requests: int = 0,
        spent: float = 0.0,
        shard: Shard | None = None,
    ) -> None:
        if max_cost is not None and price is None:
            raise UsageError("--max-cost needs a price: give a dated price file (--prices FILE).")
        self._share = ""
        if shard is not None and shard.count > 1:
            self._share = f", the share of shard {shard}"
            max_cost = None if max_cost is None else max_cost / shard.count
            # the first shards have one request more where the number does not divide
            max_requests = None if max_requests is None else (max_requests + shard.count - shard.number) // shard.count
        self.max_requests, self.max_cost, self.price = max_requests, max_cost, price
        self.requests, self.spent = n_requests, spent

    def take(self) -> None:
        """Take one request out of the budget, before it is sent.

        Raises:
            BudgetSpentError: there is none left.
        """
        if self.max_requests is not None and self.requests >= self.max_requests:
            raise BudgetSpentError(
                f"All {self.max_requests:,} requests of --max-requests are used{self._share}. Raise it to resume."
            )
        if self.max_cost is not None and self.price is not None and self.spent >= self.max_cost:
            raise BudgetSpentError(
                f"{self.spent:.4f} {self.price.currency} of --max-cost {self.max_cost:g} are spent{self._share}. "
                "Raise it to resume."
            )
        self.requests += 1

    def pay(self, prompt_tokens: int | None, completion_tokens: int | None) -> None:
        """Add the cost of the tokens of a response; do nothing without a price.

        Raises:
            KBBenchError: there is a maximum cost, and the server does not report tokens.
        """
        if self.price is None:
            return
        if prompt_tokens is None or completion_tokens is None:
            if self.max_cost is not None:
                raise KBBenchError(
                    "The server does not report the tokens it uses, so --max-cost cannot be kept. "
                    "Use --max-requests instead."
                )
            return
        self.spent += self.price.cost(prompt_tokens, completion_tokens)


@dataclass(frozen=True)
class CostEstimate:
    """The estimated tokens, cost and time of a run; `cost` is None without a price.

    With a measured request, `seconds` is the time if the server answers concurrent requests as fast as one, and
    `seconds_one_by_one` if it answers one after the other.
    """

    n_prompts: int
    prompt_tokens: int
    most_completion_tokens: int
    cost: float | None
    currency: str
    seconds: float
    assumes: str
    seconds_per_request: float | None = None
    seconds_one_by_one: float | None = None
    sent: str = "Nothing was sent."
    """The request that was sent to measure the time and its result, in a sentence."""

    @property
    def time(self) -> str:
        """Return how long the run would take, in words."""
        if self.seconds_one_by_one is None:
            return f"about {duration(self.seconds)} if the assumptions hold; no request was measured"
        return f"{duration(self.seconds)} to {duration(self.seconds_one_by_one)}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields, for `--json`."""
        return asdict(self)


def estimate(
    prompts: Iterable[Sequence[Mapping[str, str]]],
    max_tokens: Sequence[int],
    *,
    price: Price | None = None,
    concurrency: int = 1,
    measured: float | None = None,
    sent: str = "Nothing was sent.",
) -> CostEstimate:
    """Return the cost and time of these prompts if every response has its maximum length, of `max_tokens` each.

    `measured` is the latency of one request in seconds; without it, the time is that of `TOKENS_PER_SECOND`. `sent`
    says how it was measured. The field `assumes` of the result has the assumptions in words.

    >>> estimate([[{"role": "user", "content": "a" * 400}]], [50], concurrency=1).prompt_tokens
    100
    """
    characters = [sum(len(message["content"]) for message in messages) for messages in prompts]
    prompt_tokens = sum(-(-count // CHARACTERS_PER_TOKEN) for count in characters)
    completion_tokens = sum(max_tokens)
    seconds, speed = completion_tokens / TOKENS_PER_SECOND / concurrency, ""
    if measured is None:
        speed = f", {TOKENS_PER_SECOND} tokens a second for each of {concurrency} requests"
    else:
        seconds = max(1.0, len(characters) / concurrency) * measured
        speed = f"; {measured:.2f} s for each request, {concurrency} at once or one by one"
    return CostEstimate(
        n_prompts=len(characters),
        prompt_tokens=prompt_tokens,
        most_completion_tokens=completion_tokens,
        cost=price.cost(prompt_tokens, completion_tokens) if price else None,
        currency=price.currency if price else "",
        seconds=seconds,
        assumes=f"{CHARACTERS_PER_TOKEN} characters a token, answers of full length{speed}",
        seconds_per_request=measured,
        seconds_one_by_one=None if measured is None else len(characters) * measured,
        sent=sent,
    )


def duration(seconds: float) -> str:
    """Return a time in words: below 2 minutes in seconds, below 2 hours in minutes, else in hours.

    >>> duration(4.26), duration(600), duration(100_000)
    ('4.3 s', '10 min', '28 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
