"""Gradio pages: the leaderboard, the page of a metric, the review page."""
