"""The leaderboard without its pages: submissions, the store that loses nothing, and the rows of the board."""
