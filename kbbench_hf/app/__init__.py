"""The Gradio pages: the leaderboard, and the page on which a metric can be tried."""
