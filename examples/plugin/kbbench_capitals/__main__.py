"""Build `mini/` again: the dataset, and the predictions of a system that answers with the country's largest city."""

import csv
import json

from kbbench_capitals import HERE, build

build(None, HERE / "mini")
(HERE / "mini" / "predictions").mkdir()
with (HERE / "questions.csv").open(encoding="utf-8", newline="") as lines:
    rows = [{"id": row["id"], "answers": [row["largest_city"]]} for row in csv.DictReader(lines)]
text = "".join(f"{json.dumps(row)}\n" for row in rows)
(HERE / "mini" / "predictions" / "largest-city.jsonl").write_text(text, encoding="utf-8")
