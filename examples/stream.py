"""Watch both agents write, word by word, and the verdicts between them."""

import asyncio
import sys
from pathlib import Path

from langgraph_mai import create_mai, load_pair


async def main(question: str, images: list[str]) -> None:
    """Print what each agent writes and what the graph decides."""
    pair = load_pair("demo")
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
    given = {"question": question, "images": images}
    async for mode, event in mai.astream(given, stream_mode=["messages", "custom"]):
        if mode == "custom":
            print("event:", event)
            continue
        chunk, metadata = event
        role = next((tag for tag in metadata.get("tags", []) if tag.startswith("mai:")), "answer")
        print(f"{role}: {chunk.text!r}")


shown = Path(__file__).parents[1] / "demo" / "pictures" / "chart.png"
*pictures, asked = sys.argv[1:] or [str(shown), "Which bar is the highest?"]
asyncio.run(main(asked, pictures))
