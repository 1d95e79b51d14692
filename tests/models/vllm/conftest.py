"""What suits the tests that start vLLM in this process."""

import os
from importlib.util import find_spec

# Settings that suit models this small on two CPU cores; vLLM reads them when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

collect_ignore = [] if find_spec("vllm") else ["test_chat.py", "test_processes.py"]
