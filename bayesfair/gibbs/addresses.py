"""Functions that kernels call at their address: Numba takes 50 us to hand over a function, and hands over a number at once."""

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin

_functions: dict[int, object] = {}  # which live as long as the process


def address_of(function) -> int:
    """The address of a function that `numba.cfunc` compiled."""
    _functions[function.address] = function
    return function.address


def at(address: int):
    """The function at an address, for plain Python."""
    return _functions[address]


def in_kernels(form, call):
    """Let kernels use `call(address, ...)`: they call the function of this form that is at the address."""

    @infer_global(call)
    class _(AbstractTemplate):
        def generic(self, args, kws):
            return signature(form.return_type, types.int64, *form.args)

    @lower_builtin(call, types.int64, *form.args)
    def _(context, builder, sig, args):
        given = [context.get_value_type(part) for part in form.args]
        of_this_form = ir.FunctionType(context.get_value_type(form.return_type), given).as_pointer()
        return builder.call(builder.inttoptr(args[0], of_this_form), args[1:])
