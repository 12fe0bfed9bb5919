"""Clients that are generated from the schema compile, and run the whole protocol against a server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from servers import free_port, parent
from study_text import study_text

from opportune.service.accounts.keys import add_key
from opportune.service.record.database import Database
from opportune.service.server import launch
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
FOR_PYTHON = ["openapi-python-client==0.29.1"]
FOR_NODE = ["openapi-fetch@0.17.0", "openapi-typescript@7.13.0", "typescript@5.9.3", "@types/node@20"]
TYPES = ["--default-non-nullable=false"]
"""What has a default need not be sent."""
COMPILE = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext", "--types", "node"]


@pytest.fixture
def server(sqlite: Database) -> Iterator[list[str]]:
    """The address of a server, a key of an app and one of staff; whom the rule can nudge it nudges."""
    sqlite.migrate()
    launch(sqlite, StudyInForce.from_text(study_text(policy="always")))
    keys = [add_key(sqlite, role, role) for role in ("app", "staff")]
    port = free_port()
    with parent() as servers:
        servers.start(sqlite.url, port)
        yield [f"http://127.0.0.1:{port}", *keys]
    assert verify(sqlite).findings == []


@pytest.fixture
def schema(server: list[str], tmp_path: Path) -> Path:
    """The schema as it is served."""
    path = tmp_path / "schema.json"
    path.write_bytes(httpx.get(f"{server[0]}/schema/openapi.json").content)
    return path


def run(folder: Path, *command: str | Path, fails: bool = False) -> str:
    """What a command says; it must succeed, or must not."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "MYPY"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, said[-4000:]
    return said


def test_a_generated_python_client(server: list[str], schema: Path, tmp_path: Path) -> None:
    """Nothing is left out when it is made; its types hold, a wrong name does not; and it runs."""
    run(tmp_path, sys.executable, "-m", "venv", "env")
    python = tmp_path / "env" / "bin" / "python"
    run(tmp_path, python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *FOR_PYTHON)
    (tmp_path / "config.yml").write_text("post_hooks: []\n", encoding="utf-8")
    command = (python.with_name("openapi-python-client"), "generate", "--path", schema, "--output-path", "made")
    said = run(tmp_path, *command, "--meta", "none", "--config", "config.yml")
    assert "Warning" not in said, said
    program = tmp_path / "generated_client.py"
    shutil.copy(HERE / program.name, program)
    check = (
        sys.executable,
        "-m",
        "mypy",
        "--python-executable",
        python,
        "--no-incremental",
        "--config-file",
        os.devnull,
    )
    assert "Success" in run(tmp_path, *check, program)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        program.read_text(encoding="utf-8").replace("settled.revealed", "settled.reveals"), encoding="utf-8"
    )
    assert 'has no attribute "reveals"' in run(tmp_path, *check, wrong, fails=True)
    assert run(tmp_path, python, program, *server).strip() == "done"


def test_a_generated_typescript_client(server: list[str], schema: Path, tmp_path: Path) -> None:
    """Its types hold, a wrong name does not; and it runs."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on PATH: the TypeScript client is made and compiled with packages from npm")
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}\n', encoding="utf-8")
    run(tmp_path, npm, "install", "--no-audit", "--no-fund", "--silent", *FOR_NODE)
    programs = tmp_path / "node_modules" / ".bin"
    run(tmp_path, programs / "openapi-typescript", schema, "-o", "schema.d.ts", *TYPES)
    program = tmp_path / "generated_client.ts"
    text = (HERE / program.name).read_text(encoding="utf-8").replace('"./schema"', '"./schema.js"')
    program.write_text(text, encoding="utf-8")
    run(tmp_path, programs / "tsc", *COMPILE, program.name)
    (tmp_path / "wrong.ts").write_text(
        text.replace("settled.data?.revealed", "settled.data?.reveals"), encoding="utf-8"
    )
    assert "Property 'reveals' does not exist" in run(tmp_path, programs / "tsc", *COMPILE, "wrong.ts", fails=True)
    node = shutil.which("node")
    assert node is not None
    assert run(tmp_path, node, program.with_suffix(".js"), *server).strip() == "done"
