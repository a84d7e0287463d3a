#include "backend/gpu/encode_product.hpp"

namespace inferno::gpu {

// A few tokens share each weight that is read, many share tiles of both.
Kernel product_kernel(WeightKind kind, bool few) {
  switch (kind) {
    case WeightKind::q8:
      return few ? Kernel::matvec_q8 : Kernel::matmul_q8;
    case WeightKind::f32:
      return few ? Kernel::matvec_f32 : Kernel::matmul_f32;
    case WeightKind::f16:
      return few ? Kernel::matvec_f16 : Kernel::matmul_f16;
    case WeightKind::bf16:
      break;
  }
  return few ? Kernel::matvec_bf16 : Kernel::matmul_bf16;
}

void encode_product(Recorder& recorder, std::span<const WeightPiece> pieces, const ProductInput& x,
                    std::uint32_t tokens, bool scaled, const Buffer& y, std::uint32_t y_stride,
                    bool accumulate) {
  const bool few = tokens <= kMatvecTokens;
  const std::uint32_t segments = x.stride / kPadColumns;
  for (const WeightPiece& piece : pieces) {
    const MatrixConstants constants{.rows = piece.rows,
                                    .segments = segments,
                                    .tokens = tokens,
                                    .first_out = piece.first_out,
                                    .y_stride = y_stride,
                                    .lanes = matvec_lanes(segments),
                                    .use_factors = scaled ? 1U : 0U,
                                    .accumulate = accumulate ? 1U : 0U};
    const Grid grid = few ? matvec_grid(piece.rows, segments) : matmul_grid(piece.rows, tokens);
    const Kernel kernel = product_kernel(piece.kind, few);
    if (piece.kind == WeightKind::q8) {
      recorder.dispatch(kernel, {piece.bytes, *x.quants, *x.scales, *x.factors, y}, constants, grid);
    } else {
      recorder.dispatch(kernel, {piece.bytes, *x.floats, *x.factors, y}, constants, grid);
    }
  }
}

}  // namespace inferno::gpu
