"""The care taken of compiled code before tests run."""

from pathlib import Path

from conftest import forget_stale_code


def test_compiled_code_goes_when_any_source_changes(tmp_path: Path) -> None:
    """Cache files are deleted if a source was edited, added or removed since they were made, and kept if not."""
    package = tmp_path / "src" / "opportune"
    (package / "core").mkdir(parents=True)
    source, other = package / "core" / "ridge.py", package / "agent.py"
    source.write_text("x = 1\n")
    compiled = [
        package / "core" / "__pycache__" / "ridge.nbi",
        package / "core" / "__pycache__" / "ridge.1.nbc",
        tmp_path / "benchmarks" / "__pycache__" / "run.nbi",
    ]

    def compile_again() -> None:
        for path in compiled:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def edit() -> None:
        source.write_text("x = 2\n")

    for change in (edit, other.touch, other.unlink):
        change()
        compile_again()
        assert forget_stale_code(tmp_path)
        assert not any(path.exists() for path in compiled)
        compile_again()
        assert not forget_stale_code(tmp_path)
        assert all(path.exists() for path in compiled)
    assert source.exists()
