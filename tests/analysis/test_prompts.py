import json

import pytest

from specdec.analysis import LabelledPrompt, read_prompts, shipped_prompts, take_evenly
from specdec.errors import SettingsError


def write(path, *entries):
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries))
    return path


def test_spec_bench_lines(tmp_path):
    first = {"question_id": 81, "category": "writing", "turns": ["one", "two"]}
    file = write(tmp_path / "bench.jsonl", first, "", {"turns": ["three"]})
    assert read_prompts(file) == [LabelledPrompt(81, "one", "writing"), LabelledPrompt(3, "three")]


def test_plain_lines(tmp_path):
    file = write(tmp_path / "prompts.txt", " first ", "", "second")
    assert read_prompts(file) == [LabelledPrompt(1, "first"), LabelledPrompt(3, "second")]


def test_json_lines_are_recognised_by_the_first_line(tmp_path):
    file = write(tmp_path / "prompts", {"turns": ["x"]})
    assert read_prompts(file) == [LabelledPrompt(1, "x")]


def test_byte_order_mark_is_no_part_of_a_prompt(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_bytes(b"\xef\xbb\xbfhello\n")
    assert read_prompts(file)[0].prompt == "hello"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{broken", "not JSON"),
        ("[1]", "JSON object"),
        ({"prompt": "x"}, "turns"),
        ({"turns": []}, "turns"),
        ({"turns": "text"}, "turns"),
        ({"turns": [""]}, "first of 'turns'"),
        ({"turns": [7]}, "first of 'turns'"),
        ({"turns": ["x"], "category": 3}, "category"),
        ({"turns": ["x"], "question_id": [1]}, "question_id"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, why):
    file = write(tmp_path / "bench.jsonl", {"turns": ["fine"]}, line)
    with pytest.raises(SettingsError, match=f"line 2: .*{why}"):
        read_prompts(file)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    for name, why in (("empty.txt", "no prompt"), ("latin.txt", "UTF-8"), ("missing.txt", "cannot be read")):
        with pytest.raises(SettingsError, match=why):
            read_prompts(tmp_path / name)


def test_limit_takes_evenly_over_categories():
    prompts = [LabelledPrompt(index, "x", category) for index, category in enumerate("aaaabbc")]
    taken = {limit: [prompt.id for prompt in take_evenly(prompts, limit)] for limit in range(1, 9)}
    assert taken[1] == [0]
    assert taken[3] == [0, 4, 6]
    assert taken[5] == [0, 1, 4, 5, 6]
    assert taken[6] == [0, 1, 2, 4, 5, 6]
    assert taken[7] == taken[8] == list(range(7))
    assert all(set(taken[limit]) <= set(taken[limit + 1]) for limit in range(1, 8))


def test_limit_without_categories_takes_the_first():
    prompts = [LabelledPrompt(index, "x") for index in range(4)]
    assert [prompt.id for prompt in take_evenly(prompts, 2)] == [0, 1]
    with pytest.raises(SettingsError, match="at least 1"):
        take_evenly(prompts, 0)


def test_shipped_set_covers_its_categories_and_has_a_real_article():
    prompts = shipped_prompts()
    categories = {prompt.category for prompt in prompts}
    assert categories == {"writing", "coding", "math", "qa", "summarization", "translation"}
    assert len({prompt.id for prompt in prompts}) == len(prompts) == 24
    words = [len(str(prompt.prompt).split()) for prompt in prompts if prompt.category == "summarization"]
    assert words[0] > 250 and max(words) > 500
