"""Several systems as one page: what they have, what tells them apart, and where they disagree."""

import json
import re
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.run_page import side_by_side_page
from kbbench_hf.scoring.results_table import results_table
from tests.unit.reports.test_run_page import HOSTILE, Page

COPY, PATTERN = shipped_answers("mini-text2kg")


def test_a_page_holds_the_table_the_tests_and_the_examples_on_which_systems_differ() -> None:
    (block,) = results_table([f"ours={PATTERN}", COPY], ["mini-text2kg"])
    text = side_by_side_page(block)
    page = Page(text)
    assert page.outside == [] and "script" not in page.tags
    assert re.search(r"<td>ours - copy</td><td class=drawn>.*?--zero:50.0%.*?</td><td>\+0.2236</td>", text, re.DOTALL)
    assert page.tags.count("details") == 17  # 15 wins and 2 losses
    assert "ours 1.0000, copy 0.0000" in text and "<li class=right>✓" in text


def test_a_half_file_is_warned_of_beside_the_figures(tmp_path: Path) -> None:
    half = tmp_path / "half.jsonl"
    half.write_text("".join(PATTERN.read_text(encoding="utf-8").splitlines(keepends=True)[:24]), encoding="utf-8")
    (block,) = results_table([half, COPY, PATTERN], ["mini-text2kg"])
    text = side_by_side_page(block)
    assert "half: 24 of 48 examples have no prediction" in text
    drawn = r"<td>\w+ - \w+</td><td class=drawn><span [^>]*--value:([\d.]+)%[^>]*></span>\s*</td><td>([-+][\d.]+)</td>"
    bars = [(float(place), float(difference)) for place, difference in re.findall(drawn, text)]
    assert len(bars) == 3 and sorted(bars) == sorted(bars, key=lambda bar: bar[1])


def test_what_a_model_wrote_stays_text(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in COPY.read_text(encoding="utf-8").splitlines()]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({**row, "triples": [[HOSTILE] * 3]}) + "\n" for row in rows))
    (block,) = results_table([f"{HOSTILE.replace('=', '')}={file}", PATTERN], ["mini-text2kg"])
    page = Page(side_by_side_page(block))
    assert page.outside == [] and "script" not in page.tags and "img" not in page.tags


def test_one_system_alone_is_refused() -> None:
    (block,) = results_table([COPY], ["mini-text2kg"])
    with pytest.raises(UsageError, match="two at least"):
        side_by_side_page(block)
