"""How a benchmark is made: from sources that anyone can get to questions, answers and the contexts they stand in."""
