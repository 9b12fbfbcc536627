"""Leaderboard without its pages: submissions, the store, and the rows of the board."""
