from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.files.shards import Shard
from kbbench_hf.runners.cost import Budget, BudgetSpentError, Price, estimate, read_price
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.run_options import price_of, prompt_options, sampling_of

PRICE = Price("m", input_per_million=2.0, output_per_million=8.0, currency="USD", as_of="2026-11-01")
SHEET = """
as_of: 2026-11-01
currency: EUR
models:
  m: {input_per_million: 2, output_per_million: 8.5}
"""


def test_a_price_file_may_be_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(SHEET)
    (tmp_path / "prices.json").write_text(
        '{"as_of": "2026-11-01", "currency": "EUR", '
        '"models": {"m": {"input_per_million": 2, "output_per_million": 8.5}}}'
    )
    expected = Price("m", 2.0, 8.5, "EUR", "2026-11-01")
    assert read_price(tmp_path / "prices.yaml", "m") == read_price(tmp_path / "prices.json", "m") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "models: {m: 1}",
        SHEET.replace("as_of: 2026-11-01", ""),
        SHEET.replace("2026-11-01", "last week"),
        SHEET.replace("8.5", "cheap"),
        SHEET.replace("8.5", "-1"),
        SHEET.replace("8.5", ".nan"),
        SHEET.replace("8.5", ".inf"),
        SHEET.replace("output_per_million", "output"),
        "{",
        "as_of: !!python/object/apply:os.system [true]",
    ],
)
def test_a_price_file_without_a_date_or_a_number_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(DataError, match="price"):
        read_price(tmp_path / "prices.yaml", "m")


def test_a_model_without_a_price_is_named_with_the_closest_one(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(SHEET.replace("m:", "my-model:"))
    with pytest.raises(UsageError, match="Did you mean 'my-model'"):
        read_price(tmp_path / "prices.yaml", "my-modle")


def test_cost_by_hand() -> None:
    assert PRICE.cost(1_000, 100) == (1_000 * 2 + 100 * 8) / 1e6 == 0.0028


def test_the_budget_ends_with_the_last_request() -> None:
    budget = Budget(max_requests=2)
    budget.take()
    budget.take()
    with pytest.raises(BudgetSpentError, match="--max-requests"):
        budget.take()
    assert budget.requests == 2


def test_the_budget_ends_with_the_money() -> None:
    budget = Budget(max_cost=0.005, price=PRICE)
    for _ in range(2):  # 2 * 0.0028 = 0.0056
        budget.take()
        budget.pay(1_000, 100)
    with pytest.raises(BudgetSpentError, match=r"0\.0056 USD of --max-cost 0\.005"):
        budget.take()


@pytest.mark.parametrize(("n", "most"), [(10, [4, 3, 3]), (2, [1, 1, 0])])
def test_shards_divide_a_budget(n: int, most: list[int]) -> None:
    budgets = [Budget(n, 0.3, PRICE, shard=Shard(number, 3)) for number in (1, 2, 3)]
    assert [budget.max_requests for budget in budgets] == most
    for _ in range(most[0]):
        budgets[0].take()
    with pytest.raises(
        BudgetSpentError, match=f"All {most[0]} requests of --max-requests are used, the share of shard 1/3"
    ):
        budgets[0].take()
    with pytest.raises(
        BudgetSpentError, match=r"0\.1600 USD of --max-cost 0\.1 are spent, the share of shard 1/3\. Raise"
    ):
        budget = Budget(None, 0.3, PRICE, shard=Shard(1, 3))
        budget.pay(80_000, 0)
        budget.take()


def test_a_limit_in_money_needs_a_price_and_a_token_count() -> None:
    with pytest.raises(UsageError, match="--prices"):
        Budget(max_cost=1.0)
    with pytest.raises(KBBenchError, match="does not report the tokens"):
        Budget(max_cost=1.0, price=PRICE).pay(None, 10)
    Budget(price=PRICE).pay(None, 10)  # without a limit there is nothing to keep


def test_the_estimate_by_hand() -> None:
    prompts = [[{"role": "user", "content": "a" * 401}], [{"role": "user", "content": "a" * 8}]]
    found = estimate(prompts, [100, 50], price=PRICE, concurrency=2)
    assert found.prompt_tokens == 101 + 2  # ceil(401 / 4) + 8 / 4
    assert found.most_completion_tokens == 150
    assert found.cost == (103 * 2 + 150 * 8) / 1e6
    assert found.seconds == 150 / 50 / 2
    assert "50 tokens a second" in found.assumes


def test_an_unknown_price_is_blank_and_never_guessed() -> None:
    found = estimate([[{"role": "user", "content": "abcd"}]] * 10, [5] * 10)
    assert found.cost is None and found.currency == ""


def test_what_a_request_and_its_prompt_get_of_the_options_of_a_run(tmp_path: Path) -> None:
    sampled = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "seed": 3}
    options: Any = {**sampled, "extra_body": {"a": 1}, "shots": 2, "demonstrations": "similar", "concurrency": 4}
    assert sampling_of(options) == Sampling(**sampled, extra={"a": 1}) and sampling_of({}) == Sampling()
    assert prompt_options(options) == PromptOptions(shots=2, demonstrations="similar", seed=3)
    assert prompt_options({**options, "seed": None}) == PromptOptions(shots=2, demonstrations="similar")
    (tmp_path / "prices.yaml").write_text(SHEET)
    assert price_of("m", {"prices": tmp_path / "prices.yaml", "max_cost": 1.0}) == Price(
        "m", 2.0, 8.5, "EUR", "2026-11-01"
    )
    assert price_of("m", {}) is None
    with pytest.raises(UsageError, match="--max-cost needs --prices"):
        price_of("m", {"max_cost": 1.0})
