"""Every `evaluate` module loads from its folder, keeps to the form, and its documentation is true."""

import doctest
import inspect
import math
import re
import sys
from pathlib import Path

import evaluate
import pytest

from kbbench_hf.errors import DataError

ROOT = Path(__file__).parents[2]
MODULES = sorted(file.parent.name for file in (ROOT / "metrics").glob("*/*.py") if file.stem == file.parent.name)
CARD_SECTIONS = (
    *("Metric Description", "How to Use", "Inputs", "Output Values", "Values from Popular Papers", "Examples"),
    *("Limitations and Bias", "Citation"),
)


@pytest.fixture(params=MODULES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_there_are_modules():
    assert "text2kg" in MODULES


def test_every_example_of_a_module_runs_and_is_true(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    metric = evaluate.load(f"metrics/{name}")
    module = sys.modules[type(metric).__module__]
    failed, attempted = doctest.testmod(module, extraglobs={"evaluate": evaluate}, verbose=False)
    assert (failed, attempted > 1) == (0, True)


def test_a_module_names_its_options_and_inherits_from_metric_alone(name):
    metric = evaluate.load(str(ROOT / "metrics" / name))
    assert type(metric).__bases__ == (evaluate.Metric,)
    kinds = {parameter.kind for parameter in inspect.signature(metric._compute).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds
    assert "return_ci" in inspect.signature(metric._compute).parameters


def test_a_module_says_all_that_a_card_says(name):
    card = (ROOT / "metrics" / name / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    assert [section for section in CARD_SECTIONS if f" {section}\n" not in card] == []
    assert (ROOT / "metrics" / name / "requirements.txt").read_text(encoding="utf-8").strip()


def test_imports_are_those_that_evaluate_can_read(name):
    # `evaluate` reads imports line by line: "import a, b" is looked up as one package called "a,".
    source = (ROOT / "metrics" / name / f"{name}.py").read_text(encoding="utf-8")
    assert not [line for line in source.splitlines() if line.startswith("import ") and "," in line]


def test_the_code_on_a_card_runs_and_gives_what_it_says(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    card = (ROOT / "metrics" / name / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        if "runs/" in block:
            continue  # needs a run of the reader's own
        if block.startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(block, names, name, None, 0)
            assert doctest.DocTestRunner().run(example).failed == 0
            continue
        code = block.replace(f'"kbbench/{name}"', repr(str(ROOT / "metrics" / name)))
        exec(code, names)  # noqa: S102
        for line in code.splitlines():
            statement, _, said = line.partition("  # ")
            if re.fullmatch(r"[\d.]+", said) and ".compute(" in statement:
                assert eval(statement, names) == float(said), line  # noqa: S307


@pytest.mark.parametrize("odd", [["a", 1, "b"], ["a", None, "b"], ["a", "r"]])
def test_text2kg_refuses_a_triple_that_is_not_three_strings(odd):
    metric = evaluate.load(str(ROOT / "metrics" / "text2kg"))
    reference = {"sentence": "a b", "triples": [["a", "r", "b"]], "ontology": {"concepts": [], "relations": ["r"]}}
    with pytest.raises(DataError, match="three strings"):
        metric.compute(predictions=[[["a", "r", "b"]], [odd]], references=[reference, reference])


def test_text2kg_takes_triples_as_objects_too():
    metric = evaluate.load(str(ROOT / "metrics" / "text2kg"))
    reference = {"sentence": "a b", "triples": [["a", "r", "b"]], "ontology": {"concepts": [], "relations": ["r"]}}
    triple = {"sub": "a", "rel": "r", "obj": "b"}
    assert metric.compute(predictions=[[triple]], references=[reference])["f1"] == 1.0


def test_text2kg_of_nothing_is_nan():
    metric = evaluate.load(str(ROOT / "metrics" / "text2kg"))
    results = metric.compute(predictions=[], references=[])
    assert math.isnan(results["f1"]) and results["n_scored"] == results["n_empty"] == 0


@pytest.mark.parametrize(
    ("predictions", "gold", "words"),
    [
        (["r(a, b)", [["a", "r", "b"]]], ["a", "r", "b"], "mix texts and lists"),
        ([[["a", "r", "b"]], "r(a, b)"], ["a", "r", "b"], "mix texts and lists"),
        ([[], []], ["a", "r"], "three strings"),
        ([None, None], ["a", "r", "b"], "is None"),
    ],
)
def test_text2kg_refuses_what_it_would_misread(predictions, gold, words):
    metric = evaluate.load(str(ROOT / "metrics" / "text2kg"))
    reference = {"sentence": "a b", "triples": [gold], "ontology": {"concepts": [], "relations": ["r"]}}
    with pytest.raises(DataError, match=words):
        metric.compute(predictions=predictions, references=[reference, reference])
