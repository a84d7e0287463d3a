#ifndef INFERNO_BEST_GLSL_
#define INFERNO_BEST_GLSL_

// The largest (key, index): larger keys first, then lower indices; in whatever order they are compared.

const uint kBestThreads = 256U;
// Of -infinity: nothing that is not above it is ever chosen.
const uvec2 kNoBest = uvec2(0x007FFFFFU, 0xFFFFFFFFU);
const uint kNanKey = 0xFFFFFFFFU;

shared uvec2 best_of_threads[kBestThreads];

uvec2 better(uvec2 a, uvec2 b) {
  if (b.x <= kNoBest.x) return a;
  return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a;
}

// The workgroup comes here together; the result is the first invocation's.
uvec2 best_of_workgroup(uvec2 own) {
  uint id = gl_LocalInvocationID.x;
  best_of_threads[id] = own;
  barrier();
  for (uint width = kBestThreads / 2U; width > 0U; width /= 2U) {
    if (id < width) {
      own = better(own, best_of_threads[id + width]);
      best_of_threads[id] = own;
    }
    barrier();
  }
  return own;
}

#endif
