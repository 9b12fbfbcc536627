"""From predictions to a result, and from two results to a comparison."""
