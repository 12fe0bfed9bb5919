"""Plan, rehearse and analyse a trial
===================================

One study file describes a trial. This page takes one that comes with the package, plans how many calls it needs,
rehearses it on the real service with simulated participants, and analyses the rehearsal as the trial will be analysed.
Everything happens on the command line; Python only runs the commands.
"""

# %%
import csv
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from matplotlib.image import imread
import matplotlib.pyplot as plt

folder = Path(tempfile.mkdtemp())


def opportune(line):
    """Run a command and print its output, as a terminal does."""
    command = [sys.executable, "-m", "opportune", *line.split()]
    environment = {**os.environ, "COLUMNS": "80"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    print("\n".join(textwrap.fill(row, 80) for row in f"$ opportune {line}\n{run.stdout}".splitlines()))


# %%
# The study file
# --------------
# ``opportune example`` lists the files that come with the package, and ``opportune new`` asks questions and writes one
# for you. In this one an app recommends one of three messages twice a day, and staff can call.
example = [sys.executable, "-m", "opportune", "example", "stress-messages"]
text = subprocess.run(example, capture_output=True, text=True, check=True).stdout
_ = (folder / "study.toml").write_text(text, encoding="utf-8")

# %%
# Effects can be estimated only where decisions are randomised. With ``schema = 1``, the first line of the file, every
# message keeps a minimum probability, and at moments that call for a nudge, or nearly do, a coin decides.

# %%
# ``opportune check`` names every mistake with its line, and explains what will happen.
opportune("check study.toml")

# %%
# Plan
# ----
# How many calls does the study need, for how much work, and what will it be able to show? The numbers here are
# small; for a reliable plan, leave the options out.
opportune("plan study.toml --out plan --budgets 5,20,80 --participants 10 --replicates 10")

# %%
# The full report is ``plan/stress-messages-plan.html``. One of its figures shows how much each further call adds:
plt.figure(figsize=(7, 4))
plt.imshow(imread(folder / "plan" / "stress-messages-plan-value.png"))
plt.axis("off")
plt.tight_layout()
plt.show()

# %%
# Rehearse
# --------
# Simulated participants go through the real service, from launch to export: calendars, caps, unanswered calls, late
# rewards. At the end the record is verified event by event.
opportune("rehearse study.toml --participants 16 --days 42 --export rehearsal")

# %%
# Analyse
# -------
# The trial will give an export like this one, and the same command analyses both. So the analysis is ready, and tried,
# before the first patient.
opportune("analyse rehearsal --out analysis")

# %%
# The page ``analysis/stress-messages-analysis.html`` shows the flow of participants, effects, missing data and a check
# that the coins came out as often as recorded. Each table is a CSV file beside it:
with (folder / "analysis" / "stress-messages-analysis-effects.csv").open(encoding="utf-8") as file:
    for row in csv.DictReader(file):
        low, high = float(row["low"]), float(row["high"])
        print(f"{row['analysis']}, {row['coefficient']}: {float(row['estimate']):.2f} ({low:.2f} to {high:.2f})")

# %%
# Here the truth is known, because participants were simulated from ``[effects]``; in a trial you have only the page.
# ``opportune serve study.toml`` runs the trial. :doc:`/planning`, :doc:`/rehearsal`, :doc:`/service` and
# :doc:`/analysis` go further, and :doc:`/coordinator` leads from the first day to the last.
