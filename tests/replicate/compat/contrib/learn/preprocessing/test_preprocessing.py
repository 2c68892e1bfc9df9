"""tf.contrib.learn.preprocessing: words and categories as numbers, and files of them."""

import numpy as np
import pytest

from replicate.compat.contrib.learn.preprocessing import text
from replicate.compat.old_modules import old_module

PREPROCESSING = old_module("tf.contrib", "replicate.v1").learn.preprocessing
TEXTS = ["The cat's NASAProject is well-known", "the cat is", "is it ?"]


def letters(texts):
    for each in texts:
        yield list(each)


def numbers(processor, texts=TEXTS):
    return [each.tolist() for each in processor.transform(texts)]


def test_texts_become_numbers_of_their_words_and_texts_again():
    words = ["The", "cat's", "NASA", "Project", "is", "well-known"]
    assert next(PREPROCESSING.text.tokenizer(TEXTS))[:2] == words[:2]
    assert next(text.tokenizer(["ABc DEf XYZ aB"])) == ["ABc", "DEf", "XYZ", "aB"]
    processor = PREPROCESSING.VocabularyProcessor(4)
    found = np.array(list(processor.fit_transform(TEXTS)))
    assert found.dtype == np.int64
    assert found[0].tolist() == [1, 2, 3, 4]
    assert found[2].tolist() == [5, 9, 0, 0]
    assert numbers(processor, ["dogs is"]) == [[0, 5, 0, 0]]
    assert next(processor.reverse([[5, 9, 0]])) == "is it <UNK>"
    assert len(processor.vocabulary_) == 10
    assert processor.vocabulary_._mapping["The"] == 1


def test_rare_words_are_unknown_and_the_most_frequent_come_first():
    processor = PREPROCESSING.VocabularyProcessor(4, min_frequency=1)
    assert [each.tolist() for each in processor.fit_transform(["b a a", "b a c"])] == [
        [2, 1, 1, 0], [2, 1, 0, 0],
    ]  # fmt: skip
    vocabulary = PREPROCESSING.CategoricalVocabulary(support_reverse=False)
    with pytest.raises(ValueError, match="needs support_reverse=True"):
        vocabulary.reverse(0)


@pytest.mark.parametrize("tokenizer", [None, letters])
def test_processors_are_saved_and_restored(tmp_path, tokenizer):
    kept = PREPROCESSING.VocabularyProcessor(np.int64(5), tokenizer_fn=tokenizer).fit(TEXTS)
    kept.save(str(tmp_path / "vocab"))
    restored = PREPROCESSING.VocabularyProcessor.restore(str(tmp_path / "vocab"))
    assert numbers(restored) == numbers(kept)
    assert restored.max_document_length == 5
    assert vars(restored.vocabulary_) == vars(kept.vocabulary_)
    kept._tokenizer = lambda texts: [*texts]
    with pytest.raises(TypeError, match=r"move .*lambda.* to the top of its module"):
        kept.save(str(tmp_path / "none"))


HOME = "tensorflow.contrib.learn.python.learn.preprocessing"
# What Python 2 wrote of a processor with the words "a" and "b", protocol 0.
OLD_FILE = f"""ccopy_reg
_reconstructor
(c{HOME}.text
VocabularyProcessor
c__builtin__
object
NtR(dS'max_document_length'
I2
sS'min_frequency'
I0
sS'_tokenizer'
c{HOME}.text
tokenizer
sS'vocabulary_'
ccopy_reg
_reconstructor
(c{HOME}.categorical_vocabulary
CategoricalVocabulary
c__builtin__
object
NtR(dS'_unknown_token'
S'<UNK>'
sS'_mapping'
(dS'<UNK>'
I0
sS'a'
I1
sS'b'
I2
ssS'_support_reverse'
I00
sS'_freq'
ccollections
defaultdict
(c__builtin__
int
tRsS'_freeze'
I01
sbsb."""


def test_files_of_tensorflow_1_are_read_and_nothing_else(tmp_path):
    path = tmp_path / "vocab"
    path.write_text(OLD_FILE)
    restored = PREPROCESSING.VocabularyProcessor.restore(str(path))
    assert numbers(restored, ["b a a", "c b"]) == [[2, 1], [0, 2]]
    for wrong in (b"cos\nsystem\n(S'true'\ntR.", b"{}", b"I3\n.", b""):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="vocab has no VocabularyProcessor"):
            PREPROCESSING.VocabularyProcessor.restore(str(path))


def test_bytes_and_columns_of_categories():
    processor = PREPROCESSING.ByteProcessor(4)
    found = list(processor.fit_transform(["ab", "abcdé"]))
    assert [each.tolist() for each in found] == [[97, 98, 0, 0], [97, 98, 99, 100]]
    assert list(processor.reverse(found)) == ["ab", "abcd"]
    rows = [["a", 1], ["b", 1], ["a", float("nan")]]
    for share, expected in ((False, [[1, 1], [2, 1], [1, 0]]), (True, [[1, 2], [3, 2], [1, 0]])):
        columns = PREPROCESSING.CategoricalProcessor(share=share)
        assert [each.tolist() for each in columns.fit_transform(rows)] == expected
    rare = PREPROCESSING.CategoricalProcessor(min_frequency=1).fit(rows)
    assert [each.tolist() for each in rare.transform([["a", 1], ["b", 2]])] == [[1, 1], [0, 0]]
