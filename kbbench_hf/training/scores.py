"""Scores during training: a `transformers` callback that generates and a `sentence-transformers` evaluator.

Users add them to their trainers, and `training.encoders` chooses checkpoints by `RetrievalScores`. Names of logged keys
are an interface: reporters and `metric_for_best_model` use them.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks import find_dataset, name_of_path, task_key_of
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples, PromptOptions
from kbbench_hf.errors import UsageError, missing_extra, unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.protocols import Message, ProcessGroup, Ranking
from kbbench_hf.retrieval.context import Forms, Text, render
from kbbench_hf.retrieval.embedders import BLOCK_TEXTS
from kbbench_hf.retrieval.late_interaction import LateInteraction, TokenVectors
from kbbench_hf.retrieval.top_k import search
from kbbench_hf.runners.process_group import group
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.training.questions import VALIDATION

try:
    from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
    from transformers import TrainerCallback
except ImportError as error:
    raise missing_extra(str(error.name), "models") from None


_WHOLE_MODELS = ("MULTI_CPU", "MULTI_GPU")
"""Each process has the whole model and generates its shard; otherwise all processes generate together."""


class GenerationScores(TrainerCallback):  # type: ignore[misc]
    """Generates responses to a subset of a benchmark at every evaluation and logs the scores of its table.

    They are logged as `eval_<name>_<metric>`, with `eval_<name>_unparsed`, the share of responses without an answer;
    reporters get them like the loss, and `metric_for_best_model` may name one. Decoding is greedy.

    Args:
        trainer: has the model; its `processing_class` is the tokenizer.
        benchmark: the dataset's name, `mini-text2kg` say.
        config: the config; the benchmark's first where None.
        split: the split; validation where None.
        limit: how many examples, the first ones.
        prompt: the prompt's name; the benchmark's first where None.
        options: demonstrations and other options of the prompt.
        max_tokens: tokens of a response; the prompt's own limit where None.
        batch_size: prompts per forward pass.
        name: prefix of the keys; where empty, the dataset, then the config and the split if they are given.

    Raises:
        UsageError: a name that does not exist, or a benchmark without prompts.
    """

    def __init__(
        self,
        trainer: Any,
        benchmark: str,
        *,
        config: str | None = None,
        split: str | None = None,
        limit: int = 32,
        prompt: str | None = None,
        options: PromptOptions | None = None,
        max_tokens: int | None = None,
        batch_size: int = 8,
        name: str = "",
    ) -> None:
        benchmark = name_of_path(benchmark)
        if not benchmark_of(task_key_of(benchmark, config).benchmark).asking.prompts:
            raise UsageError(
                f"{benchmark!r} is answered by retrievers; expected one with prompts. Use RetrievalScores."
            )
        given_split, split = split, split or _validation_split(benchmark, config)
        self._benchmark, self._examples, *_ = load_examples(benchmark, config, split, limit=limit)
        self.name = name or _default_name(self._benchmark, config, given_split)
        prompt = prompt or next(iter(self._benchmark.asking.prompts))
        if prompt not in self._benchmark.asking.prompts:
            raise unknown_name(f"prompt of {benchmark}", prompt, self._benchmark.asking.prompts)
        self._trainer, self._batch_size = trainer, batch_size
        render_prompt = self._benchmark.asking.prompts[prompt]
        self._prompts = [render_prompt(row, self._examples, options or PromptOptions()) for row in self._examples.rows]
        self._max_tokens = max_tokens or max(each.max_tokens for each in self._prompts)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **others: Any) -> None:
        """Score, add the scores to the evaluation's metrics, and log them."""
        scores = self.figures()
        metrics.update(scores)
        self._trainer.log(scores)

    def figures(self) -> dict[str, float]:
        """Return the scores of the current model."""
        processes = group() if self._trainer.accelerator.distributed_type in _WHOLE_MODELS else ProcessGroup()
        own = [self._prompts[place].messages for place in processes.shard(range(len(self._prompts)))]
        texts = [text for part in processes.gather(self._generate(own)) for text in part]
        parse = next(iter(self._benchmark.asking.parsers.values()))
        answers: list[Answer] = []
        n_unparsed = 0
        for text, example in zip(texts, self._examples.rows, strict=True):
            try:
                answers.append(parse(text, example).answer)
            except ParseError:
                answers.append([])
                n_unparsed += 1
        prefix = f"eval_{self.name}_"
        figures = _finite_scores(self._benchmark, self._examples, answers, prefix)
        return {**figures, f"{prefix}unparsed": n_unparsed / len(texts)}

    def _generate(self, prompts: Sequence[Sequence[Message]]) -> list[str]:
        import torch

        model, tokenizer = self._trainer.accelerator.unwrap_model(self._trainer.model), self._trainer.processing_class
        was_training, side = model.training, tokenizer.padding_side
        has_template = bool(tokenizer.chat_template)
        texts: list[str] = []
        model.eval()
        tokenizer.padding_side = "left"  # an answer follows its prompt, not the padding
        try:
            for start in range(0, len(prompts), self._batch_size):
                batch = [
                    tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                    if has_template
                    else "\n\n".join(message["content"] for message in messages)
                    for messages in prompts[start : start + self._batch_size]
                ]
                inputs = tokenizer(batch, padding=True, return_tensors="pt", add_special_tokens=not has_template)
                with torch.no_grad():
                    output = model.generate(
                        input_ids=inputs["input_ids"].to(model.device),
                        attention_mask=inputs["attention_mask"].to(model.device),
                        max_new_tokens=self._max_tokens,
                        do_sample=False,
                        pad_token_id=tokenizer.pad_token_id,
                    )
                answers = output[:, inputs["input_ids"].shape[1] :]
                texts += tokenizer.batch_decode(answers, skip_special_tokens=True)
        finally:
            model.train(was_training)
            tokenizer.padding_side = side
        return texts


