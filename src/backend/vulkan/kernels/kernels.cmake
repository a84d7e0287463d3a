# inferno_kernel(NAME SOURCE [DEFINES NAME=VALUE ...] [DOT]): the kernel NAME of gpu/kernels.hpp from SOURCE.comp.
#   DOT: also with INFERNO_INTEGER_DOT, for devices that multiply four int8 pairs in one instruction.

inferno_kernel(add add)
