"""The mathematics: arrays and sets in, one value per example out. No input, no output, no Hugging Face."""
