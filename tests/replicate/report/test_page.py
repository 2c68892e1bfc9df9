from replicate.report.curves import Curve, read_curves
from replicate.report.page import page
from replicate.report.times import Times


def test_page_of_training_and_evaluation(model_dir):
    times = Times({"training": 9.0, "start": 1.0}, 0.25, 0.5, 3)
    pictures = {"Curves": "a.png", "K-FAC": "b.png"}
    text = page("Report of small", read_curves(model_dir), pictures, times)
    assert (
        text
        == """\
# Report of small

|  |  |
|---|---|
| last step | 11 |
| training loss at step 11 | 0.0625 |
| steps per second | 50 (median of 40 to 60, evaluations and saves included) |
| total time | 10 s |
| time per step | 250 ms (mean, 4 per second, evaluations and saves not included) |
| time to first step | 500 ms |
| time: training | 9 s (90 %) |
| time: start | 1 s (10 %) |

## Curves

![Curves](a.png)

## K-FAC

![K-FAC](b.png)

- 2 steps were not finite and skipped. Look for bad input, or lower the learning rate.
- The largest condition number is 8, of w/input, which float32 can invert.
- The damping fell from 0.25 to 0.125, as in a good run.

| at the last step |  |
|---|---|
| damping | 0.125 |
| skipped steps | 2 |
| kept inverses | 0 |
| largest condition | 8, w/input |

## Evaluation: test

| step | loss | accuracy |
|---|---|---|
| 6 | 0.75 | 0.5 |
| 11 | 0.875 | 0.625 |

Lowest loss of 2 evaluations: 0.75 at step 6.
"""
    )


def test_page_of_an_evaluation_alone_escapes_table_separators():
    steps = tuple(range(1, 21))
    curves = {"a|b": Curve(steps, (float("nan"),) * 20)}
    text = page("x", {"eval": curves}, {})
    assert "| step | a\\|b |\n|---|---|\n| 11 | nan |" in text
    assert text.endswith("| 20 | nan |\n")


def test_page_of_workers_that_meet_in_rounds_has_their_bytes():
    runs = {"training": {"bytes_sent": Curve((10, 20), (1234.0, 2.5e6))}}
    assert "| bytes sent in rounds, at step 20 | 2,500,000 |" in page("x", runs, {})


def test_names_make_no_links_lines_and_elements():
    curve = Curve((1,), (1.0,))
    names = ["[a](https://b)", "\\[a](x)", "![a](x)", "http://b", "WWW.b"]
    text = page("[t](http://x)", {"eval_[e](x)": dict.fromkeys(names, curve)}, {})
    assert "# \\[t\\](http\\://x)\n" in text
    assert "## Evaluation: \\[e\\](x)\n" in text
    shown = ["\\[a\\](https\\://b)", "\\\\\\[a\\](x)", "!\\[a\\](x)", "http\\://b", "WWW\\.b"]
    for name in shown:
        assert f" {name} |" in text
    text = page("<b>", {"eval_<i>": {"a\n<script>": curve}}, {})
    assert text.startswith("# &lt;b>\n")
    assert "## Evaluation: &lt;i>\n\n| step | a &lt;script> |\n" in text
