"""Exceptions of launches become outcomes."""

from typing import Any

import pytest
import torch
from triton.runtime.errors import InterpreterError, OutOfResources, PTXASError

from pytest_kernelqual.errors import UnsupportedConfigError
from pytest_kernelqual.launch import classify, observed
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.on_device.wording import first_line

pytest_plugins = ["launch_fixtures"]


def _raised(call: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
        call()
    return caught.value


class _MuteError(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


class TestClassify:
    """Exceptions become outcomes with one line of reason."""

    @pytest.mark.parametrize(
        ("error", "outcome", "reason"),
        [
            (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), "fault", "illegal memory"),
            (RuntimeError("CUDA error: unspecified launch failure"), "fault", "unspecified launch failure"),
            (torch.AcceleratorError("CUDA error: misaligned address"), "fault", "misaligned"),
            (torch.AcceleratorError("CUDA error: something new\nCompile with"), "fault", "something new"),
            (torch.AcceleratorError("CUDA error: out of memory"), "not_run", "out of memory: our own"),
            (RuntimeError("Triton Error [CUDA]: invalid argument"), "launch_error", "invalid argument"),
            (RuntimeError("Triton Error [HIP]: Code: 1, Messsage: x"), "launch_error", "Triton Error [HIP]"),
            (RuntimeError("0 active drivers ([]). There should only be one."), "not_run", "no GPU driver"),
            (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "not_run", "out of memory: our own"),
            (MemoryError(), "not_run", "out of memory: our own (MemoryError)"),
            (AssertionError("num_warps must be a power of 2"), "compile_error", "power of 2"),
            (UnsupportedConfigError("grid does not follow BLOCK"), "unsupported", "grid does not follow BLOCK"),
            (
                KeyError("Keyword argument kpack was specified but unrecognised"),
                "unsupported",
                "this device's compiler has no launch option 'kpack'",
            ),
        ],
    )
    def test_by_type_and_message(self, error: BaseException, outcome: str, reason: str) -> None:
        """In any phase."""
        found = classify(error, "run")
        assert found is not None
        assert found[0] == outcome
        assert reason in found[1]
        assert found[2]["error"] == type(error).__name__

    def test_an_error_whose_text_raises(self) -> None:
        """It fails in its own phase, and is no fault of the tool."""
        reason = "_MuteError: <its text raises ValueError>"
        assert classify(_MuteError(), "compile") == ("compile_error", reason, {"error": "_MuteError"})
        assert classify(_MuteError(), "run") is None
        assert first_line(_MuteError()) == "<its text raises ValueError>"

    @pytest.mark.parametrize("kind", ["shared memory", "tensor memory", "threads"])
    def test_out_of_resources(self, kind: str) -> None:
        """Kind, need and limit are told."""
        detail = {"error": "OutOfResources", "kind": kind, "required": 655360, "limit": 232448}
        found = classify(OutOfResources(655360, 232448, kind), "run")
        assert found == ("out_of_resources", f"{kind}: required 655360, limit 232448", detail)

    def test_registers(self) -> None:
        """Read from what ptxas says."""
        error = PTXASError(
            "Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : (C7602) Insufficient registers (64) "
            "to compile instruction at line 1433 in function mm. Try to compile with register target of 90 or higher.\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n\nRepro command: ptxas -v x.ptx\n"
        )
        detail = {"error": "PTXASError", "kind": "registers", "required": 90, "limit": 64}
        assert classify(error, "compile") == ("out_of_resources", "registers: required 90, limit 64", detail)

    def test_other_ptxas_failure(self) -> None:
        """The line of ptxas, not the command or the whole file."""
        error = PTXASError(
            "Internal\n`ptxas` stderr:\nptxas x.ptx, line 3; error   : Unknown symbol\nRepro command: a\n"
        )
        found = classify(error, "compile")
        assert found is not None
        assert found[:2] == ("compile_error", "PTXASError: ptxas x.ptx, line 3; error : Unknown symbol")

    def test_unknown(self) -> None:
        """An error of the launch's own is for the caller to name; while compiling it is the compiler's."""
        assert classify(ValueError("shapes"), "run") is None
        assert classify(ValueError("shapes"), None) is None
        assert classify(KeyboardInterrupt(), "compile") is None
        assert classify(RuntimeError("PassManager::run failed\nmodule {}"), "compile") == (
            "compile_error",
            "RuntimeError: PassManager::run failed",
            {"error": "RuntimeError"},
        )

    def test_what_the_launch_wraps(self) -> None:
        """The cause counts; the reason stays one line of bounded length."""
        error = RuntimeError("my op failed")
        error.__cause__ = OutOfResources(2048, 1024, "threads")
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "out_of_resources"
        found = classify(RuntimeError("Triton Error [CUDA]: " + "x" * 5000), "run")
        assert found is not None
        assert len(found[1]) <= 300

    def test_static_assert(self, kernels: Any, x: torch.Tensor) -> None:
        """A config that the kernel itself rules out ends alike in both ways."""
        with observed(kernels.limited, Config(BLOCK=128)):
            error = _raised(lambda: kernels.by_lambda(kernels.limited, x, BLOCK=64))
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "compile_error"
        assert "BLOCK is too large" in found[1]
        assert "\n" not in found[1]

    def test_kernel_body(self, kernels: Any, x: torch.Tensor) -> None:
        """What the compiler rejects, and what the interpreter meets while running."""
        error = _raised(lambda: kernels.by_lambda(kernels.broken, x, BLOCK=64))
        found = classify(error, "run")
        assert found is not None
        assert found[0] == ("compile_error" if kernels.__name__.endswith("compiled") else "launch_error")
        assert "\n" not in found[1]

    @pytest.mark.parametrize(
        "cause",
        [
            NotImplementedError("inline_asm not supported"),
            AttributeError("'InterpreterBuilder' object has no"),
            TypeError("only 0-dimensional arrays can be converted to Python scalars"),
        ],
    )
    def test_what_the_interpreter_cannot_run(self, cause: Exception) -> None:
        """It says nothing about the config."""
        error = InterpreterError(repr(cause))
        error.__cause__ = cause
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "not_run"
        assert found[1].startswith("the interpreter cannot run it: ")

    def test_warps_that_the_compiler_refuses(self, compiled: Any, x: torch.Tensor) -> None:
        """As the compiler words it today."""
        with observed(compiled.scaled, Config(num_warps=3)):
            error = _raised(lambda: compiled.by_tuple(compiled.scaled, x, 64))
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "compile_error"

    def test_option_of_another_backend(self, compiled: Any, x: torch.Tensor) -> None:
        """As Triton words it today."""
        with observed(compiled.scaled, Config(waves_per_eu=2)):
            error = _raised(lambda: compiled.by_tuple(compiled.scaled, x, 64))
        found = classify(error, "run")
        assert found is not None
        assert found[:2] == ("unsupported", "this device's compiler has no launch option 'waves_per_eu'")
