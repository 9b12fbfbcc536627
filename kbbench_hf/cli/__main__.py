"""`python -m kbbench_hf.cli`, which is how torchrun starts the command."""

from kbbench_hf.cli import main

if __name__ == "__main__":
    main()
