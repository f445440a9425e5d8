"""The report's colours: told apart by everyone, and read on their ground.

What the colour-blind see is simulated by the matrices of Machado, Oliveira
and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
Deficiency" (IEEE TVCG 15:6, 2009, doi 10.1109/TVCG.2009.113), severity 1.0,
on linear RGB.  Distance is CIE 1976 Delta E; contrast is WCAG 2.2's.
"""

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from stylerl.report import page

Colour = NDArray[np.float64]  # (3,)
SEEN_BY = {
    "most": np.eye(3),
    "protanopes": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopes": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopes": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(  # of linear sRGB, IEC 61966-2-1
    [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
)
APART = 20  # Delta E; a just noticeable difference is some 2.3
TOLD_APART = [  # what stands side by side, with no other colour between
    ("base", "sft", "ppo", "human"),
    ("o1", "o2", "o3", "o4"),
    ("good", "bad", "ink"),
]


def linear(colour: str) -> Colour:
    """Linear RGB, 0 to 1, of `#rrggbb`."""
    value = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    dark = value <= 0.04045
    return np.where(dark, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: Colour) -> Colour:
    """CIE L*a*b* under D65."""
    ratio = XYZ @ rgb.clip(0, 1) / XYZ.sum(axis=1)
    small = ratio <= 216 / 24389
    x, y, z = np.where(small, (24389 / 27 * ratio + 16) / 116, np.cbrt(ratio))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, eyes: str = "most") -> float:
    """How far apart those eyes see two colours."""
    seen = [lab(SEEN_BY[eyes] @ linear(colour)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def contrast(one: str, other: str) -> float:
    """From 1, none, to 21, black on white."""
    low, high = sorted(float(XYZ[1] @ linear(c)) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def palette(scheme: str) -> dict[str, str]:
    """The variables of the page's style sheet."""
    style = page.TEMPLATE.read_text(encoding="utf-8").split("* {")[0]
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w{6});", part))
        for part in style.split("prefers-color-scheme: dark")
    )
    return light if scheme == "light" else light | dark


def test_the_measures_agree_with_known_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    # WCAG's example of what just passes for text: #767676 on white, 4.54.
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)
    # White is L* 100, black 0; sRGB's red is L*a*b* 53.2, 80.1, 67.2.
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert lab(linear("#ff0000")) == pytest.approx([53.2, 80.1, 67.2], abs=0.1)
    # Greys stay grey for everyone: each row of a matrix sums to 1.
    for matrix in SEEN_BY.values():
        assert matrix.sum(axis=1) == pytest.approx(1, abs=1e-5)
    # The page's colours before these, green and red: a protanope saw none.
    assert distance("#14733c", "#b3261e") > 90
    assert distance("#14733c", "#b3261e", "protanopes") < 14


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_side_by_side_are_told_apart(scheme: str, eyes: str) -> None:
    colours = palette(scheme)
    for group in TOLD_APART:
        for one, other in itertools.combinations(group, 2):
            found = distance(colours[one], colours[other], eyes)
            assert found >= APART, (one, other)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_drawings_stand_out_from_their_ground(scheme: str) -> None:
    colours = palette(scheme)
    for ground in ("card", "page"):
        for text in ("ink", "soft", "good", "bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, text
    for drawn in ("base", "sft", "ppo", "human", "bad"):
        assert contrast(colours[drawn], colours["card"]) >= 3, drawn
    for ground in ("mark", "code"):
        assert contrast(colours["ink"], colours[ground]) >= 4.5, ground
    # Numbers on the outcomes: black, and white on the third.
    for outcome in ("o1", "o2", "o4"):
        assert contrast("#000000", colours[outcome]) >= 4.5, outcome
    assert contrast("#ffffff", colours["o3"]) >= 4.5
