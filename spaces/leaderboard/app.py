"""The leaderboard's Space."""

from kbbench_hf.app.space import main

main()
