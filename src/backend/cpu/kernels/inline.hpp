#pragma once

// For functions that files compiled for a newer processor share with files compiled for the oldest: an inline
// function that the compiler leaves as a function of its own is merged with its namesakes by the linker, and
// the survivor may be the one that an older processor cannot run. Inlined always, there is none to survive.
#define INFERNO_INLINE [[gnu::always_inline]] inline
