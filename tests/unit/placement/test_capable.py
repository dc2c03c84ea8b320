"""What a whole fleet lacks for a model, in words; what is down at the moment isn't taken for what is missing."""

import pytest

from workflows.domain.placement.capable import Known, Need, lacking

EMPTY: frozenset[str] = frozenset()
BIG = Known("a", frozenset({"comfyui"}), frozenset({"image_edit"}), 97_887, 2)
SMALL = Known("b", frozenset({"native"}), frozenset({"image_upscale"}), 4_096, 8)
DOWN = Known("c", EMPTY, EMPTY, 97_887)


@pytest.mark.parametrize(
    ("known", "need", "words"),
    [
        ([BIG, SMALL], Need("comfyui", "image_edit", 80_000), None),
        ([BIG, SMALL], Need("comfyui", "image_edit", 97_888), "97888 MiB are needed"),
        ([BIG, SMALL], Need("native", "image_upscale", 4_097), "the largest such card has 4096"),
        ([BIG, SMALL], Need("native", "image_edit", 1), "no card offers image_edit"),
        ([BIG, SMALL], Need("http_task", "image_edit", 1), "no card has a http_task engine"),
        ([BIG, SMALL], Need("comfyui", "image_edit", 1, cards=2), None),
        ([BIG, BIG], Need("comfyui", "image_edit", 1, cards=4), None),
        ([BIG, SMALL], Need("comfyui", "image_edit", 1, cards=3), "the most together are 2"),
        ([DOWN, SMALL], Need("comfyui", "image_edit", 80_000), None),
        ([DOWN, SMALL], Need("comfyui", "image_edit", 97_888), "97888 MiB are needed"),
        ([], Need("comfyui", "image_edit", 1), None),
    ],
)
def test_what_is_lacking(known: list[Known], need: Need, words: str | None) -> None:
    found = lacking(known, need)
    assert found is None if words is None else words in (found or "")