class RetrievalScores(SentenceEvaluator):  # type: ignore[misc]
    """Ranks a knowledge base for a subset of a benchmark's queries; an evaluator for `SentenceTransformerTrainer`.

    Called with a model it returns `<name>_<metric>` for the metrics of the benchmark's table, as the evaluators of
    sentence-transformers do. `primary_metric`, by which the best checkpoint is chosen, is the mean reciprocal rank.
    Evaluators of one training run need different names, since their keys must differ.

    Args:
        benchmark: the dataset's name, `mini-stark` say.
        split: the split; validation where None.
        limit: how many queries, the first ones; all where None.
        text: the form of the nodes' texts.
        top_k: depth of the rankings.
        batch_size: texts per forward pass.
        max_length: tokens after which texts are cut; as the model cuts them where None.
        name: prefix of the keys; where empty, the dataset, then the split if it is given.
    """

    def __init__(
        self,
        benchmark: str,
        *,
        split: str | None = None,
        limit: int | None = None,
        text: str | Text = "named",
        top_k: int = 100,
        batch_size: int = 32,
        max_length: int | None = None,
        name: str = "",
    ) -> None:
        super().__init__()
        benchmark = name_of_path(benchmark)
        if benchmark_of(task_key_of(benchmark).benchmark).asking.prompts:
            raise UsageError(f"{benchmark!r} is answered by language models; expected a ranking. Use GenerationScores.")
        self._benchmark, self._examples, *_ = load_examples(
            benchmark, None, split or _validation_split(benchmark), limit=limit
        )
        kb = KnowledgeBase.open(find_dataset(self._benchmark.dataset).path)
        rows = np.sort(kb.rows(self._examples.context.candidates.ids))
        self._ids = kb.ids(rows)
        self._texts = render(kb, text, rows, Forms.of(self._benchmark))
        self._top_k, self._batch_size, self._max_length = min(top_k, len(rows)), batch_size, max_length
        self.name = name or _default_name(self._benchmark, None, split)
        self.primary_metric = f"{self.name}_mrr"

    @property
    def description(self) -> str:
        """The title of this evaluation in model cards."""
        return self._benchmark.title

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the scores of a model, and store them for its card."""
        options = {"batch_size": self._batch_size, "normalize_embeddings": True, "show_progress_bar": False}
        usual = model.max_seq_length
        model.max_seq_length = self._max_length or usual
        try:
            ranking = rank_texts(
                model, self._texts, [row["query"] for row in self._examples.rows], self._top_k, **options
            )
        finally:
            model.max_seq_length = usual
        answers = [[self._ids[position] for position in row] for row in ranking.ids]
        figures = _finite_scores(self._benchmark, self._examples, answers, f"{self.name}_")
        self.store_metrics_in_model_card_data(model, figures, epoch, steps)
        return figures


def rank_texts(model: Any, texts: Sequence[str], queries: Sequence[str], top_k: int, **options: Any) -> Ranking:
    """Return the `top_k` best texts for each query by a model in training: dense, or of late interaction."""
    from sentence_transformers import MultiVectorEncoder

    if not isinstance(model, MultiVectorEncoder):
        return search(model.encode_document(texts, **options), model.encode_query(list(queries), **options), top_k)
    options["convert_to_numpy"] = True
    tokens = TokenVectors.concatenate(
        [
            TokenVectors.quantize(model.encode_document(texts[start : start + BLOCK_TEXTS], **options))
            for start in range(0, len(texts), BLOCK_TEXTS)
        ]
    )
    return LateInteraction(tokens, model).rank(model.encode_query(list(queries), **options), top_k)


def _finite_scores(benchmark: Benchmark, examples: Examples, answers: list[Answer], prefix: str) -> dict[str, float]:
    """Return the finite scores under the names that trainers log, without intervals.

    MRR has a value even where no answer is in the rankings, so that it can always choose the best checkpoint.
    """
    mode = benchmark.scoring.modes[0]
    figures = benchmark.scoring.summarise(benchmark.scoring.score(examples, answers, mode), mode)
    return {f"{prefix}{metric}": estimate.value for metric, estimate in figures.items() if isfinite(estimate.value)}


def _default_name(benchmark: Benchmark, config: str | None, split: str | None) -> str:
    """Return the dataset's name, with the config and the split where they are given."""
    return "_".join([benchmark.dataset, *filter(None, (config, split))])


def _validation_split(name: str, config: str | None = None) -> str:
    """Return the split to evaluate on by default: validation, and never another.

    Raises:
        UsageError: the benchmark has no such split.
    """
    task_key = task_key_of(name, config)
    known = benchmark_of(task_key.benchmark).data.splits
    if VALIDATION not in known:
        raise UsageError(
            f"{task_key.benchmark} has no split {VALIDATION!r} to evaluate on during training; known: "
            f"{', '.join(known)}. Choose one, such as split={task_key.split!r}; it is then no longer an unseen "
            "test split."
        )
    return VALIDATION
