import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import benchmark, shipped_dataset
from kbbench_hf.benchmarks.base import Prompt, PromptOptions
from kbbench_hf.errors import UsageError
from kbbench_hf.llm import causal_lm
from kbbench_hf.llm.causal_lm import CausalLM
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import Generation, generate
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.llm_run import prompt_task, run_language_model
from kbbench_hf.runners.run_options import language_model
from kbbench_hf.scoring.eval_task import load_examples
from tests.servers.serving import await_answer, free_port
from tests.unit.llm.tiny_lm import train


def split(text: str, _: object) -> list[str]:
    return text.split()


LEARNT = 12
"""Of the 48 examples of mini-text2kg, the model learns the first 12 by heart."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = benchmark("mini-text2kg")
    examples = found.data.load(shipped_dataset("mini-text2kg"), found.data.configs[0], found.data.default_split)
    prompt = next(iter(found.asking.prompts.values()))
    asked = [prompt(row, examples, PromptOptions()).messages for row in examples.rows]
    answers = [
        json.dumps(
            {
                "triples": [
                    {"subject": triple["sub"], "relation": triple["rel"].replace(" ", "_"), "object": triple["obj"]}
                    for triple in row["triples"]
                ]
            }
        )
        for row in examples.rows[:LEARNT]
    ]
    texts = [message["content"] for messages in asked for message in messages]
    learnt = list(zip(asked[:LEARNT], answers, strict=True))
    return train(tmp_path_factory.mktemp("tiny"), learnt, texts=texts)


@pytest.fixture(scope="module")
def model(folder: Path) -> CausalLM:
    return CausalLM(str(folder))


def prompts_of(n: int, **options: Any) -> dict[Any, Prompt]:
    asked = prompt_task(load_examples("mini-text2kg", limit=n)).prompts
    return {example: replace(prompt, **options) for example, prompt in asked.items()}


def run(model: CausalLM, folder: Path, n: int = 48, **options: Any) -> Generation:
    return generate(prompts_of(n), model, folder, show=False, parse=split, answer="words", **options)


def test_what_was_learnt_is_answered_and_scored(model: CausalLM, tmp_path: Path) -> None:
    _, summary, result, _ = run_language_model(
        prompt_task(load_examples("mini-text2kg")), model, "tiny", tmp_path / "run", show=False
    )
    # The twelve learnt examples are right, and of the others none: 12 / 48 in the mean over sentences.
    assert result.to_dict()["scores"]["f1"]["value"] == pytest.approx(0.25, abs=0.03)
    assert (summary.n_answered, summary.n_requests) == (48, 48)
    assert summary.n_parse_failures == result.counters["n_parse_failures"] <= 36


def test_the_revision_of_a_folder_does_not_depend_on_the_order_of_its_listing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, revisions = Path.iterdir, set()
    for backwards in (False, True):
        monkeypatch.setattr(Path, "iterdir", lambda self, way=backwards: iter(sorted(listing(self), reverse=way)))
        revisions.add(CausalLM(str(folder)).revision)
    assert len(revisions) == 1


def test_a_finished_run_generates_nothing_again(
    model: CausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(model, tmp_path)
    first = (tmp_path / "predictions.jsonl").read_bytes()
    monkeypatch.setattr(model, "generate", lambda *_: pytest.fail("asked again"))
    run(model, tmp_path)
    assert (tmp_path / "predictions.jsonl").read_bytes() == first


SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from kbbench_hf.llm import causal_lm
from kbbench_hf.llm.causal_lm import CausalLM
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.llm_run import prompt_task
from kbbench_hf.scoring.eval_task import load_examples
model = CausalLM(sys.argv[1])
def split(text, _): return text.split()
prompts = prompt_task(load_examples("mini-text2kg")).prompts
done = generate(prompts, model, Path(sys.argv[2]), parse=split, answer="words")
assert done.summary.n_answered == 48 and (Path(sys.argv[2]) / "predictions.jsonl").exists()
"""


