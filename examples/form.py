"""Fill a form about a picture: both models fill it, and only disputed fields are reasoned about."""

import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from langgraph_mai import create_mai, load_pair


class Shapes(BaseModel):
    """What is asked; any pydantic model of such fields will do."""

    red_shapes: int = Field(ge=0, le=20)
    star: Literal["red", "blue", "green", "yellow", "none"]
    circle: bool


shown = Path(__file__).parents[1] / "demo" / "pictures" / "shapes.png"
picture = sys.argv[1] if len(sys.argv) > 1 else str(shown)

pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
question = "How many red shapes are there? Which color is the star? Is there a circle?"
result = mai.invoke({"question": question, "images": [picture], "schema": Shapes})

for name, field in result["fields"].items():
    print(f"{name:12}{field['written']:10}{field['route']}")
print(Shapes.model_validate(result["value"]))
