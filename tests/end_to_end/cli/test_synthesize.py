"""`kbbench synthesize` as a user meets it."""

from pathlib import Path

SPEC = """\
templates:
  - "cookbook -[contains]-> dish"
  - "planet -[orbits]-> star"
skip_absent: true
requirements: 0
"""


def test_what_a_spec_cannot_ask_is_said_where_it_happens_and_on_the_card(kbbench, in_tmp):
    Path("specs").mkdir()
    Path("specs/mine.yaml").write_text(SPEC, encoding="utf-8")
    done = kbbench("synthesize", "mini-stark", "--count", "500", "--spec", "specs/mine.yaml", "--out", "made")
    said = "only 1 of the 2 templates of the spec can be asked of mini-stark"
    words = " ".join(done.err.split())
    assert done.code == 0 and said in words and "kbbench/made/README.md" in words
    card = Path("kbbench/made/README.md").read_text(encoding="utf-8")
    assert f"**500 were asked for**: {said}" in card
    assert "| `planet -[orbits]-> star` | types or relations that are not here |" in card
    assert "--count 500 --seed 0 --spec mine.yaml`" in card  # no folder of this machine


def test_shards_are_refused_with_the_reason(kbbench, in_tmp):
    done = kbbench("synthesize", "mini-stark", "--count", "5", "--shard", "1/2")
    assert done.code == 2 and "--shard 1/2 is not for synthesize: later steps need the responses" in done.err
    assert not [*in_tmp.iterdir()]
