"""The leaderboard's Space."""

from kbbench_hf.app.leaderboard import main

main()
