"""Agents on a knowledge base: tools and their schemas, the agent loop."""
