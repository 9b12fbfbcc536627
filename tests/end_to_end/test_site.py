"""The site: verdicts follow from figures, every public name is on it, and it builds into pages that need nobody."""

import ast
import csv
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from PIL import Image
from sphinx_click.ext import _format_help, _format_options

import kbbench_hf
from kbbench_hf.cli.run_options import GROUPS
from kbbench_hf.cli.verbs import kbbench
from tests.end_to_end.browser.chromium import chromium
from tests.golden.recompute import genres, read, stark

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

from extensions.pictures import COMPARISON, comparison, description, state_of_the_art  # noqa: E402
from extensions.trust import judged, verdict_of  # noqa: E402

from kbbench_hf.benchmarks.published import PublishedScore, Source  # noqa: E402

SCREENS = 20
"""Longest page, in screens of a phone."""
SOURCE = Source("one", "printed", "A Paper", "", "https://a.b", "")


@pytest.mark.parametrize(
    ("printed", "digits", "ours", "verdict"),
    [
        (0.35, 2, 0.345, "exact"),  # a half, rounded up
        (0.34, 2, 0.345, "exact"),  # or down
        (0.34, 2, 0.3499, "cut"),
        (0.35, 2, 0.3401, "close"),
        (0.34, 2, 0.3399999, "exact"),
        (0.34, 2, 0.36, "other"),
        (6.8, 1, 6.69, "close"),
        (0.34, 2, None, "not again"),
    ],
)
def test_a_verdict_follows_from_the_printed_digits(
    printed: float, digits: int, ours: float | None, verdict: str
) -> None:
    assert verdict_of(PublishedScore(printed, digits, SOURCE, "row"), ours) == verdict


def test_published_scores_over_time_are_dated_and_none_is_second_hand() -> None:
    of_mag, of_prime = (state_of_the_art(kbbench_hf.benchmark(f"stark-{name}")) for name in ("mag", "prime"))
    assert of_mag["queries"][-2:] == [(2026.0, 0.6701, "ARK (GPT-4o)"), (2026.0, 0.6166, "ARK distilled")]
    systems = {name for block in of_prime.values() for _, _, name in block}
    assert "GraphRAFT" in systems and "GRASP" not in systems
    assert not state_of_the_art(kbbench_hf.benchmark("mini-stark"))


def test_every_published_figure_has_a_verdict_and_what_cannot_be_had_a_reason() -> None:
    found = list(judged())
    second_hand = ("avatar", "ark-others", "grasp", "graphraft-others", "mor", "sage")
    lines = [
        line
        for file in (ROOT / "kbbench_hf/benchmarks").glob("*/published.csv")
        for line in csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    ]
    assert len(found) == sum(line["source"] not in second_hand for line in lines) < len(lines)
    assert all(each.why for each in found if each.verdict in ("not again", "other"))


