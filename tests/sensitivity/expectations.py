"""What each kernel of the bank must get, on a GPU and under the interpreter.

A candidate that no row names must be `qualified`, and so must every fixed launch; where a fixed launch is not,
candidates are `not_run`. Specs of DELICATE have no rows: nothing of them may be flagged.
An expectation is an outcome, with a diagnosis where that is certain; " or " stands between equally right ones.
"""

from typing import NamedTuple

OOB = "out_of_bounds_write"
UNWRITTEN = "incomplete_write"
RESTLESS = "nondeterministic"
WRONG = "mismatch structural"
QUALIFIED = "qualified"

SEQUENTIAL = "the interpreter runs one program after another, and a program as one thread"
NO_OPTIONS = "launch options and hints to the compiler mean nothing to the interpreter"
NO_ASSEMBLY = "the interpreter does not run inline assembly"
NOT_COMPILED = "the interpreter does not compile: the kernel fails when it is run"
NO_GLUON = "the interpreter does not run Gluon kernels"
NO_LIMIT = "the interpreter has no limit of this kind"


class Row(NamedTuple):
    """One broken kernel."""

    kind: str
    spec: str
    candidate: str
    """The id of its config, or `fixed`: production's own launch is broken, and no candidate can be compared."""
    gpu: str
    interpreter: str = ""
    """Where it differs from the GPU's."""
    why: str = ""
    """Why the interpreter shows something else."""

    def expected(self, *, interpreted: bool) -> str:
        """Return what it must get."""
        return self.interpreter or self.gpu if interpreted else self.gpu


def _faults(kind: str, spec: str, **expected: str) -> tuple[Row, ...]:
    """Return rows of candidates that differ in FAULT alone."""
    return tuple(Row(kind, spec, f"FAULT={fault}", gpu) for fault, gpu in expected.items())


def _on_gpu(kind: str, spec: str, candidate: str, gpu: str, why: str, interpreter: str = QUALIFIED) -> Row:
    """Return the row of a kernel that the interpreter shows otherwise or not at all."""
    return Row(kind, spec, candidate, gpu, interpreter, why)


