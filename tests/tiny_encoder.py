"""A sentence-transformers model of random weights, made in a moment: two layers, 32 wide, whole words as tokens."""

from collections.abc import Iterable
from pathlib import Path


def tiny_encoder(folder: Path, texts: Iterable[str], seed: int = 0) -> Path:
    """Write a model that knows the words of these texts, and return its folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = sorted({word for text in texts for word in text.lower().replace(".", " ").split() if word.isalnum()})
    folder.mkdir(parents=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", ":", "?", *words]))
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=9 + len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(folder / "bert")
    BertTokenizerFast(str(vocabulary)).save_pretrained(folder / "bert")
    body = Transformer(str(folder / "bert"), max_seq_length=32)
    SentenceTransformer(modules=[body, Pooling(32)], device="cpu").save_pretrained(str(folder / "model"))
    return folder / "model"
