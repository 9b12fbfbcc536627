"""Late interaction: exact where every node is scored, small on disk, and candidates where a first stage finds them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import ProcessGroup, Ranking
from kbbench_hf.retrieval.context import RetrieverContext, no_bar
from kbbench_hf.retrieval.late_interaction import STEP, LateInteraction, TokenVectors, embed_tokens
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.retrieval.top_k import best, pad
from tests.unit.retrieval.small_kb import small_kb


class Drawn:
    """Tokens by chance: a text has as many as it has characters."""

    def __init__(self, d: int = 24) -> None:
        self.d, self.encoded = d, 0

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        self.encoded += len(texts)
        return [self._tokens(text) for text in texts]

    encode_queries = encode

    def _tokens(self, text: str) -> NDArray[np.float32]:
        vectors = np.random.default_rng(len(text)).normal(size=(len(text), self.d))
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def texts(n: int) -> list[str]:
    return ["x" * (1 + each * 7 % 61) for each in range(n)]


def worked_out(encoder: Drawn, asked: Sequence[str], nodes: Sequence[str], step: float = STEP) -> NDArray[np.float64]:
    """The definition: for each token of the question the best token of the node, summed."""
    kept = [np.rint(each / step) * step for each in encoder.encode(nodes)]
    return np.array([[(q @ d.T).max(1).sum() for d in kept] for q in encoder.encode(asked)])


def test_every_node_scores_the_sum_of_its_best_tokens(tmp_path: Path) -> None:
    encoder, nodes, asked = Drawn(), texts(700), ["one", "a longer question", "?"]
    tokens = embed_tokens(lambda: nodes, encoder, tmp_path / "t", ProcessGroup(), no_bar)
    found = LateInteraction(tokens, encoder).search(asked, 20)
    wanted = worked_out(encoder, asked, nodes)
    assert np.allclose(found.scores, np.take_along_axis(wanted, found.ids, 1), atol=1e-4)
    assert np.allclose(found.scores, -np.sort(-wanted, axis=1)[:, :20], atol=1e-4)


def test_numbers_take_a_quarter_of_float32_and_scores_hardly_move(tmp_path: Path) -> None:
    encoder, nodes = Drawn(), texts(50)
    tokens = embed_tokens(lambda: nodes, encoder, tmp_path / "t", ProcessGroup(), no_bar)
    assert 4 * tokens.codes.nbytes == sum(each.nbytes for each in encoder.encode(nodes))
    exact = np.array([[(q @ d.T).max(1).mean() for d in encoder.encode(nodes)] for q in encoder.encode(["a question"])])
    near = worked_out(encoder, ["a question"], nodes) / len("a question")
    assert np.abs(near - exact).max() < 0.01


def test_what_is_there_is_not_encoded_again_and_parts_make_the_same_bytes(tmp_path: Path) -> None:
    encoder, nodes = Drawn(), texts(1100)
    first = embed_tokens(lambda: nodes, encoder, tmp_path / "one", ProcessGroup(), no_bar)
    assert encoder.encoded == 1100
    embed_tokens(lambda: nodes, encoder, tmp_path / "one", ProcessGroup(), no_bar)
    assert encoder.encoded == 1100
    alone = ProcessGroup(1, 2, lambda value: [value])  # the second of two, which makes its own blocks and joins nothing
    with pytest.raises(FileNotFoundError):
        embed_tokens(lambda: nodes, encoder, tmp_path / "two", alone, no_bar)
    again = embed_tokens(lambda: nodes, encoder, tmp_path / "two", ProcessGroup(), no_bar)
    assert encoder.encoded == 2200
    assert (again.codes == first.codes).all() and (again.offsets == first.offsets).all()


def test_candidates_of_a_first_stage_are_ranked_by_their_rows(tmp_path: Path) -> None:
    encoder, nodes = Drawn(), texts(40)
    tokens = TokenVectors.quantize(encoder.encode(nodes))
    rows = np.arange(100, 140)

    class First:
        def search(self, queries: Sequence[str], top_k: int) -> Ranking:
            return pad([(np.array([103, 110, 139, 101])[:top_k], np.zeros(min(4, top_k)))] * len(queries), top_k)

    found = LateInteraction(tokens, encoder, rows, First(), 3).search(["a question"], 5)
    wanted = worked_out(encoder, ["a question"], nodes)[0, [3, 10, 39]]
    order = best(wanted, 3)
    assert found.ids.tolist() == [[*np.array([103, 110, 139])[order].tolist(), -1, -1]]
    assert np.allclose(found.scores[0, :3], wanted[order], atol=1e-4)


@pytest.mark.parametrize(("name", "words"), [("late", "no embedding model"), ("late:m@candidates=9", "no first stage")])
def test_a_name_that_cannot_be_built_says_how_to_write_it(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        retriever(name, RetrieverContext(small_kb(), tmp_path))


def test_a_model_of_its_own_is_taken_as_it_is_and_another_without_a_projection(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from kbbench_hf.retrieval.late_interaction import TokenEmbedder, load
    from tests.tiny_encoder import tiny_encoder

    plain = tiny_encoder(tmp_path / "m", ["the red kite"])
    own = load(str(plain))
    assert [type(each).__name__ for each in own] == ["Transformer", "MultiVectorMask", "Normalize"]
    own.save_pretrained(str(tmp_path / "own"), create_model_card=False)
    tokens = [TokenEmbedder(str(each)).encode(["the red kite"])[0] for each in (plain, tmp_path / "own")]
    assert np.allclose(*tokens) and np.allclose(np.linalg.norm(tokens[0], axis=1), 1, atol=1e-5)