BROKEN: tuple[Row, ...] = (
    *_faults("dropped mask", "copies", dropped_mask=OOB),
    Row("dropped mask", "overhang", "FAULT=no_mask", OOB),
    *_faults("mask off by one", "copies", mask_one_too_long=OOB, mask_one_too_short=UNWRITTEN),
    *_faults("mask off by one", "loads", mask_one_too_long=RESTLESS, mask_one_too_short=WRONG),
    Row("mask of the wrong axis", "tile_orders", "FAULT=swapped_mask", OOB),
    Row("load without a mask", "loads", "FAULT=no_mask", RESTLESS),
    *_faults("write before the start", "copies", writes_before_start=OOB),
    _on_gpu("overhang into the next row", "next_rows", "FAULT=races_into_next_row",
            f"mismatch or {RESTLESS}", SEQUENTIAL),
    Row("overhang into the row before", "next_rows", "FAULT=overlaps_row_before",
        f"mismatch or {RESTLESS}", WRONG, SEQUENTIAL),
    *_faults("half of the output", "copies", even_programs_only=UNWRITTEN, even_elements_only=UNWRITTEN),
    *_faults("half of the output", "cached_buffers", half=WRONG),
    Row("half of the output", "short_grid", "PARTS=2", UNWRITTEN),
    Row("tiles dropped by their order", "tile_orders", "FAULT=group_drops_tiles,GROUP=2", UNWRITTEN),
    *_faults("one element", "copies", one_element=WRONG),
    Row("one block", "one_block", "BLOCK=128,FAULT=wrong_for_128", "mismatch rounding"),
    Row("one block", "products", "FAULT=wrong_for_32,BLOCK_K=32", WRONG),
    *_faults("divisible sizes only", "copies", mask_of_whole_tiles=UNWRITTEN),
    Row("divisible sizes only", "divisible_rounded_down", "BLOCK=128", UNWRITTEN),
    Row("divisible sizes only", "divisible_rounded_up", "BLOCK=128", OOB),
    Row("wrong heuristic", "wrong_heuristic", "BLOCK=128", OOB),
    *_faults("missing K tail", "products", missing_tail=WRONG, tail_twice=WRONG),
    *_faults("narrow accumulator", "products", float16_accumulator="mismatch", bfloat16_accumulator="mismatch"),
    *_faults("narrow accumulator", "byte_sums", int8_accumulator=WRONG),
    _on_gpu("lower precision", "products", "PRECISION=tf32", "mismatch", NO_OPTIONS),
    Row("scale of another group", "scales", "BLOCK=128", WRONG),
    Row("NaN from padding", "padded_softmax", "BLOCK=16", WRONG),
    *_faults("padding counted", "largest", padded_by_zero=WRONG),
    *_faults("padding counted", "means", divided_by_block="mismatch"),
    *_faults("padding counted", "variances", padding_counted="mismatch"),
    *_faults("padding counted", "histograms", counts_padding=WRONG),
    *(Row("ties by tile", "ties", f"FAULT=last_tile_wins,BLOCK={block}", WRONG) for block in (32, 64)),
    _on_gpu("order of a sum", "orders", "num_warps=8", "mismatch", NO_OPTIONS),
    _on_gpu("fused multiply-add", "fused", "enable_fp_fusion=False", "mismatch", NO_OPTIONS),
    Row("float atomics", "float_atomics", "PARTS=64", f"mismatch or {RESTLESS}"),
    *_faults("sign of zero", "special_values", sign_of_zero="mismatch sign_of_zero"),
    *_faults("NaN payload", "special_values", nan_payload="mismatch nan_payload"),
    *_faults("special values", "special_values", nan_to_zero=WRONG, infinity_to_largest=WRONG,
             denormal_to_zero="mismatch", one_bit="mismatch rounding"),
    *_faults("rounding", "roundings", truncates="mismatch rounding", rounds_twice="mismatch rounding"),
    *_faults("index that wraps", "wide_indices", index_16_bits=WRONG, product_32_bits=WRONG),
    _on_gpu("index that wraps", "long_tensors", "FAULT=offset_32_bits", UNWRITTEN,
            "the interpreter would take hours for 2**31 elements, and runs a small case"),
    *_faults("strides ignored", "strided_inputs", takes_x_for_contiguous=WRONG, swaps_strides=WRONG),
    *_faults("random numbers by tile", "dropouts", counts_within_tile=WRONG, one_tile_apart=WRONG),
    Row("wrong gradient", "gradients", "FACTOR=2.5", WRONG),
    *_faults("another form", "forms", dtype="mismatch shape", shape="mismatch shape", strides="mismatch shape",
             one_more="mismatch shape", none_instead="mismatch shape", number_instead="mismatch shape"),
    *_faults("returned view", "undeclared_inputs", view_of_all="mismatch shape"),
    *_faults("returned view", "returned_views", writes_beyond_view=OOB),
    *_faults("unseeded random numbers", "forms", torch_random=WRONG, python_random=WRONG, clock=RESTLESS),
    *_faults("output read before it is written", "unwritten_outputs", reads_output=RESTLESS,
             adds_to_output=f"{UNWRITTEN} or {RESTLESS}", largest_with_output=f"{UNWRITTEN} or {RESTLESS}"),
    *_faults("output written in part", "unwritten_outputs", keeps_output_where_negative=UNWRITTEN),
    Row("workspace read before it is written", "dirty_workspace", "BLOCK=64", RESTLESS),
    Row("atomics into memory that is not zero", "atomics", "PARTS=4", RESTLESS),
    Row("updates lost to another lane", "histograms", "FAULT=loses_updates",
        f"mismatch or {RESTLESS}", WRONG, SEQUENTIAL),
    _on_gpu("updates lost to another program", "lost_updates", "FAULT=lost_update",
            f"mismatch or {RESTLESS}", SEQUENTIAL),
    Row("output that aliases the input", "aliased_neighbours", "BLOCK=64",
        f"mismatch or {RESTLESS}", WRONG, SEQUENTIAL),
    Row("in place twice", "overlapping_in_place", "BLOCK=64,STEP=32", f"mismatch or {RESTLESS}", WRONG, SEQUENTIAL),
    Row("in place in part", "overlapping_in_place", "BLOCK=32,STEP=64", WRONG),
    *_faults("undeclared input changed", "copies", changes_input=OOB, changes_one_element_of_input=OOB),
    *_faults("undeclared input changed", "undeclared_inputs", changes_input=OOB, sorts_input=OOB),
    *_faults("second call differs", "calls", second_call=RESTLESS, every_other_call=RESTLESS, all_but_first=RESTLESS),
    Row("result kept from call to call", "remembered", "fixed", "not_run"),
    *(Row("result kept from call to call", "remembered_results", f"BLOCK={block}", WRONG) for block in (32, 128)),
    *_faults("memory left dirty", "cached_buffers", adds=RESTLESS),
    *_faults("memory left dirty", "counters", counter_left=RESTLESS),
    *_faults("table spoilt for the next launch", "cached_tables", spoils_table=RESTLESS, spoils_afterwards=OOB),
    Row("hook that clears nothing", "hooks", "BLOCK=256,num_warps=4,num_stages=3", RESTLESS),
    *(Row("hook that clears the input", "hooks", f"BLOCK={block},num_warps=4,num_stages=3", OOB)
      for block in (512, 1024)),
    _on_gpu("another stream", "streams", "FAULT=starts_too_early", f"{UNWRITTEN} or {RESTLESS}",
            "a CPU has no streams"),
    *_faults("another stream", "streams", read_too_early=f"{UNWRITTEN} or {RESTLESS}"),
    _on_gpu("missing barrier", "barriers", "FAULT=no_barrier", f"{UNWRITTEN} or {RESTLESS}", NO_ASSEMBLY, "not_run"),
    _on_gpu("program that does not wait", "waits", "FAULT=does_not_wait", f"mismatch or {RESTLESS}", SEQUENTIAL),
    _on_gpu("uninitialised shared memory", "shared_memory", "FAULT=shared_memory_unwritten",
            f"mismatch or {RESTLESS}", NO_GLUON, "not_run"),
    _on_gpu("uninitialised shared memory", "shared_memory", "fixed", QUALIFIED, NO_GLUON, "not_run"),
    _on_gpu("wrong hint", "hints", "FAULT=wrong_hint", "fault", NO_OPTIONS),
    *_faults("far beyond the guards", "far_writes", far_past_end="fault"),
    *_faults("far beyond the guards", "far_reads", far_read="fault"),
    Row("fault in one config of six", "one_of_six", "FAULT=wrong_for_256,BLOCK=256", "fault"),
    *_faults("fault by chance", "chances", first_attempt="fault 1 of 3"),
    _on_gpu("device-side assert", "device_asserts", "BLOCK=128", "fault",
            "the interpreter ignores assertions: the store that follows is found", OOB),
    _on_gpu("trap", "traps", "FAULT=trap", "fault", NO_ASSEMBLY, "not_run"),
    *_faults("abort of the process", "aborts", abort="fault"),
    *_faults("abort of the process", "exits", exit="fault"),
    *_faults("endless loop", "endless_kernels", endless_loop="timeout"),
    *_faults("endless loop", "endless_hosts", endless="timeout"),
    _on_gpu("endless compile", "endless_compiles", "BLOCK_M=256,BLOCK_N=256,BLOCK_K=64,num_warps=1", "timeout",
            NO_OPTIONS),
    *_faults("does not compile", "refused", static_assert="compile_error"),
    *(_on_gpu("does not compile", "refused", f"FAULT={fault}", "compile_error", NOT_COMPILED, "launch_error")
      for fault in ("no_such_function", "not_a_power_of_two")),
    _on_gpu("does not compile", "resources", "num_warps=3", "compile_error", NO_OPTIONS),
    _on_gpu("thread limit", "resources", "num_warps=64", "out_of_resources", NO_LIMIT),
    _on_gpu("shared memory limit", "resources", "BLOCK_M=256,BLOCK_N=256,BLOCK_K=128,num_stages=5",
            "out_of_resources", NO_LIMIT),
    *_faults("tensor memory limit", "raising", tensor_memory="out_of_resources"),
    *_faults("memory of our own", "raising", host_memory="not_run", device_memory="not_run"),
    *_faults("error of the launch", "raising", raises="launch_error"),
    _on_gpu("refused by the driver", "refused_launches", "AXIS=y", "launch_error", NO_LIMIT),
    Row("grid that does not follow", "tuple_grids", "BLOCK=32,num_warps=2", "unsupported"),
    Row("pruned config", "pruned", "BLOCK=128,FAULT=none,num_warps=4,num_stages=3", "unsupported"),
    Row("broken production", "fixed_unwritten", "fixed", UNWRITTEN),
    Row("broken production", "fixed_random", "fixed", RESTLESS),
    Row("broken production", "fixed_reads_unwritten", "fixed", RESTLESS),
    Row("broken production", "fixed_out_of_bounds", "fixed", OOB),
    Row("broken production", "fixed_nothing", "fixed", "not_run"),
    Row("broken production", "fixed_aborts", "fixed", "fault"),
    Row("broken production", "fixed_endless", "fixed", "timeout"),
)  # fmt: skip

