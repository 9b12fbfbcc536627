"""Language models: client of OpenAI-compatible servers, local transformers models, constrained decoding, refusals."""
