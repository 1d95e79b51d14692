"""Small files of the public benchmarks, in the columns that they have on the hub."""

import io

from PIL import Image

SUBJECTS = ("Art", "Math")


def picture(seed=0, form="PNG"):
    data = io.BytesIO()
    Image.new("RGB", (28, 28), (seed * 40 % 256, 90, 160)).save(data, form)
    return data.getvalue()


def stored(seed=0, form="PNG"):
    return {"bytes": picture(seed, form), "path": f"{seed}.{form.lower()}"}


def pope_rows():
    """Three splits about the same two pictures, with numbers that repeat."""
    return [
        {
            "id": str(place * 4 + number),
            "question_id": str(number + 1),
            "question": f"Is there a {thing} in the image?",
            "answer": "yes" if number % 2 == 0 else "no",
            "image_source": f"COCO_val2014_{number // 2:012}",
            "image": stored(number // 2, "JPEG"),
            "category": split,
        }
        for place, split in enumerate(("adversarial", "popular", "random"))
        for number, thing in enumerate(("cat", "cup", "bus", "tree"))
    ]


def mmmu_rows(subject):
    images = {f"image_{number}": None for number in range(1, 8)}
    common = {
        "explanation": "",
        "img_type": "['Paintings']",
        "topic_difficulty": "Easy",
        "subfield": "Drawing",
    }
    return [
        {
            "id": f"validation_{subject}_1",
            "question": "Which style is <image 1>, and which <image 2>?",
            "options": "['Gothic and <image 3>', \"Baroque, it's late\", 'Modern']",
            "answer": "B",
            "question_type": "multiple-choice",
            **common,
            **images,
            "image_1": stored(1),
            "image_2": stored(2),
            "image_3": stored(3),
        },
        {
            "id": f"validation_{subject}_2",
            "question": "How many sides has the figure?",
            "options": "[]",
            "answer": "['6', 'six']",
            "question_type": "open",
            **common,
            **images,
            "image_1": stored(4),
        },
    ]


def mmbench_rows():
    """Two questions; rotations have the index of the first plus millions, at the end of the set."""
    options = {7: ["north", "south", "east", "west"], 9: ["one", "two"]}
    return [
        {
            "index": base + k * 1_000_000,
            "question": "Which way does it point?",
            "hint": "The compass is right." if base == 7 else "nan",
            "answer": "ABCD"[(1 - k) % len(options[base])],
            **{
                letter: (options[base][k:] + options[base][:k] + ["nan", "nan"])[place]
                for place, letter in enumerate("ABCD")
            },
            "category": "spatial_relationship" if base == 7 else "object_localization",
            "image": stored(base, "JPEG"),
            "source": "web",
            "L2-category": "relation_reasoning",
            "comment": "",
            "split": "dev",
        }
        for k in range(4)
        for base in (7, 9)
        if k < len(options[base])
    ]


def chartqa_rows():
    return [
        {
            "type": f"{split}_test",
            "question": "How high is the red bar?",
            "answer": str(number),
            "image": stored(number),
        }
        for split in ("human", "augmented")
        for number in (1, 2, 3)
    ]


def infovqa_rows():
    return [
        {
            "questionId": "98313",
            "question": "How many people answered?",
            "answers": ["410 million", "410M"],
            "answer_type": ["single span"],
            "image": stored(1),
            "image_url": "https://example.org/one.jpeg",
            "operation/reasoning": [],
            "ocr": "{}",
            "data_split": "val",
        }
    ]


def realworldqa_rows():
    return [
        {
            "image": stored(1),
            "question": "Which lane turns left?\n\nA. Left lane\nB. Middle lane\nC. Right lane\n"
            "Please answer directly with only the letter of the correct option and nothing else.",
            "answer": "A",
            "image_path": "1.webp",
        },
        {
            "image": stored(2),
            "question": "How many bikes are there?\n"
            "Please answer directly with a single word or number.",
            "answer": "2",
            "image_path": "2.webp",
        },
    ]


def write_parquet(path, rows):
    """A parquet file as `datasets` uploads them: pictures as bytes, marked as images."""
    import datasets

    table = datasets.Dataset.from_list(rows)
    for name in table.column_names:
        if name.startswith("image") and name not in ("image_source", "image_url", "image_path"):
            table = table.cast_column(name, datasets.Image(decode=False))
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(str(path))
    return path
