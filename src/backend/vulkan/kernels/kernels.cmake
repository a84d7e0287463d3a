# inferno_kernel(NAME SOURCE [DEFINES NAME=VALUE ...] [DOT]): the kernel NAME of gpu/kernels.hpp from SOURCE.comp.
#   DOT: also with INFERNO_INTEGER_DOT, for devices that multiply four int8 pairs in one instruction.

# FORMAT is that of the weights (weights.glsl).
inferno_kernel(embed_q8 embed DEFINES FORMAT=Q8)
inferno_kernel(matvec_q8 matvec DEFINES FORMAT=Q8 DOT)
inferno_kernel(matmul_q8 matmul DEFINES FORMAT=Q8 DOT)
inferno_kernel(norm_matvec_q8 norm_matvec DEFINES FORMAT=Q8 DOT)
inferno_kernel(norm_swiglu_q8 norm_swiglu DEFINES FORMAT=Q8 DOT)
inferno_kernel(quantize_matvec_q8 quantize_matvec DEFINES FORMAT=Q8 DOT)
foreach(format f32 f16 bf16)
  string(TOUPPER ${format} id)
  inferno_kernel(embed_${format} embed DEFINES FORMAT=${id})
  inferno_kernel(matvec_${format} matvec DEFINES FORMAT=${id})
  inferno_kernel(matmul_${format} matmul_float DEFINES FORMAT=${id})
endforeach()
inferno_kernel(attend attend DOT)
inferno_kernel(attend_one attend_one DOT)
inferno_kernel(attend_one_128 attend_one DEFINES HEAD=128U DOT)
inferno_kernel(measure_int8 measure_int8 DOT)
foreach(kernel measure_read measure_fp32 norm quantize prepare_heads merge swiglu add gather argmax_chunks argmax adjust sample advance)
  inferno_kernel(${kernel} ${kernel})
endforeach()
