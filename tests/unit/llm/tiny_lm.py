"""A causal language model small enough to be built and trained in a few seconds, in real transformers code."""

from collections.abc import Sequence
from pathlib import Path

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ROLES = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"]


def train(
    folder: Path,
    conversations: Sequence[tuple[Sequence[dict[str, str]], str]],
    *,
    texts: Sequence[str] = (),
    steps: int = 150,
    seed: int = 0,
) -> Path:
    """Teach a 2-layer Llama these (messages, answer) by heart and save it in `folder`.

    Its tokenizer merges across words, so that whatever the prompts share becomes a few long tokens; `texts` are further
    texts that it should be able to read.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    said = [message["content"] for messages, _ in conversations for message in messages]
    answers = [answer for _, answer in conversations]
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fast.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=ROLES, initial_alphabet=alphabet, show_progress=False, min_frequency=2
    )
    fast.train_from_iterator([*said, *answers, *texts], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, eos_token="<|end|>", pad_token="<|pad|>", chat_template=TEMPLATE, padding_side="left"
    )
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # matrices this small are multiplied sooner than threads are woken
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    rows, labels = [], []
    for messages, answer in conversations:
        asked = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt, reply = tokenizer(asked)["input_ids"], tokenizer(answer + "<|end|>")["input_ids"]
        rows.append(prompt + reply)
        labels.append([-100] * len(prompt) + reply)
    longest = max(map(len, rows))
    inputs = torch.tensor([row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows])
    targets = torch.tensor([row + [-100] * (longest - len(row)) for row in labels])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = model(input_ids=inputs, labels=targets).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss.item() < 0.01:
            break
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
