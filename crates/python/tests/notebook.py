"""Runs a notebook; an error of a cell ends it with the cell's traceback."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

path = Path(sys.argv[1])
notebook = nbformat.read(path, as_version=4)
client = NotebookClient(
    notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": path.parent}}
)
client.execute()
ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
assert all(cell.execution_count for cell in ran)
print(f"{len(ran)} cells ran")