@pytest.mark.full
def test_two_processes_answer_as_one_does_and_one_goes_on_where_two_stopped(
    model: CausalLM, folder: Path, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run(model, one)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    subprocess.run(
        [*launcher, "--master_port", str(free_port()), str(script), str(folder), str(two)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
        check=True,
        capture_output=True,
        timeout=240,
    )
    expected = (one / "predictions.jsonl").read_bytes()
    assert (two / "predictions.jsonl").read_bytes() == expected
    shards = [two / "journal.jsonl", two / "journal.1.jsonl"]
    assert [len(shard.read_text().splitlines()) for shard in shards] == [32, 16]  # batches 1 and 3; 2
    for shard in shards:
        shard.write_text("".join(shard.read_text().splitlines(keepends=True)[:7]))
    (two / "predictions.jsonl").unlink()
    run(model, two)
    assert (two / "predictions.jsonl").read_bytes() == expected


def test_another_number_of_processes_than_asked_for_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"1 process\(es\) are running, but --processes is 2.*torchrun"):
        language_model(f"hf:{folder}", {"processes": 2})


def test_a_model_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere' cannot be loaded as a causal language model"):
        CausalLM(str(tmp_path / "nowhere"))


def test_out_of_memory_halves_the_batch_and_changes_no_answer(
    model: CausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    expected = run(model, tmp_path / "whole").responses()
    sizes: list[int] = []
    complete = model._complete

    def small(prompts: Any, *rest: Any) -> Any:
        sizes.append(len(prompts))
        if len(prompts) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return complete(prompts, *rest)

    monkeypatch.setattr(model, "_complete", small)
    monkeypatch.setattr(model, "_size", model.batch_size)
    assert run(model, tmp_path / "halved").responses() == expected
    assert sizes == [16, 8] + [4] * 12  # what was found to fit is kept for the batches that follow


def test_a_single_prompt_that_does_not_fit_the_memory_is_an_error_not_a_loop(
    model: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def none(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(model, "_complete", none)
    with pytest.raises(torch.OutOfMemoryError):
        model.generate([[{"role": "user", "content": "?"}]], 5)


def test_a_prompt_that_is_too_long_is_an_error_of_its_own(model: CausalLM, tmp_path: Path) -> None:
    prompts = prompts_of(3) | {"long": Prompt([{"role": "user", "content": "\u2603" * 2000}], max_tokens=16)}
    done = generate(prompts, model, tmp_path, show=False)
    assert done.summary.errors == {"prompt_too_long": 1}
    assert done.summary.n_answered == 3


def test_an_answer_is_cut_at_its_own_limit_and_says_so(model: CausalLM, tmp_path: Path) -> None:
    done = generate(prompts_of(4, max_tokens=2) | prompts_of(2), model, tmp_path, show=False)
    found = [(record["completion_tokens"], record["finish_reason"]) for record in done.records()]
    assert [finish for _, finish in found] == ["stop", "stop", "length", "length"]
    assert [tokens for tokens, _ in found[2:]] == [2, 2]
    assert done.summary.n_cut_off == 2


def test_a_stop_word_ends_the_answer(model: CausalLM, tmp_path: Path) -> None:
    whole = generate(prompts_of(1), model, tmp_path / "whole", show=False)
    cut = generate(prompts_of(1, stop=('"relation"',)), model, tmp_path / "cut", show=False)
    (text,), (beginning,) = whole.responses().values(), cut.responses().values()
    assert text is not None and beginning == text[: text.index('"relation"')]
    assert cut.summary.n_cut_off == 0


def test_sampling_is_the_same_every_time_and_repeats_differ(model: CausalLM, tmp_path: Path) -> None:
    hot = Sampling(temperature=5.0, max_tokens=12)
    first, second = (run(model, tmp_path / name, 6, sampling=hot, repeats=2) for name in ("a", "b"))
    texts = [record["response"] for record in first.records()]
    assert texts == [record["response"] for record in second.records()]
    assert texts[:6] != texts[6:]


def test_the_name_follows_the_weights_and_the_template(folder: Path, model: CausalLM, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(folder, tmp_path / folder.name)
    assert CausalLM(str(copy)).name == model.name
    assert CausalLM(str(copy), chat_template=False).name != model.name
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert CausalLM(str(copy)).name != model.name


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="transformers serve needs openai")
def test_transformers_serve_answers_as_the_local_model_does(model: CausalLM, folder: Path, tmp_path: Path) -> None:
    port = free_port()
    serve = [Path(sys.executable).with_name("transformers"), "serve", "--device", "cpu", "--dtype", "float32"]
    cache = tmp_path / "cache"
    (cache / "hub").mkdir(parents=True)
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [*serve, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )
    try:
        await_answer(f"http://127.0.0.1:{port}/health", server, tmp_path / "log")
        endpoint = Endpoint(f"http://127.0.0.1:{port}", str(folder), timeout_s=60)
        served = generate(prompts_of(12), endpoint, tmp_path / "served", show=False, concurrency=2, canary=False)
        local = run(model, tmp_path / "local", 12)
    finally:
        server.terminate()
        server.wait(20)
    assert served.responses() == local.responses()
    assert served.summary.n_failed == 0


SCHEMA = {
    "type": "object",
    "properties": {"supported": {"type": "boolean"}},
    "required": ["supported"],
    "additionalProperties": False,
}


def test_a_structured_answer_follows_its_schema_whatever_the_model_would_say(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    learnt = [([{"role": "user", "content": f"Is it {i}?"}], "Yes indeed.") for i in range(3)]
    small = CausalLM(str(train(tmp_path / "small", learnt, steps=40)))
    prompts = {i: Prompt(messages, max_tokens=40, json_schema=SCHEMA) for i, (messages, _) in enumerate(learnt)}
    held = generate(prompts, small, tmp_path / "held", structured=True, show=False)
    assert held.summary.n_schema_violations == 0
    assert all(isinstance(json.loads(text or "")["supported"], bool) for text in held.responses().values())
    free = generate(prompts, small, tmp_path / "free", show=False)
    assert {*free.responses().values()} == {"Yes indeed."}
    mixed = {i: replace(prompt, json_schema=SCHEMA if i == 1 else None) for i, prompt in prompts.items()}
    found = generate(mixed, small, tmp_path / "mixed", structured=True, show=False).responses()
    assert (found[0], found[1], found[2]) == ("Yes indeed.", held.responses()[1], "Yes indeed.")
    odd = {0: replace(prompts[0], json_schema={"type": "ship"})}
    with pytest.raises(UsageError, match="This JSON schema cannot constrain a local model"):
        generate(odd, small, tmp_path / "odd", structured=True, show=False)
    long_tokens = CausalLM(str(folder))  # its tokens are sentences
    with pytest.raises(UsageError, match="tokenizer cannot be held to a schema"):
        generate(prompts, long_tokens, tmp_path / "long", structured=True, show=False)


def test_a_model_that_cannot_be_held_to_a_schema_is_refused(tmp_path: Path) -> None:
    class Free:
        def generate(self, prompts: Any, max_tokens: int) -> list[str]:
            return ["yes" for _ in prompts]

    with pytest.raises(UsageError, match="cannot be held to a JSON schema"):
        generate(prompts_of(2, json_schema=SCHEMA), Free(), tmp_path, structured=True, show=False)


def test_a_template_without_a_system_role_gets_it_in_the_question(folder: Path) -> None:
    strict = CausalLM(str(folder))
    refuse = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    strict._tokenizer.chat_template = refuse + strict._tokenizer.chat_template
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert strict._prompt_text(messages) == "<|user|>Be brief.\n\nWhy?<|end|><|assistant|>"
    strict._tokenizer.chat_template = "{{ raise_exception('No') }}"
    for refused in (messages, messages[1:]):
        with pytest.raises(UsageError, match=r"refuses the prompt: No. Run it with --no-chat-template"):
            strict._prompt_text(refused)


def test_what_the_models_own_configuration_sets_is_recorded_and_used(folder: Path, tmp_path: Path) -> None:
    own = CausalLM(str(folder))
    own._model.generation_config.top_k = 7
    own._sampling = {"top_k": 7, "repetition_penalty": 1.1}
    greedy: Any = own._generation_config({"max_tokens": 4, "temperature": 0.0}, 4)
    assert (greedy.do_sample, greedy.repetition_penalty) == (False, 1.1)
    sampled: Any = own._generation_config({"max_tokens": 4, "temperature": 0.5, "top_k": 3}, 4)
    assert (sampled.do_sample, sampled.top_k, sampled.temperature) == (True, 3, 0.5)
    assert own._generation_config({"max_tokens": 4, "temperature": 0.5}, 4).top_k == 7  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="takes no reasoning_effort"):
        own._generation_config({"max_tokens": 4, "reasoning_effort": "low"}, 4)
    summary = run(own, tmp_path, 2).summary
    assert summary.servers[0]["generation_config"] == {"top_k": 7, "repetition_penalty": 1.1}
    assert summary.servers[0]["dtype"] == "float32"


def test_options_of_transformers_load_the_model_and_are_part_of_its_name(folder: Path, tmp_path: Path) -> None:
    half = CausalLM(str(folder), options={"dtype": "bfloat16"})
    assert half.name.endswith(' with {"dtype": "bfloat16"}')
    assert half.identity["dtype"] == "bfloat16"
    with pytest.raises(UsageError, match="options that this model takes"):
        CausalLM(str(folder), options={"adapter": str(tmp_path / "none")})


def test_other_weights_do_not_go_on_with_a_run(folder: Path, model: CausalLM, tmp_path: Path) -> None:
    run(model, tmp_path, 2)
    with pytest.raises(UsageError, match="answers of another server or model: its dtype is"):
        run(CausalLM(str(folder), options={"dtype": "bfloat16"}), tmp_path, 4)


def test_a_gguf_file_is_loaded_by_tokenizer_and_model_with_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    (tmp_path / "m.Q4.gguf").write_bytes(b"GGUF")
    loaded: list[dict[str, Any]] = []
    for kind in (transformers.AutoTokenizer, transformers.AutoModelForCausalLM):
        real = kind.from_pretrained

        def load(name: str, real: Any = real, **options: Any) -> Any:
            loaded.append({"name": name, "gguf_file": options.pop("gguf_file", None)})
            return real(str(folder), **options)

        monkeypatch.setattr(kind, "from_pretrained", load)
    monkeypatch.setattr(causal_lm, "find_spec", lambda name: object())
    names = set()
    for given, options in ((tmp_path / "m.Q4.gguf", None), (tmp_path, None), (tmp_path, {"gguf_file": "m.Q4.gguf"})):
        loaded.clear()
        names.add(CausalLM(str(given), options=options).name.partition(" with ")[0])
        assert loaded == [{"name": str(tmp_path), "gguf_file": "m.Q4.gguf"}] * 2
    (name,) = names
    assert name.startswith("m.Q4.gguf@")
    (tmp_path / "m.Q4.gguf").write_bytes(b"GGUF, other weights")
    assert CausalLM(str(tmp_path)).name not in names


@pytest.mark.parametrize(
    ("files", "model", "expected"),
    [
        (["a.gguf"], "{}/a.gguf", ("{}", "a.gguf")),
        (["a.gguf"], "{}", ("{}", "a.gguf")),
        (["A.GGUF", "config.json", "mmproj-a.gguf"], "{}/", ("{}", "A.GGUF")),
        (["a.gguf", "model.safetensors"], "{}", ("{}", None)),
        (["a.gguf", "pytorch_model-00001-of-00002.bin"], "{}", ("{}", None)),
        (["config.json"], "{}", ("{}", None)),
        ([], "org/name/sub/a.gguf", ("org/name", "sub/a.gguf")),
        ([], "org/name", ("org/name", None)),
        ([], "org/Name-GGUF", ("org/Name-GGUF", "only.gguf")),
        ([], "org/Several-GGUF", "org/Several-GGUF holds 2 GGUF files .*Name it: hf:org/Several-GGUF/b.gguf"),
        ([], "org/Private-GGUF", ("org/Private-GGUF", None)),
        (["a.gguf", "b.gguf"], "{}", r"holds 2 GGUF files \(a.gguf, b.gguf\); expected one. Name it: hf:.*/a.gguf"),
        ([], "{}/none.gguf", "There is no file '.*none.gguf'"),
        ([], "~/none.gguf", "There is no file '~/none.gguf'"),
        ([], "none.gguf", "There is no file 'none.gguf'"),
        (["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"], "{}", "is one of 2 parts.*llama-gguf-split --merge"),
    ],
)
def test_the_file_of_a_gguf_model_is_found_or_named(
    files: list[str], model: str, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    on_hub = {"org/Name-GGUF": ["README.md", "only.gguf"], "org/Several-GGUF": ["c.gguf", "b.gguf"]}
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda self, name, revision: on_hub[name])
    monkeypatch.setattr(causal_lm, "find_spec", lambda name: object())
    for file in files:
        (tmp_path / file).touch()
    given = model.format(tmp_path)
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            causal_lm.model_source(given)
    else:
        assert causal_lm.model_source(given)[:] == (expected[0].format(tmp_path), expected[1])


def test_a_missing_gguf_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.gguf").touch()
    monkeypatch.setattr(causal_lm, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"a\.gguf needs the package 'gguf', which is not installed: pip install gguf"):
        CausalLM(str(tmp_path / "a.gguf"))
