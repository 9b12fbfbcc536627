"""Client of the Hugging Face Hub: downloads, uploads, listings; the only package that sends requests to it."""
