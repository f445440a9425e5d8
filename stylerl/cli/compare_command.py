"""What `stylerl compare` prints: two runs side by side, with intervals."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stylerl.evaluation import display
from stylerl.evaluation.comparison import Difference


def show(
    differences: Sequence[Difference],
    names: tuple[str, str],
    console: Console,
) -> None:
    """Print one table a model; clear gains green, clear losses red."""
    colours = {1: "green", -1: "red", 0: ""}
    for model, before, after, gain in differences:
        table = Table(title=display.MODELS[model], title_justify="left")
        table.add_column("metric", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", overflow="fold")
        table.add_column("difference [95%]", justify="right", no_wrap=True)
        for metric in display.TABLE:
            if metric.key in before:
                table.add_row(
                    metric.label,
                    display.show(metric, before[metric.key]),
                    display.show(metric, after.get(metric.key)),
                    Text(
                        display.show_gain(metric, gain),
                        colours[display.gain_sign(metric, gain)],
                    ),
                )
        console.print(table)
    console.print(
        f"{names[1]} less {names[0]}, on the same prompts; intervals by "
        "paired bootstrap over prompts.",
        highlight=False,
    )