DELICATE: tuple[str, ...] = (
    "integer_atomics", "equal_overlaps", "in_place", "reads_own_output", "split_into_zeros", "seeded_dropout",
    "right_heuristic", "scalars_between_tensors", "special_values_kept", "large_grids", "persistent_programs",
    "data_dependent_loops", "order_free_maximum", "order_free_products",
    "output_aliases_input", "joined_streams", "cached_workspace", "cached_table", "workspace_of_config",
    "partly_used_scratch", "nested_outputs", "empty_grids", "accumulated_gradients", "clearing_hooks",
    "tuned_in_place", "counted_steps", "random_numbers", "column_major_outputs", "spaced_outputs",
    "views_of_larger_memory", "up_to_the_guards",
)  # fmt: skip


def expected(spec: str, candidate: str, *, interpreted: bool) -> str:
    """Return what a candidate, or the fixed launch, of a spec must get."""
    rows = {(row.spec, row.candidate): row.expected(interpreted=interpreted) for row in BROKEN}
    fixed = rows.get((spec, "fixed"), QUALIFIED)
    if candidate == "fixed":
        return fixed
    return rows.get((spec, candidate), QUALIFIED) if fixed == QUALIFIED else "not_run"


def agrees(seen: str, wanted: str) -> bool:
    """Tell whether what was seen is what was wanted; what was wanted may say less."""
    return any(f"{seen} ".startswith(f"{one} ") for one in wanted.split(" or "))
