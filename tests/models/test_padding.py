"""Inputs of single prompts put together into one batch."""

import torch

from langgraph_mai.models.transformers.padding import merge_inputs


def prompt(*ids, **extra):
    tokens = torch.tensor([ids])
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **extra}


def test_prompts_are_padded_on_the_left():
    merged = merge_inputs([prompt(5, 6, 7), prompt(8)], pad=9)
    assert merged["input_ids"].tolist() == [[5, 6, 7], [9, 9, 8]]
    assert merged["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]


def test_types_of_tokens_are_padded_and_filled_in():
    merged = merge_inputs([prompt(1, 2, mm_token_type_ids=torch.tensor([[0, 1]])), prompt(3)], 0)
    assert merged["mm_token_type_ids"].tolist() == [[0, 1], [0, 0]]


def test_pictures_follow_each_other():
    first = prompt(1, pixel_values=torch.zeros(4, 6), image_grid_thw=torch.tensor([[1, 2, 2]]))
    third = prompt(1, 2, pixel_values=torch.ones(2, 6), image_grid_thw=torch.tensor([[1, 1, 2]]))
    merged = merge_inputs([first, prompt(7, 7, 7), third], pad=0)
    assert merged["pixel_values"].shape == (6, 6)
    assert merged["pixel_values"][4:].eq(1).all()
    assert merged["image_grid_thw"].tolist() == [[1, 2, 2], [1, 1, 2]]


def test_pictures_that_do_not_fit_together_are_not_merged():
    one = prompt(1, pixel_values=torch.zeros(1, 2, 3))
    other = prompt(1, pixel_values=torch.zeros(1, 1, 3))
    assert merge_inputs([one, other], pad=0) is None


def test_a_single_prompt_is_left_alone():
    one = prompt(1, 2, pixel_values=torch.zeros(1, 5))
    assert merge_inputs([one], pad=0) == one


def test_no_prompts():
    assert merge_inputs([], pad=0) is None
