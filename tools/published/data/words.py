"""Texts of made-up words: vocabularies, sentences, questions, tags."""

import json
import pickle  # noqa: TID251 - programs read it
import random
from collections.abc import Iterator
from pathlib import Path

WORDS = tuple(f"{a}{b}{c}" for a in "bdfglm" for b in "aeiou" for c in "nrst")
"""120 words of three letters."""

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def nothing(folder: Path) -> None:
    """Writes nothing, for a program that has its data."""


def sentences(count: int, length: int = 8, seed: int = 0) -> Iterator[list[str]]:
    """Yields sentences of words."""
    numbers = random.Random(seed)  # noqa: S311
    for _ in range(count):
        yield [numbers.choice(WORDS) for _ in range(length)]


def write_lines(path: Path, lines: Iterator[str] | list[str]) -> None:
    """Writes lines into a file, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def bert(folder: Path, **settings: object) -> None:
    """Writes `vocab.txt` and `bert.json` of a model without dropout, with other settings given."""
    pieces = [f"##{letter}" for letter in _LETTERS]
    write_lines(folder / "vocab.txt", [*_SPECIAL, *WORDS, *_LETTERS, *pieces, ".", "?", ","])
    config = {
        "vocab_size": len(_SPECIAL) + len(WORDS) + 2 * len(_LETTERS) + 3,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        **settings,
    }
    (folder / "bert.json").write_text(json.dumps(config))


def cola(folder: Path) -> None:
    """Writes what `bert` writes, and sentences with labels in the files of CoLA."""
    bert(folder)
    for name, count in (("train", 16), ("dev", 4)):
        rows = [f"x\t{n % 2}\t\t{' '.join(each)}" for n, each in enumerate(sentences(count))]
        write_lines(folder / f"{name}.tsv", rows)
    rows = [f"{n}\t{' '.join(each)}" for n, each in enumerate(sentences(4))]
    write_lines(folder / "test.tsv", ["index\tsentence", *rows])


def squad(folder: Path) -> None:
    """Writes what `bert` writes, and questions with answers in the form of SQuAD."""
    bert(folder)
    paragraphs = []
    for number, each in enumerate(sentences(8, 12)):
        answer = {"text": each[5], "answer_start": len(" ".join(each[:5])) + 1}
        question = {
            "id": str(number),
            "question": f"{each[4]} {each[6]} ?",
            "answers": [answer],
            "is_impossible": False,
        }
        paragraphs.append({"context": " ".join(each), "qas": [question]})
    text = json.dumps({"version": "1.1", "data": [{"title": "a", "paragraphs": paragraphs}]})
    (folder / "squad.json").write_text(text)


def documents(folder: Path) -> None:
    """Writes what `bert` writes, and documents: `text.txt`, a sentence per line."""
    bert(folder)
    lines: list[str] = []
    for number in range(8):
        lines += [f"{' '.join(each)}." for each in sentences(6, seed=number)]
        lines.append("")
    write_lines(folder / "text.txt", lines)


def polarity(folder: Path) -> None:
    """Writes sentences of two kinds, `positive.txt` and `negative.txt`."""
    write_lines(folder / "positive.txt", [" ".join(each) for each in sentences(40, seed=1)])
    write_lines(folder / "negative.txt", [" ".join(each) for each in sentences(40, seed=2)])


def characters(folder: Path) -> None:
    """Writes one long text, `input.txt`."""
    write_lines(folder / "input.txt", [" ".join(each) for each in sentences(40)])


def _tagged_lines(count: int) -> list[str]:
    """Returns words with tags of names, one a line, and an empty line after each sentence."""
    lines: list[str] = []
    for each in sentences(count):
        tags = ["B-PER", "I-PER", "O", "O", "B-LOC", "O", "B-ORG", "O"]
        lines += [f"{word} {tag}" for word, tag in zip(each, tags, strict=True)]
        lines.append("")
    return lines


def tagged(folder: Path) -> None:
    """Writes characters with tags of names, in the form of zh-NER-TF, and their numbers."""
    folder = folder / "named"
    write_lines(folder / "train_data", _tagged_lines(24))
    write_lines(folder / "test_data", _tagged_lines(6))
    numbers = {"<PAD>": 0, **{word: n + 1 for n, word in enumerate(WORDS)}, "<UNK>": len(WORDS) + 1}
    (folder / "word2id.pkl").write_bytes(pickle.dumps(numbers, protocol=2))


def names(folder: Path) -> None:
    """Writes what `cola` writes, and words with tags of names, a period after each sentence."""
    cola(folder)
    for name, count in (("train", 16), ("dev", 4), ("test", 4)):
        lines = [
            part for line in _tagged_lines(count) for part in ([line] if line else [". O", ""])
        ]
        write_lines(folder / f"{name}.txt", lines)


def translations(folder: Path) -> None:
    """Writes sentences in two languages, `train`, `dev` and `test`, with their vocabularies."""
    for language, offset in (("src", 0), ("tgt", 7)):
        for number, name in enumerate(("train", "dev", "test")):
            lines = [" ".join(each) for each in sentences(32 if name == "train" else 8, 6, number)]
            if offset:
                lines = [" ".join(reversed(line.split())) for line in lines]
            write_lines(folder / f"{name}.{language}", lines)
        write_lines(folder / f"vocab.{language}", ["<unk>", "<s>", "</s>", *WORDS])
    write_lines(
        folder / "pieces",
        ["<pad>\t0", "<unk>\t0", "<s>\t0", "</s>\t0", *(f"{w}\t0" for w in WORDS)],
    )


def albert(folder: Path) -> None:
    """Writes what `cola` writes, in `CoLA`, and a model with an embedding of another size."""
    (folder / "CoLA").mkdir()
    cola(folder / "CoLA")
    bert(folder, embedding_size=8, num_hidden_groups=1, inner_group_num=1)


def electra(folder: Path) -> None:
    """Writes what `documents` writes, with settings of 4 steps, and the corpus in a folder."""
    documents(folder)
    (folder / "corpus").mkdir()
    (folder / "text.txt").rename(folder / "corpus" / "text.txt")
    network = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    settings = {
        "vocab_size": json.loads((folder / "bert.json").read_text())["vocab_size"],
        "num_train_steps": 4,
        "num_warmup_steps": 1,
        "iterations_per_loop": 1,
        "train_batch_size": 4,
        "max_seq_length": 16,
        "embedding_size": 8,
        "generator_hidden_size": 1.0,
        "model_hparam_overrides": network,
    }
    (folder / "electra.json").write_text(json.dumps(settings))
