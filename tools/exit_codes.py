"""What the exit codes of the `mai` process mean; 0 is done."""

RUN_FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