def test_the_readme_counts_the_verdicts_of_the_site() -> None:
    counts = Counter(each.verdict for each in judged())
    shown = [counts["exact"] + counts["cut"], counts["close"], counts["other"], counts["not again"], counts.total()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| {' | '.join(f'{count:,}' for count in shown)} |" in readme
    assert f"publish {counts.total():,} scores" in readme


def test_the_picture_of_the_readme_shows_the_scores_of_the_demo() -> None:
    with Image.open(COMPARISON) as picture:
        assert picture.info["Description"] == description(comparison())
    assert COMPARISON.stat().st_size < 100_000


def test_what_released_answers_give_is_what_the_site_compares_with(shared: Path) -> None:
    stored = read()
    again = [*stark(shared / "data/stark"), *genres(shared / "data/genres")]
    assert len(again) == sum(place.benchmark[:5] in ("stark", "genre") for place, *_ in stored)
    assert {each[:4]: each.value for each in again} == {key: stored[key] for key in (each[:4] for each in again)}


def test_text2kgbench_averages_on_the_site_are_those_of_another_reading_of_the_release(shared: Path) -> None:
    columns = {"precision": "P", "recall": "R", "f1": "F1", "ontology_conformance": "OC", "subject_hallucination": "SH",
               "relation_hallucination": "RH", "object_hallucination": "OH"}  # fmt: skip
    with (shared / "expected/text2kg_expected.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["F1_full"]]
    full = {(row["dataset"], row["model"], row["variant"], row["ontology"]): row for row in rows}
    n_found = 0
    for (place, system, part, metric), value in read().items():
        if place.benchmark.startswith("text2kg") and place.mode == "reference":
            dataset = place.benchmark.removeprefix("text2kg-").replace("-", "_")
            variant = "unseen" if place.split == "unseen" else "all"
            row = full.get((dataset, system, variant, part.removeprefix("ontology=") or "GLOBAL"))
            if row is not None:
                assert value == pytest.approx(float(row[f"{columns[metric]}_full"]), abs=1e-12)
                n_found += 1
    assert n_found > 300


API = re.compile(r"^\.\. auto(module|class|function):: (\S+)", re.M)
RAISED = {"UsageError", "DataError", "KBBenchError", "BusyError", "PredictionsError"}
PAGES = {page: page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}


def documented() -> list[str]:
    """Return what the reference shows: modules, classes and functions by their full names."""
    return [name for text in PAGES.values() for _, name in API.findall(text)]


def functions(module: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the public functions and methods of a module, with their full names."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) and node.name[0] != "_" else [node]
        for each in inner:
            if isinstance(each, ast.FunctionDef) and each.name[0] != "_":
                yield f"{module}.{'' if each is node else f'{node.name}.'}{each.name}", each  # type: ignore[attr-defined]


def modules() -> set[str]:
    """Return the modules of what the reference shows."""
    found = set()
    for name in documented():
        while name != "kbbench_hf" and not (ROOT / f"{name.replace('.', '/')}.py").is_file():
            name = name.rpartition(".")[0]
        found.add(name)
    own = {getattr(kbbench_hf, name).__module__ for name in kbbench_hf.__all__}
    return {name for name in found | own if (ROOT / f"{name.replace('.', '/')}.py").is_file()}


def test_every_public_name_is_on_the_site() -> None:
    shown = set(documented())
    missing = []
    defined = {"Example": "kbbench_hf.benchmarks.base"}  # an alias names the module of its target
    for name in kbbench_hf.__all__:
        module = defined.get(name) or getattr(kbbench_hf, name).__module__
        if not shown & {f"kbbench_hf.{name}", f"{module}.{name}", module}:
            missing.append(name)
    assert missing == []


def test_every_documented_function_says_what_it_is_and_the_errors_that_it_raises() -> None:
    silent, undocumented = [], []
    for module in sorted(modules()):
        for name, node in functions(module):
            said = ast.get_docstring(node) or ""
            if not said and not any("overload" in ast.dump(each) for each in node.decorator_list):
                undocumented.append(name)
            raised = {
                call.func.id if isinstance(call.func, ast.Name) else "unknown_name"
                for each in ast.walk(node)
                if isinstance(each, ast.Raise) and isinstance(call := each.exc, ast.Call)
            }
            if raised & (RAISED | {"unknown_name"}) and "Raises:" not in said:
                silent.append(name)
    assert undocumented == []
    assert silent == []


def test_every_documented_array_says_its_shape() -> None:
    arrays = re.compile(r"NDArray|Floats|Values|ArrayLike")
    words = re.compile(
        r"shape|one value per|one row per|per document|per example|per query|of each|a row|rows|numbers|number"
    )
    silent = []
    for module in sorted(modules()):
        if ".metrics." in module:
            for name, node in functions(module):
                returned = ast.unparse(node.returns) if node.returns else ""
                if arrays.search(returned) and not words.search(ast.get_docstring(node) or ""):
                    silent.append(name)
    assert silent == []


def test_every_command_is_on_the_site() -> None:
    shown = {name for text in PAGES.values() for name in re.findall(r"click:: kbbench_hf\.cli\.(\w+):command", text)}
    assert shown == {name.replace("-", "_") for name in kbbench.list_commands(click.Context(kbbench))}


def test_the_page_of_the_command_line_has_every_option_of_run_and_examples_to_copy() -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    command = kbbench.get_command(click.Context(kbbench), "run")
    assert command is not None
    context = click.Context(command, info_name="run")
    options = list(_format_options(context))
    conf["_options"](None, context, options)
    shown = re.findall(r"--[a-z][a-z-]+", "".join(line for line in options if line.startswith(".. option::")))
    in_help = re.findall(r"(?<!\w)--[a-z][a-z-]+", CliRunner().invoke(kbbench, ["run", "--help"]).output)
    assert {*shown, "--help"} == {*in_help}
    said = list(_format_help(command.help or ""))
    conf["_description"](None, context, said)
    assert "    $ kbbench run mini-stark --model bm25" in said


def test_options_that_pages_name_exist() -> None:
    def options(command: click.Command) -> set[str]:
        nested = [options(each) for each in command.commands.values()] if isinstance(command, click.Group) else []
        return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}.union(*nested)

    context = click.Context(kbbench)
    verbs = [kbbench.get_command(context, name) for name in kbbench.list_commands(context)]
    known = options(kbbench).union(*(options(verb) for verb in verbs if verb))
    known |= {name for group in GROUPS for each in group.options for name in (*each.opts, *each.secondary_opts)}
    pages = {**PAGES, ROOT / "README.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    named = {(page.name, option) for page, text in pages.items() for option in re.findall(r"`(--[a-z][a-z-]+)", text)}
    assert len(named) > 40
    assert {(page, option) for page, option in named if option not in known} == set()


def test_addresses_on_the_pages_are_those_that_are_known_to_exist() -> None:
    known = set((DOCS / "addresses.txt").read_text(encoding="utf-8").splitlines()[1:])
    found = {
        address.rstrip(".,)`'\"")
        for page in (*PAGES, ROOT / "README.md")
        for address in re.findall(r"https?://[^\s<>]+", page.read_text(encoding="utf-8"))
    }
    own = {address for address in found if "localhost" in address or "127.0.0.1" in address}
    assert found - own == known


@pytest.mark.browser
@pytest.mark.full  # `.ci/run` runs it on what `make docs` built
def test_pages_are_short_on_a_phone_and_search_shows_excerpts_without_a_server(tmp_path: Path) -> None:
    site = Path(os.environ.get("KBBENCH_SITE", tmp_path / "site")).absolute()
    if not site.exists():
        sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "-d", str(tmp_path / "doctrees"), str(DOCS)]
        done = subprocess.run([*sphinx, str(site)], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for file in sorted(site.rglob("*.html")):
            page.goto(f"file://{file}")
            width, height = page.evaluate("(e => [e.scrollWidth, e.scrollHeight])(document.documentElement)")
            assert width <= 390, file
            assert height <= SCREENS * 844, (
                f"{file} has {height / 844:.1f} screens; split the page, or fold a part of it"
            )
        page.goto(f"file://{site}/metrics/ranking.html")
        found = axe.run(page).response["violations"]
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        assert page.locator("math").count() and page.locator("code").count()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", dark)[:3])) < 60
        page.goto(f"file://{site}/search.html?q=torchmetrics")
        excerpt = page.locator("#search-results li p.context")
        excerpt.first.wait_for(timeout=10000)
        assert "torchmetrics" in excerpt.first.inner_text()
        page.goto(f"file://{site}/trust.html")
        assert page.locator("details").count() == 4
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
